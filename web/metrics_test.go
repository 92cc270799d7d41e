package web

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"voicebridge/internal/testkit"
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
		testkit.Equal(t, got, want, "%v is counted", cause)
	}
}

// TestOpenMetrics looks for two families of one name.
func TestOpenMetrics(t *testing.T) {
	t.Parallel()
	r := httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody)
	r.Header.Set("Accept", "application/openmetrics-text;version=1.0.0")
	w := httptest.NewRecorder()
	NewMetrics().Handler().ServeHTTP(w, r)
	seen := map[string]bool{}
	for line := range strings.Lines(w.Body.String()) {
		name, ok := strings.CutPrefix(line, "# TYPE ")
		name, _, _ = strings.Cut(name, " ")
		if ok && seen[name] {
			t.Errorf("there are two families %s", name)
		}
		seen[name] = true
	}
	if text := w.Body.String(); !strings.Contains(text, "\ngo_memstats_alloc_bytes ") || !strings.Contains(text, "\ngo_memstats_alloc_bytes_total ") {
		t.Errorf("got %s", text)
	}
}
