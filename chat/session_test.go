package chat_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"voicebridge/assistant"
	"voicebridge/chat"
	"voicebridge/internal/testkit"
	"voicebridge/llm"
	"voicebridge/persistence"
	"voicebridge/persistence/persistencetest"
	"voicebridge/thread"
	"voicebridge/toolkit"
)

// seenAs writes a session's messages as text.
func seenAs(s chat.Session) string {
	var b strings.Builder
	for _, m := range s.Messages {
		fmt.Fprintf(&b, "%s: %s", m.Role, m.Content)
		for _, c := range m.ToolCalls {
			fmt.Fprintf(&b, " %s=%s(%s)", c.ID, c.Name, c.Arguments)
		}
		if m.ToolCallID != "" {
			fmt.Fprintf(&b, " <- %s", m.ToolCallID)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// TestSession follows a session through its whole life, including a restart.
func TestSession(t *testing.T) {
	t.Parallel()
	for name, newURL := range persistencetest.URLs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := newURL(t)
			provider := deltas(calls("a", "look", `{"a":"x"}`, "b", "look", `{}`), says("Found."), says("Bye."), calls("c", "look", `{}`), says("Well."))
			other := deltas(says("wrong one"))
			other.name = "other"
			cfg := chat.Config{Providers: []llm.Provider{other, provider}, Tools: tools(t, echo), Models: map[string]string{"fake": "m"}}
			b := start(t, persistencetest.Open(t, url, persistence.Options{}), cfg)
			s, err := b.c.CreateSession(t.Context(), "anna", chat.SessionRequest{
				Provider: "fake", Instructions: []string{"Be short."}, Tools: define("look"), Defaults: json.RawMessage(`{"top_p":0.5,"temperature":0,"max_tokens":50}`),
			})
			if err != nil || s.ID == "" || s.Provider != "fake" || s.Model != "m" || len(s.Tools) != 1 || string(s.Defaults) != `{"top_p":0.5,"temperature":0,"max_tokens":50}` {
				t.Fatalf("CreateSession() = %+v, %v", s, err)
			}
			if got := string(s.Tools[0].Parameters); strings.Index(got, `"z"`) > strings.Index(got, `"a"`) {
				t.Errorf("the order of the tool's keys is lost: %s", got)
			}
			key := thread.Key{Owner: "anna", Thread: s.ID}
			r, s, err := b.c.SessionMessage(t.Context(), key, "Hi", []string{"Be polite."})
			if err != nil || len(r.ToolCalls) != 2 || r.ToolCalls[0] != (chat.SessionCall{ID: "a", Name: "look", Arguments: `{"a":"x"}`}) || r.Usage.TotalTokens != 6 {
				t.Fatalf("SessionMessage() = %+v, %v", r, err)
			}
			open := "system: Be short.\nsystem: Be polite.\nuser: Hi\nassistant:  a=look({\"a\":\"x\"}) b=look({})\n"
			checkText(t, "the session", seenAs(s), open)

			// A restart loses nothing of that.
			b.stop()
			store := persistencetest.Open(t, url, persistence.Options{})
			b = start(t, store, cfg)
			s, err = b.c.SessionToolOutput(t.Context(), key, []chat.ToolResult{{CallID: "a", Output: `{"sun": true}`}})
			must(t, err)
			answered := open + "tool: {\"sun\":true} <- a\n"
			checkText(t, "the session", seenAs(s), answered)
			for id, want := range map[string]error{"a": chat.ErrAnswered, "zzz": chat.ErrUnknownCall, "": chat.ErrUnknownCall} {
				_, err := b.c.SessionToolOutput(t.Context(), key, []chat.ToolResult{{CallID: "b", Output: "plain words"}, {CallID: id, Output: "1"}})
				wantCall(t, "SessionToolOutput()", err, id, want)
			}
			_, err = b.c.SessionToolOutput(t.Context(), key, []chat.ToolResult{{CallID: "b", Output: "1"}, {CallID: "b", Output: "1"}})
			wantCall(t, "SessionToolOutput() of the same twice", err, "b", chat.ErrAnswered)
			if s, err = b.c.Session(t.Context(), key); err != nil {
				t.Fatalf("Session() = %v", err)
			}
			checkText(t, "the session after refusals", seenAs(s), answered)

			r, s, err = b.c.SessionMessage(t.Context(), key, "So?", nil)
			if err != nil || r.Text != "Found." || len(r.ToolCalls) != 0 {
				t.Fatalf("SessionMessage() = %+v, %v", r, err)
			}
			closed := answered + "tool: Error: the conversation went on before this call was answered <- b\nuser: So?\nassistant: Found.\n"
			checkText(t, "the session", seenAs(s), closed)
			_, err = b.c.SessionToolOutput(t.Context(), key, []chat.ToolResult{{CallID: "b", Output: "1"}})
			wantCall(t, "SessionToolOutput() of a call that was closed", err, "b", chat.ErrAnswered)

			if r, s, err = b.c.SessionMessage(t.Context(), key, "", []string{"Say goodbye.", "Now."}); err != nil || r.Text != "Bye." {
				t.Fatalf("SessionMessage() of instructions = %+v, %v", r, err)
			}
			checkText(t, "the session", seenAs(s), closed+"system: Say goodbye.\nsystem: Now.\nassistant: Bye.\n")
			requests := provider.seen()
			for _, q := range requests {
				if len(q.Tools) != 1 || q.Tools[0].Name != "look" || q.MaxTokens != 50 || q.Model != "m" {
					t.Errorf("request with %d tools, %d tokens, model %s", len(q.Tools), q.MaxTokens, q.Model)
				}
			}
			if got := talk(requests[2].Messages); !strings.Contains(got, "tool: Error: the conversation went on before this call was answered <- b look failed\nuser: So?\nassistant: Found.\nsystem: Say goodbye.\nsystem: Now.\n") {
				t.Errorf("the third request is\n%s", got)
			}
			if err := b.c.DeleteSession(t.Context(), key); err != nil {
				t.Errorf("DeleteSession() = %v", err)
			}
			if _, err := b.c.Session(t.Context(), key); !errors.Is(err, persistence.ErrNotFound) {
				t.Errorf("Session() after its end = %v", err)
			}
		})
	}
}

