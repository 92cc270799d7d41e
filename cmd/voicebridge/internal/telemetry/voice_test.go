package telemetry

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/trace"

	"voicebridge/bridge"
	"voicebridge/persistence"
	"voicebridge/persistence/records"
	"voicebridge/thread"
)

var call = thread.Key{Owner: "anna", Thread: "thread-1"}

func responded(id, message, status string, from, to int) records.Response {
	return records.Response{
		ID: id, CallID: "call-1", MessageID: message, Model: "voice", Status: status, CostUSD: new(0.5),
		CreatedAt: after(from), FinishedAt: new(after(to)), Usage: thread.Usage{InputTokens: 10, InputAudioTokens: 9},
	}
}

// spokenTurn is a turn with a tool before its words.
func spokenTurn() bridge.Turn {
	return bridge.Turn{
		Responses: []records.Response{responded("r1", "", "completed", 200, 300), responded("r2", "a1", "completed", 410, 1500)},
		Tools: []thread.ToolCall{{
			ID: "t1", CallID: "call-1", Name: "weather", Executor: "app", Status: thread.ToolCallDone, Error: "canary",
			StartedAt: after(300), FinishedAt: new(after(400)),
		}},
		Charges: []records.Response{{Model: "scribe", Status: "completed", CreatedAt: after(1700), FinishedAt: new(after(1700))}},
		Asked:   begun, Latency: map[string]int64{"commit": 60, "response": 410, "first_audio": 700, "first_packet": 720, "unknown": 3},
	}
}

// said is a change of a call, as what calls save is observed.
var said = []persistence.Change{persistence.PutMessage{Message: thread.Message{ID: "q1", Role: thread.RoleUser, Parts: []thread.Part{thread.TextPart("canary")}}}}

// TestSetUpTrace has the steps of a call's set-up in a trace, below the request for it.
func TestSetUpTrace(t *testing.T) {
	t.Parallel()
	o, _, spans := setup(t)
	asked := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled})
	c := o.Call(trace.ContextWithSpanContext(t.Context(), asked), call, "call-1")
	c.SetUp(bridge.SetUp{}) // nothing of it is known
	c.SetUp(bridge.SetUp{Began: after(0), Steps: []bridge.SetUpStep{
		{Name: "browser.answer", Began: after(0), Ended: after(40)}, {Name: "upstream.ice", Began: after(20), Ended: after(60)},
	}})
	got := spans.GetSpans()
	if id := wantSpans(t, got, "call set-up > browser.answer 0s 40ms", "call set-up > upstream.ice 20ms 60ms", " > call set-up 0s 60ms"); id != asked.TraceID().String() {
		t.Errorf("the trace is %s", id)
	}
}

func TestVoiceTurn(t *testing.T) {
	t.Parallel()
	o, scrape, spans := setup(t)
	c := o.Call(t.Context(), call, "call-1")
	save := func(from, to int, safe bool) { o.Saved(call, after(from), after(to), false, safe, said) }
	save(-5, -2, true)
	save(405, 406, false) // it is tried again
	o.Saved(call, after(420), after(430), false, true, []persistence.Change{persistence.PutMessage{Turn: "text"}})
	o.Saved(thread.Key{Thread: "another"}, after(440), after(450), false, true, said)
	save(406, 411, true)
	c.TurnOver(bridge.Turn{Charges: []records.Response{responded("s1", "", "completed", 0, 0)}}) // no part of a turn
	if n := len(spans.GetSpans()); n != 0 {
		t.Errorf("%d spans of a turn that goes on", n)
	}
	c.TurnOver(spokenTurn())
	id := wantSpans(t, spans.GetSpans(),
		"voice turn > commit 0s 60ms", "voice turn > response 60ms 410ms", "voice turn > first_audio 410ms 700ms", "voice turn > first_packet 700ms 720ms",
		"voice turn > chat voice 200ms 300ms", "voice turn > chat voice 410ms 1.5s", "voice turn > execute_tool weather 300ms 400ms",
		"voice turn > database -5ms -2ms", "voice turn > database 406ms 411ms", " > voice turn 0s 1.5s")
	text := scrape(openMetrics)
	want(t, text,
		`voicebridge_answer_latency_seconds_bucket{kind="voice",stage="commit",le="0.1"} 1 # {trace_id="`+id+`"} 0.06`,
		`voicebridge_answer_latency_seconds_count{kind="voice",stage="first_packet"} 1`, `voicebridge_answer_latency_seconds_count{kind="voice",stage="response"} 1`,
		`voicebridge_tokens_total{kind="voice",model="voice",type="input"} 30`, `type="input_audio"} 27`, `voicebridge_cost_usd_total{kind="voice",model="voice"} 1.5`)
	if strings.Contains(text, "unknown") {
		t.Error("a stage that is not in the list is counted")
	}
	spans.Reset()
	c.TurnOver(bridge.Turn{Responses: []records.Response{responded("r3", "a2", "failed", 2000, 2100)}}) // nobody has asked
	wantSpans(t, spans.GetSpans(), "voice turn > chat voice 2s 2.1s", " > voice turn 2s 2.1s")
}

