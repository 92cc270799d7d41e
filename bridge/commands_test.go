package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"voicebridge/bridge/internal/task"
	"voicebridge/persistence"
	"voicebridge/persistence/cluster"
	"voicebridge/persistence/persistencetest"
	"voicebridge/persistence/records"
	"voicebridge/thread"
)

// TestHostileCommands has another process send invalid commands: each gets an answer or an
// error, and the call goes on.
func TestHostileCommands(t *testing.T) {
	t.Parallel()
	calls, _ := bareCalls()
	own := thread.Key{Owner: "ada", Thread: "thread-1"}
	live := newCall("call-1", own, quiet())
	calls.live[own], calls.byID[live.id] = live, live
	const missing = "not found"
	for name, c := range map[string]struct {
		owner, kind, body, want string // {} or what the error says
	}{
		"no kind":                     {"ada", "", `{}`, ""},
		"an unknown kind":             {"ada", "call.destroy", `{"call_id":"call-1"}`, ""},
		"a command of queues":         {"ada", "queue.send", `{"id":"x"}`, ""},
		"no body":                     {"ada", commandHangup, ``, ""},
		"half a body":                 {"ada", commandHangup, `{"call_id":`, ""},
		"a list":                      {"ada", commandHangup, `[]`, ""},
		"a number for an id":          {"ada", commandHangup, `{"call_id":5}`, ""},
		"nesting":                     {"ada", commandHangup, strings.Repeat("[", 100_000), ""},
		"nothing to hang up":          {"ada", commandHangup, `null`, missing},
		"a stranger hangs up":         {"bert", commandHangup, `{"call_id":"call-1"}`, missing},
		"nobody hangs up":             {"", commandHangup, `{"call_id":"call-1"}`, missing},
		"a stranger takes over":       {"bert", commandTakeOver, `{"call_id":"call-1"}`, missing},
		"a stranger connects":         {"bert", commandReconnect, `{"call_id":"call-1","offer":"v=0"}`, `"code":"bad_sdp"`},
		"another call":                {"ada", commandHangup, `{"call_id":"call-2"}`, missing},
		"an invalid offer":            {"ada", commandReconnect, `{"call_id":"call-1","offer":"\u0000"}`, `"code":"bad_sdp"`},
		"a stranger frees the thread": {"bert", commandFree, `{}`, "{}"},
		"a stranger interrupts":       {"bert", commandInterrupt, `{}`, "{}"},
		"a stranger resets":           {"bert", commandForget, `{}`, "{}"},
		"a stranger says":             {"bert", commandSay, `{"text":"x"}`, `"code":"no_call"`},
		"an empty text":               {"ada", commandSay, `{"text":" "}`, `"param":"content"`},
		"a huge text":                 {"ada", commandSay, `{"text":"` + strings.Repeat("x", 1<<20) + `"}`, `"param":"content"`},
	} {
		reply, err := calls.HandleCommand(t.Context(), cluster.Command{
			Key: thread.Key{Owner: c.owner, Thread: own.Thread}, Kind: c.kind, Body: json.RawMessage(c.body),
		})
		got := string(reply)
		if err != nil {
			got = err.Error()
		}
		if (err == nil) != (c.want == "{}") || !strings.Contains(strings.ToLower(got), c.want) {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	select {
	case <-live.quit:
		t.Error("the call was ended")
	default:
	}
}

// TestCommandDuringShutdown ends a process while it carries out a command: who asked is told to try again.
func TestCommandDuringShutdown(t *testing.T) {
	t.Parallel()
	calls, _ := bareCalls()
	own := thread.Key{Owner: "ada", Thread: "thread-1"}
	live := newCall("call-1", own, quiet())
	calls.live[own], calls.byID[live.id] = live, live
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	reply, err := calls.HandleCommand(ctx, cluster.Command{Key: own, Kind: commandHangup, Body: json.RawMessage(`{"call_id":"call-1"}`)})
	if err == nil || !strings.Contains(err.Error(), `"instance_unreachable"`) {
		t.Errorf("%s, %v", reply, err)
	}
}

// TestTakeOverDuringSetUp has another process take over a call that is still being set up: it is told to end, and the
// other process waits for that.
func TestTakeOverDuringSetUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		calls, _ := bareCalls()
		fresh := newCall("call-1", thread.Key{Owner: "ada", Thread: "thread-1"}, quiet())
		if err := calls.reserve(t.Context(), fresh, Start{}); err != nil {
			t.Fatal(err)
		}
		answered := make(chan string, 1)
		go func() {
			reply, err := calls.HandleCommand(t.Context(), cluster.Command{Key: fresh.key, Kind: commandTakeOver, Body: json.RawMessage(`{"call_id":"call-1"}`)})
			if err != nil {
				t.Error(err)
			}
			answered <- string(reply)
		}()
		synctest.Wait()
		if len(fresh.inbox) != 1 || len(answered) != 0 {
			t.Errorf("the call was told %d times; %d answers before it has ended", len(fresh.inbox), len(answered))
		}
		calls.release(fresh)
		if got := <-answered; got != "{}" {
			t.Errorf("answer %s", got)
		}
	})
}