// TestSessionCalls: the session keeps the calls that the result has, however the model writes their arguments.
func TestSessionCalls(t *testing.T) {
	engines(t, func(t *testing.T, open func(*testing.T) *persistence.Store) {
		asked := []string{`{"a": "ü", "b": 1}`, `{"a":`, `null`, ` [1, 2]`, ``}
		want := []string{`{"a":"ü","b":1}`, `{"a":`, `null`, `[1,2]`, `{}`}
		var list []string
		for i, arguments := range asked {
			list = append(list, fmt.Sprint("c", i), "look", arguments)
		}
		b := start(t, open(t), asking(deltas(calls(list...))))
		s, err := b.c.CreateSession(t.Context(), "anna", chat.SessionRequest{Tools: define("look")})
		must(t, err)
		r, s, err := b.c.SessionMessage(t.Context(), thread.Key{Owner: "anna", Thread: s.ID}, "Go", nil)
		must(t, err)
		var got []string
		for _, c := range r.ToolCalls {
			got = append(got, c.Arguments)
		}
		if kept := s.Messages[len(s.Messages)-1].ToolCalls; !slices.Equal(kept, r.ToolCalls) || !slices.Equal(got, want) {
			t.Errorf("the session keeps %+v of %+v", kept, r.ToolCalls)
		}
	})
}

// TestParallelOutputs delivers outputs of one step at the same time.
func TestParallelOutputs(t *testing.T) {
	engines(t, func(t *testing.T, open func(*testing.T) *persistence.Store) {
		var list []string
		for i := range 12 {
			list = append(list, fmt.Sprint("c", i), "look", "{}")
		}
		b := start(t, open(t), asking(deltas(calls(list...))))
		s, err := b.c.CreateSession(t.Context(), "anna", chat.SessionRequest{Tools: define("look")})
		must(t, err)
		key := thread.Key{Owner: "anna", Thread: s.ID}
		if _, _, err := b.c.SessionMessage(t.Context(), key, "Go", nil); err != nil {
			t.Fatalf("SessionMessage() = %v", err)
		}
		var sides sync.WaitGroup
		for i := range 12 {
			sides.Go(func() {
				if _, err := b.c.SessionToolOutput(t.Context(), key, []chat.ToolResult{{CallID: fmt.Sprint("c", i), Output: fmt.Sprint(i)}}); err != nil {
					t.Errorf("SessionToolOutput() = %v", err)
				}
			})
		}
		sides.Wait()
		if s, err = b.c.Session(t.Context(), key); err != nil || len(s.Messages) != 14 {
			t.Fatalf("Session() = %v\n%s", err, seenAs(s))
		}
		for i, m := range s.Messages[2:] {
			if m.Content != fmt.Sprint(i) || m.ToolCallID != fmt.Sprint("c", i) {
				t.Errorf("output %d is %+v", i, m)
			}
		}
	})
}

