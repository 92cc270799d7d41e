package chat_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"voicebridge/chat"
	"voicebridge/internal/testkit"
	"voicebridge/llm"
	"voicebridge/persistence"
	"voicebridge/toolkit"
)

func define(names ...string) []toolkit.Definition {
	var defs []toolkit.Definition
	for _, n := range names {
		defs = append(defs, toolkit.Definition{Name: n, Description: "the caller's", Parameters: json.RawMessage(
			`{"type":"object","properties":{"z":{"type":"string"},"a":{"type":"string"}}}`)})
	}
	return defs
}

// TestClientAnswers has an app that answers properly, with an error, late and twice.
func TestClientAnswers(t *testing.T) {
	bubble(t, func(t *testing.T, store *persistence.Store) {
		provider := deltas(calls("ok", "look", `{"a":"x"}`, "bad", "look", `{}`, "late", "look", `{}`, "wrong", "look", `{"a":5}`), says("Done."))
		b := start(t, store, asking(provider))
		turn := b.turn(chat.TurnRequest{Text: "Go", Client: &chat.ClientTools{Tools: define("look"), Wait: true}})
		begun := time.Now()
		asked := map[string]string{}
		for e, err := range turn.Events(t.Context(), 0) {
			must(t, err)
			if e.Type != chat.EventToolAsked {
				continue
			}
			asked[e.Call.ID] = e.Call.Arguments
			switch e.Call.ID {
			case "ok":
				if err := turn.Deliver(chat.ToolResult{CallID: "ok", Output: `{"found": 1}`}); err != nil {
					t.Errorf("Deliver() = %v", err)
				}
				wantCall(t, "a second Deliver()", turn.Deliver(chat.ToolResult{CallID: "ok", Output: `2`}), "ok", chat.ErrAnswered)
			case "bad":
				if err := turn.Deliver(chat.ToolResult{CallID: "bad", Error: "no such thing"}); err != nil {
					t.Errorf("Deliver() = %v", err)
				}
			}
			wantCall(t, "Deliver() of nothing", turn.Deliver(chat.ToolResult{CallID: "none"}), "none", chat.ErrUnknownCall)
			// A reconnecting app finds what it still has to do.
			if w := turn.Waiting(); e.Call.ID == "late" && (len(w) != 1 || w[0].ID != "late") {
				t.Errorf("Waiting() = %+v", w)
			}
		}
		r, _ := turn.Wait(t.Context())
		if took := time.Since(begun); took < 30*time.Second || took > 31*time.Second || r.Text != "Done." {
			t.Errorf("Wait() = %+v after %v", r, took)
		}
		if len(asked) != 3 || asked["ok"] != `{"a":"x"}` {
			t.Errorf("the app was asked for %v", asked)
		}
		wantCall(t, "a late Deliver()", turn.Deliver(chat.ToolResult{CallID: "late", Output: `1`}), "late", chat.ErrUnknownCall)
		got := talk(provider.seen()[1].Messages)
		for _, want := range []string{`tool: {"found":1} <- ok look`, "tool: Error: no such thing <- bad look failed", "tool: Error: tool_result_timeout <- late look failed", "<- wrong look failed"} {
			if !strings.Contains(got, want+"\n") && !strings.Contains(got, want) {
				t.Errorf("the model reads\n%s\nwant %s", got, want)
			}
		}
		b.stop()
	})
}

func wantCall(t *testing.T, what string, err error, id string, want error) {
	t.Helper()
	c, ok := errors.AsType[*chat.CallError](err)
	if !ok || c.CallID != id || !errors.Is(err, want) {
		t.Errorf("%s = %v, want %v of %q", what, err, want, id)
	}
}

