package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"voicebridge/bridge/internal/session"
	"voicebridge/persistence"
	"voicebridge/realtime/rtc"
)

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// slowLeg takes one event for each token, and remembers them.
type slowLeg struct {
	tokens chan struct{}
	mu     sync.Mutex
	got    []string
	limit  int
	closed bool
}

func (l *slowLeg) Send(ctx context.Context, data []byte) error {
	select {
	case <-l.tokens:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return rtc.ErrClosed
	case len(data) > l.limit:
		return fmt.Errorf("send: %w", rtc.ErrTooLarge)
	}
	l.got = append(l.got, string(data[:min(len(data), 8)]))
	return nil
}

func TestOutboxDropsDraftsNeverFacts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dropped := 0
		leg := &slowLeg{tokens: make(chan struct{}), limit: 1 << 20}
		o := newOutbox("browser", quiet(), func(n int) { dropped += n })
		draft := []byte("draft   " + strings.Repeat(".", 64<<10))
		var facts []string
		for i := range 10 {
			if !o.push(draft, true) {
				t.Fatal("a draft stalls the leg")
			}
			fact := fmt.Sprintf("fact %03d", i)
			facts = append(facts, fact)
			if !o.push([]byte(fact), false) {
				t.Fatal("a small fact stalls the leg")
			}
		}
		o.close()
		if !o.push([]byte("late"), false) {
			t.Error("a closed outbox stalls the leg")
		}
		done := background(func() { o.run(t.Context(), leg) })
		close(leg.tokens)
		<-done
		got := slices.DeleteFunc(slices.Clone(leg.got), func(s string) bool { return strings.HasPrefix(s, "draft") })
		if diff := cmp.Diff(facts, got); diff != "" {
			t.Errorf("facts (-want +got):\n%s", diff)
		}
		if drafts := len(leg.got) - len(got); drafts+dropped != 10 || dropped < 5 {
			t.Errorf("%d drafts sent, %d counted as dropped", drafts, dropped)
		}
	})
}

func TestOutboxLimits(t *testing.T) {
	t.Parallel()
	o := newOutbox("browser", quiet(), func(int) {})
	fact := make([]byte, 1<<20)
	n := 0
	for o.push(fact, false) {
		n++
	}
	if n != maxFacts>>20 {
		t.Errorf("%d MiB of facts are kept", n)
	}

	leg := &slowLeg{tokens: make(chan struct{}, 3), limit: 4}
	small := newOutbox("browser", quiet(), func(int) {})
	for _, text := range []string{"too large", "fits", "last"} {
		small.push([]byte(text), false)
		leg.tokens <- struct{}{}
	}
	small.close()
	small.run(t.Context(), leg)
	if diff := cmp.Diff([]string{"fits", "last"}, leg.got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestOutboxEndsWithItsLeg(t *testing.T) {
	t.Parallel()
	leg := &slowLeg{tokens: make(chan struct{}, 1), closed: true}
	leg.tokens <- struct{}{}
	o := newOutbox("browser", quiet(), func(int) {})
	o.push([]byte("x"), false)
	o.run(t.Context(), leg) // returns

	ctx, cancel := context.WithCancel(t.Context())
	idle := newOutbox("browser", quiet(), func(int) {})
	done := background(func() { idle.run(ctx, leg) })
	cancel()
	<-done
}

// failingLog fails as often as it is told, then keeps what is saved.
type failingLog struct {
	mu      sync.Mutex
	errs    []error // of the next commits
	poison  string  // the key of an op that can never be saved
	commits [][]string
	saved   []string
}

func (l *failingLog) commit(_ context.Context, ops []session.Change) ([]persistence.Message, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.errs) > 0 {
		err := l.errs[0]
		l.errs = l.errs[1:]
		return nil, err
	}
	var keys []string
	var saved []persistence.Message
	for _, o := range ops {
		if o.Key() == l.poison {
			return nil, persistence.ErrInvalid
		}
		keys = append(keys, showChange(o))
		if m, ok := o.(session.SaveMessage); ok {
			saved = append(saved, m.Message)
		}
	}
	l.commits = append(l.commits, keys)
	l.saved = append(l.saved, keys...)
	return saved, nil
}

// away makes the log fail from now on, until it is back.
func (l *failingLog) away(away bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.errs = nil
	if away {
		l.errs = slices.Repeat([]error{errors.New("database is away")}, 10_000)
	}
}

func (l *failingLog) commitOne(ctx context.Context, o session.Change) ([]persistence.Message, error) {
	return l.commit(ctx, []session.Change{o})
}

func textOp(id, text string, how session.Placing) session.Change {
	return session.SaveMessage{Place: session.Place{How: how}, Message: persistence.Message{
		ID: id, Role: persistence.RoleUser, Parts: []persistence.Part{persistence.TextPart(text)},
	}}
}

func callOp(reason string) session.Change {
	return session.SaveCall{Call: persistence.CallRecord{EndReason: reason}}
}

func TestWriter(t *testing.T) {
	t.Parallel()
	away := errors.New("database is away")
	for _, tt := range []struct {
		name   string
		errs   []error
		poison string
		ops    []session.Change
		want   []string
		lost   int
		saved  int
		giveUp bool
	}{
		{
			name: "changes of one thing are saved once, and new stays new",
			ops:  []session.Change{textOp("a", "H", session.PlaceLast), callOp(""), textOp("b", "x", session.PlaceLast), textOp("a", "Hello", session.PlaceKept), callOp("hangup")},
			want: []string{
				`message a user   last [{"type":"text","text":"Hello"}]`,
				`call ended=false hangup`,
				`message b user   last [{"type":"text","text":"x"}]`,
			},
			saved: 2,
		},
		{
			name:  "a database that is away for a while loses nothing",
			errs:  []error{away, away, context.DeadlineExceeded, away},
			ops:   []session.Change{textOp("a", "H", session.PlaceLast), textOp("b", "x", session.PlaceLast)},
			want:  []string{`message a user   last [{"type":"text","text":"H"}]`, `message b user   last [{"type":"text","text":"x"}]`},
			saved: 2,
		},
		{
			name:   "what can never be saved takes nothing with it",
			poison: "message b",
			ops:    []session.Change{textOp("a", "H", session.PlaceLast), textOp("b", "x", session.PlaceLast), textOp("c", "y", session.PlaceLast)},
			want:   []string{`message a user   last [{"type":"text","text":"H"}]`, `message c user   last [{"type":"text","text":"y"}]`},
			saved:  2,
		},
		{
			name:   "a database that stays away is told at the end",
			errs:   slices.Repeat([]error{away}, 1000),
			ops:    []session.Change{textOp("a", "H", session.PlaceLast), textOp("b", "x", session.PlaceLast)},
			lost:   2,
			giveUp: true,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				saved := 0
				log := &failingLog{errs: tt.errs, poison: tt.poison}
				j := newWriter(log, quiet(), func(persistence.Message) { saved++ })
				for _, o := range tt.ops {
					if !j.push(o) {
						t.Fatal("full")
					}
				}
				j.close()
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				if lost := j.run(ctx); lost != tt.lost {
					t.Errorf("%d lost, want %d", lost, tt.lost)
				}
				if diff := cmp.Diff(tt.want, log.saved); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				if saved != tt.saved || tt.giveUp != (ctx.Err() != nil) {
					t.Errorf("%d messages told, context %v", saved, ctx.Err())
				}
			})
		})
	}
}

