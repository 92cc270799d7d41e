package e2e

import (
	"compress/gzip"
	"encoding/hex"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"voicebridge/chat"
	"voicebridge/internal/testkit"
	"voicebridge/realtime/simulator"
)

// traceReceiver is an OTLP receiver over HTTP.
type traceReceiver struct {
	url   string
	mu    sync.Mutex
	spans []*otlp.Span
}

func newTraceReceiver(t *testing.T) *traceReceiver {
	r := &traceReceiver{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		var body io.Reader = req.Body
		if req.Header.Get("Content-Encoding") == "gzip" {
			body, _ = gzip.NewReader(req.Body)
		}
		raw, err := io.ReadAll(body)
		request := new(collector.ExportTraceServiceRequest)
		if err != nil || proto.Unmarshal(raw, request) != nil || req.URL.Path != "/v1/traces" {
			t.Errorf("%s with %d bytes: %v", req.URL.Path, len(raw), err)
			return
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, of := range request.ResourceSpans {
			for _, scope := range of.ScopeSpans {
				r.spans = append(r.spans, scope.Spans...)
			}
		}
	}))
	t.Cleanup(s.Close)
	r.url = s.URL
	return r
}

// turns returns, by the name of each turn, the names of the spans directly below it.
func (r *traceReceiver) turns(t *testing.T) map[string][][]string {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	turns, below := map[string]*otlp.Span{}, map[string]map[string]bool{}
	for _, s := range r.spans {
		if strings.HasSuffix(s.Name, " turn") || s.Name == "call set-up" {
			turns[string(s.SpanId)], below[string(s.SpanId)] = s, map[string]bool{}
		}
	}
	for _, s := range r.spans {
		turn := turns[string(s.ParentSpanId)]
		switch {
		case turn != nil && string(turn.TraceId) == string(s.TraceId) && s.EndTimeUnixNano >= s.StartTimeUnixNano:
			below[string(s.ParentSpanId)][s.Name] = true
		case turns[string(s.SpanId)] == nil:
			t.Errorf("span %s has the wrong parent or times", s.Name)
		}
	}
	out := map[string][][]string{}
	for id, turn := range turns {
		out[turn.Name] = append(out[turn.Name], slices.Sorted(maps.Keys(below[id])))
	}
	return out
}

// The client's span for a typed message, as its request names it.
const (
	askedTrace = "4bf92f3577b34da6a3ce929d0e0e4736"
	askedSpan  = "00f067aa0ba902b7"
)

// typeBelow types a message into a new thread, as a traced client does.
func (r *rig) typeBelow(trace, span string) {
	r.t.Helper()
	status, body := post(r.t, r.url+"/api/threads", "{}")
	var thread struct{ ID string }
	if err := json.Unmarshal([]byte(body), &thread); err != nil || status != http.StatusCreated {
		r.t.Fatalf("create thread: %d %s", status, body)
	}
	q, err := http.NewRequestWithContext(r.t.Context(), http.MethodPost, r.url+"/api/threads/"+thread.ID+"/messages", strings.NewReader(`{"content":"Hello"}`))
	testkit.Must(r.t, err)
	q.Header.Set("Content-Type", "application/json")
	q.Header.Set("traceparent", "00-"+trace+"-"+span+"-01")
	res, err := unpooled.Do(q)
	testkit.Must(r.t, err)
	_ = res.Body.Close()
	if res.StatusCode != http.StatusOK {
		r.t.Errorf("typed message: %s", res.Status)
	}
}

// below counts the spans with a name directly below a span of a trace.
func (r *traceReceiver) below(trace, span, name string) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.spans {
		if hex.EncodeToString(s.TraceId) == trace && hex.EncodeToString(s.ParentSpanId) == span && s.Name == name {
			n++
		}
	}
	return n
}

