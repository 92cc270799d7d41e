package chat_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"voicebridge/chat"
	"voicebridge/internal/testkit"
	"voicebridge/llm"
	"voicebridge/persistence"
	"voicebridge/persistence/persistencetest"
	"voicebridge/thread"
	"voicebridge/toolkit"
)

// asker is the registry of a voice call with the agent in it.
func (b *bench) asker() *toolkit.Router {
	b.t.Helper()
	r := toolkit.NewRegistry()
	must(b.t, r.Add(toolkit.Entry{Tool: b.c.AskAgent(), Executor: toolkit.ExecutorApp}))
	return toolkit.NewRouter(r, toolkit.RouterConfig{})
}

func (b *bench) askCall(id, question string) toolkit.Call {
	arguments, _ := json.Marshal(map[string]string{"question": question})
	return toolkit.Call{ID: id, Name: chat.AskAgentName, Arguments: string(arguments), Owner: b.key.Owner, ThreadID: b.key.Thread, CallID: "call-1"}
}

// ask runs one call to its end.
func (b *bench) ask(ctx context.Context, call toolkit.Call) (toolkit.Result, []toolkit.Chunk) {
	b.t.Helper()
	var progress []toolkit.Chunk
	result := b.asker().Call(ctx, call, func(c toolkit.Chunk) { progress = append(progress, c) })
	return result, progress
}

// spoken saves what a voice call would have said before the model asks the agent.
func (b *bench) spoken(callID string) thread.Message {
	b.t.Helper()
	part := thread.ToolPart(chat.AskAgentName)
	part.ToolCallID, part.State, part.Input = callID, thread.ToolInputAvailable, json.RawMessage(`{"question":"How many?"}`)
	var asking thread.Message
	for _, m := range []thread.Message{
		{Role: thread.RoleUser, Parts: []thread.Part{thread.TextPart("Count them.")}},
		{Role: thread.RoleAssistant, Parts: []thread.Part{thread.StepStart(), thread.TextPart("One moment."), part}},
	} {
		m.Metadata.Source, m.Metadata.CallID = thread.SourceVoice, "call-1"
		var err error
		if asking, err = persistencetest.AppendMessage(b.t.Context(), b.store, b.key, m); err != nil {
			b.t.Fatalf("AppendMessage() = %v", err)
		}
	}
	return asking
}

func TestAskAgent(t *testing.T) {
	engines(t, func(t *testing.T, open func(*testing.T) *persistence.Store) {
		provider := deltas(append([]llm.Delta{{Text: "Let me see. "}}, calls("x", "echo", `{"n":3}`)...), says("There are ", "three."), says("Sure."))
		b := start(t, open(t), chat.Config{Providers: []llm.Provider{provider}, Tools: tools(t, echo), NoTitles: true})
		asking := b.spoken("fc_1")
		result, progress := b.ask(t.Context(), b.askCall("fc_1", "How many?"))
		var output struct {
			Answer    string
			MessageID string `json:"message_id"`
		}
		if err := json.Unmarshal(result.Output, &output); err != nil || result.Failed() || output.Answer != "There are three." || result.ForModel() != "There are three." {
			t.Fatalf("result %+v, %s, %v", result, result.Output, err)
		}
		checkText(t, "the thread", outline(b.messages()), `
user completed: "Count them."
assistant completed: | "One moment." tool-ask_agent(fc_1)?
assistant completed: | "Let me see. " tool-echo(x)={"n":3} | "There are three."`)
		answer := b.messages()[2]
		if answer.ID != output.MessageID || answer.AskedBy() != "fc_1" || answer.Metadata.Source != thread.SourceText || asking.AskedBy() != "" {
			t.Errorf("the answer is %s, metadata %+v", answer.ID, answer.Metadata)
		}
		var reported []string
		for i, c := range progress {
			if (c.MessageID == answer.ID) != (i == 0) {
				t.Errorf("progress %d names the message %q", i, c.MessageID)
			}
			// How often a growing text is sent depends on timing.
			if i < 2 || c.Message != "The agent is writing." {
				reported = append(reported, c.Message+string(c.Data))
			}
		}
		checkText(t, "the progress", strings.Join(reported, "\n"), `The agent is thinking.
The agent is writing.{"text":"Let me see. "}
The agent is using echo.{"tool":"echo","state":"running"}
echo: half way{"tool":"echo","state":"running"}
echo is done.{"tool":"echo","state":"done"}`)
		first := provider.seen()[0]
		checkText(t, "the first request", talk(first.Messages), "user: Count them.\nassistant: One moment.\nuser: How many?")
		if len(first.Tools) != 1 || first.Tools[0].Name != "echo" || !strings.Contains(first.System, "by voice") || !strings.HasPrefix(first.Messages[2].Content, "[CONTEXT: ") {
			t.Errorf("the first request is %+v", first)
		}

		// The call has its result, and the answer was spoken: later turns read each once.
		part := &asking.Parts[2]
		part.State, part.Output = thread.ToolOutputAvailable, result.Output
		if _, err := persistencetest.UpdateMessage(t.Context(), b.store, b.key, asking); err != nil {
			t.Fatalf("UpdateMessage() = %v", err)
		}
		spoken := thread.Message{Role: thread.RoleAssistant, Parts: []thread.Part{thread.TextPart("Three of them.")}}
		if _, err := persistencetest.AppendMessage(t.Context(), b.store, b.key, spoken); err != nil {
			t.Fatalf("AppendMessage() = %v", err)
		}
		b.say("Thanks")
		got := talk(provider.seen()[2].Messages)
		want := `user: Count them.
assistant: One moment. fc_1=ask_agent({"question":"How many?"})
tool: {"answer":"There are three.","message_id":"` + answer.ID + `"} <- fc_1 ask_agent
assistant:  x=echo({"n":3})
tool: {"n":3} <- x echo
assistant: Three of them.
user: Thanks`
		checkText(t, "a later request", got, want)
	})
}

