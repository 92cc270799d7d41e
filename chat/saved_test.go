package chat_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"voicebridge/chat"
	"voicebridge/chat/chattest"
	"voicebridge/internal/testkit"
	"voicebridge/llm"
	"voicebridge/persistence/persistencetest"
	"voicebridge/thread"
)

// course returns the events of a turn, with the words of a block joined.
func course(events []chat.Event) string {
	var out strings.Builder
	var words string
	flush := func() {
		if words != "" {
			fmt.Fprintf(&out, "%q\n", words)
		}
		words = ""
	}
	for _, e := range events {
		if e.Type == chat.EventTextDelta || e.Type == chat.EventReasoningDelta {
			words += e.Delta
			continue
		}
		flush()
		fmt.Fprint(&out, e.Type, " ", e.TextID)
		if c := e.Call; c != nil {
			fmt.Fprintf(&out, " %s %s %v %s %s %q %s %v %q %s", c.ID, c.Name, c.Dynamic, c.Input, c.Output, c.Error, c.Nonce, c.Approved, c.Reason, c.Message)
		}
		if r := e.Result; r != nil {
			fmt.Fprintf(&out, " %s %q %s %s %v %q", r.MessageID, r.Text, r.Status, r.Finish, r.Err, outline([]thread.Message{r.Message}))
		}
		out.WriteString("\n")
	}
	flush()
	return out.String()
}

// gate is where a provider waits for the test.
type gate struct{ reached, open chan struct{} }

func newGate() gate { return gate{make(chan struct{}), make(chan struct{})} }

func (g gate) pass(ctx context.Context) {
	close(g.reached)
	select {
	case <-g.open:
	case <-ctx.Done():
	}
}

// TestSavedReply compares what a saved message tells of its turn with what the turn told.
func TestSavedReply(t *testing.T) {
	t.Parallel()
	lines := []string{"One.\n\n", "Two\n", "three.", "\n", "Four."}
	for name, c := range map[string]struct {
		before, after []llm.Delta // the first answer before and after the gate
		second        []llm.Delta
		fails         bool
		interrupted   bool
	}{
		"words":            {before: says(lines...)[:2], after: says(lines...)[2:]},
		"before any word":  {after: says(lines...)},
		"thoughts":         {before: []llm.Delta{{Reasoning: "Hm. "}}, after: append([]llm.Delta{{Reasoning: "Yes."}, {Text: "Well,"}, {Reasoning: "no"}}, says(" so.")...)},
		"tools":            {before: []llm.Delta{{Text: "I look.\n"}}, after: calls("a", "echo", `{"n":1}`, "b", "echo", `{"n":2}`), second: says("\nIt is", " 2.")},
		"a tool, no words": {after: calls("a", "echo", `{}`), second: says("Done.")},
		"an unknown tool":  {after: calls("a", "none", `{}`), second: says("Done.")},
		"a failure":        {before: []llm.Delta{{Text: "I "}}, fails: true},
		"a failure before": {fails: true},
		"an interruption":  {before: []llm.Delta{{Text: "I "}}, after: says("never say it"), interrupted: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGate()
			provider := &fake{name: "fake", answer: func(ctx context.Context, n int, _ llm.Request, yield func(llm.Delta, error) bool) {
				if n > 0 {
					for _, d := range c.second {
						yield(d, nil)
					}
					return
				}
				for _, d := range c.before {
					yield(d, nil)
				}
				g.pass(ctx)
				for _, d := range c.after {
					if ctx.Err() != nil || !yield(d, nil) {
						return
					}
				}
				if c.fails {
					yield(llm.Delta{}, &llm.Error{Kind: llm.KindTooLong, Provider: "fake", Message: "It is too long."})
				}
			}}
			b := start(t, persistencetest.SQLite(t),
				chat.Config{Providers: []llm.Provider{provider}, Tools: tools(t, echo), NoTitles: true, Attempts: 1})
			turn := b.turn(chat.TurnRequest{Text: "Go"})
			testkit.Take(t, "g.reached", g.reached)
			if c.interrupted {
				turn.Interrupt()
			}
			close(g.open)
			b.wait(turn)
			b.checkSaved(turn)
		})
	}
}

// checkSaved compares what another process finds of a turn with what the turn told.
func (b *bench) checkSaved(turn *chat.Turn) {
	b.t.Helper()
	cfg := chat.Config{Store: b.store, Providers: []llm.Provider{&fake{name: "fake"}}}
	cfg.Writer, _ = chattest.Writer(b.t, b.store)
	other, err := chat.New(cfg)
	must(b.t, err)
	for id, want := range map[string]error{turn.MessageID(): nil, "": chat.ErrIdle, "another": chat.ErrIdle} {
		saved, err := other.Find(b.within(), b.key, id)
		if !errors.Is(err, want) {
			b.t.Errorf("Find(%q) = %v, want %v", id, err, want)
		}
		if want != nil {
			continue
		}
		var events []chat.Event
		for e, err := range saved.Events(b.within(), 0) {
			must(b.t, err)
			events = append(events, e)
		}
		checkText(b.t, "what is saved tells", ordered(course(events)), ordered(course(b.follow(turn, 0))))
		if result, err := saved.Wait(b.within()); err != nil || result.MessageID != id {
			b.t.Errorf("Wait() = %+v, %v", result, err)
		}
	}
}

// ordered drops events that only readers connected in time get, and puts the results of parallel tools into one order.
func ordered(course string) string {
	var kept, outputs []string
	for line := range strings.Lines(course) {
		switch {
		case strings.HasPrefix(line, string(chat.EventToolProgress)):
		case strings.HasPrefix(line, string(chat.EventToolOutput)):
			outputs = append(outputs, line)
		default:
			kept = append(kept, slices.Sorted(slices.Values(outputs))...)
			kept, outputs = append(kept, line), nil
		}
	}
	return strings.Join(kept, "")
}

// TestSavedApproval compares a turn with a question and its answer with what is saved of it.
func TestSavedApproval(t *testing.T) {
	t.Parallel()
	for name, approved := range map[string]bool{"yes": true, "no": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			risky, _ := counted("risky")
			b := start(t, persistencetest.SQLite(t), asks(t, deltas(calls("a", "risky", `{"n":1}`), says("Done.")), risky))
			turn := b.turn(chat.TurnRequest{Text: "Go"})
			q := b.question(turn)
			b.openApproval()
			if err := b.c.Decide(t.Context(), b.key, chat.Decision{ToolCallID: "a", Nonce: q.Nonce, Approved: approved, By: "anna"}); err != nil {
				t.Errorf("Decide() = %v", err)
			}
			b.wait(turn)
			b.checkSaved(turn)
		})
	}
}
