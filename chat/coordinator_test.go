package chat_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	"voicebridge/persistence/queued"
	"voicebridge/persistence/records"
	"voicebridge/thread"
	"voicebridge/toolkit"
)

// engines runs a test on both databases.
func engines(t *testing.T, test func(t *testing.T, open func(*testing.T) *persistence.Store)) {
	t.Helper()
	t.Parallel()
	persistencetest.Engines(t, test)
}

func TestTurn(t *testing.T) {
	engines(t, func(t *testing.T, open func(*testing.T) *persistence.Store) {
		provider := deltas(says("Hello", " Anna"), says("again"))
		b := start(t, open(t), chat.Config{
			Providers: []llm.Provider{provider}, Models: map[string]string{"fake": "m1"}, Settings: chat.Settings{Instructions: "Be kind.", MaxTokens: 100},
			Cost: func(string, string, llm.Usage) *float64 { return new(0.5) },
		})
		turn := b.turn(chat.TurnRequest{Text: "Hi"})
		if turn.User().Text() != "Hi" {
			t.Errorf("User() = %+v", turn.User())
		}
		r := b.wait(turn)
		if r.Text != "Hello Anna" || r.Status != thread.StatusCompleted || r.Finish != chat.FinishStop || r.Usage.InputTokens != 10 || r.Err != nil {
			t.Errorf("Wait() = %+v", r)
		}
		b.say("And?")
		checkText(t, "the thread", outline(b.messages()), `
user completed: "Hi"
assistant completed: | "Hello Anna"
user completed: "And?"
assistant completed: | "again"`)
		requests := provider.seen()
		checkText(t, "the second request", talk(requests[1].Messages), "user: Hi\nassistant: Hello Anna\nuser: And?")
		for _, q := range requests {
			if q.System != "Be kind." || q.Model != "m1" || q.MaxTokens != 100 {
				t.Errorf("request %+v", q)
			}
		}
		if c := requests[1].Messages[2].Content; !strings.HasPrefix(c, "[CONTEXT: date and time: ") || requests[1].Messages[0].Content != requests[0].Messages[0].Content {
			t.Errorf("the context is not before each text as it was: %q", c)
		}
		m := b.messages()[1]
		if m.Metadata.Model != "m1" || m.Metadata.LatencyMS["first_token"] < 1 || m.Metadata.LatencyMS["total"] < m.Metadata.LatencyMS["first_token"] || string(m.Metadata.Extra["provider"]) != `"fake"` {
			t.Errorf("metadata %+v", m.Metadata)
		}
		var usage map[string]int
		if err := json.Unmarshal(m.Metadata.Usage, &usage); err != nil || usage["total_tokens"] != 12 || usage["cached_tokens"] != 4 {
			t.Errorf("usage %s", m.Metadata.Usage)
		}
	})
}

// TestReplaceTheAnswerOfTheDead: an answer whose process died is replaced by the next one although it was in progress
// until then.
func TestReplaceTheAnswerOfTheDead(t *testing.T) {
	t.Parallel()
	provider := deltas(says("Again."))
	b := start(t, persistencetest.SQLite(t), asking(provider))
	half := thread.Metadata{Source: thread.SourceText, Status: thread.StatusInProgress}
	b.write(
		thread.Message{ID: "m1", Role: thread.RoleUser, Parts: []thread.Part{thread.TextPart("Go")}},
		thread.Message{ID: "m2", Role: thread.RoleAssistant, Parts: []thread.Part{thread.TextPart("I was")}, Metadata: half},
	)
	b.wait(b.turn(chat.TurnRequest{Saved: true, MessageID: "m1"}))
	if m := b.messages()[1]; !m.IsDiscarded() || m.Metadata.Status != thread.StatusInterrupted {
		t.Errorf("the first answer is %+v", m)
	}
}