// TestClientIsAskedOneByOne interrupts a turn while an app has the first of two calls of a step: it has not heard of the second.
func TestClientIsAskedOneByOne(t *testing.T) {
	bubble(t, func(t *testing.T, store *persistence.Store) {
		provider := &fake{name: "fake", answer: func(_ context.Context, _ int, _ llm.Request, yield func(llm.Delta, error) bool) {
			for _, d := range calls("one", "look", `{}`, "two", "look", `{}`) {
				if !yield(d, nil) {
					return
				}
			}
		}}
		b := start(t, store, asking(provider))
		turn := b.turn(chat.TurnRequest{Text: "Go", Client: &chat.ClientTools{Tools: define("look"), Wait: true}})
		synctest.Wait()
		if w := turn.Waiting(); len(w) != 1 || w[0].ID != "one" {
			t.Errorf("Waiting() = %+v", w)
		}
		turn.Interrupt()
		r, _ := turn.Wait(t.Context())
		var failed []string
		for _, p := range r.Message.Parts {
			if p.IsTool() {
				failed = append(failed, p.ErrorText)
			}
		}
		if len(failed) != 2 || !strings.Contains(failed[0], "The app may have run it") || strings.Contains(failed[1], "The app may have run it") {
			t.Errorf("the model reads %q", failed)
		}
		b.stop()
	})
}

// TestClientIsLate has an app that answers when the model has already been told that it did not: the next turn reads it.
func TestClientIsLate(t *testing.T) {
	bubble(t, func(t *testing.T, store *persistence.Store) {
		more := make(chan struct{})
		provider := &fake{name: "fake", answer: func(_ context.Context, n int, _ llm.Request, yield func(llm.Delta, error) bool) {
			answer := says("Done.")
			switch n {
			case 0:
				answer = calls("during", "look", `{}`, "after", "look", `{}`)
			case 1:
				<-more
			}
			for _, d := range answer {
				if !yield(d, nil) {
					return
				}
			}
		}}
		b := start(t, store, asking(provider))
		turn := b.turn(chat.TurnRequest{Text: "Go", Client: &chat.ClientTools{Tools: define("look"), Wait: true}})
		given := 0
		for e, err := range turn.Events(t.Context(), 0) {
			must(t, err)
			if e.Type == chat.EventToolOutput {
				given++
			}
			if given == 2 {
				break
			}
		}
		keep := func(id string) error {
			return b.c.KeepResult(t.Context(), b.key, chat.ToolResult{CallID: id, Output: `{"id":"a1"}`})
		}
		must(t, turn.Deliver(chat.ToolResult{CallID: "during", Output: `{"id":"a2"}`}))
		wantCall(t, "a second Deliver()", turn.Deliver(chat.ToolResult{CallID: "during"}), "during", chat.ErrAnswered)
		wantCall(t, "Deliver() of too much", turn.Deliver(chat.ToolResult{CallID: "after", Output: strings.Repeat("x", chat.MaxToolOutput+1)}), "after", chat.ErrTooLarge)
		close(more)
		if r, _ := turn.Wait(t.Context()); r.Text != "Done." {
			t.Errorf("Wait() = %+v", r)
		}
		wantCall(t, "Deliver() after the end", turn.Deliver(chat.ToolResult{CallID: "after"}), "after", chat.ErrUnknownCall)
		wantCall(t, "KeepResult() of a result that the turn has", keep("during"), "during", chat.ErrAnswered)
		wantCall(t, "KeepResult() of nothing", keep("none"), "none", chat.ErrUnknownCall)
		wantCall(t, "KeepResult() of too much", b.c.KeepResult(t.Context(), b.key, chat.ToolResult{CallID: "after", Error: strings.Repeat("x", chat.MaxToolOutput+1)}), "after", chat.ErrTooLarge)
		must(t, keep("after"))
		wantCall(t, "a second KeepResult()", keep("after"), "after", chat.ErrAnswered)
		b.turn(chat.TurnRequest{Text: "And?"}).Wait(t.Context())
		got := talk(provider.seen()[2].Messages)
		for _, want := range []string{`tool: {"id":"a2"} <- during look`, `tool: {"id":"a1"} <- after look`} {
			if !strings.Contains(got, want) {
				t.Errorf("the model reads\n%s\nwant %s", got, want)
			}
		}
		b.stop()
	})
}

