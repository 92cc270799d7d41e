package chat_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"voicebridge/chat"
	"voicebridge/internal/testkit"
	"voicebridge/llm"
	"voicebridge/persistence"
	"voicebridge/persistence/persistencetest"
	"voicebridge/thread"
	"voicebridge/toolkit"
)

// counted is echo under another name that counts its runs.
func counted(name string) (tool, *atomic.Int32) {
	ran := new(atomic.Int32)
	return tool{name, func(ctx context.Context, call toolkit.Call, yield func(toolkit.Chunk, error) bool) {
		ran.Add(1)
		echo.run(ctx, call, yield)
	}}, ran
}

// asks configures a bench whose tool risky needs approval.
func asks(t *testing.T, provider llm.Provider, list ...toolkit.Tool) chat.Config {
	return chat.Config{Providers: []llm.Provider{provider}, Tools: tools(t, list...), ApproveTools: toolkit.MustNames("risk*", "none"), NoTitles: true}
}

// question waits for the approval request of a call.
func (b *bench) question(turn *chat.Turn) chat.EventCall {
	b.t.Helper()
	return *b.until(turn, chat.EventToolApproval).Call
}

// approval returns an approval, open or not.
func (b *bench) approval(id string) thread.Approval {
	b.t.Helper()
	a, err := b.store.Approval(b.t.Context(), b.key, id)
	must(b.t, err)
	return a
}

func (b *bench) openApproval() (one thread.Approval) {
	b.t.Helper()
	// What a slow database has kept waiting is in the spool's file before it is there.
	testkit.Eventually(b.t, "one open approval", func() bool {
		open, err := b.store.OpenApprovals(b.t.Context(), b.key)
		testkit.Must(b.t, err)
		if len(open) == 1 {
			one = open[0]
		}
		return len(open) == 1
	})
	return one
}

// noneOpen checks that no approval is left open.
func (b *bench) noneOpen() {
	b.t.Helper()
	if open, err := b.store.OpenApprovals(b.t.Context(), b.key); err != nil || len(open) != 0 {
		b.t.Errorf("OpenApprovals() = %+v, %v, want none", open, err)
	}
}

// kept is the approval that is saved with a call.
func kept(t *testing.T, m thread.Message, callID string) string {
	t.Helper()
	for _, p := range m.Parts {
		if p.ToolCallID != callID {
			continue
		}
		type approval struct {
			ID       string
			Approved bool
			Reason   string
		}
		var raw struct {
			Approval approval
			Metadata struct{ Voicebridge struct{ Approval approval } } `json:"callProviderMetadata"`
		}
		if p.Raw != nil {
			if err := json.Unmarshal(p.Raw, &raw); err != nil {
				t.Fatalf("part %s: %v", p.Raw, err)
			}
		}
		if refused := raw.Metadata.Voicebridge.Approval; refused.ID != "" {
			if raw.Approval.ID != "" || refused.Approved {
				t.Errorf("part %s", p.Raw)
			}
			return "no " + refused.Reason
		}
		if raw.Approval.ID == "" {
			return "nothing"
		}
		if !raw.Approval.Approved {
			t.Errorf("part %s", p.Raw)
		}
		return "yes " + raw.Approval.Reason
	}
	return "no such call"
}

func TestApproval(t *testing.T) {
	const refused = "The user refused this tool call. Do not try it again unless the user asks for it."
	engines(t, func(t *testing.T, open func(*testing.T) *persistence.Store) {
		for name, c := range map[string]struct {
			approved bool
			runs     int32
			want     string
			kept     string
			outcome  thread.ApprovalOutcome
		}{
			"yes": {true, 1, `tool-risky(a)={"n":1}`, "yes ", thread.ApprovalApproved},
			"no":  {false, 0, "tool-risky(a)!" + refused, "no ", thread.ApprovalDenied},
		} {
			t.Run(name, func(t *testing.T) {
				risky, ran := counted("risky")
				provider := deltas(calls("a", "risky", `{"n":1}`, "b", "echo", `{}`), says("Done."))
				b := start(t, open(t), asks(t, provider, risky, echo))
				turn := b.turn(chat.TurnRequest{Text: "Go"})
				q := b.question(turn)
				b.until(turn, chat.EventToolOutput) // the other tool does not wait
				a := b.openApproval()
				if a.ToolCallID != "a" || a.Nonce != q.Nonce || len(q.Nonce) < 20 || a.Name != "risky" || a.Executor != "app" || a.Input != `{"n":1}` ||
					a.ExpiresAt.Sub(a.AskedAt) != time.Minute || q.ID != "a" || string(q.Input) != `{"n":1}` {
					t.Errorf("question %+v, row %+v", q, a)
				}
				b.refusesDecisions(q)
				if ran.Load() != 0 {
					t.Error("the tool ran before the user approved it")
				}
				d := chat.Decision{ToolCallID: "a", Nonce: q.Nonce, Approved: c.approved, By: "anna"}
				must(t, b.c.Decide(t.Context(), b.key, d))
				d.Approved = !c.approved
				if err := b.c.Decide(t.Context(), b.key, d); !errors.Is(err, chat.ErrNotAsked) {
					t.Errorf("Decide() again = %v", err)
				}
				r := b.wait(turn)
				checkText(t, "the thread", outline(b.messages()), "user completed: \"Go\"\nassistant completed: | "+c.want+` tool-echo(b)={} | "Done."`)
				if ran.Load() != c.runs || r.Status != thread.StatusCompleted || kept(t, r.Message, "a") != c.kept || kept(t, r.Message, "b") != "nothing" {
					t.Errorf("ran %d times, %s, kept %q", ran.Load(), r.Status, kept(t, r.Message, "a"))
				}
				if a := b.approval(a.ID); a.Outcome != c.outcome || a.AnsweredBy != "anna" || a.AnsweredAt == nil {
					t.Errorf("row %+v", a)
				}
				decided := b.until(turn, chat.EventToolDecided).Call
				if decided.ID != "a" || decided.Approved != c.approved || decided.Reason != "" || decided.Nonce != "" {
					t.Errorf("decided %+v", decided)
				}
				// The model is told in its next request, and told the same in later turns.
				if got := talk(provider.seen()[1].Messages); strings.Contains(got, "Error: "+refused) == c.approved {
					t.Errorf("the model reads\n%s", got)
				}
				b.noneOpen()
			})
		}
	})
}