// TestCallIDsOfEarlierTurns: a model that counts its calls from 0 in each answer does not see two with the same id.
func TestCallIDsOfEarlierTurns(t *testing.T) {
	t.Parallel()
	provider := deltas(calls("call_0", "echo", `{"n":1}`), says("One."), calls("call_0", "echo", `{"n":2}`), says("Two."))
	b := start(t, persistencetest.SQLite(t), chat.Config{Providers: []llm.Provider{provider}, Tools: tools(t, echo), NoTitles: true})
	b.say("First")
	b.say("Second")
	ids := map[string]int{}
	for _, m := range provider.seen()[3].Messages {
		for _, c := range m.ToolCalls {
			ids[c.ID]++
		}
	}
	if len(ids) != 2 || ids["call_0"] != 1 {
		t.Errorf("the model sees the calls %v", ids)
	}
}

func TestToolRounds(t *testing.T) {
	engines(t, func(t *testing.T, open func(*testing.T) *persistence.Store) {
		provider := deltas(
			append([]llm.Delta{{Text: "Let me see. "}}, calls("a", "echo", `{"n":1}`, "b", "fails", `{}`, "c", "nothing", `{}`)...),
			calls("a", "echo", `broken`),
			says("Done."), says("Next."))
		fails := tool{"fails", func(_ context.Context, _ toolkit.Call, yield func(toolkit.Chunk, error) bool) {
			yield(toolkit.Chunk{}, errors.New("out of order"))
		}}
		b := start(t, open(t), chat.Config{Providers: []llm.Provider{provider}, Tools: tools(t, echo, fails), Settings: chat.Settings{MaxTokens: 2000}})
		turn := b.turn(chat.TurnRequest{Text: "Go"})
		r := b.wait(turn)
		if r.Text != "Let me see. \nDone." || r.Status != thread.StatusCompleted || r.Usage.InputTokens != 20 {
			t.Errorf("Wait() = %+v", r)
		}
		requests := provider.seen()
		testkit.Equal(t, requests[0].MaxTokens, 4096, "max tokens with tools")
		second := b.messages()[1].Parts
		id := second[len(second)-3].ToolCallID // the second a has another id
		if id == "a" || id == "" {
			t.Errorf("two calls have the id %q", id)
		}
		unknown := `there is no tool named "nothing"; the tools are: echo, fails`
		checkText(t, "the thread", outline(b.messages()), `
user completed: "Go"
assistant completed: | "Let me see. " tool-echo(a)={"n":1} tool-fails(b)!out of order dynamic-tool(c)!`+unknown+
			` | tool-echo(`+id+`)!`+second[len(second)-3].ErrorText+` | "Done."`)
		first := `user: Go
assistant: Let me see.  a=echo({"n":1}) b=fails({}) c=nothing({})
tool: {"n":1} <- a echo
tool: Error: out of order <- b fails failed
tool: Error: ` + unknown + ` <- c nothing failed`
		checkText(t, "the second request", talk(requests[1].Messages), first)
		b.say("More")
		// What the model saw in the turn is what it sees later.
		rest := talk(provider.seen()[3].Messages)
		if !strings.HasPrefix(rest, first) || !strings.HasPrefix(rest, talk(requests[2].Messages)) {
			t.Errorf("the next turn begins with\n%s\nwant\n%s", rest, talk(requests[2].Messages))
		}
		var kinds []string
		for i, e := range b.follow(turn, 0) {
			if e.Index != i || e.MessageID != r.MessageID {
				t.Errorf("event %d has index %d, message %q", i, e.Index, e.MessageID)
			}
			if e.Type != chat.EventToolProgress {
				kinds = append(kinds, string(e.Type))
			}
		}
		checkText(t, "the stream", strings.Join(kinds, " "), "start step-start text-start text-delta text-end tool-input tool-input tool-input "+
			"tool-output tool-output tool-output step-finish step-start tool-input tool-output step-finish step-start text-start text-delta text-end step-finish finish")
	})
}

