package bridge_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"voicebridge/assistant"
	"voicebridge/bridge"
	"voicebridge/internal/testkit"
	"voicebridge/persistence/records"
	"voicebridge/realtime"
	"voicebridge/realtime/live"
	"voicebridge/realtime/simulator"
	"voicebridge/thread"
	"voicebridge/toolkit"
)

// TestLiveCall talks and types to GPT-Live: for its client it is a call as any other. What it costs is its time.
func TestLiveCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, testLiveCall)
}

func testLiveCall(t *testing.T) {
	t.Helper()
	turns := make(chan bridge.Turn, 100)
	b := newBench(t, sqlite(t), benchConfig{
		live: &live.Client{},
		bridge: bridge.Config{
			TranscriptionCost: func(_, _ string, u realtime.Usage) *float64 { return new(u.Seconds / 60 * 0.05) },
			Observe: func(_ context.Context, key thread.Key, callID string) bridge.Observer {
				return followed{key: key, callID: callID, turns: turns}
			},
		},
	})
	c := b.dial(bridge.Start{})
	if created := string(c.next(realtime.TypeSessionCreated).Raw); strings.Contains(created, "turn_detection") || strings.Contains(created, "speed") {
		t.Errorf("a session with what it has not: %s", created)
	}
	if ready := string(c.next("bridge.ready").Raw); !strings.Contains(ready, `"duplex":true`) {
		t.Errorf("%s does not say that the model listens while it speaks", ready)
	}
	c.speak()
	c.next(realtime.TypeOutputBufferStopped)
	c.say("Show me a chart")
	c.next("bridge.tool.done")
	c.wait("the chart", func(ev realtime.Event) bool {
		return ev.Type == realtime.TypeResponseDone && strings.Contains(string(ev.Raw), "Here is your chart")
	})
	b.hangUp(c)
	want := "user voice completed: Hello, can you hear me?\n" +
		"assistant voice completed: Hello, I am the simulator. It is nice to hear your voice.\n" +
		"user text completed: Show me a chart\n" +
		"assistant voice completed:  [tool-ask_agent output-available]\n" +
		"assistant voice completed: Here is your chart. Sales grew in every quarter of this year.\n"
	testkit.Equal(t, b.script(c.key()), want, "thread")
	s := b.live.Sessions()[0]
	testkit.Eventually(b.t, "end of the session", s.Over)
	for _, r := range s.Received() {
		testkit.Equal(t, r.Refused, "", "refused: of %s", r.Event.Raw)
	}
	var kinds map[records.Kind]int
	testkit.Eventually(b.t, "the session's record", func() bool {
		responses, err := b.store.Records.Responses(b.ctx, c.key())
		must(t, err)
		kinds = map[records.Kind]int{}
		done := false
		for _, r := range responses {
			kinds[r.Kind]++
			done = done || r.Kind == records.KindSession && r.FinishedAt != nil && !r.Estimated && r.CostUSD != nil && *r.CostUSD > 0
		}
		return done
	})
	if kinds[records.KindResponse] != 0 || kinds[records.KindSession] != 1 {
		t.Errorf("%v", kinds)
	}
	sessions := 0
	for len(turns) > 0 {
		turn := testkit.Take(t, "a turn", turns)
		for _, r := range turn.Charges {
			if r.Kind == records.KindSession {
				sessions++
			}
		}
	}
	testkit.Equal(t, sessions, 1, "sessions charged")
}

// TestLiveOrphan has a session end that another process has left.
func TestLiveOrphan(t *testing.T) {
	t.Parallel()
	synctest.Test(t, testLiveOrphan)
}

func testLiveOrphan(t *testing.T) {
	t.Helper()
	client := &live.Client{}
	b := newBench(t, sqlite(t), benchConfig{live: client})
	c := b.dial(bridge.Start{})
	c.next("bridge.ready")
	s := b.live.Sessions()[0]
	other := bridge.NewLiveBy("live", b.offers, &live.Client{URL: client.URL, HTTP: client.HTTP})
	length, err := other.HangUpTimed(b.ctx, s.ID())
	if err != nil || length <= 0 {
		t.Errorf("the session was %v long: %v", length, err)
	}
	testkit.Eventually(b.t, "end of the session", s.Over)
	if length, err := other.HangUpTimed(b.ctx, s.ID()); err != nil || length != 0 {
		t.Errorf("a session that is gone was %v long: %v", length, err)
	}
	if got := c.ended(); got != bridge.EndUpstreamEndedIt { // somebody asked for it: there is no other session
		t.Errorf("ended because of %s", got)
	}
}

// TestLiveDelegates has a delegation answered by a tool that knows the conversation, here a slow one, and typed text as
// well.
func TestLiveDelegates(t *testing.T) {
	t.Parallel()
	synctest.Test(t, testLiveDelegates)
}

