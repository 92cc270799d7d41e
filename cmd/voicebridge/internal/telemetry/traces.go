package telemetry

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"voicebridge/bridge"
)

// TraceConfig says where traces go.
type TraceConfig struct {
	// Base URL of an OTLP receiver that speaks HTTP, such as http://127.0.0.1:4318; traces go to /v1/traces below it.
	// Empty: off. Headers with a key: OTEL_EXPORTER_OTLP_HEADERS.
	Endpoint string `yaml:"endpoint" format:"url" env:"OTEL_EXPORTER_OTLP_ENDPOINT"`
	// Headers are sent with every request, such as a key of the receiver.
	Headers map[string]string
	// Share of calls that are traced.
	Sample float64 `yaml:"sample" default:"1" min:"0" max:"1"`
	// Version is the program's version, Instance the id of the process.
	Version, Instance string
	Logger            *slog.Logger
}

// Traces makes and sends a trace of how each call was set up. A nil one makes none. It is safe for concurrent use.
type Traces struct {
	provider *sdk.TracerProvider
	tracer   trace.Tracer
}

// OpenTraces makes the exporter. It sends nothing yet: an unreachable receiver is not an error.
func OpenTraces(ctx context.Context, cfg TraceConfig) (*Traces, error) {
	exporter, err := otlptracehttp.New(ctx,
		otlptracehttp.WithEndpointURL(strings.TrimSuffix(cfg.Endpoint, "/")+"/v1/traces"),
		otlptracehttp.WithHeaders(cfg.Headers), otlptracehttp.WithTimeout(10*time.Second))
	if err != nil {
		return nil, fmt.Errorf("open traces: %w", err)
	}
	return newTraces(ctx, cfg, sdk.WithBatcher(newReporting(exporter, cfg)))
}

func newTraces(ctx context.Context, cfg TraceConfig, export sdk.TracerProviderOption) (*Traces, error) {
	about, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithAttributes(
		attribute.String("service.name", "voicebridge"), attribute.String("service.version", cfg.Version),
		attribute.String("service.instance.id", cfg.Instance),
	), resource.WithFromEnv()) // OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES
	if err != nil {
		return nil, fmt.Errorf("open traces: OTEL_RESOURCE_ATTRIBUTES must be name=value,name=value: %w", err)
	}
	sampler := sdk.ParentBased(sdk.TraceIDRatioBased(cfg.Sample))
	provider := sdk.NewTracerProvider(export, sdk.WithResource(about), sdk.WithSampler(sampler))
	return &Traces{provider: provider, tracer: provider.Tracer("voicebridge")}, nil
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

// Read returns a context with the span that a request's headers (W3C Trace Context) name as its parent, if they name
// one.
func (t *Traces) Read(ctx context.Context, header http.Header) context.Context {
	if t == nil {
		return ctx
	}
	return propagation.TraceContext{}.Extract(ctx, propagation.HeaderCarrier(header))
}

// setUp makes the trace of how a call was set up, below the span that asked for it.
func (t *Traces) setUp(asker trace.SpanContext, s bridge.SetUp, about ...attribute.KeyValue) {
	if t == nil || len(s.Steps) == 0 {
		return
	}
	ctx := trace.ContextWithRemoteSpanContext(context.Background(), asker)
	ctx, whole := t.tracer.Start(ctx, "call set-up", trace.WithTimestamp(s.Began), trace.WithAttributes(about...))
	for _, step := range s.Steps {
		_, span := t.tracer.Start(ctx, step.Name, trace.WithTimestamp(step.Began))
		span.End(trace.WithTimestamp(step.Ended))
	}
	whole.End(trace.WithTimestamp(s.Ended()))
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
