// Package telemetry is what operators see of the process: metrics for Prometheus, traces for
// OpenTelemetry, and profiles. Other parts report what has happened, and when, through interfaces
// of their own; none of them imports it. Only this package imports the OpenTelemetry SDK.
//
// Spans are sent by OpenTelemetry's own exporter, otlptracehttp. It pulls in gRPC without using it,
// because the module with the messages' types also declares the gRPC service
// (https://github.com/open-telemetry/opentelemetry-go/issues/2579): 97 packages, 2.4 of 47.7 MB of
// the stripped binary, and 7 of 112 seconds of processor time of a cold build. We know of no other
// maintained exporter for Go, and retries, limits and the settings of the environment are worth more
// than that, so it stays.
package telemetry

import (
	"context"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"voicebridge/bridge"
	"voicebridge/chat"
	"voicebridge/persistence"
	"voicebridge/persistence/records"
	"voicebridge/thread"
	"voicebridge/toolkit"
)

// Observer turns what has happened into metrics and traces. It is safe for concurrent use; none of
// its methods blocks.
type Observer struct {
	metrics *Metrics
	traces  *Traces // may be nil
	// upstream is the name of what answers calls.
	upstream string
}

var _ chat.RequestObserver = (*Observer)(nil)

// NewObserver returns an observer for a process whose calls upstream answers. traces may be nil.
func NewObserver(m *Metrics, t *Traces, upstream string) *Observer {
	return &Observer{metrics: m, traces: t, upstream: upstream}
}

// Call follows a new call, which the span of ctx asked for.
func (o *Observer) Call(ctx context.Context, key thread.Key, callID string) bridge.Observer {
	return &voiceCall{Observer: o, key: key, id: callID, asker: trace.SpanContextFromContext(ctx)}
}

func (o *Observer) TurnFinished(_ context.Context, report chat.TurnReport) {
	course := report.Course
	if course.FirstToken > 0 {
		o.metrics.took(kindText, "first_token", course.FirstToken)
	}
	o.metrics.took(kindText, "total", course.Ended.Sub(course.Begun))
	for _, r := range course.Requests {
		o.metrics.response(kindText, report.Result.Provider, r)
	}
}

// RequestFinished counts a request that belongs to no turn.
func (o *Observer) RequestFinished(provider string, request records.Response) {
	o.metrics.response(kindText, provider, request)
}

// Tool counts a tool call that has ended.
func (o *Observer) Tool(r toolkit.Report) {
	executor, tool := string(r.Entry.Executor), ""
	switch {
	case r.Entry.Tool == nil:
		executor = "unknown"
	case r.Entry.Executor == toolkit.ExecutorMCP:
		tool = r.Entry.Server
	case r.Entry.Executor == toolkit.ExecutorApp:
		tool = r.Entry.Tool.Definition().Name
	}
	o.metrics.toolCalls.WithLabelValues(executor, tool, string(r.Ending)).Inc()
	o.metrics.toolTime.WithLabelValues(executor, tool).Observe(r.Took.Seconds())
}

// Write counts a transaction; see persistence.Options.
func (o *Observer) Write(took time.Duration, saved bool) {
	outcome := commitSaved
	if !saved {
		outcome = commitAway
	}
	o.metrics.commits.WithLabelValues(outcome).Observe(took.Seconds())
}

// Lost counts changes of calls that can never be saved; see persistence.Options.
func (o *Observer) Lost(changes int) { o.metrics.lost.Add(float64(changes)) }

// Saved takes an attempt to save changes of a thread; safe means that they are durable, in the database or in the file.
// What a call says counts. The metric calls a failed attempt lost, although it will be repeated.
func (o *Observer) Saved(took time.Duration, inFile, safe bool, changes []persistence.Change) {
	if !slices.ContainsFunc(changes, ofCall) {
		return
	}
	where := savedInDatabase
	switch {
	case !safe:
		where = savedNowhere
	case inFile:
		where = savedInFile
	}
	o.metrics.spoken.WithLabelValues(where).Observe(took.Seconds())
}

// ofCall reports whether a change is what a call says, and not a text turn.
func ofCall(c persistence.Change) bool {
	switch c := c.(type) {
	case persistence.PutMessage:
		return c.Turn == ""
	case persistence.PutDraft:
		return c.Turn == ""
	case persistence.PutToolCall:
		return c.ToolCall.CallID != ""
	case persistence.PutResponse:
		return c.Response.CallID != ""
	case persistence.PutCall, persistence.PutLeg:
		return true
	default:
		return false
	}
}

// QueueSent records that a queued message was sent after waiting that long.
func (o *Observer) QueueSent(waited time.Duration) { o.metrics.queueWait.Observe(waited.Seconds()) }

// QueuePaused counts a queue that was paused. The reasons are the queue's, a closed list.
func (o *Observer) QueuePaused(reason string) { o.metrics.queuePaused.WithLabelValues(reason).Inc() }

// voiceCall makes the metrics of a call, and the trace of its set-up.
type voiceCall struct {
	*Observer

	key   thread.Key
	id    string
	asker trace.SpanContext // asked for the call; may be invalid
}

// SetUp makes the trace of how the call was set up, below the request for it.
func (c *voiceCall) SetUp(s bridge.SetUp) {
	c.traces.setUp(c.asker, s, attribute.String("voicebridge.thread_id", c.key.Thread),
		attribute.String("voicebridge.call_id", c.id))
}

// TurnOver counts a turn.
func (c *voiceCall) TurnOver(turn bridge.Turn) {
	for _, r := range slices.Concat(turn.Responses, turn.Charges) {
		c.metrics.response(kindVoice, c.upstream, r)
	}
	if len(turn.Responses) == 0 {
		return
	}
	for _, stage := range []string{"commit", "response", "first_audio", "first_packet"} {
		if ms, reached := turn.Latency[stage]; reached {
			c.metrics.took(kindVoice, stage, time.Duration(ms)*time.Millisecond)
		}
	}
}

// Ended counts a call that its upstream ended. The reasons are the bridge's, a closed list.
func (c *voiceCall) Ended(reason bridge.EndReason) {
	switch reason {
	case bridge.EndUpstreamLost, bridge.EndUpstreamSetup, bridge.EndUpstreamRefused,
		bridge.EndUpstreamEndedIt, bridge.EndSessionRejected, bridge.EndSessionExpired:
		c.metrics.failures.WithLabelValues(kindVoice, c.upstream, string(reason)).Inc()
	default:
	}
}
