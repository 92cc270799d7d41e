package telemetry

import (
	"context"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"voicebridge/chat"
	"voicebridge/persistence/records"
	"voicebridge/thread"
)

// turn makes the trace of a text turn and returns its id for metrics.
func (t *Traces) turn(ctx context.Context, report chat.TurnReport) string {
	if t == nil {
		return ""
	}
	course, result := report.Course, report.Result
	failure := ""
	if result.Err != nil {
		failure = string(result.Err.Kind)
	}
	id := t.begunAs(ctx)
	t.span(id.context(), "text turn", course.Begun, course.Ended, trace.SpanKindServer, failure, []attribute.KeyValue{
		attribute.String("voicebridge.thread_id", report.Key.Thread),
		attribute.String("voicebridge.message_id", result.MessageID),
		attribute.String("voicebridge.finish", string(result.Finish)),
		attribute.String("gen_ai.provider.name", result.Provider),
	}, func(ctx context.Context) {
		for _, r := range course.Requests {
			t.request(ctx, result.Provider, r)
		}
		for _, tool := range course.Tools {
			t.tool(ctx, tool)
		}
		for _, save := range course.Saves {
			t.span(ctx, "database", save.Begun, save.Ended, trace.SpanKindClient, "", nil, nil)
		}
	})
	return id.exemplar()
}

// request makes the span of a request to a model.
func (t *Traces) request(ctx context.Context, upstream string, r records.Response) {
	if r.FinishedAt == nil {
		return
	}
	failure := ""
	if r.Status == "failed" {
		failure = reason(r.StatusReason)
	}
	attributes := []attribute.KeyValue{
		attribute.String("gen_ai.operation.name", "chat"), attribute.String("gen_ai.provider.name", upstream),
		attribute.String("gen_ai.request.model", r.Model), attribute.String("voicebridge.status", r.Status),
		attribute.Int64("gen_ai.usage.input_tokens", r.Usage.InputTokens),
		attribute.Int64("gen_ai.usage.output_tokens", r.Usage.OutputTokens),
	}
	if r.FirstTokenMS != nil {
		attributes = append(attributes, attribute.Int64("voicebridge.first_token_ms", *r.FirstTokenMS))
	}
	t.span(ctx, strings.TrimSpace("chat "+r.Model), r.CreatedAt, *r.FinishedAt, trace.SpanKindClient, failure,
		attributes, nil)
}

// tool makes the span of a tool call. It leaves out arguments and results.
func (t *Traces) tool(ctx context.Context, r thread.ToolCall) {
	if r.FinishedAt == nil {
		return
	}
	failure := ""
	if r.Status == thread.ToolCallFailed || r.Status == thread.ToolCallCancelled {
		failure = string(r.Status)
	}
	t.span(ctx, "execute_tool "+r.Name, r.StartedAt, *r.FinishedAt, trace.SpanKindInternal, failure,
		[]attribute.KeyValue{
			attribute.String("gen_ai.operation.name", "execute_tool"), attribute.String("gen_ai.tool.name", r.Name),
			attribute.String("gen_ai.tool.call.id", r.ToolCallID), attribute.String("voicebridge.executor", r.Executor),
			attribute.String("voicebridge.server", r.Server),
		}, nil)
}
