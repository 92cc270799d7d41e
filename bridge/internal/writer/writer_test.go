package writer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"voicebridge/bridge/internal/session"
	"voicebridge/bridge/internal/task"
	"voicebridge/bridge/internal/writer/writertest"
	"voicebridge/persistence"
	"voicebridge/thread"
)

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func textOp(id, text string, how persistence.Placing) session.Change {
	return session.SaveMessage{Place: persistence.Place{How: how}, Message: thread.Message{
		ID: id, Role: thread.RoleUser, Parts: []thread.Part{thread.TextPart(text)},
	}}
}

func draftOp(id string, start int, text string) session.Change {
	return session.SaveDraft{Draft: persistence.Draft{MessageID: id, Start: start, Text: text}}
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
		ops    []session.Change
		want   []string
		lost   int
		saved  int
		giveUp bool
	}{
		{
			name: "changes of one thing are saved once, and a new one stays new",
			ops:  []session.Change{textOp("a", "H", persistence.PlaceLast), callOp(""), textOp("b", "x", persistence.PlaceLast), textOp("a", "Hello", persistence.PlaceKept), callOp("hangup")},
			want: []string{
				`message a user   last [{"type":"text","text":"Hello"}]`,
				`call ended=false hangup`,
				`message b user   last [{"type":"text","text":"x"}]`,
			},
			saved: 2,
		},
		{
			name: "added words become one piece",
			ops:  []session.Change{draftOp("a", 1, "e"), callOp(""), draftOp("a", 2, "l"), draftOp("b", 0, "x"), draftOp("a", 3, "lo")},
			want: []string{`draft a 1 "ello"`, `call ended=false `, `draft b 0 "x"`},
		},
		{
			name: "a waiting message absorbs the words added to it, and those added before",
			ops: []session.Change{
				textOp("a", "H", persistence.PlaceLast), draftOp("a", 1, "i"), draftOp("a", 1, "i"), draftOp("a", 2, "!"),
				draftOp("b", 3, "no"), textOp("b", "Yes", persistence.PlaceKept), draftOp("b", 3, "!"),
			},
			want:  []string{`message a user   last [{"type":"text","text":"Hi!"}]`, `message b user   [{"type":"text","text":"Yes!"}]`},
			saved: 2,
		},
		{
			name:  "a database that is away for a while loses nothing",
			errs:  []error{away, away, context.DeadlineExceeded, away},
			ops:   []session.Change{textOp("a", "H", persistence.PlaceLast), textOp("b", "x", persistence.PlaceLast)},
			want:  []string{`message a user   last [{"type":"text","text":"H"}]`, `message b user   last [{"type":"text","text":"x"}]`},
			saved: 2,
		},
		{
			name:   "a database that stays away is reported at the end",
			errs:   slices.Repeat([]error{away}, 1000),
			ops:    []session.Change{textOp("a", "H", persistence.PlaceLast), textOp("b", "x", persistence.PlaceLast)},
			lost:   2,
			giveUp: true,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				saved := 0
				log := &writertest.Log{Errs: tt.errs}
				w := New(log, quiet(), func(thread.Message) { saved++ })
				for _, o := range tt.ops {
					if !w.Push(o) {
						t.Fatal("full")
					}
				}
				w.Close()
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				if lost := w.Run(ctx); lost != tt.lost {
					t.Errorf("%d lost, want %d", lost, tt.lost)
				}
				if diff := cmp.Diff(tt.want, log.Saved); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				if saved != tt.saved || tt.giveUp != (ctx.Err() != nil) {
					t.Errorf("%d messages reported, context %v", saved, ctx.Err())
				}
			})
		})
	}
}

