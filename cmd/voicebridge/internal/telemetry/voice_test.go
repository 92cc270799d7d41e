package telemetry

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/trace"

	"voicebridge/bridge"
	"voicebridge/persistence"
	"voicebridge/persistence/records"
	"voicebridge/thread"
)

var call = thread.Key{Owner: "anna", Thread: "thread-1"}

func question(id string) persistence.Change {
	return persistence.PutMessage{Message: thread.Message{ID: id, Role: thread.RoleUser, Parts: []thread.Part{thread.TextPart("canary")}}}
}

func answered(id string, stages map[string]int64) persistence.Change {
	return persistence.PutMessage{Message: thread.Message{ID: id, Role: thread.RoleAssistant, Metadata: thread.Metadata{CallID: "call-1", LatencyMS: stages}}}
}

func responded(id, message, status string, from, to int) persistence.Change {
	r := records.Response{ID: id, CallID: "call-1", MessageID: message, Model: "voice", Status: status, CreatedAt: after(from), CostUSD: new(0.5)}
	if to > 0 {
		r.FinishedAt, r.Usage = new(after(to)), thread.Usage{InputTokens: 10, InputAudioTokens: 9}
	}
	return persistence.PutResponse{Response: r}
}

// spokenTurn is a turn with a tool, as a call saves it, some of it twice.
func spokenTurn(o *Observer) {
	save := func(from, to int, changes ...persistence.Change) {
		o.Saved(call, after(from), after(to), false, true, changes)
	}
	save(-5, -2, question("q1"), persistence.PutDraft{})
	save(205, 210, responded("r1", "", "in_progress", 200, 0))
	save(305, 310, responded("r1", "", "completed", 200, 300), persistence.PutToolCall{ToolCall: thread.ToolCall{ID: "t1", CallID: "call-1", Name: "weather", Executor: "app", Status: thread.ToolCallRunning, StartedAt: after(300)}})
	o.Saved(call, after(405), after(406), false, false, []persistence.Change{responded("r2", "a1", "completed", 410, 1500)}) // not saved
	save(406, 411, persistence.PutToolCall{ToolCall: thread.ToolCall{ID: "t1", CallID: "call-1", Name: "weather", Executor: "app", Status: thread.ToolCallDone, StartedAt: after(300), FinishedAt: new(after(400))}})
	save(500, 501, answered("a1", map[string]int64{"commit": 60, "response": 410, "unknown": 3}))
	save(1505, 1510, responded("r2", "a1", "completed", 410, 1500), answered("a1", map[string]int64{"commit": 60, "response": 410, "first_audio": 700}))
	save(1605, 1610, responded("r2", "a1", "completed", 410, 1500), answered("a1", map[string]int64{"commit": 60, "response": 410, "first_audio": 700, "first_packet": 720}))
	save(1700, 1701, question("q1"), persistence.PutResponse{Response: records.Response{CallID: "call-1", Model: "scribe", Status: "completed", CreatedAt: after(1700), FinishedAt: new(after(1700))}})
}

