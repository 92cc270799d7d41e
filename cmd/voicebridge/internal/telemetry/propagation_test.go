package telemetry

import (
	"context"
	"net/http"
	"testing"

	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"voicebridge/chat"
)

const (
	askedTrace = "4bf92f3577b34da6a3ce929d0e0e4736"
	askedSpan  = "00f067aa0ba902b7"
)

// named returns the headers of a request that names a parent.
func named(traceparent string) http.Header {
	h := http.Header{}
	h.Set("traceparent", traceparent)
	return h
}

// root returns the only span of that name.
func root(t *testing.T, spans tracetest.SpanStubs, name string) tracetest.SpanStub {
	t.Helper()
	var found []tracetest.SpanStub
	ids := map[string]bool{}
	for _, s := range spans {
		if ids[s.SpanContext.SpanID().String()] {
			t.Errorf("two spans have the id %s", s.SpanContext.SpanID())
		}
		ids[s.SpanContext.SpanID().String()] = true
		if s.Name == name {
			found = append(found, s)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d spans %s", len(found), name)
	}
	return found[0]
}

// TestTextTurnOfATrace checks the trace of a text turn whose request names a parent, and what its
// own requests name.
func TestTextTurnOfATrace(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		traceparent   string
		of, sent      bool // the parent's trace; spans are sent
		written, flag string
	}{
		"sampled":         {"00-" + askedTrace + "-" + askedSpan + "-01", true, true, askedTrace, "01"},
		"not sampled":     {"00-" + askedTrace + "-" + askedSpan + "-00", true, false, askedTrace, "00"},
		"none":            {"", false, true, "", "01"},
		"half a one":      {"00-" + askedTrace, false, true, "", "01"},
		"zeros":           {"00-00000000000000000000000000000000-" + askedSpan + "-01", false, true, "", "01"},
		"hostile letters": {"00-" + askedTrace + "-" + askedSpan + "-01\r\nx: y", false, true, "", "01"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, _, spans := setup(t)
			ctx := o.traces.Begin(o.traces.Read(t.Context(), named(c.traceparent)))
			out := http.Header{}
			o.traces.Write(ctx, out)
			o.TurnFinished(context.WithoutCancel(ctx), chat.TurnReport{Course: chat.Course{
				Begun: begun, Ended: after(5), Saves: []chat.Interval{{Begun: after(1), Ended: after(2)}, {Begun: after(3), Ended: after(4)}},
			}})
			if n := len(spans.GetSpans()); (n > 0) != c.sent {
				t.Fatalf("%d spans are sent", n)
			}
			parent := out.Get("traceparent")
			if len(parent) != 55 || parent[53:] != c.flag || c.of && parent[3:35] != askedTrace || parent[36:52] == askedSpan {
				t.Errorf("requests name %q", parent)
			}
			if !c.sent {
				return
			}
			turn := root(t, spans.GetSpans(), "text turn")
			if turn.SpanContext.SpanID().String() != parent[36:52] || turn.SpanContext.TraceID().String() != parent[3:35] {
				t.Errorf("the turn is %v, but its requests name %q", turn.SpanContext, parent)
			}
			if got := turn.Parent.SpanID().String() == askedSpan; got != c.of {
				t.Errorf("its parent is %v", turn.Parent)
			}
		})
	}
}

// TestVoiceTurnOfATrace checks that the turns of a call belong to the trace of the request that
// began it, and those of the next call do not.
func TestVoiceTurnOfATrace(t *testing.T) {
	t.Parallel()
	o, _, spans := setup(t)
	c := o.Call(o.traces.Read(t.Context(), named("00-"+askedTrace+"-"+askedSpan+"-01")), call, "call-1")
	c.TurnOver(spokenTurn())
	if turn := root(t, spans.GetSpans(), "voice turn"); turn.SpanContext.TraceID().String() != askedTrace || turn.Parent.SpanID().String() != askedSpan {
		t.Errorf("the turn is %v below %v", turn.SpanContext, turn.Parent)
	}
	spans.Reset()
	o.Call(t.Context(), call, "call-2").TurnOver(spokenTurn())
	if turn := root(t, spans.GetSpans(), "voice turn"); turn.Parent.IsValid() {
		t.Errorf("the turn of another call is below %v", turn.Parent)
	}
}

// TestNothingIsNamedWithoutTraces checks that requests stay as they are.
func TestNothingIsNamedWithoutTraces(t *testing.T) {
	t.Parallel()
	var none *Traces
	ctx := none.Begin(none.Read(t.Context(), named("00-"+askedTrace+"-"+askedSpan+"-01")))
	out := http.Header{}
	if none.Write(ctx, out); len(out) != 0 {
		t.Errorf("requests have %v", out)
	}
}