// TestRoundLimit has a model ask for tools endlessly.
func TestRoundLimit(t *testing.T) {
	engines(t, func(t *testing.T, open func(*testing.T) *persistence.Store) {
		provider := deltas(calls("", "echo", `{}`))
		b := start(t, open(t), chat.Config{Providers: []llm.Provider{provider}, Tools: tools(t, echo)})
		r := b.say("Go")
		if n := len(provider.seen()); n != 9 || r.Finish != chat.FinishToolRounds || !strings.Contains(r.Text, "8 rounds") {
			t.Errorf("%d requests, %+v", n, r)
		}
		m := b.messages()[1]
		testkit.Equal(t, strings.Count(outline([]thread.Message{m}), "={}"), 8, "calls ran: %s", outline([]thread.Message{m}))
		if strings.Contains(outline([]thread.Message{m}), "?") {
			t.Error("a call is left open")
		}
	})
}

func TestFailures(t *testing.T) {
	engines(t, func(t *testing.T, open func(*testing.T) *persistence.Store) {
		quota := &llm.Error{Kind: llm.KindQuota, Provider: "fake", Message: "There is no money left."}
		for _, c := range []struct {
			name   string
			answer func(yield func(llm.Delta, error) bool)
			want   string
			kind   llm.ErrorKind
		}{
			{"at once", func(yield func(llm.Delta, error) bool) { yield(llm.Delta{}, quota) }, `| "There is no money left."`, llm.KindQuota},
			{"in the middle", func(yield func(llm.Delta, error) bool) {
				_ = yield(llm.Delta{Text: "Half an"}, nil) && yield(llm.Delta{}, quota)
			}, `| "Half an"`, llm.KindQuota},
			{"never finished", func(yield func(llm.Delta, error) bool) { yield(llm.Delta{Text: "Half an"}, nil) }, `| "Half an"`, llm.KindUnavailable},
			{"after a call", func(yield func(llm.Delta, error) bool) {
				_ = yield(llm.Delta{ToolCall: &llm.ToolCall{ID: "x", Name: "echo"}}, nil) && yield(llm.Delta{}, quota)
			}, `| tool-echo(x)!the answer broke off before this call could run "There is no money left."`, llm.KindQuota},
			{"by panic", func(func(llm.Delta, error) bool) { panic("oh") }, `| "The server made a mistake with this request."`, llm.KindBadRequest},
		} {
			t.Run(c.name, func(t *testing.T) {
				provider := &fake{name: "fake", answer: func(_ context.Context, _ int, _ llm.Request, yield func(llm.Delta, error) bool) { c.answer(yield) }}
				b := start(t, open(t), chat.Config{Providers: []llm.Provider{provider}, Tools: tools(t, echo)})
				turn := b.turn(chat.TurnRequest{Text: "Go"})
				r := b.wait(turn)
				for _, e := range b.follow(turn, 0) {
					if own := e.Delta == r.Err.Message; e.Type == chat.EventTextDelta && e.Notice != own {
						t.Errorf("event %+v", e)
					}
				}
				if r.Err == nil || r.Err.Kind != c.kind || r.Status != thread.StatusFailed || r.Finish != chat.FinishError {
					t.Errorf("Wait() = %+v, error %v", r, r.Err)
				}
				checkText(t, "the thread", outline(b.messages()), "user completed: \"Go\"\nassistant failed: "+c.want)
				testkit.Equal(t, len(provider.seen()), 1, "requests")
			})
		}
	})
}

// TestNotices checks what the model is told about words that were not its own.
func TestNotices(t *testing.T) {
	engines(t, func(t *testing.T, open func(*testing.T) *persistence.Store) {
		provider := &fake{name: "fake"}
		provider.answer = func(_ context.Context, n int, _ llm.Request, yield func(llm.Delta, error) bool) {
			switch n {
			case 0:
				yield(llm.Delta{}, &llm.Error{Kind: llm.KindAuth, Message: "The key is wrong."})
			case 1:
				yield(llm.Delta{Stop: llm.StopFilter}, nil)
			case 2, 3: // and it is asked again
				yield(llm.Delta{Stop: llm.StopEnd}, nil)
			default:
				yield(llm.Delta{Text: "yes", Stop: llm.StopLength}, nil)
			}
		}
		b := start(t, open(t), chat.Config{Providers: []llm.Provider{provider}})
		for i, want := range []chat.FinishReason{chat.FinishError, chat.FinishFilter, chat.FinishStop, chat.FinishLength} {
			if r := b.say(fmt.Sprint(i)); r.Finish != want || r.Text == "" {
				t.Errorf("turn %d: %+v, want %s with a text", i, r, want)
			}
		}
		seen := provider.seen()
		if len(seen) != 5 {
			t.Fatalf("%d requests, want 5", len(seen))
		}
		checkText(t, "the last request", talk(seen[4].Messages), "user: 0\nuser: 1\nuser: 2\nuser: 3")
	})
}