// TestAskAgentFails has questions that get no answer: the model learns what it can do
// about it, and the thread shows what there was.
func TestAskAgentFails(t *testing.T) {
	engines(t, func(t *testing.T, open func(*testing.T) *persistence.Store) {
		quota := &llm.Error{Kind: llm.KindQuota, Provider: "fake", Message: "There is no money left."}
		for name, c := range map[string]struct {
			answer func(yield func(llm.Delta, error) bool)
			change func(*toolkit.Call)
			want   string
			thread string
		}{
			"the provider": {func(yield func(llm.Delta, error) bool) { yield(llm.Delta{}, quota) }, nil,
				"the agent failed: There is no money left.", `assistant failed: | "There is no money left."`},
			"the provider, later": {func(yield func(llm.Delta, error) bool) {
				_ = yield(llm.Delta{Text: "Half an"}, nil) && yield(llm.Delta{}, quota)
			}, nil, "the agent failed: There is no money left.", `assistant failed: | "Half an"`},
			"no question":  {nil, func(c *toolkit.Call) { c.Arguments = `{}` }, "question", ""},
			"a blank one":  {nil, func(c *toolkit.Call) { c.Arguments = `{"question":" \n"}` }, "the question is empty", ""},
			"a long one":   {nil, func(c *toolkit.Call) { c.Arguments = `{"question":"` + strings.Repeat("x", 8001) + `"}` }, "question", ""},
			"not JSON":     {nil, func(c *toolkit.Call) { c.Arguments = `{"question":` }, "not valid JSON", ""},
			"extra fields": {nil, func(c *toolkit.Call) { c.Arguments = `{"question":"x","owner":"bert"}` }, "owner", ""},
			"a stranger":   {nil, func(c *toolkit.Call) { c.Owner = "bert" }, "the agent cannot be reached now", ""},
			"no thread":    {nil, func(c *toolkit.Call) { c.ThreadID = "" }, "the agent cannot be reached now", ""},
			"no id":        {nil, func(c *toolkit.Call) { c.ID = "" }, "the agent cannot be reached now", ""},
		} {
			t.Run(name, func(t *testing.T) {
				provider := &fake{name: "fake", answer: func(_ context.Context, _ int, _ llm.Request, yield func(llm.Delta, error) bool) { c.answer(yield) }}
				b := start(t, open(t), asking(provider))
				call := b.askCall("fc_1", "How many?")
				if c.change != nil {
					c.change(&call)
				}
				if result, _ := b.ask(t.Context(), call); !result.Failed() || !strings.Contains(result.Error, c.want) || result.Output != nil {
					t.Errorf("result %+v, want %q", result, c.want)
				}
				checkText(t, "the thread", outline(b.messages()), c.thread)
			})
		}
	})
}