func TestSessionRefusals(t *testing.T) {
	engines(t, func(t *testing.T, open func(*testing.T) *persistence.Store) {
		fails := deltas([]llm.Delta{})
		b := start(t, open(t), chat.Config{Providers: []llm.Provider{fails}, Attempts: 1, NoTitles: true})
		many := make([]toolkit.Definition, 65)
		for i := range many {
			many[i] = define(fmt.Sprint("t", i))[0]
		}
		for name, c := range map[string]struct {
			req  chat.SessionRequest
			want error
		}{
			"provider":           {chat.SessionRequest{Provider: "nobody"}, chat.ErrProvider},
			"tool name":          {chat.SessionRequest{Tools: define("a b")}, chat.ErrTools},
			"tools twice":        {chat.SessionRequest{Tools: define("a", "a")}, chat.ErrTools},
			"too many tools":     {chat.SessionRequest{Tools: many}, chat.ErrTools},
			"schema":             {chat.SessionRequest{Tools: []toolkit.Definition{{Name: "a", Parameters: json.RawMessage(`{"type":"string"}`)}}}, chat.ErrTools},
			"empty instructions": {chat.SessionRequest{Instructions: []string{""}}, chat.ErrEmpty},
			"long instructions":  {chat.SessionRequest{Instructions: []string{strings.Repeat("x", chat.MaxText+1)}}, chat.ErrTooLarge},
			"defaults":           {chat.SessionRequest{Defaults: json.RawMessage(`[1]`)}, persistence.ErrInvalid},
			"null defaults":      {chat.SessionRequest{Defaults: json.RawMessage(`null`)}, persistence.ErrInvalid},
			"bad defaults":       {chat.SessionRequest{Defaults: json.RawMessage(`{"max_tokens":"many"}`)}, persistence.ErrInvalid},
			"negative defaults":  {chat.SessionRequest{Defaults: json.RawMessage(`{"maxTokens":-1}`)}, persistence.ErrInvalid},
			"capital defaults":   {chat.SessionRequest{Defaults: json.RawMessage(`{"Max_Tokens":5}`)}, persistence.ErrInvalid},
		} {
			if _, err := b.c.CreateSession(t.Context(), "bert", c.req); !errors.Is(err, c.want) {
				t.Errorf("CreateSession() with bad %s = %v, want %v", name, err, c.want)
			}
		}
		if threads, _, err := b.store.Threads(t.Context(), "bert", persistence.ThreadFilter{}); err != nil || len(threads) != 0 {
			t.Errorf("%d threads are left, %v", len(threads), err)
		}
		// A thread is a session; a stranger's thread is not.
		if s, err := b.c.Session(t.Context(), b.key); err != nil || s.Provider != "fake" || s.Messages == nil || s.Tools == nil {
			t.Errorf("Session() of a thread = %+v, %v", s, err)
		}
		for _, key := range []thread.Key{{Owner: "bert", Thread: b.key.Thread}, {Owner: "anna", Thread: "none"}} {
			_, err := b.c.Session(t.Context(), key)
			_, _, err2 := b.c.SessionMessage(t.Context(), key, "x", nil)
			_, _, err3 := b.c.SessionMessage(t.Context(), key, "", []string{"x"})
			_, err4 := b.c.SessionToolOutput(t.Context(), key, []chat.ToolResult{{CallID: "x"}})
			for i, err := range []error{err, err2, err3, err4, b.c.DeleteSession(t.Context(), key)} {
				if !errors.Is(err, persistence.ErrNotFound) {
					t.Errorf("method %d of a stranger's session = %v", i, err)
				}
			}
		}
		if _, _, err := b.c.SessionMessage(t.Context(), b.key, " ", []string{"x"}); !errors.Is(err, chat.ErrEmpty) {
			t.Errorf("SessionMessage() of nothing = %v", err)
		}
		if _, _, err := b.c.SessionMessage(t.Context(), b.key, "", nil); !errors.Is(err, chat.ErrEmpty) {
			t.Errorf("SessionMessage() of nothing at all = %v", err)
		}
		if _, err := b.c.SessionToolOutput(t.Context(), b.key, nil); !errors.Is(err, chat.ErrEmpty) {
			t.Errorf("SessionToolOutput() of nothing = %v", err)
		}
		_, err := b.c.SessionToolOutput(t.Context(), b.key, []chat.ToolResult{{CallID: "x", Output: strings.Repeat("x", chat.MaxToolOutput+1)}})
		wantCall(t, "SessionToolOutput() of too much", err, "x", chat.ErrTooLarge)
		// A failure appends nothing of the assistant's.
		_, s, err := b.c.SessionMessage(t.Context(), b.key, "Hi", nil)
		if e, ok := errors.AsType[*llm.Error](err); !ok || e.Kind != llm.KindUnavailable || len(s.Messages) != 1 {
			t.Errorf("SessionMessage() = %v\n%s", err, seenAs(s))
		}
	})
}