// TestBusy has many turns compete for one thread: one gets it, and the next may follow.
func TestBusy(t *testing.T) {
	engines(t, func(t *testing.T, open func(*testing.T) *persistence.Store) {
		release := make(chan struct{})
		var running, most atomic.Int32
		provider := &fake{name: "fake", answer: func(ctx context.Context, _ int, _ llm.Request, yield func(llm.Delta, error) bool) {
			most.Store(max(most.Load(), running.Add(1)))
			defer running.Add(-1)
			select {
			case <-release:
			case <-ctx.Done():
			}
			yield(llm.Delta{Text: "ok", Stop: llm.StopEnd}, nil)
		}}
		b := start(t, open(t), asking(provider))
		var won atomic.Pointer[chat.Turn]
		var sides sync.WaitGroup
		for range 10 {
			sides.Go(func() {
				turn, err := b.c.Turn(t.Context(), chat.TurnRequest{Key: b.key, Text: "me"})
				if err == nil && !won.CompareAndSwap(nil, turn) {
					t.Error("two turns run")
				}
				if err != nil && !errors.Is(err, chat.ErrBusy) {
					t.Errorf("Turn() = %v", err)
				}
			})
		}
		sides.Wait()
		if busy, err := b.c.Busy(t.Context(), b.key); !busy || err != nil || b.c.Count() != 1 || b.c.Running(b.key) != won.Load() {
			t.Errorf("Busy() = %v, %v", busy, err)
		}
		close(release)
		b.wait(won.Load())
		if busy, err := b.c.Busy(t.Context(), b.key); busy || err != nil {
			t.Errorf("Busy() after the end = %v, %v", busy, err)
		}
		b.say("next")
		if len(b.messages()) != 4 || most.Load() != 1 {
			t.Errorf("%d turns at once:\n%s", most.Load(), outline(b.messages()))
		}
	})
}

// TestTwoInstances shares a PostgreSQL database between two coordinators.
func TestTwoInstances(t *testing.T) {
	t.Parallel()
	url := persistencetest.PostgresURL(t)
	began := make(chan struct{}, 1)
	provider := &fake{name: "fake", answer: func(ctx context.Context, _ int, _ llm.Request, yield func(llm.Delta, error) bool) {
		if yield(llm.Delta{Text: "said"}, nil) {
			began <- struct{}{}
			<-ctx.Done()
		}
	}}
	one := start(t, persistencetest.Open(t, url, persistence.Options{}), asking(provider))
	two := start(t, persistencetest.Open(t, url, persistence.Options{}), asking(provider))
	turn := one.turn(chat.TurnRequest{Text: "Go"})
	testkit.Take(t, "the beginning", began)
	if _, err := two.c.Turn(t.Context(), chat.TurnRequest{Key: one.key, Text: "me too"}); !errors.Is(err, chat.ErrBusy) {
		t.Errorf("Turn() of the other instance = %v, want ErrBusy", err)
	}
	if busy, err := two.c.Busy(t.Context(), one.key); !busy || err != nil {
		t.Errorf("Busy() of the other instance = %v, %v", busy, err)
	}
	must(t, two.c.Interrupt(t.Context(), one.key))
	if r := one.wait(turn); r.Finish != chat.FinishInterrupted || r.Text != "said" {
		t.Errorf("Wait() = %+v", r)
	}
	if err := two.c.Interrupt(t.Context(), one.key); !errors.Is(err, chat.ErrIdle) {
		t.Errorf("Interrupt() of nothing = %v", err)
	}
	checkText(t, "the thread", outline(one.messages()), "user completed: \"Go\"\nassistant interrupted: | \"said\"")
}