// TestAskAgentTwice asks again while the agent is answering: one of the two works.
func TestAskAgentTwice(t *testing.T) {
	engines(t, func(t *testing.T, open func(*testing.T) *persistence.Store) {
		release, began := make(chan struct{}), make(chan struct{})
		provider := &fake{name: "fake", answer: func(ctx context.Context, _ int, _ llm.Request, yield func(llm.Delta, error) bool) {
			close(began)
			select {
			case <-release:
			case <-ctx.Done():
			}
			yield(llm.Delta{Text: "ok", Stop: llm.StopEnd}, nil)
		}}
		b := start(t, open(t), asking(provider))
		first := make(chan toolkit.Result, 1)
		go func() { first <- b.asker().Call(t.Context(), b.askCall("fc_1", "One?"), nil) }()
		testkit.Take(t, "the beginning", began)
		if result, _ := b.ask(t.Context(), b.askCall("fc_2", "Two?")); !strings.Contains(result.Error, "the agent is busy") {
			t.Errorf("the second result is %+v", result)
		}
		if _, err := b.c.Turn(t.Context(), chat.TurnRequest{Key: b.key, Text: "me too"}); !errors.Is(err, chat.ErrBusy) {
			t.Errorf("Turn() meanwhile = %v", err)
		}
		close(release)
		if result := testkit.Take(t, "the first", first); result.ForModel() != "ok" {
			t.Errorf("the first result is %+v", result)
		}
		checkText(t, "the thread", outline(b.messages()), `assistant completed: | "ok"`)
	})
}

// TestAskAgentEnds stops the agent from several sides. What it has said is kept.
func TestAskAgentEnds(t *testing.T) {
	for name, c := range map[string]struct {
		stop func(*testing.T, *bench, context.CancelFunc)
		want string
		took time.Duration
	}{
		"cancelled":   {func(_ *testing.T, _ *bench, cancel context.CancelFunc) { cancel() }, "the tool call was cancelled", 0},
		"interrupted": {func(t *testing.T, b *bench, _ context.CancelFunc) { b.interrupt(t) }, "the agent was stopped before it had finished; so far it said: So far", 0},
		"shut down":   {func(_ *testing.T, b *bench, _ context.CancelFunc) { b.stop() }, "the agent was stopped before it had finished; so far it said: So far", 0},
		"too late":    {nil, "the tool timed out after 2m0s", 2 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, store *persistence.Store) {
				provider := &fake{name: "fake", answer: func(ctx context.Context, _ int, _ llm.Request, yield func(llm.Delta, error) bool) {
					for yield(llm.Delta{Text: "So far. "}, nil) && sleep(ctx, 20*time.Second) == nil {
					}
				}}
				b := start(t, store, asking(provider))
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				answered := make(chan struct{}, 100)
				ended := make(chan toolkit.Result, 1)
				begun := time.Now()
				go func() {
					ended <- b.asker().Call(ctx, b.askCall("fc_1", "How many?"), func(c toolkit.Chunk) {
						if strings.Contains(string(c.Data), "So far") {
							answered <- struct{}{}
						}
					})
				}()
				<-answered
				if c.stop != nil {
					c.stop(t, b, cancel)
				}
				result := <-ended
				if took := time.Since(begun); !strings.Contains(result.Error, c.want) || took < c.took || took > c.took+time.Second {
					t.Errorf("result %+v after %v, want %q", result, took, c.want)
				}
				b.stop()
				m := b.messages()
				if len(m) != 1 || m[0].Metadata.Status != thread.StatusInterrupted || !strings.HasPrefix(m[0].Text(), "So far. ") || m[0].AskedBy() != "fc_1" {
					t.Errorf("the thread is %s", outline(m))
				}
			})
		})
	}
}

// TestAskAgentGoesOn ends the voice call that has asked: the agent goes on, and its answer is in the thread.
func TestAskAgentGoesOn(t *testing.T) {
	bubble(t, func(t *testing.T, store *persistence.Store) {
		provider := &fake{name: "fake", answer: func(ctx context.Context, _ int, _ llm.Request, yield func(llm.Delta, error) bool) {
			if yield(llm.Delta{Text: "It was "}, nil) && sleep(ctx, 25*time.Second) == nil {
				_ = yield(llm.Delta{Text: "forty two."}, nil) && yield(llm.Delta{Stop: llm.StopEnd}, nil)
			}
		}}
		b := start(t, store, asking(provider))
		ctx, hangUp := context.WithCancelCause(t.Context())
		time.AfterFunc(10*time.Second, func() { hangUp(toolkit.ErrCallEnded) })
		if result, _ := b.ask(ctx, b.askCall("fc_1", "How many?")); !result.Failed() {
			t.Errorf("result %+v", result)
		}
		time.Sleep(time.Minute)
		m := b.messages()
		if len(m) != 1 || m[0].Metadata.Status != thread.StatusCompleted || m[0].Text() != "It was forty two." || m[0].AskedBy() != "fc_1" {
			t.Errorf("the thread is %s", outline(m))
		}
	})
}