// TestWriterKeepsTogether pushes ops that belong together while the writer works:
// no commit has one without the other.
func TestWriterKeepsTogether(t *testing.T) {
	t.Parallel()
	var log failingLog
	j := newWriter(&log, quiet(), func(persistence.Message) {})
	done := background(func() { j.run(t.Context()) })
	for i := range 200 {
		tool := session.SaveTool{Call: persistence.ToolCall{ID: fmt.Sprint(i), ToolCallID: fmt.Sprint(i)}}
		if !j.push(textOp(fmt.Sprint(i), "x", session.PlaceLast), tool) {
			t.Fatal("full")
		}
	}
	j.close()
	<-done
	for _, commit := range log.commits {
		tools := 0
		for _, line := range commit {
			if strings.HasPrefix(line, "tool") {
				tools++
			}
		}
		if 2*tools != len(commit) {
			t.Errorf("a commit of %d changes has %d tool calls", len(commit), tools)
		}
	}
}

// TestWriterFollows saves what comes while it runs, in order.
func TestWriterFollows(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log failingLog
		j := newWriter(&log, quiet(), func(persistence.Message) {})
		done := background(func() { j.run(t.Context()) })
		for i := range 5 {
			j.push(textOp(fmt.Sprint(i), "x", session.PlaceLast))
			synctest.Wait()
			if len(log.saved) != i+1 {
				t.Fatalf("%d saved after %d", len(log.saved), i+1)
			}
		}
		j.close()
		<-done
	})
}

func TestWriterIsBounded(t *testing.T) {
	t.Parallel()
	j := newWriter(&failingLog{}, quiet(), func(persistence.Message) {})
	text := strings.Repeat("x", 1<<20)
	n := 0
	for j.push(textOp(fmt.Sprint(n), text, session.PlaceLast)) {
		n++
	}
	if n != maxWaiting>>20-1 {
		t.Errorf("%d messages of 1 MiB are kept", n)
	}
}

// showChange is a change in one line.
func showChange(c session.Change) string {
	switch c := c.(type) {
	case session.SaveMessage:
		m := c.Message
		parts, err := json.Marshal(m.Parts)
		if err != nil {
			return err.Error()
		}
		how := map[session.Placing]string{session.PlaceLast: " last", session.PlaceAfter: fmt.Sprintf(" after %q", c.Place.After)}[c.Place.How]
		return fmt.Sprintf("message %s %s %s %s%s %s", m.ID, m.Role, m.Metadata.Source, m.Metadata.Status, how, parts)
	case session.SaveTool:
		return fmt.Sprintf("tool %s %s %s %s", c.Call.ToolCallID, c.Call.Name, c.Call.Executor, c.Call.Status)
	case session.SaveCall:
		return fmt.Sprintf("call ended=%t %s", c.Call.EndedAt != nil, c.Call.EndReason)
	}
	return c.Key()
}