// TestInterrupt stops turns at several points.
func TestInterrupt(t *testing.T) {
	engines(t, func(t *testing.T, open func(*testing.T) *persistence.Store) {
		slow := tool{"slow", func(ctx context.Context, _ toolkit.Call, yield func(toolkit.Chunk, error) bool) {
			<-ctx.Done()
			yield(toolkit.Chunk{}, ctx.Err())
		}}
		for _, c := range []struct {
			name   string
			deltas []llm.Delta
			at     chat.EventType
			want   string
		}{
			{"before the first word", nil, chat.EventStepStart, `| ""`},
			{"in the text", []llm.Delta{{Text: "What was"}}, chat.EventTextDelta, `| "What was"`},
			{"while a tool runs", append([]llm.Delta{{Text: "Wait. "}}, calls("a", "slow", "{}", "b", "echo", "{}")...), chat.EventToolOutput,
				`| "Wait. " tool-slow(a)!the tool call was cancelled: interrupted tool-echo(b)={}`},
		} {
			t.Run(c.name, func(t *testing.T) {
				provider := &fake{name: "fake", answer: func(ctx context.Context, _ int, _ llm.Request, yield func(llm.Delta, error) bool) {
					for _, d := range c.deltas {
						if !yield(d, nil) {
							return
						}
					}
					<-ctx.Done()
					yield(llm.Delta{}, ctx.Err())
				}}
				b := start(t, open(t), chat.Config{Providers: []llm.Provider{provider}, Tools: tools(t, slow, echo), NoTitles: true})
				turn := b.turn(chat.TurnRequest{Text: "Go"})
				b.until(turn, c.at)
				must(t, b.c.Interrupt(t.Context(), b.key))
				r := b.wait(turn)
				if r.Status != thread.StatusInterrupted || r.Finish != chat.FinishInterrupted || r.Err != nil {
					t.Errorf("Wait() = %+v", r)
				}
				checkText(t, "the thread", outline(b.messages()), "user completed: \"Go\"\nassistant interrupted: "+c.want)
				if err := b.c.Interrupt(t.Context(), b.key); !errors.Is(err, chat.ErrIdle) {
					t.Errorf("Interrupt() of nothing = %v, want ErrIdle", err)
				}
			})
		}
	})
}

// TestShutdown ends a coordinator while a turn runs.
func TestShutdown(t *testing.T) {
	engines(t, func(t *testing.T, open func(*testing.T) *persistence.Store) {
		provider := &fake{name: "fake", answer: func(ctx context.Context, _ int, _ llm.Request, yield func(llm.Delta, error) bool) {
			if yield(llm.Delta{Text: "So far"}, nil) {
				<-ctx.Done()
			}
		}}
		b := start(t, open(t), chat.Config{Providers: []llm.Provider{provider}})
		turn := b.turn(chat.TurnRequest{Text: "Go"})
		b.until(turn, chat.EventTextDelta)
		b.stop()
		select {
		case <-turn.Done():
		default:
			t.Error("Run() returned before the turn was over")
		}
		checkText(t, "the thread", outline(b.messages()), "user completed: \"Go\"\nassistant interrupted: | \"So far\"")
		if _, err := b.c.Turn(t.Context(), chat.TurnRequest{Key: b.key, Text: "late"}); !errors.Is(err, chat.ErrClosed) {
			t.Errorf("Turn() after the end = %v, want ErrClosed", err)
		}
	})
}

