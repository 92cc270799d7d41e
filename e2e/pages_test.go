package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"voicebridge/internal/testkit"
	"voicebridge/realtime/simulator"
)

// serveWith is a rig for a page: its simulator says what the test wants, at a human pace.
func serveWith(t *testing.T, database string, cfg simulator.Config, more ...string) *rig {
	t.Helper()
	if cfg.Script == nil {
		cfg.Script = simulator.DefaultScript()
	}
	if cfg.Pace == (simulator.Pace{}) {
		cfg.Pace = simulator.Pace{Think: 150 * time.Millisecond, Step: 30 * time.Millisecond, Transcript: 250 * time.Millisecond}
	}
	return newRig(t, rigConfig{database: database, simulator: cfg, environ: append([]string{"VOICEBRIDGE_CONFIG=" + noFile(t)}, more...)})
}

// written returns records as text, one per line.
func written(records []simulator.Record) string {
	var b strings.Builder
	for _, r := range records {
		fmt.Fprintf(&b, "%s %s %s\n", r.At.Format("15:04:05.000"), r.Refused, r.Event.Raw)
	}
	return b.String()
}

// untilEnded waits until that many calls have ended and are saved, and checks that nothing
// is still open. It returns why they ended, in order.
func (r *rig) untilEnded(t *testing.T, calls int) []string {
	t.Helper()
	const query = "SELECT end_reason FROM call_summary WHERE ended_at IS NOT NULL"
	reasons := r.rows(t, query)
	testkit.Eventually(t, fmt.Sprintf("%d calls have ended", calls), func() bool {
		reasons = r.rows(t, query)
		return len(reasons) >= calls
	})
	for _, open := range []string{
		"SELECT id, text FROM messages WHERE status = 'in_progress'",
		"SELECT id, name FROM tool_calls WHERE status = 'running'",
		"SELECT id FROM responses WHERE status = 'in_progress' OR finished_at IS NULL",
		"SELECT id FROM calls WHERE ended_at IS NULL",
	} {
		if rows := r.rows(t, open); len(rows) != 0 {
			t.Errorf("%s: %q", open, rows)
		}
	}
	for i, session := range r.sim.Sessions() {
		testkit.Receive(t, fmt.Sprintf("the end of session %d of the upstream", i+1), session.Done())
	}
	return reasons
}
