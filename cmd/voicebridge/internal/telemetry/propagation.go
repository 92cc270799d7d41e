package telemetry

import (
	"context"
	"net/http"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// w3c reads and writes the headers traceparent and tracestate (W3C Trace Context).
var w3c propagation.TraceContext

// Read returns a context with the span that a request names as its parent, if it names one.
func (t *Traces) Read(ctx context.Context, header http.Header) context.Context {
	if t == nil {
		return ctx
	}
	return w3c.Extract(ctx, propagation.HeaderCarrier(header))
}

type turnKey struct{}

// Begin returns the context of a text turn: with the ids of its trace, below the parent that ctx
// has.
func (t *Traces) Begin(ctx context.Context) context.Context {
	if t == nil {
		return ctx
	}
	id := t.newID(trace.SpanContextFromContext(ctx))
	return trace.ContextWithSpanContext(context.WithValue(ctx, turnKey{}, id), id.spanContext())
}

// begunAs returns the ids with which a turn began, or new ones.
func (t *Traces) begunAs(ctx context.Context) traceID {
	if id, ok := ctx.Value(turnKey{}).(traceID); ok {
		return id
	}
	return t.newID(trace.SpanContext{})
}

// Write adds the headers that name the span of ctx as the parent of a request.
func (t *Traces) Write(ctx context.Context, header http.Header) {
	if t != nil {
		w3c.Inject(ctx, propagation.HeaderCarrier(header))
	}
}

// Client returns a client whose requests have a User-Agent and, if anything is traced, name the span of their context
// as their parent.
func (t *Traces) Client(agent string) *http.Client { return &http.Client{Transport: naming{t, agent}} }

// naming is the default transport with the headers of Client.
type naming struct {
	traces *Traces
	agent  string
}

func (n naming) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	n.traces.Write(r.Context(), r.Header)
	r.Header.Set("User-Agent", n.agent)
	return http.DefaultTransport.RoundTrip(r)
}

// CloseIdleConnections is called by [http.Client].
func (naming) CloseIdleConnections() { http.DefaultTransport.(*http.Transport).CloseIdleConnections() }
