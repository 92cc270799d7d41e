package mcptool

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"voicebridge/internal/testkit"
)

// TestProgressBoard has a consumer that is slower than the reports: the oldest are dropped.
func TestProgressBoard(t *testing.T) {
	t.Parallel()
	var board progressBoard
	token, reports, done := board.open()
	other, none, _ := board.open()
	if token == other {
		t.Errorf("two calls have the token %s", token)
	}
	var want []float64
	for n := range 3 * progressBacklog {
		board.deliver(&mcp.ProgressNotificationParams{ProgressToken: token, Progress: float64(n)})
		board.deliver(&mcp.ProgressNotificationParams{ProgressToken: "unknown", Progress: 1})
		board.deliver(&mcp.ProgressNotificationParams{ProgressToken: 1, Progress: 1})
		if n >= 2*progressBacklog {
			want = append(want, float64(n))
		}
	}
	done()
	board.deliver(&mcp.ProgressNotificationParams{ProgressToken: token, Progress: -1})
	var got []float64
	for len(reports) > 0 {
		got = append(got, (testkit.Take(t, "a report", reports)).Progress)
	}
	if diff := cmp.Diff(want, got); diff != "" || len(none) > 0 {
		t.Errorf("the other call got %d reports, this one\n%s", len(none), diff)
	}
}
