package e2e

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"sync"
	"testing"

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

// setUps returns, for each set-up of a call, the names of the spans directly below it.
func (r *traceReceiver) setUps(t *testing.T) map[string][]string {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	below := map[string][]string{}
	for _, s := range r.spans {
		if s.Name == "call set-up" {
			below[string(s.SpanId)] = nil
		}
	}
	for _, s := range r.spans {
		if _, root := below[string(s.SpanId)]; root {
			continue
		}
		if _, of := below[string(s.ParentSpanId)]; !of || s.EndTimeUnixNano < s.StartTimeUnixNano {
			t.Errorf("span %s has the wrong parent or times", s.Name)
		}
		below[string(s.ParentSpanId)] = append(below[string(s.ParentSpanId)], s.Name)
	}
	return below
}

// TestTelemetry reads what the program tells at its ports: the metrics of a call with a tool, and the trace that a receiver got.
func TestTelemetry(t *testing.T) {
	t.Parallel()
	takePlace(t)
	receiver := newTraceReceiver(t)
	script := agentScript()
	script.Spoken[0] = simulator.Reply{Transcript: spokenWords, Say: spokenAnswer}
	r := newRig(t, rigConfig{
		simulator: simulator.Config{Script: script},
		environ:   []string{"VOICEBRIDGE_TEXT_PROVIDER=simulator", "OTEL_EXPORTER_OTLP_ENDPOINT=" + receiver.url},
	})
	c := r.dial(t, request{})
	c.next("bridge.ready")
	c.speak()
	c.answered(spokenAnswer)
	c.heard(1)
	c.say(askChart)
	c.answered(askChartAnswer)
	c.heard(3)
	c.hangUp()
	r.over(c, "hangup")

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
	testkit.Equal(t, r.terminate(), 0, "serve ended")
	for _, steps := range receiver.setUps(t) {
		if !slices.Contains(steps, "upstream.dtls") || !slices.Contains(steps, "call.gate") {
			t.Errorf("a set-up has the steps %v", steps)
		}
	}
	testkit.Equal(t, len(receiver.setUps(t)), 1, "set-ups")
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