func (b *bench) interrupt(t *testing.T) {
	t.Helper()
	if err := b.c.Interrupt(t.Context(), b.key); err != nil {
		t.Errorf("Interrupt() = %v", err)
	}
}

// TestAskAgentLongAnswer cuts what is to be spoken, not what is saved.
func TestAskAgentLongAnswer(t *testing.T) {
	t.Parallel()
	store := persistencetest.SQLite(t)
	long := strings.Repeat("é😀", 5000)
	b := start(t, store, asking(deltas(says(long))))
	result, _ := b.ask(t.Context(), b.askCall("fc_1", "Everything?"))
	spoken := result.ForModel()
	if len(spoken) > 4000 || !utf8.ValidString(spoken) || !strings.HasSuffix(spoken, "on the screen.]") || !strings.Contains(string(result.Output), long) {
		t.Errorf("%d bytes are spoken, %d kept: %.60q…", len(spoken), len(result.Output), spoken)
	}
	if got := b.messages()[0].Text(); got != long {
		t.Errorf("the message has %d bytes", len(got))
	}
}

// TestAskAgentAsks has the agent use a tool that the user must approve.
func TestAskAgentAsks(t *testing.T) {
	t.Parallel()
	store := persistencetest.SQLite(t)
	risky, ran := counted("risky")
	b := start(t, store, asks(t, deltas(calls("a", "risky", "{}"), says("Done.")), risky))
	result := b.asker().Call(t.Context(), b.askCall("fc_1", "Do it?"), func(c toolkit.Chunk) {
		if !strings.Contains(string(c.Data), `"approval"`) {
			return
		}
		a := b.openApproval()
		if err := b.c.Decide(t.Context(), b.key, chat.Decision{ToolCallID: a.ToolCallID, Nonce: a.Nonce, Approved: true, By: "anna"}); err != nil {
			t.Errorf("Decide() = %v", err)
		}
	})
	if result.ForModel() != "Done." || ran.Load() != 1 {
		t.Errorf("result %+v, ran %d times", result, ran.Load())
	}
}

// TestQuestions refuses inconsistent questions.
func TestQuestions(t *testing.T) {
	t.Parallel()
	store := persistencetest.SQLite(t)
	b := start(t, store, asking(deltas(says("ok"))))
	for name, req := range map[string]chat.TurnRequest{
		"asked by nobody": {Question: "x"},
		"no question":     {AskedBy: "fc"},
		"a text as well":  {Question: "x", AskedBy: "fc", Text: "y"},
		"a saved message": {Question: "x", AskedBy: "fc", Saved: true, MessageID: "m"},
		"too long":        {Question: strings.Repeat("x", chat.MaxText+1), AskedBy: "fc"},
	} {
		req.Key = b.key
		if _, err := b.c.Turn(t.Context(), req); err == nil {
			t.Errorf("Turn() with %s = nil", name)
		}
	}
}

// TestAskAgentLent has the agent use a tool of whoever asks: they are told of the call, whole, before it runs, and of its end.
func TestAskAgentLent(t *testing.T) {
	t.Parallel()
	store := persistencetest.SQLite(t)
	theirs, ran := counted("theirs")
	own, _ := counted("own")
	taken, not := counted("own")
	arguments := `{"key":"sk-proj-` + strings.Repeat("a", 40) + `"}`
	b := start(t, store, asks(t, deltas(calls("a", "theirs", arguments), calls("b", "own", "{}"), says("Done.")), own))
	call := b.askCall("fc_1", "Do it?")
	call.Lent = []toolkit.Tool{theirs, taken}
	var told []string
	result := b.asker().Call(t.Context(), call, func(c toolkit.Chunk) {
		if in := c.Inner; in != nil {
			told = append(told, fmt.Sprint(in.Call.Name, " ", in.Executor, " ", in.Call.Arguments, " ended=", in.Result != nil, " ran=", ran.Load()))
		}
	})
	want := []string{
		"theirs client " + arguments + " ended=false ran=0", "theirs client  ended=true ran=1",
		"own app {} ended=false ran=1", "own app  ended=true ran=1",
	}
	if result.ForModel() != "Done." || !slices.Equal(told, want) || not.Load() != 0 {
		t.Errorf("result %+v, told %q, want %q", result, told, want)
	}
}