func TestClientIsInterrupted(t *testing.T) {
	bubble(t, func(t *testing.T, store *persistence.Store) {
		b := start(t, store, asking(deltas(calls("a", "look", `{}`))))
		turn := b.turn(chat.TurnRequest{Text: "Go", Client: &chat.ClientTools{Tools: define("look"), Wait: true}})
		b.until(turn, chat.EventToolAsked)
		large := chat.ToolResult{CallID: "a", Output: strings.Repeat("x", chat.MaxToolOutput+1)}
		turn.Interrupt()
		r, _ := turn.Wait(t.Context())
		if r.Finish != chat.FinishInterrupted {
			t.Errorf("Wait() = %+v", r)
		}
		if err := turn.Deliver(large); err == nil {
			t.Error("Deliver() after the end = nil")
		}
		if got := outline(b.messages()); !strings.Contains(got, "assistant interrupted: | dynamic-tool(a)!") {
			t.Errorf("the thread is\n%s", got)
		}
		b.stop()
	})
}

// TestTooManyCalls has a model ask for more tools at once than a step may have.
func TestTooManyCalls(t *testing.T) {
	bubble(t, func(t *testing.T, store *persistence.Store) {
		var list []string
		for n := range 65 {
			list = append(list, fmt.Sprintf("c%d", n), "look", `{}`)
		}
		b := start(t, store, asking(deltas(calls(list...), says("ok"))))
		r, _ := b.turn(chat.TurnRequest{Text: "Go"}).Wait(t.Context())
		if r.Err == nil || !strings.Contains(r.Err.Message, "more than 64 tools") {
			t.Errorf("Wait() = %+v", r)
		}
		b.stop()
	})
}

func TestClientSendsTooMuch(t *testing.T) {
	bubble(t, func(t *testing.T, store *persistence.Store) {
		b := start(t, store, asking(deltas(calls("a", "look", `{}`), says("ok"))))
		turn := b.turn(chat.TurnRequest{Text: "Go", Client: &chat.ClientTools{Tools: define("look"), Wait: true}})
		b.until(turn, chat.EventToolAsked)
		wantCall(t, "Deliver()", turn.Deliver(chat.ToolResult{CallID: "a", Output: strings.Repeat("x", chat.MaxToolOutput+1)}), "a", chat.ErrTooLarge)
		if r, _ := turn.Wait(t.Context()); r.Text != "ok" {
			t.Errorf("Wait() = %+v", r)
		}
		b.stop()
	})
}

// TestFollow has several readers of one turn: from its beginning, from the middle, after
// its end, and one that disconnects.
func TestFollow(t *testing.T) {
	engines(t, func(t *testing.T, open func(*testing.T) *persistence.Store) {
		more := make(chan struct{})
		provider := &fake{name: "fake", answer: func(ctx context.Context, _ int, _ llm.Request, yield func(llm.Delta, error) bool) {
			if !yield(llm.Delta{Text: "one "}, nil) {
				return
			}
			select {
			case <-more:
			case <-ctx.Done():
			}
			_ = yield(llm.Delta{Text: "two"}, nil) && yield(llm.Delta{Stop: llm.StopEnd}, nil)
		}}
		b := start(t, open(t), asking(provider))
		turn := b.turn(chat.TurnRequest{Text: "Go"})
		first := b.until(turn, chat.EventTextDelta)
		gone, leave := context.WithCancel(t.Context())
		leave()
		for _, err := range turn.Events(gone, first.Index+1) {
			if !errors.Is(err, context.Canceled) {
				t.Errorf("Events() of a reader that is gone = %v", err)
			}
		}
		late := make(chan []chat.Event, 1)
		go func() { late <- b.follow(turn, first.Index+1) }()
		close(more)
		all := b.follow(turn, 0)
		if r := all[len(all)-1]; r.Type != chat.EventFinish || r.Result == nil || r.Result.Text != "one two" {
			t.Errorf("the last event is %+v", r)
		}
		if got := testkit.Take(t, "the late answer", late); len(got) != len(all)-first.Index-1 || got[0].Index != first.Index+1 {
			t.Errorf("from %d on there are %d of %d events", first.Index+1, len(got), len(all))
		}
		if b.c.Running(b.key) != turn {
			t.Error("Running() does not find the turn after its end")
		}
		if got := b.follow(turn, len(all)); len(got) != 0 {
			t.Errorf("after the end there is %+v", got)
		}
	})
}
