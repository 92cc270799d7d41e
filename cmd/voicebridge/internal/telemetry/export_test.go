package telemetry

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	"voicebridge/internal/testkit"
)

// TestReceiver sends a trace to an OTLP receiver that speaks HTTP.
func TestReceiver(t *testing.T) {
	t.Parallel()
	requests := make(chan *collector.ExportTraceServiceRequest, 10)
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body io.Reader = r.Body
		if r.Header.Get("Content-Encoding") == "gzip" {
			body, _ = gzip.NewReader(r.Body)
		}
		raw, _ := io.ReadAll(body)
		request := new(collector.ExportTraceServiceRequest)
		if err := proto.Unmarshal(raw, request); err != nil || r.URL.Path != "/base/v1/traces" || r.Header.Get("X-Key") != "k 1" {
			t.Errorf("%s with key %q: %v", r.URL.Path, r.Header.Get("X-Key"), err)
		}
		requests <- request
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	defer receiver.Close()
	traces, err := OpenTraces(t.Context(), TraceConfig{
		Endpoint: receiver.URL + "/base/", Headers: map[string]string{"X-Key": "k 1"}, Sample: 1, Version: "v9", Instance: "i7", Logger: slog.New(slog.DiscardHandler),
	})
	must(t, err)
	traces.setUp(trace.SpanContext{}, setUp)
	if err := traces.Close(t.Context()); err != nil { // which sends
		t.Fatal(err)
	}
	request := testkit.Take(t, "requests", requests)
	text := request.String()
	for _, want := range []string{`"voicebridge"`, `"v9"`, `"i7"`, `name:"call set-up"`} {
		if !strings.Contains(strings.ReplaceAll(text, "  ", " "), want) {
			t.Errorf("%s is not in %s", want, text)
		}
	}
	if span := request.ResourceSpans[0].ScopeSpans[0].Spans[0]; span.StartTimeUnixNano != uint64(begun.UnixNano()) {
		t.Errorf("span %v", span)
	}
}

// TestReceiverIsAway logs once, and once more when the receiver is back, without the key that the receiver quotes.
func TestReceiverIsAway(t *testing.T) {
	t.Parallel()
	var away atomic.Bool
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if away.Load() {
			http.Error(w, "unknown key: "+r.Header.Get("Authorization"), http.StatusForbidden) // is not retried
		}
	}))
	defer receiver.Close()
	var log bytes.Buffer
	traces, err := OpenTraces(t.Context(), TraceConfig{
		Endpoint: receiver.URL, Headers: map[string]string{"Authorization": "Bearer key-of-receiver"}, Sample: 1, Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	must(t, err)
	for _, a := range []bool{true, true, false, false, true} {
		away.Store(a)
		traces.setUp(trace.SpanContext{}, setUp)
		if err := traces.provider.ForceFlush(t.Context()); err != nil {
			t.Error(err)
		}
	}
	must(t, traces.Close(context.Background()))
	if failed, again := strings.Count(log.String(), "traces cannot be sent"), strings.Count(log.String(), "traces are sent again"); failed != 2 || again != 1 {
		t.Errorf("%d failures and %d recoveries in\n%s", failed, again, &log)
	}
	if text := log.String(); strings.Contains(text, "key-of-receiver") || !strings.Contains(text, "unknown key: Bearer [key]") {
		t.Errorf("the log shows the key, or not what the receiver says:\n%s", text)
	}
}

// TestBadAttributes names the variable that prevents the start.
func TestBadAttributes(t *testing.T) {
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "a")
	_, err := newTraces(t.Context(), TraceConfig{}, sdk.WithSyncer(tracetest.NewInMemoryExporter()))
	if err == nil || !strings.Contains(err.Error(), "OTEL_RESOURCE_ATTRIBUTES") {
		t.Errorf("newTraces() = %v", err)
	}
}