// TestSpanOfATool checks that tools run in the span of the turn that is made meanwhile.
func TestSpanOfATool(t *testing.T) {
	t.Parallel()
	o, _, spans := setup(t)
	c := o.Call(t.Context(), call, "call-1")
	tool := func() string { return trace.SpanContextFromContext(c.Tool(t.Context())).SpanID().String() }
	var tools, turns []string
	for range 2 {
		tools = append(tools, tool())
		c.TurnOver(bridge.Turn{Charges: spokenTurn().Charges})
		if again := tool(); again != tools[len(tools)-1] {
			t.Errorf("the second tool of a turn runs in %s", again)
		}
		c.TurnOver(spokenTurn())
	}
	for _, s := range spans.GetSpans() {
		if s.Name == "voice turn" {
			turns = append(turns, s.SpanContext.SpanID().String())
		}
	}
	if diff := cmp.Diff(tools, turns); diff != "" || tools[0] == tools[1] {
		t.Errorf("turns (-of tools +sent):\n%s", diff)
	}
}

// TestCallsAreForgotten checks that nothing is kept of calls that have ended, and that an end is that of its own call.
func TestCallsAreForgotten(t *testing.T) {
	t.Parallel()
	o, _, spans := setup(t)
	first, second := o.Call(t.Context(), call, "call-1"), o.Call(t.Context(), call, "call-2")
	first.Ended(bridge.EndTakenOver)
	o.Saved(call, after(0), after(1), false, true, said)
	second.TurnOver(spokenTurn())
	if !slices.Contains(drawn(spans.GetSpans()), "voice turn > database 0s 1ms") {
		t.Error("the second call is not followed")
	}
	second.Ended(bridge.EndHangup)
	o.Saved(call, after(0), after(1), false, true, said)
	if len(o.calls) != 0 {
		t.Errorf("%d calls are kept", len(o.calls))
	}
}

// TestManySaves checks that no more is kept of a turn than is of use.
func TestManySaves(t *testing.T) {
	t.Parallel()
	o, _, spans := setup(t)
	c := o.Call(context.Background(), call, "call-1")
	for range 2 * maxSaves {
		o.Saved(call, after(0), after(1), false, true, said)
	}
	c.TurnOver(bridge.Turn{Responses: spokenTurn().Responses[:1]})
	if n := len(spans.GetSpans()); n != maxSaves+2 {
		t.Errorf("%d spans", n)
	}
}

func TestCallsEndedByTheUpstream(t *testing.T) {
	t.Parallel()
	o, scrape, _ := setup(t)
	o.Call(t.Context(), call, "call-1").Ended(bridge.EndHangup)
	c := o.Call(t.Context(), call, "call-1")
	c.TurnOver(bridge.Turn{Responses: []records.Response{responded("r1", "", "failed", 200, 300)}})
	c.Ended(bridge.EndUpstreamLost)
	text := scrape("")
	want(t, text, `voicebridge_upstream_failures_total{kind="voice",reason="upstream_lost",upstream="simulator"} 1`, `{kind="voice",reason="other",upstream="simulator"} 1`)
	if strings.Contains(text, "hangup") {
		t.Error("a hang-up counts as a failure")
	}
}