// refusesDecisions sends invalid answers.
func (b *bench) refusesDecisions(q chat.EventCall) {
	b.t.Helper()
	stranger := thread.Key{Owner: "bert", Thread: b.key.Thread}
	for _, c := range []struct {
		key       thread.Key
		id, nonce string
	}{
		{b.key, "a", "guess"}, {b.key, "b", q.Nonce}, {b.key, "", ""}, {b.key, "a", ""}, {b.key, "a", "\x00\xff"},
		{b.key, strings.Repeat("a", 1000), q.Nonce}, {b.key, "a", q.Nonce + "'--"}, {stranger, "a", q.Nonce}, {thread.Key{}, "a", q.Nonce},
	} {
		err := b.c.Decide(b.t.Context(), c.key, chat.Decision{ToolCallID: c.id, Nonce: c.nonce, Approved: true})
		if !errors.Is(err, chat.ErrNotAsked) {
			b.t.Errorf("Decide(%.20q, %.30q) = %v, want ErrNotAsked", c.id, c.nonce, err)
		}
	}
}

// TestApprovalOnTheOtherInstance answers on an instance that does not run the turn.
func TestApprovalOnTheOtherInstance(t *testing.T) {
	t.Parallel()
	url := persistencetest.PostgresURL(t)
	risky, ran := counted("risky")
	one := start(t, persistencetest.Open(t, url, persistence.Options{}), asks(t, deltas(calls("a", "risky", `{}`), says("Done.")), risky))
	two := start(t, persistencetest.Open(t, url, persistence.Options{}), asks(t, deltas(says("never")), risky))
	for _, b := range []*bench{one, two} {
		must(t, b.store.Serve(t.Context()))
	}
	published := make(chan persistence.Event, 100)
	ctx, cancel := context.WithCancel(one.within())
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		for e := range two.store.Watch(one.key).Events(ctx, 0) {
			if strings.HasPrefix(string(e.Type), "bridge.") {
				published <- e
			}
		}
	}()
	t.Cleanup(func() { cancel(); <-watched })
	next := func() (e persistence.Event) {
		t.Helper()
		select {
		case e = <-published:
		case <-watched:
			t.Fatal("the watch has ended")
		}
		return e
	}
	turn := one.turn(chat.TurnRequest{Text: "Go"})
	var q struct {
		ToolCallID string `json:"tool_call_id"`
		Nonce      string
	}
	if e := next(); e.Type != "bridge.tool.approval_required" || json.Unmarshal(e.Data, &q) != nil || q.ToolCallID != "a" {
		t.Fatalf("event %s %s", e.Type, e.Data)
	}
	must(t, two.c.Decide(t.Context(), one.key, chat.Decision{ToolCallID: q.ToolCallID, Nonce: q.Nonce, Approved: true, By: "anna"}))
	if r := one.wait(turn); r.Text != "Done." || ran.Load() != 1 {
		t.Errorf("Wait() = %+v, ran %d times", r, ran.Load())
	}
	e := next()
	for e.Type != "bridge.tool.approval_closed" { // a question asked just then may arrive twice
		e = next()
	}
	if string(e.Data) != `{"tool_call_id":"a","approved":true,"reason":""}` {
		t.Errorf("closed %s", e.Data)
	}
}