// TestOpening begins turns with messages that are in the thread, or in its queue, already.
func TestOpening(t *testing.T) {
	engines(t, func(t *testing.T, open func(*testing.T) *persistence.Store) {
		provider := deltas(says("ok"))
		b := start(t, open(t), asking(provider))
		_, err := b.c.Turn(t.Context(), chat.TurnRequest{Key: b.key, Text: "x", Queued: &queued.Claimed{ID: "q", Attempt: 1}})
		if !errors.Is(err, chat.ErrUnclaimed) || len(b.messages()) != 0 {
			t.Errorf("Turn() = %v, and %d messages", err, len(b.messages()))
		}
		b.wait(b.turn(chat.TurnRequest{Text: "x", MessageID: "m1"}))
		testkit.Equal(t, b.messages()[0].ID, "m1", "the message has the id")
		// A taken id does not mean that the thread is busy.
		_, err = b.c.Turn(t.Context(), chat.TurnRequest{Key: b.key, Text: "again", MessageID: "m1"})
		if !errors.Is(err, persistence.ErrConflict) || errors.Is(err, chat.ErrBusy) {
			t.Errorf("Turn() with a taken id = %v", err)
		}
		if _, err := persistencetest.AppendMessage(t.Context(), b.store, b.key, thread.Message{ID: "m2", Role: thread.RoleUser, Parts: []thread.Part{thread.TextPart("saved")}}); err != nil {
			t.Fatalf("AppendMessage() = %v", err)
		}
		b.wait(b.turn(chat.TurnRequest{Saved: true, MessageID: "m2"}))
		checkText(t, "the last request", talk(provider.seen()[1].Messages), "user: x\nassistant: ok\nuser: saved")
		// What was said since stays, and what was answered is removed.
		b.wait(b.turn(chat.TurnRequest{Saved: true, MessageID: "m1"}))
		checkText(t, "the last request", talk(provider.seen()[2].Messages), "user: saved\nassistant: ok\nuser: x")
		must(t, b.store.ResetThread(t.Context(), b.key))
		b.wait(b.turn(chat.TurnRequest{Saved: true, MessageID: "m2"}))
		checkText(t, "the request after a reset", talk(provider.seen()[3].Messages), "user: saved")
	})
}

// TestAnswersNameWhatTheyAnswer answers an older message again, and again.
func TestAnswersNameWhatTheyAnswer(t *testing.T) {
	t.Parallel()
	provider := deltas(says("1"), says("2"), says("1 again"), says("1 once more"))
	b := start(t, persistencetest.SQLite(t), asking(provider))
	first, second := b.turn(chat.TurnRequest{Text: "One", MessageID: "m1"}), ""
	b.wait(first)
	b.say("Two")
	for _, m := range b.messages() {
		if m.Text() == "Two" {
			second = m.ID
		}
	}
	for range 2 {
		asked, err := b.c.Asked(t.Context(), b.key, b.messages()[len(b.messages())-1].ID)
		if asked.Text() == "Two" { // the first time
			asked, err = b.c.Asked(t.Context(), b.key, first.MessageID())
		}
		if err != nil || asked.ID != "m1" {
			t.Fatalf("Asked() = %+v, %v, want m1", asked, err)
		}
		b.wait(b.turn(chat.TurnRequest{Saved: true, MessageID: asked.ID}))
	}
	checkText(t, "the last request", talk(provider.seen()[3].Messages), "user: Two\nassistant: 2\nuser: One")
	for id, want := range map[string]string{"m1": "1 once more", second: "2"} {
		asked, err := b.store.Message(t.Context(), b.key, id)
		must(t, err)
		reply, err := b.c.Answer(t.Context(), b.key, asked)
		if err != nil || reply == nil {
			t.Fatalf("Answer(%s) = %v, %v", asked.Text(), reply, err)
		}
		if result, err := reply.Wait(t.Context()); err != nil || result.Text != want {
			t.Errorf("what answers %s is %q, %v; want %q", asked.Text(), result.Text, err, want)
		}
	}
}

// TestRefusedTurn goes on after a refusal, which the provider would repeat with the same question.
func TestRefusedTurn(t *testing.T) {
	t.Parallel()
	refusal := llm.Error{Kind: llm.KindRefused, Provider: "fake", Message: "The prompt was flagged.", Status: 400}
	for name, refuse := range map[string]func(yield func(llm.Delta, error) bool){
		"answer": func(yield func(llm.Delta, error) bool) { yield(llm.Delta{Text: "I", Stop: llm.StopRefusal}, nil) },
		"error": func(yield func(llm.Delta, error) bool) {
			_ = yield(llm.Delta{Text: "I"}, nil) && yield(llm.Delta{}, &refusal)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testRefusedTurn(t, refuse)
		})
	}
}

