package web

import (
	"errors"
	"fmt"
	"testing"

	"voicebridge/persistence"
	"voicebridge/web/access"
	"voicebridge/web/socket"
)

// TestSocketsClosed checks which reason a closed socket is counted under.
func TestSocketsClosed(t *testing.T) {
	t.Parallel()
	for want, cause := range map[string]error{
		"shutdown": socket.ErrShutdown, "signed_out": access.ErrEnded, "slow": socket.ErrSlow, "missed": persistence.ErrMissed, "taken_over": socket.ErrTaken,
		"client": fmt.Errorf("%w: EOF", socket.ErrGone), "deleted": fmt.Errorf("watch thread: %w", persistence.ErrNotFound),
		"error": errors.New("anything else"),
	} {
		m := NewMetrics()
		m.socketClosed(cause)
		families, err := m.registry.Gather()
		must(t, err)
		var got string
		for _, f := range families {
			if f.GetName() == "voicebridge_sockets_closed_total" {
				got = f.GetMetric()[0].GetLabel()[0].GetValue()
			}
		}
		if got != want {
			t.Errorf("%v is counted as %q, want %q", cause, got, want)
		}
	}
}