// TestSetUpTrace has the steps of a call's set-up in a trace, below the request for it.
func TestSetUpTrace(t *testing.T) {
	t.Parallel()
	o, _, spans := setup(t)
	asked := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled})
	o.CallStarted(trace.ContextWithSpanContext(t.Context(), asked), call, "call-1")
	o.SetUp(bridge.SetUp{Key: call, CallID: "call-2"}) // nothing of it is known
	o.SetUp(bridge.SetUp{Key: call, CallID: "call-1", Began: after(0), Steps: []bridge.SetUpStep{
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
	spokenTurn(o)
	if n := len(spans.GetSpans()); n != 0 {
		t.Errorf("%d spans of a turn that goes on", n)
	}
	o.Saved(call, after(3000), after(3001), false, true, []persistence.Change{question("q2")}) // the next turn begins
	got := spans.GetSpans()
	id := wantSpans(t, got,
		"voice turn > commit 0s 60ms", "voice turn > response 60ms 410ms", "voice turn > first_audio 410ms 700ms", "voice turn > first_packet 700ms 720ms",
		"voice turn > chat voice 200ms 300ms", "voice turn > chat voice 410ms 1.5s", "voice turn > execute_tool weather 300ms 400ms",
		"voice turn > database -5ms -2ms", "voice turn > database 205ms 210ms", "voice turn > database 305ms 310ms", "voice turn > database 406ms 411ms",
		"voice turn > database 500ms 501ms", "voice turn > database 1.505s 1.51s", "voice turn > database 1.605s 1.61s", "voice turn > database 1.7s 1.701s",
		" > voice turn 0s 1.5s")
	text := scrape(openMetrics)
	want(t, text,
		`voicebridge_answer_latency_seconds_bucket{kind="voice",stage="commit",le="0.1"} 1 # {trace_id="`+id+`"} 0.06`,
		`voicebridge_answer_latency_seconds_count{kind="voice",stage="first_packet"} 1`, `voicebridge_answer_latency_seconds_count{kind="voice",stage="response"} 1`,
		`voicebridge_tokens_total{kind="voice",model="voice",type="input"} 20`, `type="input_audio"} 18`, `voicebridge_cost_usd_total{kind="voice",model="voice"} 1.0`)
	if strings.Contains(text, "unknown") {
		t.Error("a stage that is not in the list is counted")
	}
	o.Close()
	if n := len(spans.GetSpans()); n != len(got) {
		t.Errorf("a turn without an answer has %d spans", n-len(got))
	}
}

// TestVoiceTurnWithTool checks an answer that begins with a tool: its first stages are in the
// message of the call, all of them in that of the first words.
func TestVoiceTurnWithTool(t *testing.T) {
	t.Parallel()
	o, scrape, spans := setup(t)
	save := func(at int, changes ...persistence.Change) { o.Saved(call, after(at), after(at), false, true, changes) }
	save(-5, question("q1"))
	save(200, responded("r1", "m1", "in_progress", 200, 0), answered("m1", map[string]int64{"commit": 60, "response": 200}))
	save(300, responded("r1", "m1", "completed", 200, 300))
	save(410, responded("r2", "m2", "in_progress", 410, 0), answered("m2", map[string]int64{"commit": 60, "response": 200}))
	save(900, responded("r2", "m2", "completed", 410, 900), answered("m2", map[string]int64{"commit": 60, "response": 200, "first_audio": 700, "first_packet": 720}))
	o.Close()
	var stages []string
	for _, line := range drawn(spans.GetSpans()) {
		if !strings.Contains(line, "database") {
			stages = append(stages, line)
		}
	}
	if diff := cmp.Diff([]string{
		"voice turn > commit 0s 60ms", "voice turn > response 60ms 200ms", "voice turn > first_audio 200ms 700ms", "voice turn > first_packet 700ms 720ms",
		"voice turn > chat voice 200ms 300ms", "voice turn > chat voice 410ms 900ms", " > voice turn 0s 900ms",
	}, stages); diff != "" {
		t.Errorf("spans (-want +got):\n%s", diff)
	}
	text := scrape("")
	for _, stage := range []string{"commit", "response", "first_audio", "first_packet"} {
		want(t, text, `voicebridge_answer_latency_seconds_count{kind="voice",stage="`+stage+`"} 1`)
	}
}

// TestSpokenTurnOfATool checks which turn a tool gets: that which answers its question, though the
// question may not be saved yet.
func TestSpokenTurnOfATool(t *testing.T) {
	t.Parallel()
	o, _, spans := setup(t)
	save := func(at int, changes ...persistence.Change) { o.Saved(call, after(at), after(at), false, true, changes) }
	ask := func(question string) string {
		return trace.SpanContextFromContext(o.SpokenTurn(t.Context(), call, question)).SpanID().String()
	}
	first := ask("q1") // before anything is saved
	save(0, question("q1"))
	save(300, responded("r1", "a1", "completed", 200, 300))
	again := ask("q1")
	second := ask("q2") // while the turn before is open
	save(400, question("q2"))
	late := ask("q1")
	save(900, responded("r2", "a2", "completed", 500, 900))
	unknown := ask("")
	o.Close()
	var turns []string
	for _, s := range spans.GetSpans() {
		if s.Name == "voice turn" {
			turns = append(turns, s.SpanContext.SpanID().String())
		}
	}
	if diff := cmp.Diff([]string{first, second}, turns); diff != "" || again != first || late != second || unknown != second {
		t.Errorf("turns (-of tools +sent):\n%s\nthe first again %s, late %s, without a question %s", diff, again, late, unknown)
	}
}

// at returns the change of a message that was made then.
func at(ms int, change persistence.Change) persistence.Change {
	m := change.(persistence.PutMessage)
	m.Message.Metadata.CreatedAt = after(ms)
	return m
}

// TestAnswerOfAnEarlierTurn saves an answer again, as interrupted, after the next question.
func TestAnswerOfAnEarlierTurn(t *testing.T) {
	t.Parallel()
	o, scrape, _ := setup(t)
	save := func(changes ...persistence.Change) { o.Saved(call, after(0), after(0), false, true, changes) }
	first := at(210, answered("a1", map[string]int64{"response": 200, "first_packet": 500}))
	save(at(0, question("q1")), responded("r1", "a1", "completed", 200, 300), first)
	save(at(1000, question("q2")))
	save(first)
	save(responded("r2", "a2", "completed", 1200, 1300), at(1210, answered("a2", map[string]int64{"response": 200, "first_packet": 250})))
	o.Close()
	want(t, scrape(""), `voicebridge_answer_latency_seconds_sum{kind="voice",stage="first_packet"} 0.75`)
}

// TestLongVoiceTurn checks that a turn goes on while it is answered, or a tool runs, and that an earlier question that
// gets its transcription late begins no other.
func TestLongVoiceTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o, _, spans := setup(t)
		save := func(changes ...persistence.Change) {
			o.Saved(call, after(0), after(0), false, true, changes)
			time.Sleep(2 * quiet)
			synctest.Wait()
		}
		tool := thread.ToolCall{ID: "t1", CallID: "call-1", Name: "weather", Status: thread.ToolCallRunning, StartedAt: after(300)}
		o.Saved(call, after(0), after(0), false, true, []persistence.Change{at(0, question("q1")), at(100, question("q2"))})
		save(responded("r1", "", "in_progress", 200, 0))
		save(persistence.PutToolCall{ToolCall: tool}, responded("r1", "", "completed", 200, 300))
		tool.Status, tool.FinishedAt = thread.ToolCallDone, new(after(400))
		save(responded("r2", "a1", "in_progress", 410, 0), persistence.PutToolCall{ToolCall: tool}, at(0, question("q1")))
		if n := len(spans.GetSpans()); n != 0 {
			t.Errorf("%d spans of a turn that goes on", n)
		}
		save(responded("r2", "a1", "completed", 410, 1500))
		turns, parts := 0, 0
		for _, s := range spans.GetSpans() {
			switch s.Name {
			case "voice turn":
				turns++
			case "chat voice", "execute_tool weather":
				parts++
			}
		}
		if turns != 1 || parts != 3 || len(o.voice.open) != 0 {
			t.Errorf("%d turns with %d responses and tools, %d open", turns, parts, len(o.voice.open))
		}
	})
}