// TestForgetCallThatHasEnded resets a thread whose call in another process ends at this moment: there is nothing left
// to forget, and that is no error.
func TestForgetCallThatHasEnded(t *testing.T) {
	t.Parallel()
	calls, key := callElsewhere(t, func(context.Context, *persistence.Store, cluster.Command) (json.RawMessage, error) {
		return nil, persistence.ErrNotFound
	})
	if err := calls.Forget(t.Context(), key); err != nil {
		t.Errorf("Forget() = %v", err)
	}
}

// TestSaidButNotAnswered has another process save a text and die before it answers: the text counts as said, since who
// is told to try again would say it twice.
func TestSaidButNotAnswered(t *testing.T) {
	t.Parallel()
	calls, key := callElsewhere(t, func(ctx context.Context, other *persistence.Store, c cluster.Command) (json.RawMessage, error) {
		var q question
		if err := json.Unmarshal(c.Body, &q); err != nil {
			return nil, err
		}
		m := thread.Message{ID: q.MessageID, Role: thread.RoleUser, Parts: []thread.Part{thread.TextPart(q.Text)}}
		if _, err := persistencetest.AppendMessage(ctx, other, c.Key, m); err != nil {
			return nil, err
		}
		return nil, errors.New("gone")
	})
	if m, err := calls.Say(t.Context(), key, thread.Message{Parts: []thread.Part{thread.TextPart("Hello")}}, ""); err != nil || m.Text() != "Hello" {
		t.Errorf("Say() = %q, %v", m.Text(), err)
	}
}

// TestHangUpCallOfADeadProcess hangs up a call whose process has just died: that ends it, so it was there.
func TestHangUpCallOfADeadProcess(t *testing.T) {
	t.Parallel()
	calls, key := callElsewhere(t, func(_ context.Context, other *persistence.Store, _ cluster.Command) (json.RawMessage, error) {
		return nil, other.Close()
	})
	if err := calls.Hangup(t.Context(), key.Owner, "call-1"); err != nil {
		t.Errorf("Hangup() = %v", err)
	}
	if c, err := calls.cfg.Store.Records.Call(t.Context(), key.Owner, "call-1"); err != nil || c.EndReason != "process_ended" {
		t.Errorf("Call() = %+v, %v", c, err)
	}
}

// callElsewhere returns a process without calls, and a thread that has one in another process, which handles the
// commands about it.
func callElsewhere(t *testing.T, handle func(context.Context, *persistence.Store, cluster.Command) (json.RawMessage, error)) (*Calls, thread.Key) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	url := persistencetest.PostgresURL(t)
	other := persistencetest.Open(t, url, persistence.Options{Instance: "other"})
	here := persistencetest.Open(t, url, persistence.Options{Instance: "here"})
	for _, s := range []*persistence.Store{other, here} {
		if err := s.Serve(ctx); err != nil {
			t.Fatal(err)
		}
	}
	row, err := here.CreateThread(ctx, "ada", "")
	if err != nil {
		t.Fatal(err)
	}
	key := thread.Key{Owner: "ada", Thread: row.ID}
	if err := other.Records.SaveCall(ctx, key, records.Call{ID: "call-1"}); err != nil {
		t.Fatal(err)
	}
	handling := task.Go(func() {
		_ = other.Cluster.HandleCommands(ctx, func(ctx context.Context, c cluster.Command) (json.RawMessage, error) {
			return handle(ctx, other, c)
		})
	})
	t.Cleanup(func() {
		cancel()
		<-handling
	})
	calls, _ := bareCalls()
	calls.cfg.Store = here
	return calls, key
}
