package spool

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"voicebridge/internal/testkit"
	"voicebridge/persistence"
	"voicebridge/persistence/persistencetest"
	"voicebridge/persistence/queued"
	"voicebridge/persistence/records"
	"voicebridge/persistence/spool/spooltest"
	"voicebridge/thread"
)

var one = thread.Key{Owner: "anna", Thread: "one"}

func draft(id string, start int, text string) persistence.Change {
	return persistence.PutDraft{Draft: persistence.Draft{MessageID: id, Start: start, Text: text}}
}

func call(reason string) persistence.Change {
	return persistence.PutCall{Call: records.Call{EndReason: reason}}
}

func response(finished *time.Time) persistence.Change {
	return persistence.PutResponse{Response: records.Response{ID: "r", FinishedAt: finished}}
}

// run runs a writer without a file until the returned function is called, which returns its error.
func run(t *testing.T, s store, saved func(thread.Key, []thread.Message)) (w *Writer, stop func() error) {
	t.Helper()
	w, err := New(Config{Store: s, Saved: saved})
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- w.Run(ctx) }()
	return w, func() error { cancel(); return <-ran }
}

// TestMerging pushes changes before the first of them is written.
func TestMerging(t *testing.T) {
	t.Parallel()
	away := errors.New("database is away")
	for _, tt := range []struct {
		name    string
		errs    []error
		changes []persistence.Change
		want    []string
		lost    string
		saved   int
	}{
		{
			name:    "changes of one thing are saved once, and a new one stays new",
			changes: []persistence.Change{put("a", "H", persistence.PlaceLast), call(""), put("b", "x", persistence.PlaceLast), put("a", "Hello", persistence.PlaceKept), call("hangup")},
			want: []string{
				`message a user   last [{"type":"text","text":"Hello"}]`,
				`call ended=false hangup`,
				`message b user   last [{"type":"text","text":"x"}]`,
			},
			saved: 2,
		},
		{
			name:    "added words become one piece",
			changes: []persistence.Change{draft("a", 1, "e"), call(""), draft("a", 2, "l"), draft("b", 0, "x"), draft("a", 3, "lo")},
			want:    []string{`draft a 1 "ello"`, `call ended=false `, `draft b 0 "x"`},
		},
		{
			name: "a waiting message absorbs the words added to it, and those added before",
			changes: []persistence.Change{
				put("a", "H", persistence.PlaceLast), draft("a", 1, "i"), draft("a", 1, "i"), draft("a", 2, "!"),
				draft("b", 3, "no"), put("b", "Yes", persistence.PlaceKept), draft("b", 3, "!"),
			},
			want:  []string{`message a user   last [{"type":"text","text":"Hi!"}]`, `message b user   [{"type":"text","text":"Yes!"}]`},
			saved: 2,
		},
		{
			name:    "a database that is away for a while loses nothing",
			errs:    []error{away, away, context.DeadlineExceeded, away},
			changes: []persistence.Change{put("a", "H", persistence.PlaceLast), put("b", "x", persistence.PlaceLast)},
			want:    []string{`message a user   last [{"type":"text","text":"H"}]`, `message b user   last [{"type":"text","text":"x"}]`},
			saved:   2,
		},
		{
			name:    "a database that stays away is reported at the end",
			errs:    slices.Repeat([]error{away}, 1000),
			changes: []persistence.Change{put("a", "H", persistence.PlaceLast), put("b", "x", persistence.PlaceLast)},
			lost:    "2 changes of threads were not saved",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				saved := 0
				store := &spooltest.Store{Errs: tt.errs}
				w, stop := run(t, store, func(_ thread.Key, messages []thread.Message) { saved += len(messages) })
				if !w.Push(one, tt.changes...) {
					t.Fatal("full")
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				if err := w.Await(ctx, one); (err != nil) != (tt.lost != "") {
					t.Errorf("Await() = %v", err)
				}
				if err := stop(); fmt.Sprint(err) != tt.lost && (err != nil || tt.lost != "") {
					t.Errorf("Run() = %v, want %q", err, tt.lost)
				}
				testkit.Equal(t, store.Saved, tt.want, "store.Saved")
				testkit.Equal(t, saved, tt.saved, "messages reported")
			})
		})
	}
}

// TestMergingMeanwhile pushes changes of what is being written to a database that fails then: what could not be written
// comes first.
func TestMergingMeanwhile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var w *Writer
		var later sync.Once
		store := &spooltest.Store{}
		db := applyFunc(func(groups []persistence.ThreadChanges) ([]persistence.Applied, error) {
			failed := false
			later.Do(func() {
				failed = true
				w.Push(one, put("b", "x", persistence.PlaceLast), draft("a", 1, "i"), call("hangup"))
			})
			if failed {
				return nil, errors.New("database is away")
			}
			return store.ApplyAll(t.Context(), groups)
		})
		var stop func() error
		w, stop = run(t, db, nil)
		must(t, w.Save(t.Context(), one, call(""), put("a", "H", persistence.PlaceLast)))
		must(t, stop())
		want := []string{`call ended=false hangup`, `message a user   last [{"type":"text","text":"Hi"}]`, `message b user   last [{"type":"text","text":"x"}]`}
		testkit.Equal(t, store.Saved, want, "store.Saved")
	})
}

