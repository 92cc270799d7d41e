package telemetry

import (
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// TraceConfig says where traces go.
type TraceConfig struct {
	// Base URL of an OTLP receiver that speaks HTTP, such as http://127.0.0.1:4318; traces go to /v1/traces below it.
	// Empty: off. Headers with a key: OTEL_EXPORTER_OTLP_HEADERS.
	Endpoint string `yaml:"endpoint" format:"url" env:"OTEL_EXPORTER_OTLP_ENDPOINT"`
	// Headers are sent with every request, such as a key of the receiver.
	Headers map[string]string
	// Share of turns that are traced.
	Sample float64 `yaml:"sample" default:"1" min:"0" max:"1"`
	// Version is the program's version, Instance the id of the process.
	Version, Instance string
	Logger            *slog.Logger
}

// Traces makes and sends a trace of every turn. A nil one makes none. It is safe for concurrent
// use.
type Traces struct {
	provider *sdk.TracerProvider
	sampler  sdk.Sampler
	tracer   trace.Tracer
}

// OpenTraces makes the exporter. It sends nothing yet: an unreachable receiver is not an error.
func OpenTraces(ctx context.Context, cfg TraceConfig) (*Traces, error) {
	exporter, err := otlptracehttp.New(ctx,
		otlptracehttp.WithEndpointURL(TracesURL(cfg.Endpoint)), otlptracehttp.WithHeaders(cfg.Headers),
		otlptracehttp.WithTimeout(10*time.Second))
	if err != nil {
		return nil, fmt.Errorf("open traces: %w", err)
	}
	return newTraces(ctx, cfg, sdk.WithBatcher(newReporting(exporter, cfg)))
}

// TracesURL returns the URL that traces are sent to at a receiver with that base URL.
func TracesURL(base string) string { return strings.TrimSuffix(base, "/") + "/v1/traces" }

func newTraces(ctx context.Context, cfg TraceConfig, export sdk.TracerProviderOption) (*Traces, error) {
	about, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithAttributes(
		attribute.String("service.name", "voicebridge"), attribute.String("service.version", cfg.Version),
		attribute.String("service.instance.id", cfg.Instance),
	), resource.WithFromEnv()) // OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES
	if err != nil {
		return nil, fmt.Errorf("open traces: OTEL_RESOURCE_ATTRIBUTES must be name=value,name=value: %w", err)
	}
	sampler := sdk.ParentBased(sdk.TraceIDRatioBased(cfg.Sample))
	provider := sdk.NewTracerProvider(export, sdk.WithResource(about), sdk.WithSampler(sampler),
		sdk.WithIDGenerator(ids{}))
	return &Traces{provider: provider, sampler: sampler, tracer: provider.Tracer("voicebridge")}, nil
}

// Close sends what is left, until ctx ends.
func (t *Traces) Close(ctx context.Context) error {
	if t == nil {
		return nil
	}
	if err := t.provider.Shutdown(ctx); err != nil {
		return fmt.Errorf("close traces: %w", err)
	}
	return nil
}

// span makes a span that has already ended, and below it those that inside makes.
func (t *Traces) span(
	ctx context.Context, name string, begun, ended time.Time, kind trace.SpanKind, failure string,
	attributes []attribute.KeyValue, inside func(context.Context),
) {
	ctx, span := t.tracer.Start(ctx, name, trace.WithTimestamp(begun), trace.WithSpanKind(kind),
		trace.WithAttributes(attributes...))
	if failure != "" {
		span.SetStatus(codes.Error, failure)
	}
	if inside != nil && span.IsRecording() {
		inside(context.WithValue(ctx, spanIDKey{}, trace.SpanID{})) // they have ids of their own
	}
	span.End(trace.WithTimestamp(ended))
}

// traceID holds the ids of a trace that will be made.
type traceID struct {
	trace.TraceID

	span   trace.SpanID      // of the turn
	parent trace.SpanContext // of the turn; not valid if it has none
	kept   bool              // it will be sent
}

// newID returns the ids of a new turn below parent, which may be invalid. Whether it is sent is
// decided by the parent, or else at random.
func (t *Traces) newID(parent trace.SpanContext) traceID {
	if t == nil {
		return traceID{}
	}
	id := traceID{TraceID: parent.TraceID(), parent: parent}
	if !parent.IsValid() {
		binary.BigEndian.PutUint64(id.TraceID[:8], rand.Uint64())
		binary.BigEndian.PutUint64(id.TraceID[8:], rand.Uint64())
	}
	binary.BigEndian.PutUint64(id.span[:], rand.Uint64())
	id.kept = t.sampler.ShouldSample(sdk.SamplingParameters{
		ParentContext: trace.ContextWithRemoteSpanContext(context.Background(), parent), TraceID: id.TraceID,
	}).Decision == sdk.RecordAndSample
	return id
}

// exemplar returns the id for metrics, empty if the trace will not be sent.
func (id traceID) exemplar() string {
	if !id.kept {
		return ""
	}
	return id.String()
}

// spanContext returns the turn's span as requests name it.
func (id traceID) spanContext() trace.SpanContext {
	return trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: id.TraceID, SpanID: id.span, TraceFlags: trace.TraceFlags(0).WithSampled(id.kept),
		TraceState: id.parent.TraceState(),
	})
}

type (
	traceIDKey struct{}
	spanIDKey  struct{}
)

// context returns a context in which the next span is the turn's.
func (id traceID) context() context.Context {
	ctx := context.WithValue(context.WithValue(context.Background(), traceIDKey{}, id.TraceID), spanIDKey{}, id.span)
	if id.parent.IsValid() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, id.parent)
	}
	return ctx
}

// ids generates the ids of spans, or uses those in the context of [traceID.context].
type ids struct{}

func (ids) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	id, _ := ctx.Value(traceIDKey{}).(trace.TraceID)
	return id, ids{}.NewSpanID(ctx, id)
}

func (ids) NewSpanID(ctx context.Context, _ trace.TraceID) (id trace.SpanID) {
	if id, _ = ctx.Value(spanIDKey{}).(trace.SpanID); !id.IsValid() {
		binary.BigEndian.PutUint64(id[:], rand.Uint64())
	}
	return id
}

// reporting logs once when traces cannot be sent, and once when they can again.
type reporting struct {
	sdk.SpanExporter

	mask    *strings.Replacer // of keys, which a receiver may quote
	log     *slog.Logger
	failing atomic.Bool
}

// minKey is the length in bytes from which a word of a header is masked: shorter ones, such as Bearer, are no keys.
const minKey = 8

func newReporting(exporter sdk.SpanExporter, cfg TraceConfig) *reporting {
	var masks []string
	for _, value := range cfg.Headers {
		for word := range strings.FieldsSeq(value) {
			if len(word) >= minKey {
				masks = append(masks, word, "[key]")
			}
		}
	}
	return &reporting{SpanExporter: exporter, mask: strings.NewReplacer(masks...), log: cfg.Logger}
}

// ExportSpans implements the SDK's exporter.
func (r *reporting) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	err := r.SpanExporter.ExportSpans(ctx, spans)
	if was := r.failing.Swap(err != nil); err != nil && !was {
		r.log.Warn("traces cannot be sent", "error", r.mask.Replace(err.Error()))
	} else if err == nil && was {
		r.log.Info("traces are sent again")
	}
	return nil // the SDK would print the error instead of logging it
}