func testLiveDelegates(t *testing.T) {
	t.Helper()
	asked := make(chan string, 8)
	script := simulator.DefaultScript()
	script.Spoken = script.Spoken[1:2] // which the voice cannot answer by itself
	b := newBench(t, sqlite(t), benchConfig{
		live: &live.Client{}, simulator: simulator.Config{Script: script},
		bridge: bridge.Config{Tools: func(context.Context, string, assistant.Assistant) (*toolkit.Registry, error) {
			r := toolkit.NewRegistry()
			return r, r.Add(toolkit.Entry{Tool: oracle{asked}, Executor: toolkit.ExecutorApp})
		}},
	})
	c := b.dial(bridge.Start{})
	c.next("bridge.ready")
	c.speak()
	heard := func(words string) {
		t.Helper()
		c.wait(words, func(ev realtime.Event) bool {
			return ev.Type == realtime.TypeResponseDone && strings.Contains(string(ev.Raw), words)
		})
	}
	heard("Forty two")
	if q := testkit.Take(t, "a request", asked); !strings.Contains(q, `"Can you show me the sales of this year as a chart?"`) {
		t.Errorf("asked %s", q)
	}
	c.say("And twice that?")
	heard("Forty two")
	if q := testkit.Take(t, "a request", asked); !strings.Contains(q, `"And twice that?"`) {
		t.Errorf("asked %s", q)
	}
	b.hangUp(c)
	for _, r := range b.live.Sessions()[0].Received() {
		testkit.Equal(t, r.Refused, "", "refused: of %s", r.Event.Raw)
	}
}

// withAgent adds an agent that answers by a script to tools that have none.
func withAgent(
	tools func(context.Context, string, assistant.Assistant) (*toolkit.Registry, error), script *simulator.Script,
) func(context.Context, string, assistant.Assistant) (*toolkit.Registry, error) {
	return func(ctx context.Context, owner string, a assistant.Assistant) (*toolkit.Registry, error) {
		r, err := tools(ctx, owner, a)
		if err != nil {
			return nil, err
		}
		if _, has := r.Lookup(live.AskTool); has {
			return r, nil
		}
		r = r.Clone() // other calls have it, too
		return r, r.Add(toolkit.Entry{Tool: agent{script: script}, Executor: toolkit.ExecutorApp})
	}
}

// agent answers as a script says.
type agent struct {
	oracle

	script *simulator.Script
}

func (a agent) Call(ctx context.Context, call toolkit.Call) iter.Seq2[toolkit.Chunk, error] {
	return func(yield func(toolkit.Chunk, error) bool) {
		var in struct{ Question string }
		err := json.Unmarshal([]byte(call.Arguments), &in)
		reply := a.script.Otherwise
		if i := slices.IndexFunc(a.script.Typed, func(r simulator.Rule) bool { return r.Match.MatchString(in.Question) }); i >= 0 {
			reply = a.script.Typed[i].Reply
		}
		for i, c := range reply.Calls {
			at := slices.IndexFunc(call.Lent, func(tool toolkit.Tool) bool { return tool.Definition().Name == c.Name })
			if at < 0 {
				continue
			}
			in := toolkit.Inner{
				Call:     toolkit.Call{ID: fmt.Sprintf("%s_%d", call.ID, i), Name: c.Name, Arguments: c.Arguments},
				Executor: toolkit.ExecutorClient,
			}
			yield(toolkit.Chunk{Inner: &in}, nil)
			ended := in
			for chunk := range call.Lent[at].Call(ctx, in.Call) {
				ended.Result = cmp.Or(chunk.Result, ended.Result)
			}
			yield(toolkit.Chunk{Inner: &ended}, nil)
		}
		words := cmp.Or(reply.Then, reply.Say)
		yield(toolkit.Chunk{Result: &toolkit.Result{Output: toolkit.Encode(words), Model: words}}, err)
	}
}

// oracle is the tool that a delegation calls.
type oracle struct{ asked chan<- string }

func (oracle) Definition() toolkit.Definition {
	return toolkit.Definition{Name: live.AskTool, Description: "Answers.", Parameters: []byte(`{"type":"object","properties":{"question":{"type":"string"}}}`)}
}

func (o oracle) Call(_ context.Context, call toolkit.Call) iter.Seq2[toolkit.Chunk, error] {
	return func(yield func(toolkit.Chunk, error) bool) {
		o.asked <- call.Arguments
		yield(toolkit.Chunk{Result: &toolkit.Result{Output: []byte(`{"answer":"Forty two."}`), Model: "Forty two."}}, nil)
	}
}

// TestLiveForgotten has a call of which nobody says anything hung up, but not while the agent is at work for it.
func TestLiveForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, testLiveForgotten)
}

