package telemetry

import (
	"context"
	"time"

	"voicebridge/chat"
	"voicebridge/persistence"
	"voicebridge/toolkit"
)

// Observer is told what has happened and makes figures and traces of it. Safe for
// concurrent use; none of its methods waits.
type Observer struct {
	metrics *Metrics
	traces  *Traces // nil makes none
}

// NewObserver returns an observer. Traces may be nil.
func NewObserver(m *Metrics, t *Traces) *Observer { return &Observer{m, t} }

// TurnFinished implements [chat.TurnObserver].
func (o *Observer) TurnFinished(ctx context.Context, report chat.TurnReport) {
	trace := o.traces.turn(ctx, report)
	course := report.Course
	if course.FirstToken > 0 {
		observe(o.metrics.latency.WithLabelValues(kindText, "first_token"), course.FirstToken, trace)
	}
	observe(o.metrics.latency.WithLabelValues(kindText, "total"), course.Ended.Sub(course.Begun), trace)
	for _, r := range course.Requests {
		o.response(kindText, report.Result.Provider, r)
	}
}

// response counts what a response took.
func (o *Observer) response(kind, upstream string, r persistence.ResponseRecord) {
	m := o.metrics
	model := m.models.of(r.Model)
	for name, n := range map[string]int64{
		"input": r.Usage.InputTokens, "output": r.Usage.OutputTokens, "cached": r.Usage.CachedTokens,
		"input_audio": r.Usage.InputAudioTokens, "output_audio": r.Usage.OutputAudioTokens,
	} {
		if n > 0 {
			m.tokens.WithLabelValues(kind, model, name).Add(float64(n))
		}
	}
	switch {
	case r.CostUSD != nil && *r.CostUSD >= 0:
		m.dollars.WithLabelValues(kind, model).Add(*r.CostUSD)
	case r.CostUSD == nil && r.Usage != persistence.Usage{}:
		m.unpriced.WithLabelValues(kind, model).Inc()
	}
	if r.Status == "failed" {
		m.failures.WithLabelValues(kind, upstream, reason(r.StatusReason)).Inc()
	}
}

// reason bounds what a label may hold: an upstream's own codes are free text.
func reason(text string) string {
	switch text {
	case "auth", "quota", "rate", "too_long", "overloaded", "bad_request", "unavailable", "timeout", // of llm
		"server_error", "rate_limit_exceeded", "insufficient_quota", "invalid_request_error": // of the Realtime API
		return text
	default:
		return "other"
	}
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
	observe(o.metrics.toolTime.WithLabelValues(executor, tool), r.Took, "")
}

// Write counts a transaction, see persistence.Options.
func (o *Observer) Write(took time.Duration, saved bool) {
	outcome := "saved"
	if !saved {
		outcome = "away"
	}
	o.metrics.commits.WithLabelValues(outcome).Observe(took.Seconds())
}

// Saved is told when something that was said in a call is safe: in the database, in the
// file, or in neither.
func (o *Observer) Saved(_ persistence.Key, began, ended time.Time, inFile, safe bool) {
	where := "database"
	switch {
	case !safe:
		where = "lost"
	case inFile:
		where = "file"
	}
	o.metrics.spoken.WithLabelValues(where).Observe(ended.Sub(began).Seconds())
}

// QueueSent counts a queued message that was sent, after it has waited so long.
func (o *Observer) QueueSent(waited time.Duration) { o.metrics.queueWait.Observe(waited.Seconds()) }

// QueuePaused counts a queue that was paused. The reasons are the queue's, a closed list.
func (o *Observer) QueuePaused(reason string) { o.metrics.queuePaused.WithLabelValues(reason).Inc() }