func testRefusedTurn(t *testing.T, refuse func(yield func(llm.Delta, error) bool)) {
	t.Helper()
	provider := deltas(nil, says("ok"), says("This time."), says("ok"))
	later := provider.answer
	provider.answer = func(ctx context.Context, n int, req llm.Request, yield func(llm.Delta, error) bool) {
		if n == 0 {
			refuse(yield)
			return
		}
		later(ctx, n, req, yield)
	}
	b := start(t, persistencetest.SQLite(t), asking(provider))
	r := b.wait(b.turn(chat.TurnRequest{Text: "Bad", MessageID: "m1", Instructions: []string{"Be brief."}}))
	if r.Finish != chat.FinishFilter || r.Status != thread.StatusCompleted || !strings.Contains(r.Text, "I\nThe provider's content filter") {
		t.Errorf("the refused turn ended as %+v", r)
	}
	b.say("Good")
	checkText(t, "the next request", talk(provider.seen()[1].Messages), "system: Be brief.\nuser: Good")
	b.wait(b.turn(chat.TurnRequest{Saved: true, MessageID: "m1"}))
	checkText(t, "the request for another answer", talk(provider.seen()[2].Messages), "system: Be brief.\nuser: Good\nassistant: ok\nuser: Bad")
	b.say("And?")
	checkText(t, "the request after it", talk(provider.seen()[3].Messages),
		"system: Be brief.\nuser: Bad\nuser: Good\nassistant: ok\nassistant: This time.\nuser: And?")
}

// TestRefusedQuestion asks another question of a call after one was refused: questions are no messages that could be left out.
func TestRefusedQuestion(t *testing.T) {
	t.Parallel()
	provider := deltas([]llm.Delta{{Stop: llm.StopRefusal}}, says("ok"))
	b := start(t, persistencetest.SQLite(t), asking(provider))
	b.wait(b.turn(chat.TurnRequest{Question: "Bad", AskedBy: "fc_1"}))
	b.wait(b.turn(chat.TurnRequest{Question: "Good", AskedBy: "fc_2"}))
	checkText(t, "the next question", talk(provider.seen()[1].Messages), "user: Good")
}

// TestResetAtTheBeginning resets a thread when a turn has saved its message, and has not read the thread yet.
func TestResetAtTheBeginning(t *testing.T) {
	t.Parallel()
	b := start(t, persistencetest.SQLite(t), chat.Config{Providers: []llm.Provider{deltas()}})
	user, err := persistencetest.AppendMessage(t.Context(), b.store, b.key, thread.Message{Role: thread.RoleUser, Parts: []thread.Part{thread.TextPart("x")}})
	must(t, err)
	for _, when := range []string{"before a reset", "after it"} {
		thread, err := chat.Loaded(t.Context(), b.store, b.key, user)
		if err != nil || len(thread) != 1 || thread[0].ID != user.ID {
			t.Errorf("%s, the turn loads %v, %v", when, thread, err)
		}
		must(t, b.store.ResetThread(t.Context(), b.key))
	}
}