func testLiveForgotten(t *testing.T) {
	t.Helper()
	asked, answer := make(chan string, 1), make(chan struct{})
	b := newBench(t, sqlite(t), benchConfig{
		live: &live.Client{},
		bridge: bridge.Config{
			Settings: bridge.Settings{Limits: bridge.Limits{Idle: time.Second}},
			Tools: func(context.Context, string, assistant.Assistant) (*toolkit.Registry, error) {
				r := toolkit.NewRegistry()
				return r, r.Add(toolkit.Entry{Tool: slowOracle{oracle{asked}, answer}, Executor: toolkit.ExecutorApp})
			},
		},
	})
	c := b.dial(bridge.Start{})
	c.next("bridge.ready")
	c.say("What is it?")
	testkit.Take(t, "a request", asked)
	c.hear(150) // three seconds
	close(answer)
	c.wait("the answer", func(ev realtime.Event) bool {
		return ev.Type == realtime.TypeResponseDone && strings.Contains(string(ev.Raw), "Forty two")
	})
	testkit.Equal(t, c.ended(), bridge.EndIdle, "the call ended because")
	testkit.Eventually(b.t, "the end of the session", b.live.Sessions()[0].Over)
}

// slowOracle answers only when it is told to.
type slowOracle struct {
	oracle

	answer <-chan struct{}
}

func (s slowOracle) Call(ctx context.Context, call toolkit.Call) iter.Seq2[toolkit.Chunk, error] {
	return func(yield func(toolkit.Chunk, error) bool) {
		for chunk, err := range s.oracle.Call(ctx, call) {
			select {
			case <-s.answer:
			case <-ctx.Done():
			}
			yield(chunk, err)
		}
	}
}

// TestLiveApproval says yes to a tool that waits for the user's permission, aloud and in writing: that permits nothing.
// A refusal holds, whatever comes after it.
func TestLiveApproval(t *testing.T) {
	t.Parallel()
	synctest.Test(t, testLiveApproval)
}

func testLiveApproval(t *testing.T) {
	t.Helper()
	b := newBench(t, sqlite(t), benchConfig{
		live:   &live.Client{},
		bridge: bridge.Config{Settings: bridge.Settings{Approve: toolkit.MustNames(live.AskTool)}},
	})
	c := b.dial(bridge.Start{})
	c.next("bridge.ready")
	c.say("Show me a chart")
	q := c.asked()
	c.speak()
	c.next(realtime.TypeTranscriptionCompleted)
	c.say("Yes, I approve.")
	c.wait("the answer to that", func(ev realtime.Event) bool {
		return ev.Type == realtime.TypeItemDone && strings.Contains(string(ev.Raw), "I approve")
	})
	c.send(`{"type":"bridge.tool.deny","tool_call_id":%q,"nonce":%q}`, q.ToolCallID, q.Nonce)
	c.send(`{"type":"bridge.tool.approve","event_id":"late","tool_call_id":%q,"nonce":%q}`, q.ToolCallID, q.Nonce)
	c.next("bridge.tool.failed")
	if refused := c.next(realtime.TypeError); refused.Error.EventID != "late" || refused.Error.Code != "approval_not_pending" {
		t.Errorf("a late yes is answered with %s", refused.Raw)
	}
	b.hangUp(c)
	if types := c.types(); slices.Contains(types, "bridge.tool.started") || slices.Contains(types, "bridge.tool.done") {
		t.Errorf("the tool ran: %q", types)
	}
}

// TestLiveLateResult loses the session that waits for the result of a tool: the next one is told that once, as news,
// and what the old one still says reaches nobody.
func TestLiveLateResult(t *testing.T) {
	t.Parallel()
	synctest.Test(t, testLiveLateResult)
}

func testLiveLateResult(t *testing.T) {
	t.Helper()
	asked, answer := make(chan string, 1), make(chan struct{})
	b := newBench(t, sqlite(t), benchConfig{
		live: &live.Client{},
		bridge: bridge.Config{Tools: func(context.Context, string, assistant.Assistant) (*toolkit.Registry, error) {
			r := toolkit.NewRegistry()
			return r, r.Add(toolkit.Entry{Tool: slowOracle{oracle{asked}, answer}, Executor: toolkit.ExecutorApp})
		}},
	})
	c := b.dial(bridge.Start{})
	c.next("bridge.ready")
	c.say("What is it?")
	testkit.Take(t, "a request", asked)
	b.live.Sessions()[0].Drop()
	c.next("bridge.upstream.renewed")
	close(answer)
	c.wait("the answer", func(ev realtime.Event) bool {
		return ev.Type == realtime.TypeAudioTranscriptDone && strings.Contains(ev.Transcript, "Forty two")
	})
	b.hangUp(c)
	told := 0
	for _, r := range b.live.Sessions()[1].Received() {
		testkit.Equal(t, r.Refused, "", "refused: of %s", r.Event.Raw)
		if strings.Contains(string(r.Event.Raw), "Forty two") {
			told++
		}
	}
	testkit.Equal(t, told, 1, "the next session was told times")
}