// TestWriterKeepsTogether pushes changes that belong together while the writer works: no
// commit has one without the other.
func TestWriterKeepsTogether(t *testing.T) {
	t.Parallel()
	var log writertest.Log
	w := New(&log, quiet(), func(thread.Message) {})
	done := task.Go(func() { w.Run(t.Context()) })
	for i := range 200 {
		tool := session.SaveTool{Call: thread.ToolCall{ID: fmt.Sprint(i), ToolCallID: fmt.Sprint(i)}}
		if !w.Push(textOp(fmt.Sprint(i), "x", persistence.PlaceLast), tool) {
			t.Fatal("full")
		}
	}
	w.Close()
	<-done
	for _, commit := range log.Commits {
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

// TestWriterFollows saves changes that arrive while it runs, in order.
func TestWriterFollows(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log writertest.Log
		w := New(&log, quiet(), func(thread.Message) {})
		done := task.Go(func() { w.Run(t.Context()) })
		for i := range 5 {
			w.Push(textOp(fmt.Sprint(i), "x", persistence.PlaceLast))
			synctest.Wait()
			if len(log.Saved) != i+1 {
				t.Fatalf("%d saved after %d", len(log.Saved), i+1)
			}
		}
		w.Close()
		<-done
	})
}

func TestWriterIsBounded(t *testing.T) {
	t.Parallel()
	w := New(&writertest.Log{}, quiet(), func(thread.Message) {})
	text := strings.Repeat("x", 1<<20)
	n := 0
	for w.Push(textOp(fmt.Sprint(n), text, persistence.PlaceLast)) {
		n++
	}
	if n != maxWaiting>>20-1 {
		t.Errorf("%d messages of 1 MiB are kept", n)
	}
}

func responseOp(finished *time.Time) session.Change {
	return session.SaveResponse{Response: persistence.ResponseRecord{ID: "r", FinishedAt: finished}}
}

// TestDraftsGather lets calls say words and begin answers at different times: they are
// saved together, unless there is more to save.
func TestDraftsGather(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const calls = 3
		var at [calls + 1]atomic.Int64 // Unix ns
		var writers []*Writer
		var running []Running
		for i := range calls + 1 {
			w := New(commitFunc(func() { at[i].Store(time.Now().UnixNano()) }), quiet(), func(thread.Message) {})
			writers, running = append(writers, w), append(running, w.Start())
		}
		time.Sleep(time.Until(time.Now().Truncate(gather).Add(gather + time.Millisecond)))
		began := time.Now()
		for _, w := range writers {
			w.Push(draftOp("a", 0, "x"), responseOp(nil))
			time.Sleep(gather / 10)
		}
		writers[calls].Push(responseOp(new(time.Now()))) // together with what waits
		synctest.Wait()
		if last, first := at[calls].Load(), at[0].Load(); last == 0 || first != 0 {
			t.Errorf("after %s: the last call saved at %d, the first at %d", time.Since(began), last, first)
		}
		time.Sleep(gather)
		synctest.Wait()
		for i := range calls {
			if got, first := at[i].Load(), at[0].Load(); got != first || got == 0 {
				t.Errorf("call %d saved at %d, the first at %d", i, got, first)
			}
		}
		for i, w := range writers {
			w.Close()
			running[i].Join(nil)
		}
	})
}

// TestAnswerIsSavedOnce ends an answer and, soon after, its response with what it cost: both are
// written together, and the message once.
func TestAnswerIsSavedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := &writertest.Log{}
		w := New(log, quiet(), func(thread.Message) {})
		running := w.Start()
		answer := textOp("answer", "words", persistence.PlaceKept).(session.SaveMessage)
		answer.Continues = true
		w.Push(answer)
		time.Sleep(moment / 2)
		synctest.Wait()
		if len(log.Saved) != 0 {
			t.Errorf("saved before its response has ended: %v", log.Saved)
		}
		answer.Continues, answer.Message.Metadata.Usage = false, []byte(`{"total_tokens":1}`)
		w.Push(answer, responseOp(new(time.Now())))
		synctest.Wait()
		if len(log.Saved) != 2 {
			t.Errorf("%d changes saved: %v", len(log.Saved), log.Saved)
		}
		// A response that goes on does not keep it, nor do words that may wait longer.
		answer.Continues = true
		w.Push(responseOp(nil), answer)
		time.Sleep(moment)
		synctest.Wait()
		if len(log.Saved) != 4 {
			t.Errorf("%d changes saved: %v", len(log.Saved), log.Saved)
		}
		w.Close()
		running.Join(nil)
	})
}

// commitFunc is a Log that calls a function for each commit.
type commitFunc func()

func (f commitFunc) Commit(context.Context, []session.Change) ([]thread.Message, error) {
	f()
	return nil, nil
}