// applyFunc is a database.
type applyFunc func([]persistence.ThreadChanges) ([]persistence.Applied, error)

func (applyFunc) Instance() string { return "test" }

func (f applyFunc) ApplyAll(_ context.Context, groups []persistence.ThreadChanges) ([]persistence.Applied, error) {
	return f(groups)
}

// TestTogether pushes changes that belong together while the writer works: no
// transaction has one without the other.
func TestTogether(t *testing.T) {
	t.Parallel()
	var store spooltest.Store
	w, stop := run(t, &store, nil)
	for i := range 200 {
		tool := persistence.PutToolCall{ToolCall: thread.ToolCall{ID: fmt.Sprint(i), ToolCallID: fmt.Sprint(i)}}
		if !w.Push(one, put(fmt.Sprint(i), "x", persistence.PlaceLast), tool) {
			t.Fatal("full")
		}
	}
	must(t, stop())
	all := 0
	for _, lines := range store.Commits {
		tools := 0
		for _, line := range lines {
			if strings.HasPrefix(line, "tool") {
				tools++
			}
		}
		if all += tools; 2*tools != len(lines) {
			t.Errorf("a transaction of %d changes has %d tool calls", len(lines), tools)
		}
	}
	testkit.Equal(t, all, 200, "tool calls are saved")
}

// TestFair floods one thread: what is said in another one does not wait behind that, each keeps its order, and nothing is
// lost, also while the database is slow or away.
func TestFair(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		file, away bool
		takes      time.Duration // a transaction
	}{"in memory": {false, false, time.Millisecond}, "slow": {true, false, 2 * time.Second}, "away": {true, true, 0}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := ""
			if tt.file {
				dir = t.TempDir()
			}
			synctest.Test(t, func(t *testing.T) {
				var away atomic.Bool
				away.Store(tt.away)
				var saved []string
				two := thread.Key{Owner: "anna", Thread: "two"}
				w, err := New(Config{Dir: dir, Store: applyFunc(func(groups []persistence.ThreadChanges) ([]persistence.Applied, error) {
					time.Sleep(tt.takes)
					if away.Load() {
						return nil, errAway
					}
					for _, g := range groups {
						for _, c := range g.Changes {
							saved = append(saved, g.Key.Thread+subjectOf(c).id)
						}
					}
					return make([]persistence.Applied, len(groups)), nil
				})})
				must(t, err)
				ctx, cancel := context.WithCancel(t.Context())
				ran := make(chan error, 1)
				go func() { ran <- w.Run(ctx) }()
				var want []string
				for i := range 60 {
					id := fmt.Sprintf("%02d", i)
					w.Push(one, put(id, strings.Repeat("x", 64<<10), persistence.PlaceLast))
					want = append(want, "one"+id)
				}
				w.Push(two, put("a", "x", persistence.PlaceLast))
				w.Push(two, put("b", "x", persistence.PlaceLast))
				if tt.file {
					must(t, errors.Join(w.Await(ctx, one), w.Await(ctx, two)))
				}
				away.Store(false)
				time.Sleep(time.Minute)
				cancel()
				must(t, <-ran)
				a, b := slices.Index(saved, "twoa"), slices.Index(saved, "twob")
				if a < 0 || b != a+1 || b > 20 {
					t.Fatalf("saved after %d of the flood: %q", a, saved)
				}
				testkit.Equal(t, slices.Delete(saved, a, b+1), want, "of the flood is saved")
			})
		})
	}
}

// TestFollows saves changes that arrive while the writer runs, in order, and nothing after its end.
func TestFollows(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var store spooltest.Store
		w, stop := run(t, &store, nil)
		for i := range 5 {
			w.Push(one, put(fmt.Sprint(i), "x", persistence.PlaceLast))
			time.Sleep(time.Nanosecond)
			synctest.Wait()
			if len(store.Saved) != i+1 {
				t.Fatalf("%d saved after %d", len(store.Saved), i+1)
			}
		}
		must(t, stop())
		if w.Push(one, put("late", "x", persistence.PlaceLast)) {
			t.Error("Push() after the end = true")
		}
		must(t, w.Await(t.Context(), one)) // nothing waits
	})
}

func TestBounded(t *testing.T) {
	t.Parallel()
	w, err := New(Config{Store: &spooltest.Store{}})
	must(t, err)
	text := strings.Repeat("x", 1<<20)
	n := 0
	for w.Push(one, put(fmt.Sprint(n), text, persistence.PlaceLast)) {
		n++
	}
	testkit.Equal(t, n, maxWaiting>>20-1, "messages of 1 MiB are kept")
	w.PushLast(one, put("last", text, persistence.PlaceLast))
	testkit.Equal(t, w.queue.rest(), n+1, "messages wait, with the last one")
}