// TestTelemetry speaks and has a tool called by the program, and checks the metrics and the
// traces that a receiver got.
func TestTelemetry(t *testing.T) {
	t.Parallel()
	takePlace(t)
	receiver := newTraceReceiver(t)
	script := agentScript()
	script.Spoken[0] = simulator.Reply{Transcript: spokenWords, Say: spokenAnswer}
	onPlease(script, "Dig a hole.", "garden__dig", "{}")
	dug, asked := make(chan struct{}), make(chan string, 1)
	close(dug)
	r := newRig(t, rigConfig{
		simulator: simulator.Config{Script: script},
		environ: []string{
			"VOICEBRIDGE_TEXT_PROVIDER=simulator", "OTEL_EXPORTER_OTLP_ENDPOINT=" + receiver.url,
			"VOICEBRIDGE_MCP_CONFIG=" + diggingTool(t, dug, func(h http.Header) { asked <- h.Get("traceparent") }),
		},
	})
	c := r.dial(t, request{})
	c.next("bridge.ready")
	c.speak()
	c.answered(spokenAnswer)
	c.heard(1)
	c.say(askChart)
	c.answered(askChartAnswer)
	c.heard(3)
	c.say("Dig a hole.")
	c.answered("It is done.")
	c.heard(4)
	c.hangUp()
	r.over(c, "hangup")

	r.typeBelow(askedTrace, askedSpan)

	figures := r.metrics()
	for name, least := range map[string]float64{
		`voicebridge_answer_latency_seconds_count{kind="voice",stage="commit"}`:               1,
		`voicebridge_answer_latency_seconds_count{kind="voice",stage="response"}`:             2,
		`voicebridge_answer_latency_seconds_count{kind="voice",stage="first_audio"}`:          2,
		`voicebridge_answer_latency_seconds_count{kind="voice",stage="first_packet"}`:         2,
		`voicebridge_answer_latency_seconds_count{kind="text",stage="total"}`:                 1,
		`voicebridge_tool_calls_total{executor="app",outcome="done",tool="ask_agent"}`:        1,
		`voicebridge_tool_calls_total{executor="app",outcome="done",tool="create_pie_chart"}`: 1,
		`voicebridge_call_save_duration_seconds_count{where="database"}`:                      5,
		`voicebridge_tokens_total{kind="voice",model="gpt-realtime-2.1",type="output"}`:       1,
		`voicebridge_calls_ended_total{reason="hangup"}`:                                      1,
	} {
		if figures[name] < least {
			t.Errorf("%s is %v, want at least %v", name, figures[name], least)
		}
	}
	// The process sends the rest when it ends.
	if code := r.terminate(); code != 0 {
		t.Errorf("serve ended with %d", code)
	}
	if n := receiver.below(askedTrace, askedSpan, "text turn"); n != 1 {
		t.Errorf("%d spans below that of a client", n)
	}
	trace, _ := testkit.Receive(t, "a request of the tool", asked)
	named := strings.Split(trace, "-")
	if len(named) != 4 || receiver.below(named[1], named[2], "execute_tool garden__dig") != 1 {
		t.Errorf("an MCP server was told of the span %q, which is not that of the tool's turn", named)
	}
	turns := receiver.turns(t)
	voice := turns["voice turn"]
	// The first, spoken turn has a commit, the others have a tool before their first words.
	slices.SortFunc(voice, func(a, b []string) int { return slices.Compare(a, b) })
	if diff := cmp.Diff([][]string{
		{"chat gpt-realtime-2.1", "commit", "database", "first_audio", "first_packet", "response"},
		{"chat gpt-realtime-2.1", "database", "execute_tool ask_agent", "first_audio", "first_packet", "response", "text turn"},
		{"chat gpt-realtime-2.1", "database", "execute_tool garden__dig", "first_audio", "first_packet", "response"},
	}, voice); diff != "" {
		t.Errorf("spoken turns (-want +got):\n%s", diff)
	}
	if setUps := turns["call set-up"]; len(setUps) != 1 || !slices.Contains(setUps[0], "upstream.dtls") || !slices.Contains(setUps[0], "call.gate") {
		t.Errorf("set-ups: %v", setUps)
	}
	text := turns["text turn"]
	slices.SortFunc(text, func(a, b []string) int { return len(b) - len(a) })
	if len(text) != 2 || !slices.Contains(text[0], "execute_tool create_pie_chart") || !strings.HasPrefix(text[0][0], "chat ") {
		t.Errorf("text turns: %v", text)
	}
}

// What the caller types for a chart, and what the voice answers.
const askChart, askChartAnswer = "Ask for a chart.", "Here you are."

// agentScript is a voice model that asks the agent.
func agentScript() *simulator.Script {
	ask := simulator.Call{Name: chat.AskAgentName, Arguments: `{"question":"Draw a pie chart."}`}
	return &simulator.Script{
		Typed:     []simulator.Rule{{Match: regexp.MustCompile("^" + regexp.QuoteMeta(askChart) + "$"), Reply: simulator.Reply{Say: "One moment.", Calls: []simulator.Call{ask}, Then: askChartAnswer}}},
		Otherwise: simulator.Reply{Say: "Well."},
		Spoken:    []simulator.Reply{{Transcript: spokenWords, Say: spokenAnswer}},
	}
}