// TestDeleteBeforeTheNextTurn deletes a thread on which another turn begins as soon as the one that
// is running has been interrupted, as that of a queued message may.
func TestDeleteBeforeTheNextTurn(t *testing.T) {
	t.Parallel()
	g := newGate()
	provider := &fake{name: "fake", answer: func(ctx context.Context, n int, _ llm.Request, _ func(llm.Delta, error) bool) {
		if n == 0 {
			g.pass(ctx)
		}
		<-ctx.Done()
	}}
	next := make(chan *chat.Turn, 1)
	var b *bench
	var deleting atomic.Bool
	store := persistencetest.Open(t, persistencetest.PostgresURL(t), persistence.Options{OnWrite: func(time.Duration, bool) {
		if !deleting.Load() {
			return
		}
		if _, err := b.store.RunningTurn(t.Context(), b.key); err == nil || !deleting.CompareAndSwap(true, false) {
			return
		}
		go func() {
			defer close(next)
			for {
				turn, err := b.c.Turn(t.Context(), chat.TurnRequest{Key: b.key, Text: "And then?"})
				switch {
				case err == nil:
					next <- turn
					return
				case errors.Is(err, persistence.ErrNotFound): // the thread is gone by now
					return
				case !errors.Is(err, chat.ErrBusy):
					t.Errorf("Turn() = %v", err)
					return
				}
			}
		}()
	}})
	b = start(t, store, chat.Config{NoTitles: true, Providers: []llm.Provider{provider}})
	turn := b.turn(chat.TurnRequest{Text: "Go"})
	testkit.Take(t, "g.reached", g.reached)
	deleting.Store(true)
	must(t, b.c.DeleteSession(t.Context(), b.key))
	turns := map[string]*chat.Turn{"the running turn": turn}
	if turn, begun := testkit.Receive(t, "the next", next); begun {
		turns["the next one"] = turn
	}
	for what, turn := range turns {
		select {
		case <-turn.Done():
		default:
			t.Errorf("DeleteSession() returned before the end of %s", what)
		}
		if r := b.wait(turn); r.Finish != chat.FinishInterrupted || len(r.Message.Parts) == 0 {
			t.Errorf("%s ended with %+v, want it interrupted and saved", what, r)
		}
	}
}

// TestDeleteFails deletes a thread, which fails when no other turn can begin on it any more: afterwards one can.
func TestDeleteFails(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	var deleting atomic.Bool
	store := persistencetest.Open(t, persistencetest.SQLiteURL(t), persistence.Options{OnWrite: func(time.Duration, bool) {
		if deleting.Load() {
			cancel()
		}
	}})
	b := start(t, store, chat.Config{NoTitles: true, Providers: []llm.Provider{deltas(says("Yes."))}})
	deleting.Store(true)
	if err := b.c.DeleteSession(ctx, b.key); !errors.Is(err, context.Canceled) {
		t.Fatalf("DeleteSession() = %v", err)
	}
	for {
		busy, err := b.c.Busy(t.Context(), b.key)
		if must(t, err); !busy {
			break
		}
		runtime.Gosched()
	}
	if r := b.say("Go"); r.Text != "Yes." {
		t.Errorf("the next turn says %q", r.Text)
	}
}

// TestTurnThatCannotBegin waits for a turn that was found while it began, and then could not.
func TestTurnThatCannotBegin(t *testing.T) {
	t.Parallel()
	g := newGate()
	b := start(t, persistencetest.SQLite(t), chat.Config{
		NoTitles: true, Providers: []llm.Provider{deltas(says("Yes."))},
		Tools: func(ctx context.Context, _ string, _ assistant.Assistant) (*toolkit.Registry, error) {
			g.pass(ctx)
			return nil, errors.New("no tools")
		},
	})
	failed := make(chan error, 1)
	go func() {
		_, err := b.c.Turn(t.Context(), chat.TurnRequest{Key: b.key, Text: "Go"})
		failed <- err
	}()
	testkit.Take(t, "g.reached", g.reached)
	turn, begun := b.c.Running(b.key), make(chan bool, 1)
	go func() { begun <- turn.Begins(t.Context()) }()
	close(g.open)
	if err := testkit.Take(t, "the failure", failed); err == nil || testkit.Take(t, "the beginning", begun) {
		t.Errorf("Turn() = %v, want an error, and the turn has not begun", err)
	}
	b.wait(turn)
}
