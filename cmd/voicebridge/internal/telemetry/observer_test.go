package telemetry

import (
	"net/http"
	"strings"
	"testing"

	"voicebridge/bridge"
	"voicebridge/internal/testkit"
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

var setUp = bridge.SetUp{Began: after(0), Steps: []bridge.SetUpStep{
	{Name: "browser.answer", Began: after(0), Ended: after(40)}, {Name: "upstream.ice", Began: after(20), Ended: after(60)},
}}

// TestSetUpTrace has the steps of a call's set-up in a trace, below the request for it if that names a span.
func TestSetUpTrace(t *testing.T) {
	t.Parallel()
	const asked, span = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	for parent, want := range map[string]struct{ below, sent bool }{
		"00-" + asked + "-" + span + "-01": {true, true},
		"00-" + asked + "-" + span + "-00": {true, false}, // which is not sampled
		"00-" + asked:                      {false, true},
		"":                                 {false, true},
		"00-" + asked + "-" + span + "-01\r\nx: y": {false, true},
	} {
		o, _, spans := setup(t)
		c := o.Call(o.traces.Read(t.Context(), http.Header{"Traceparent": {parent}}), call, "call-1")
		c.SetUp(bridge.SetUp{}) // nothing of it is known
		c.SetUp(setUp)
		got := spans.GetSpans()
		if !want.sent {
			testkit.Equal(t, len(got), 0, "%q: spans are sent", parent)
			continue
		}
		var drawn []string
		for _, s := range got {
			drawn = append(drawn, s.Name+" "+s.StartTime.Sub(begun).String()+" "+s.EndTime.Sub(begun).String())
		}
		testkit.Equal(t, drawn, []string{"browser.answer 0s 40ms", "upstream.ice 20ms 60ms", "call set-up 0s 60ms"}, "%q: spans", parent)
		root := got[len(got)-1]
		if below := root.SpanContext.TraceID().String() == asked && root.Parent.SpanID().String() == span; below != want.below {
			t.Errorf("%q: the set-up is %v below %v", parent, root.SpanContext, root.Parent)
		}
		if got[0].Parent.SpanID() != root.SpanContext.SpanID() || got[1].Parent.SpanID() != root.SpanContext.SpanID() {
			t.Errorf("%q: the steps are not below the set-up", parent)
		}
	}
	var none *Traces
	c := NewObserver(nil, none, "").Call(none.Read(t.Context(), http.Header{}), call, "call-1")
	c.SetUp(setUp)
}

func TestVoiceTurn(t *testing.T) {
	t.Parallel()
	o, scrape, _ := setup(t)
	c := o.Call(t.Context(), call, "call-1")
	c.TurnOver(bridge.Turn{Charges: []records.Response{responded("s1", "", "completed", 0, 0)}}) // no part of a turn
	c.TurnOver(bridge.Turn{
		Responses: []records.Response{responded("r1", "", "completed", 200, 300), responded("r2", "a1", "completed", 410, 1500)},
		Charges:   []records.Response{{Model: "scribe", Status: "completed", CreatedAt: after(1700), FinishedAt: new(after(1700))}},
		Latency:   map[string]int64{"commit": 60, "response": 410, "first_audio": 700, "first_packet": 720, "unknown": 3},
	})
	text := scrape()
	want(t, text,
		`voicebridge_answer_latency_seconds_bucket{kind="voice",stage="commit",le="0.1"} 1`,
		`voicebridge_answer_latency_seconds_count{kind="voice",stage="first_packet"} 1`, `voicebridge_answer_latency_seconds_count{kind="voice",stage="response"} 1`,
		`voicebridge_tokens_total{kind="voice",model="voice",type="input"} 30`, `type="input_audio"} 27`, `voicebridge_cost_usd_total{kind="voice",model="voice"} 1.5`)
	if strings.Contains(text, "unknown") {
		t.Error("a stage that is not in the list is counted")
	}
}

func TestCallsEndedByTheUpstream(t *testing.T) {
	t.Parallel()
	o, scrape, _ := setup(t)
	o.Call(t.Context(), call, "call-1").Ended(bridge.EndHangup)
	c := o.Call(t.Context(), call, "call-1")
	c.TurnOver(bridge.Turn{Responses: []records.Response{responded("r1", "", "failed", 200, 300)}})
	c.Ended(bridge.EndUpstreamLost)
	text := scrape()
	want(t, text, `voicebridge_upstream_failures_total{kind="voice",reason="upstream_lost",upstream="simulator"} 1`, `{kind="voice",reason="other",upstream="simulator"} 1`)
	if strings.Contains(text, "hangup") {
		t.Error("a hang-up counts as a failure")
	}
}