// TestDraftsGather lets calls say words and begin answers at different times: they are
// saved together, unless there is more to save.
func TestDraftsGather(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const calls = 3
		var mu sync.Mutex
		var commits [][]string // the threads of each
		wantCommits := func(when string, want ...[]string) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			testkit.Equal(t, commits, want, "%s", when)
		}
		w, stop := run(t, applyFunc(func(groups []persistence.ThreadChanges) ([]persistence.Applied, error) {
			var threads []string
			for _, g := range groups {
				threads = append(threads, g.Key.Thread)
			}
			mu.Lock()
			defer mu.Unlock()
			commits = append(commits, threads)
			return make([]persistence.Applied, len(groups)), nil
		}), nil)
		time.Sleep(time.Until(time.Now().Truncate(gather).Add(gather + time.Millisecond)))
		key := func(i int) thread.Key { return thread.Key{Owner: "anna", Thread: fmt.Sprint(i)} }
		for i := range calls + 1 {
			w.Push(key(i), draft("a", 0, "x"), response(nil))
			time.Sleep(gather / 10)
		}
		w.Push(key(calls), response(new(time.Now()))) // together with what waits
		time.Sleep(time.Nanosecond)
		wantCommits("at once", []string{"3"})
		time.Sleep(gather)
		wantCommits("later", []string{"3"}, []string{"0", "1", "2"})
		must(t, stop())
	})
}

// TestAnswerIsSavedOnce ends an answer and, soon after, its response with what it cost: both are
// written together, and the message once.
func TestAnswerIsSavedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &spooltest.Store{}
		w, stop := run(t, store, nil)
		answer := put("answer", "words", persistence.PlaceKept).(persistence.PutMessage)
		answer.Continues = true
		w.Push(one, answer)
		time.Sleep(moment / 2)
		synctest.Wait()
		if len(store.Saved) != 0 {
			t.Errorf("saved before its response has ended: %v", store.Saved)
		}
		answer.Continues, answer.Message.Metadata.Usage = false, []byte(`{"total_tokens":1}`)
		w.Push(one, answer, response(new(time.Now())))
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		testkit.Equal(t, len(store.Saved), 2, "changes saved: %v", store.Saved)
		// A response that goes on does not keep it, nor do words that may wait longer.
		answer.Continues = true
		w.Push(one, response(nil), answer)
		time.Sleep(moment + time.Nanosecond)
		synctest.Wait()
		testkit.Equal(t, len(store.Saved), 4, "changes saved: %v", store.Saved)
		must(t, stop())
	})
}

// TestQueuedTextWithoutDatabase loses the database right before a queued text is saved, and the process after three
// more turns. What was said is in its spool, from where the next start brings it into the thread, in order; the queued
// message is sent once, also if another process has claimed it meanwhile.
func TestQueuedTextWithoutDatabase(t *testing.T) {
	t.Parallel()
	for name, claimedAgain := range map[string]bool{"claimed": false, "claimed again": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			persistencetest.Engines(t, func(t *testing.T, open func(*testing.T) *persistence.Store) {
				queuedWithoutDatabase(t, open(t), claimedAgain)
			})
		})
	}
}

func queuedWithoutDatabase(t *testing.T, store *persistence.Store, claimedAgain bool) {
	key := persistencetest.NewThread(t, store, "ada", "")
	waiting, _, err := store.Queued.Add(t.Context(), key, queued.Message{Text: "queued"}, 0)
	must(t, err)
	claim, err := store.Queued.Claim(t.Context(), key, queued.ClaimOptions{})
	must(t, err)

	db, dir := &flaky{Store: store}, t.TempDir()
	db.away.Store(true)
	w, err := New(Config{Store: db, Dir: dir})
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- w.Run(ctx) }()
	text := put(claim.Message.MessageID, "queued", persistence.PlaceLast).(persistence.PutMessage)
	text.Queued = waiting.ID
	w.Push(key, text)
	want := []string{"queued"}
	for i := range 3 {
		turn := fmt.Sprint("turn ", i)
		w.Push(key, put(turn, turn, persistence.PlaceLast))
		want = append(want, turn)
	}
	must(t, w.Await(t.Context(), key))
	cancel() // the process ends while the database is away
	must(t, testkit.Take(t, "that it ran", ran))

	again := claim
	if claimedAgain {
		again, err = store.Queued.Claim(t.Context(), key, queued.ClaimOptions{})
		must(t, err)
	}
	for range 2 { // the second start finds nothing
		must(t, Recover(t.Context(), dir, store, quiet))
	}
	messages, err := store.Messages(t.Context(), key, 0, 10)
	must(t, err)
	var got []string
	for _, m := range messages {
		got = append(got, m.Text())
	}
	testkit.Equal(t, got, want, "the thread")
	if row, err := store.Queued.Message(t.Context(), key, waiting.ID); err != nil || row.State != queued.Sent || row.SentAt == nil {
		t.Errorf("Message() = %+v, %v", row, err)
	}
	must(t, store.Batch(t.Context(), key, func(b *persistence.Batch) error {
		if held, err := b.Queued.Send(waiting.ID, again.Message.Attempts, true); held || err != nil {
			t.Errorf("Send() of what is sent = %v, %v", held, err)
		}
		return nil
	}))
}