// TestVoiceTurnEnds checks what ends a turn besides the next one.
func TestVoiceTurnEnds(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*Observer){
		"call": func(o *Observer) {
			o.Saved(call, after(2000), after(2001), true, true, []persistence.Change{persistence.PutCall{Call: records.Call{EndedAt: new(after(2000))}}})
		},
		"silence": func(*Observer) { time.Sleep(quiet) },
		"process": func(o *Observer) { o.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				o, _, spans := setup(t)
				spokenTurn(o)
				end(o)
				synctest.Wait()
				if n := len(spans.GetSpans()); n < 15 {
					t.Errorf("%d spans", n)
				}
				if len(o.voice.open) != 0 {
					t.Error("the turn is kept")
				}
			})
		})
	}
}

func TestCallsEndedByTheUpstream(t *testing.T) {
	t.Parallel()
	o, scrape, _ := setup(t)
	o.CallEnded(bridge.EndHangup)
	o.CallEnded(bridge.EndUpstreamLost)
	o.Saved(call, after(0), after(1), false, true, []persistence.Change{responded("r1", "", "failed", 200, 300)})
	text := scrape("")
	want(t, text, `voicebridge_upstream_failures_total{kind="voice",reason="upstream_lost",upstream="simulator"} 1`, `{kind="voice",reason="other",upstream="simulator"} 1`)
	if strings.Contains(text, "hangup") {
		t.Error("a hang-up counts as a failure")
	}
	o.Close()
}