// TestNoAnswer lets the user think for too long, or stops the turn meanwhile.
func TestNoAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		stop   func(*testing.T, *bench)
		least  time.Duration
		most   time.Duration
		thread string
		kept   string
		want   thread.ApprovalOutcome
	}{
		"time-out": {nil, time.Minute, 63 * time.Second,
			`assistant completed: | tool-risky(a)!The user was asked to approve this tool call and did not answer in time. | "Done."`,
			"no timeout", thread.ApprovalTimeout},
		"interrupted": {func(t *testing.T, b *bench) {
			if err := b.c.Interrupt(t.Context(), b.key); err != nil {
				t.Errorf("Interrupt() = %v", err)
			}
		}, 0, time.Second,
			`assistant interrupted: | tool-risky(a)!The turn ended before the user decided whether this tool may run.`,
			"no interrupted", thread.ApprovalInterrupted},
		"interrupted by another instance": {func(t *testing.T, b *bench) {
			if err := b.store.StopTurn(t.Context(), b.key); err != nil {
				t.Errorf("StopTurn() = %v", err)
			}
		}, 0, 3 * time.Second,
			`assistant interrupted: | tool-risky(a)!The turn ended before the user decided whether this tool may run.`,
			"no interrupted", thread.ApprovalInterrupted},
		"shut down": {func(_ *testing.T, b *bench) { b.stop() }, 0, time.Second,
			`assistant interrupted: | tool-risky(a)!The turn ended before the user decided whether this tool may run.`,
			"no interrupted", thread.ApprovalInterrupted},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, store *persistence.Store) {
				risky, ran := counted("risky")
				b := start(t, store, asks(t, deltas(calls("a", "risky", "{}"), says("Done.")), risky))
				turn := b.turn(chat.TurnRequest{Text: "Go"})
				q := b.question(turn)
				a := b.openApproval()
				begun := time.Now()
				if c.stop != nil {
					c.stop(t, b)
				}
				r, err := turn.Wait(t.Context())
				if took := time.Since(begun); err != nil || took < c.least || took > c.most || ran.Load() != 0 {
					t.Errorf("Wait() = %+v, %v after %v, ran %d times", r, err, took, ran.Load())
				}
				checkText(t, "the thread", outline(b.messages()), "user completed: \"Go\"\n"+c.thread)
				testkit.Equal(t, kept(t, b.messages()[1], "a"), c.kept, "kept")
				if a := b.approval(a.ID); a.Outcome != c.want || a.AnsweredBy != "" || a.AnsweredAt == nil {
					t.Errorf("row %+v", a)
				}
				late := chat.Decision{ToolCallID: "a", Nonce: q.Nonce, Approved: true}
				if err := b.c.Decide(t.Context(), b.key, late); !errors.Is(err, chat.ErrNotAsked) {
					t.Errorf("Decide() after the end = %v", err)
				}
				b.noneOpen()
				b.stop()
				synctest.Wait()
			})
		})
	}
}

// TestNotAsked has calls about which nobody is asked, or asked in vain.
func TestNotAsked(t *testing.T) {
	engines(t, func(t *testing.T, open func(*testing.T) *persistence.Store) {
		t.Run("a caller's tool", func(t *testing.T) {
			b := start(t, open(t), asks(t, deltas(calls("a", "risky", "{}")), echo))
			mine := &chat.ClientTools{Tools: []toolkit.Definition{{Name: "risky", Parameters: json.RawMessage(`{"type":"object"}`)}}}
			if r := b.wait(b.turn(chat.TurnRequest{Text: "Go", Client: mine})); r.Finish != chat.FinishToolCalls || len(r.ToolCalls) != 1 {
				t.Errorf("Wait() = %+v", r)
			}
			b.noneOpen()
		})
		t.Run("an unknown tool", func(t *testing.T) {
			b := start(t, open(t), asks(t, deltas(calls("a", "none", "{}"), says("Done.")), echo))
			if r := b.say("Go"); r.Text != "Done." {
				t.Errorf("Wait() = %+v", r)
			}
			b.noneOpen()
		})
		t.Run("a round too many", func(t *testing.T) {
			risky, ran := counted("risky")
			cfg := asks(t, deltas(calls("a", "echo", "{}"), calls("b", "risky", "{}")), risky, echo)
			cfg.MaxToolRounds = 1
			b := start(t, open(t), cfg)
			if r := b.say("Go"); r.Finish != chat.FinishToolRounds || ran.Load() != 0 {
				t.Errorf("Wait() = %+v", r)
			}
			b.noneOpen()
		})
		t.Run("an answer that breaks off", func(t *testing.T) {
			risky, ran := counted("risky")
			shown := make(chan struct{})
			provider := &fake{name: "fake", answer: func(ctx context.Context, _ int, _ llm.Request, yield func(llm.Delta, error) bool) {
				if yield(calls("a", "risky", "{}")[0], nil) {
					select {
					case <-shown:
					case <-ctx.Done():
					}
				}
			}}
			b := start(t, open(t), asks(t, provider, risky))
			turn := b.turn(chat.TurnRequest{Text: "Go"})
			b.question(turn)
			close(shown)
			if r := b.wait(turn); r.Err == nil || ran.Load() != 0 || kept(t, r.Message, "a") != "no interrupted" {
				t.Errorf("Wait() = %+v", r)
			}
			b.noneOpen()
		})
	})
}
