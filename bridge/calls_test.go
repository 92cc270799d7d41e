package bridge

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"voicebridge/bridge/internal/session"
	"voicebridge/bridge/internal/task"
	"voicebridge/internal/testkit"
	"voicebridge/persistence"
	"voicebridge/persistence/persistencetest"
	"voicebridge/persistence/records"
	"voicebridge/persistence/spool"
	"voicebridge/persistence/spool/spooltest"
	"voicebridge/thread"
)

// bareCalls returns Calls without the parts that make calls. ends gets the reason of each
// call that ends.
func bareCalls() (calls *Calls, ends chan EndReason) {
	ends = make(chan EndReason, 1)
	return &Calls{
		cfg: Config{OnEnd: func(_ thread.Key, r EndReason) { ends <- r }},
		log: quiet(), admit: make(chan func()), ending: make(chan struct{}),
		live: make(map[thread.Key]*call), byID: make(map[string]*call),
	}, ends
}

// TestCount counts a call only once its set-up is done.
func TestCount(t *testing.T) {
	t.Parallel()
	calls, _ := bareCalls()
	fresh := newCall("call-1", thread.Key{Owner: "ada", Thread: "thread-1"}, quiet())
	testkit.Must(t, calls.reserve(t.Context(), fresh, Start{}))
	testkit.Equal(t, calls.Count(), 0, "calls while one is set up")
	calls.byID[fresh.id] = fresh
	testkit.Equal(t, calls.Count(), 1, "calls")
	calls.release(fresh)
	testkit.Equal(t, calls.Count(), 0, "calls after the end")
}

// TestEndIsSavedLater has the database away when a call ends: the thread is free, and the
// end is saved once the database is back, or given up when the process ends.
func TestEndIsSavedLater(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		back bool
	}{{"the database is back", true}, {"the process ends first", false}} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				calls, ends := bareCalls()
				b := newBubble(t, func(b *bubble) {
					calls.live[b.call.key], calls.byID[b.call.id] = b.call, b.call
					calls.cfg.Writer = b.call.writer
					b.run = func() { calls.runOne(b.call, b.state) }
				})
				b.ready()
				b.thread.Away(true)
				b.call.stop(EndHangup)
				<-b.call.done
				synctest.Wait()
				if len(calls.live) != 0 || calls.Count() != 0 || len(ends) != 0 {
					t.Errorf("%d calls hold a thread, %d are saved", len(calls.live), len(ends))
				}
				if tt.back {
					b.thread.Away(false)
				} else {
					close(calls.ending)
				}
				<-b.done
				testkit.Equal(t, <-ends, EndHangup, "ended because")
				if slices.Contains(b.recorder.lines, "saved end hangup") != tt.back {
					t.Errorf("recorded: %q", b.recorder.lines)
				}
			})
		})
	}
}

// TestSaveEnd saves the end of a call whose set-up failed, even if the database is away.
func TestSaveEnd(t *testing.T) {
	t.Parallel()
	want := []string{"call ended=false never_connected"}
	for _, away := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			calls, _ := bareCalls()
			var store spooltest.Store
			store.Away(away)
			var err error
			if calls.cfg.Writer, err = spool.New(spool.Config{Store: &store}); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			written := task.Go(func() {
				if err := calls.cfg.Writer.Run(ctx); err != nil {
					t.Error(err)
				}
			})
			calls.saveEnd(thread.Key{}, records.Call{EndReason: string(EndNeverConnected)})
			if got := len(store.Saved); (got == 0) != away {
				t.Errorf("%d changes saved, away %t", got, away)
			}
			store.Away(false)
			cancel()
			<-written
			testkit.Equal(t, store.Saved, want, "store.Saved")
		})
	}
}

// TestFree waits for a call that is ending, ends one that waits for its browser, and leaves one alone that goes on.
func TestFree(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ ends, waits, stopped, blocks bool }{
		"goes on":                        {},
		"is ending":                      {ends: true, blocks: true},
		"waits for its browser":          {waits: true, stopped: true, blocks: true},
		"is ending and has lost the one": {ends: true, waits: true, stopped: true, blocks: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				calls, _ := bareCalls()
				key := thread.Key{Owner: "ada", Thread: "thread-1"}
				live := newCall("call-1", key, quiet())
				calls.live[key], calls.byID[live.id] = live, live
				live.ends.Store(tt.ends)
				live.waiting.Store(tt.waits)
				freed := make(chan error, 1)
				go func() { freed <- calls.freeAndSave(t.Context(), key) }()
				synctest.Wait()
				if len(live.inbox) > 0 != tt.stopped || len(freed) == 0 != tt.blocks {
					t.Errorf("%d inputs, %d answers", len(live.inbox), len(freed))
				}
				calls.release(live)
				if err := <-freed; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestTextInACallThatEnds has somebody say something in a call that ends before the text is acknowledged. Without the
// text in the thread there was no call to say it in; a text that waited for the database was said.
func TestTextInACallThatEnds(t *testing.T) {
	t.Parallel()
	for name, isSaved := range map[string]bool{"as its set-up fails": false, "and whose words wait for the database": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			calls, _ := bareCalls()
			calls.cfg.Store = persistencetest.SQLite(t)
			key := persistencetest.NewThread(t, calls.cfg.Store, "ada", "")
			fresh := newCall("call-1", key, quiet())
			calls.live[key], calls.byID[fresh.id] = fresh, fresh
			said := make(chan error, 1)
			in := session.ServerText{MessageID: "hello", Text: "hello"}
			go func() {
				_, err := calls.say(t.Context(), key, in, nil)
				said <- err
			}()
			testkit.Take(t, "an input", fresh.inbox)
			calls.unsaved.pending = func() int { return 1 }
			if isSaved {
				calls.unsaved.keepEnd(key, records.Call{ID: fresh.id})
			}
			set := setup{calls: calls, call: fresh}
			set.undo()
			if isSaved {
				m := thread.Message{ID: in.MessageID, Role: thread.RoleUser, Parts: []thread.Part{thread.TextPart(in.Text)}}
				if _, err := persistencetest.AppendMessage(t.Context(), calls.cfg.Store, key, m); err != nil {
					t.Fatal(err)
				}
				calls.unsaved.saved()
			}
			err := testkit.Take(t, "what was said", said)
			if e, ok := errors.AsType[*Error](err); isSaved && err != nil || !isSaved && (!ok || e.Code != CodeNoCall) {
				t.Errorf("say() = %v", err)
			}
		})
	}
}

// TestGiveUpDuringSetUp has another process take over a call that is still being set up: it is told to end, and the
// other process waits for that.
func TestGiveUpDuringSetUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		calls, _ := bareCalls()
		fresh := newCall("call-1", thread.Key{Owner: "ada", Thread: "thread-1"}, quiet())
		testkit.Must(t, calls.reserve(t.Context(), fresh, Start{}))
		ended := make(chan error, 1)
		go func() { ended <- calls.GiveUp(t.Context(), fresh.key, "call-1", true) }()
		synctest.Wait()
		if len(fresh.inbox) != 1 || len(ended) != 0 {
			t.Errorf("the call was told %d times; %d answers before it has ended", len(fresh.inbox), len(ended))
		}
		calls.release(fresh)
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := calls.GiveUp(t.Context(), fresh.key, "call-1", true); !errors.Is(err, persistence.ErrNotFound) {
			t.Errorf("a call that is over: %v", err)
		}
	})
}
