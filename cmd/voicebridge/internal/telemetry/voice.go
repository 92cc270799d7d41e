package telemetry

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"voicebridge/bridge"
	"voicebridge/thread"
)

// maxSaves bounds how many transactions of a turn are kept.
const maxSaves = 64

// voiceCall makes the metrics and traces of a call.
type voiceCall struct {
	metrics  *Metrics
	traces   *Traces // may be nil
	upstream string
	forget   func() // nothing more is saved

	key   thread.Key
	id    string
	asker trace.SpanContext // asked for the call; may be invalid

	mu    sync.Mutex
	turn  traceID // the present turn's, once it is needed
	saves []interval
}

type interval struct{ begun, ended time.Time }

// present returns the trace of the present turn; the caller holds mu.
func (c *voiceCall) present() traceID {
	if !c.turn.span.IsValid() {
		c.turn = c.traces.newID(c.asker)
	}
	return c.turn
}

// about are attributes of all spans about the call.
func (c *voiceCall) about(more ...attribute.KeyValue) []attribute.KeyValue {
	return append(more, attribute.String("voicebridge.thread_id", c.key.Thread),
		attribute.String("voicebridge.call_id", c.id))
}

// SetUp makes the trace of how the call was set up, below the request for it.
func (c *voiceCall) SetUp(s bridge.SetUp) {
	t := c.traces
	if t == nil || len(s.Steps) == 0 {
		return
	}
	root := t.newID(c.asker).context()
	t.span(root, "call set-up", s.Began, s.Ended(), trace.SpanKindInternal, "", c.about(), func(ctx context.Context) {
		for _, step := range s.Steps {
			t.span(ctx, step.Name, step.Began, step.Ended, trace.SpanKindInternal, "", nil, nil)
		}
	})
}

// Tool returns ctx with the span of the present turn.
func (c *voiceCall) Tool(ctx context.Context) context.Context {
	if c.traces == nil {
		return ctx
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return trace.ContextWithSpanContext(ctx, c.present().spanContext())
}

// saved takes a transaction with something of the call.
func (c *voiceCall) saved(took interval) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.saves) < maxSaves {
		c.saves = append(c.saves, took)
	}
}

// TurnOver counts a turn, and makes its trace.
func (c *voiceCall) TurnOver(turn bridge.Turn) {
	for _, r := range slices.Concat(turn.Responses, turn.Charges) {
		c.metrics.response(kindVoice, c.upstream, r)
	}
	if len(turn.Responses) == 0 {
		return
	}
	c.mu.Lock()
	id, saves := c.present(), c.saves
	c.turn, c.saves = traceID{}, nil
	c.mu.Unlock()
	for _, stage := range stages {
		if ms, reached := turn.Latency[stage]; reached {
			took := time.Duration(ms) * time.Millisecond
			observe(c.metrics.latency.WithLabelValues(kindVoice, stage), took, id.exemplar())
		}
	}
	if c.traces != nil {
		c.draw(id, turn, saves)
	}
}

// Ended counts a call that its upstream ended. The reasons are the bridge's, a closed list.
func (c *voiceCall) Ended(reason bridge.EndReason) {
	c.forget()
	switch reason {
	case bridge.EndUpstreamLost, bridge.EndUpstreamSetup, bridge.EndUpstreamRefused,
		bridge.EndUpstreamEndedIt, bridge.EndSessionRejected, bridge.EndSessionExpired:
		c.metrics.failures.WithLabelValues(kindVoice, c.upstream, string(reason)).Inc()
	default:
	}
}

// stages are the stages of a spoken answer, in their usual order.
var stages = []string{"commit", "response", "first_audio", "first_packet"}

// draw makes the trace of a turn.
func (c *voiceCall) draw(id traceID, turn bridge.Turn, saves []interval) {
	begun := turn.Asked
	if begun.IsZero() {
		begun = turn.Responses[0].CreatedAt
	}
	at := func(stage string) time.Time { return begun.Add(time.Duration(turn.Latency[stage]) * time.Millisecond) }
	// Audio may come before the event that announces it.
	reached := slices.DeleteFunc(slices.Clone(stages), func(stage string) bool {
		_, is := turn.Latency[stage]
		return !is
	})
	slices.SortStableFunc(reached, func(a, b string) int { return cmp.Compare(turn.Latency[a], turn.Latency[b]) })
	ended := []time.Time{begun}
	var failure, message string
	for _, r := range turn.Responses {
		ended, message = append(ended, *r.FinishedAt), cmp.Or(message, r.MessageID)
		if r.Status == "failed" {
			failure = reason(r.StatusReason)
		}
	}
	for _, tool := range turn.Tools {
		ended = append(ended, *tool.FinishedAt)
	}
	for _, stage := range reached {
		ended = append(ended, at(stage))
	}
	t, end := c.traces, slices.MaxFunc(ended, time.Time.Compare)
	about := c.about(attribute.String("voicebridge.message_id", message),
		attribute.String("gen_ai.provider.name", c.upstream))
	t.span(id.context(), "voice turn", begun, end, trace.SpanKindServer, failure, about, func(ctx context.Context) {
		from := begun
		for _, stage := range reached {
			t.span(ctx, stage, from, at(stage), trace.SpanKindInternal, "", nil, nil)
			from = at(stage)
		}
		for _, r := range turn.Responses {
			t.request(ctx, c.upstream, r)
		}
		for _, tool := range turn.Tools {
			t.tool(ctx, tool)
		}
		for _, save := range saves {
			t.span(ctx, "database", save.begun, save.ended, trace.SpanKindClient, "", nil, nil)
		}
	})
}