// TestNeverBegan finds a turn while it is being prepared. Then it cannot begin: nobody waits for it
// any longer.
func TestNeverBegan(t *testing.T) {
	t.Parallel()
	store := persistencetest.SQLite(t)
	entered, release := make(chan struct{}), make(chan struct{})
	b := start(t, store, chat.Config{Providers: []llm.Provider{deltas(says("ok"))}, NoTitles: true, Tools: func(context.Context, string, assistant.Assistant) (*toolkit.Registry, error) {
		close(entered)
		<-release
		return nil, errors.New("no tools today")
	}})
	refused := make(chan error, 1)
	go func() {
		_, err := b.c.Turn(t.Context(), chat.TurnRequest{Key: b.key, Text: "Hi"})
		refused <- err
	}()
	testkit.Take(t, "the beginning", entered)
	turn := b.c.Running(b.key)
	close(release)
	if err := testkit.Take(t, "the refusal", refused); err == nil {
		t.Error("Turn() has begun")
	}
	if r := b.wait(turn); r.Finish != "" || r.MessageID != "" {
		t.Errorf("Wait() = %+v", r)
	}
	if events := b.follow(turn, 0); len(events) != 0 {
		t.Errorf("Events() = %+v", events)
	}
	if b.c.Running(b.key) != nil || len(b.messages()) != 0 {
		t.Error("something is left of the turn")
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	store := persistencetest.SQLite(t)
	b := start(t, store, chat.Config{Providers: []llm.Provider{deltas(says("ok"))}, Tools: tools(t, echo)})
	def := func(name string) *chat.ClientTools {
		return &chat.ClientTools{Tools: []toolkit.Definition{{Name: name, Parameters: json.RawMessage(`{"type":"object"}`)}}}
	}
	for name, c := range map[string]struct {
		req  chat.TurnRequest
		want error
	}{
		"nothing":          {chat.TurnRequest{}, chat.ErrEmpty},
		"blanks":           {chat.TurnRequest{Text: " \n\t"}, chat.ErrEmpty},
		"NULs":             {chat.TurnRequest{Text: "\x00 \x00"}, chat.ErrEmpty},
		"an empty order":   {chat.TurnRequest{Text: "x", Instructions: []string{"a", " "}}, chat.ErrEmpty},
		"too long":         {chat.TurnRequest{Text: strings.Repeat("x", chat.MaxText+1)}, chat.ErrTooLarge},
		"too many orders":  {chat.TurnRequest{Instructions: make([]string, 51)}, chat.ErrEmpty},
		"a provider":       {chat.TurnRequest{Text: "x", Provider: "other"}, chat.ErrProvider},
		"a bad tool":       {chat.TurnRequest{Text: "x", Client: def("a b")}, chat.ErrTools},
		"a tool's name":    {chat.TurnRequest{Text: "x", Client: def("echo")}, chat.ErrTools},
		"a stranger's":     {chat.TurnRequest{Text: "x", Key: thread.Key{Owner: "bert", Thread: b.key.Thread}}, persistence.ErrNotFound},
		"nobody's":         {chat.TurnRequest{Text: "x", Key: thread.Key{Owner: "anna", Thread: "\x00"}}, persistence.ErrNotFound},
		"saved and spoken": {chat.TurnRequest{Text: "x", MessageID: "m", Saved: true}, nil},
		"saved somewhere":  {chat.TurnRequest{Saved: true}, nil},
	} {
		if c.req.Key.Owner == "" {
			c.req.Key = b.key
		}
		_, err := b.c.Turn(t.Context(), c.req)
		if err == nil || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("Turn() with %s = %v, want %v", name, err, c.want)
		}
	}
	if b.c.Count() != 0 || len(b.messages()) != 0 {
		t.Errorf("%d turns are left, %d messages", b.c.Count(), len(b.messages()))
	}
	// Hostile words are just words.
	if r := b.say("\x00\xff'; DROP TABLE threads; --"); r.Status != thread.StatusCompleted {
		t.Errorf("Wait() = %+v", r)
	}
}

// TestCallBegins begins a call while a turn is prepared: the turn does not begin, since the call would not learn of it. One
// that the call asks for does.
func TestCallBegins(t *testing.T) {
	engines(t, func(t *testing.T, open func(*testing.T) *persistence.Store) {
		store := open(t)
		beginCall := contextFunc(func(ctx context.Context, in chat.ContextInput) (string, error) {
			return "", store.Records.SaveCall(ctx, in.Key, records.Call{ID: "call", StartedAt: time.Now()})
		})
		b := start(t, store, chat.Config{Providers: []llm.Provider{deltas(says("ok"))}, Context: beginCall, NoTitles: true})
		if _, err := b.c.Turn(t.Context(), chat.TurnRequest{Key: b.key, Text: "Go"}); !errors.Is(err, chat.ErrInCall) {
			t.Errorf("Turn() = %v, want ErrInCall", err)
		}
		if all := b.messages(); len(all) != 0 {
			t.Errorf("the thread is\n%s", outline(all))
		}
		if r := b.wait(b.turn(chat.TurnRequest{Question: "Go", AskedBy: "tool-1"})); r.Text != "ok" {
			t.Errorf("the call's turn: %+v", r)
		}
	})
}
