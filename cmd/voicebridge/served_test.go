package main

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"voicebridge/persistence/persistencetest"
	"voicebridge/realtime/simulator"
)

// simulated runs a simulator of the test's own and returns it with the
// environment that makes it the upstream.
func simulated(t *testing.T, cfg simulator.Config) (*simulator.Server, []string) {
	t.Helper()
	log := &output{}
	cfg.APIKey, cfg.Logger = "sk-test", slog.New(slog.NewTextHandler(log, nil))
	sim, err := simulator.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- serveSimulator(ctx, sim, ln, cfg.Logger) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if !t.Failed() {
			return
		}
		keep(t, "simulator.log", []byte(log.String()))
		for _, s := range sim.Sessions() {
			keep(t, "received.txt", written(s.Received()))
			keep(t, "sent.txt", written(s.Sent()))
		}
	})
	return sim, []string{"OPENAI_BASE_URL=http://" + ln.Addr().String() + "/v1", "OPENAI_API_KEY=" + cfg.APIKey}
}

// written are records as text, one a line.
func written(records []simulator.Record) []byte {
	var b bytes.Buffer
	for _, r := range records {
		fmt.Fprintf(&b, "%s %s %s\n", r.At.Format("15:04:05.000"), r.Refused, r.Event.Raw)
	}
	return b.Bytes()
}

// served is the program with what a test looks at behind it.
type served struct {
	running
	sim      *simulator.Server
	database string
	environ  []string
}

// serveWith runs the program on an empty database with a simulator of its own.
func serveWith(t *testing.T, database string, cfg simulator.Config, more ...string) served {
	t.Helper()
	sim, environ := simulated(t, cfg)
	environ = append(append(environment(t), "DATABASE_URL="+database), append(environ, more...)...)
	return served{sim: sim, database: database, environ: environ}.run(t)
}

// startAgain runs the program anew at the same address.
func (s served) startAgain(t *testing.T) served {
	t.Helper()
	s.environ = append(s.environ, "VOICEBRIDGE_LISTEN="+strings.TrimPrefix(s.url, "http://"))
	return s.run(t)
}

func (s served) run(t *testing.T) served {
	t.Helper()
	s.running = start(t, s.environ)
	t.Cleanup(func() {
		if t.Failed() {
			keep(t, "server.log", []byte(s.stderr.String()))
		}
	})
	return s
}

// rows asks the database.
func (s served) rows(t *testing.T, query string) []string {
	t.Helper()
	var out []string
	for _, r := range persistencetest.Rows(t, s.database, query) {
		out = append(out, strings.Join(r, " | "))
	}
	return out
}

// untilEnded waits until so many calls have ended and are saved, and then finds
// nothing that is still open. It returns why they ended, in their order.
func (s served) untilEnded(t *testing.T, calls int) []string {
	t.Helper()
	const query = "SELECT end_reason FROM call_summary WHERE ended_at IS NOT NULL"
	reasons := s.rows(t, query)
	eventually(t, fmt.Sprintf("%d calls have ended", calls), func() bool {
		reasons = s.rows(t, query)
		return len(reasons) >= calls
	})
	for _, open := range []string{
		"SELECT id, text FROM messages WHERE status = 'in_progress'",
		"SELECT id, name FROM tool_calls WHERE status = 'running'",
		"SELECT id FROM responses WHERE status = 'in_progress' OR finished_at IS NULL",
		"SELECT id FROM calls WHERE ended_at IS NULL",
	} {
		if rows := s.rows(t, open); len(rows) != 0 {
			t.Errorf("%s: %q", open, rows)
		}
	}
	for i, session := range s.sim.Sessions() {
		select {
		case <-session.Done():
		case <-time.After(patience):
			t.Errorf("session %d of the upstream goes on", i+1)
		}
	}
	return reasons
}

// eventually looks until ok is true.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	end := time.After(patience)
	for !ok() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("waited in vain for: %s", what)
		}
	}
}
