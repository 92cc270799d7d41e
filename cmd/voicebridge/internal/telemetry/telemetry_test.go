package telemetry

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.uber.org/goleak"

	"voicebridge/chat"
	"voicebridge/internal/testkit"
	"voicebridge/persistence"
	"voicebridge/persistence/records"
	"voicebridge/thread"
	"voicebridge/toolkit"
	"voicebridge/toolkit/mcptool"
)

var must = testkit.Must

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// begun is when the turns of the tests begin.
var begun = time.Date(2026, 11, 22, 12, 0, 0, 0, time.FixedZone("odd", 5*3600+1800))

func after(ms int) time.Time { return begun.Add(time.Duration(ms) * time.Millisecond) }

// setup is an observer, the metrics that it exposes, and the spans that it has made.
func setup(t *testing.T) (*Observer, func() string, *tracetest.InMemoryExporter) {
	t.Helper()
	registry := prometheus.NewRegistry()
	metrics, err := NewMetrics(registry, "v1")
	must(t, err)
	spans := tracetest.NewInMemoryExporter()
	traces, err := newTraces(t.Context(), TraceConfig{Sample: 1, Version: "v1", Instance: "i"}, sdk.WithSyncer(spans))
	must(t, err)
	t.Cleanup(func() {
		if err := traces.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	handler := promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
	return NewObserver(metrics, traces, "simulator"), func() string {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		return w.Body.String()
	}, spans
}

func want(t *testing.T, text string, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if !strings.Contains(text, line) {
			t.Errorf("%q is not in\n%s", line, text)
		}
	}
}

func TestTextTurn(t *testing.T) {
	t.Parallel()
	o, scrape, _ := setup(t)
	o.TurnFinished(t.Context(), chat.TurnReport{
		Key:    thread.Key{Owner: "anna", Thread: "thread-1"},
		Result: chat.Result{Text: "canary: what is the weather?", Provider: "openai", MessageID: "message-1", Finish: chat.FinishStop},
		Course: chat.Course{
			Begun: begun, Ended: after(900), FirstToken: 400 * time.Millisecond,
			Requests: []records.Response{
				{Model: "m", Status: "completed", CreatedAt: after(10), FinishedAt: new(after(300)), CostUSD: new(0.25), Usage: thread.Usage{InputTokens: 100, OutputTokens: 7, CachedTokens: 40}},
				{Model: "m", Status: "failed", StatusReason: "rate", CreatedAt: after(400), FinishedAt: new(after(500))},
				{Model: "m", Status: "completed", CreatedAt: after(500), FinishedAt: new(after(800)), Usage: thread.Usage{InputTokens: 1}},
			},
		},
	})
	o.RequestFinished("openai", records.Response{Model: "titles", Status: "completed", CostUSD: new(0.5), Usage: thread.Usage{InputTokens: 9}})
	want(t, scrape(), `voicebridge_tokens_total{kind="text",model="titles",type="input"} 9`, `voicebridge_cost_usd_total{kind="text",model="titles"} 0.5`)
	want(t, scrape(),
		`voicebridge_answer_latency_seconds_bucket{kind="text",stage="first_token",le="0.5"} 1`,
		`voicebridge_answer_latency_seconds_count{kind="text",stage="total"} 1`,
		`voicebridge_tokens_total{kind="text",model="m",type="input"} 101`, `type="cached"} 40`, `type="output"} 7`,
		`voicebridge_cost_usd_total{kind="text",model="m"} 0.25`, `voicebridge_unpriced_responses_total{kind="text",model="m"} 1`,
		`voicebridge_upstream_failures_total{kind="text",reason="rate",upstream="openai"} 1`)
}

type namedTool struct{ toolkit.Tool }

func (namedTool) Definition() toolkit.Definition { return toolkit.Definition{Name: "createTable"} }

func TestFigures(t *testing.T) {
	t.Parallel()
	o, scrape, _ := setup(t)
	for _, r := range []toolkit.Report{
		{Entry: toolkit.Entry{Tool: namedTool{}, Executor: toolkit.ExecutorApp}, Ending: toolkit.EndedDone, Took: time.Second},
		{Call: toolkit.Call{Name: "files__read"}, Entry: toolkit.Entry{Tool: namedTool{}, Executor: toolkit.ExecutorMCP, Server: "files"}, Ending: toolkit.EndedTimeout},
		{Call: toolkit.Call{Name: "chosen-by-a-page"}, Entry: toolkit.Entry{Tool: namedTool{}, Executor: toolkit.ExecutorClient}, Ending: toolkit.EndedFailed},
		{Call: toolkit.Call{Name: "chosen-by-a-model"}, Ending: toolkit.EndedFailed},
	} {
		o.Tool(r)
	}
	o.Write(3*time.Millisecond, true)
	o.Write(5*time.Second, false)
	said := []persistence.Change{persistence.PutMessage{Turn: "text"}, persistence.PutCall{}}
	o.Saved(time.Millisecond, false, true, said)
	o.Saved(time.Millisecond, true, true, said)
	o.Saved(time.Millisecond, false, false, said)
	o.Saved(time.Millisecond, false, true, said[:1])
	o.Lost(2)
	o.QueueSent(time.Second)
	o.QueuePaused("auth")
	text := scrape()
	want(t, text,
		`voicebridge_tool_calls_total{executor="app",outcome="done",tool="createTable"} 1`,
		`voicebridge_tool_calls_total{executor="mcp",outcome="timeout",tool="files"} 1`,
		`voicebridge_tool_calls_total{executor="client",outcome="failed",tool=""} 1`,
		`voicebridge_tool_calls_total{executor="unknown",outcome="failed",tool=""} 1`,
		`voicebridge_tool_call_duration_seconds_sum{executor="app",tool="createTable"} 1`,
		`voicebridge_database_commit_duration_seconds_count{outcome="saved"} 1`, `voicebridge_database_commit_duration_seconds_sum{outcome="away"} 5`,
		`voicebridge_call_save_duration_seconds_count{where="database"} 1`, `{where="file"} 1`, `{where="lost"} 1`, `voicebridge_call_changes_lost_total 2`,
		`voicebridge_queue_wait_seconds_count 1`, `voicebridge_queue_pauses_total{reason="auth"} 1`, `voicebridge_build_info{go="go1.`)
	if strings.Contains(text, "chosen-by") {
		t.Error("a label has a name that a client or a model has chosen")
	}
}

// TestModelNamesAreBounded checks that clients who name models cannot fill the memory.
func TestModelNamesAreBounded(t *testing.T) {
	t.Parallel()
	n := names{limit: 2}
	var got []string
	for _, name := range []string{"a", "b", "c", "a", "d"} {
		got = append(got, n.of(name))
	}
	testkit.Equal(t, got, []string{"a", "b", "other", "a", "other"}, "got")
}

func TestWatch(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	must(t, Watch(registry, Parts{
		Spooled: func() int { return 3 },
		Queued:  func(context.Context) (int64, error) { return 5, nil },
		MCP: func() []mcptool.Status {
			return []mcptool.Status{{Name: "files", Connected: true, Tools: 7, Held: []mcptool.Held{{}}}, {Name: "gone"}}
		},
		Certificates: func() map[string]time.Time {
			return map[string]time.Time{"voice.example.org": time.Unix(1900000000, 0)}
		},
	}))
	must(t, Watch(prometheus.NewRegistry(), Parts{}))
	if n := count(func(context.Context) (int64, error) { return 0, persistence.ErrUnavailable }); !math.IsNaN(n) {
		t.Errorf("without a database %v messages wait", n)
	}
	w := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	want(t, w.Body.String(), "voicebridge_spool_changes 3", "voicebridge_queue_waiting 5", `voicebridge_mcp_server_up{server="files"} 1`, `voicebridge_mcp_server_up{server="gone"} 0`,
		`voicebridge_certificate_not_after_seconds{domain="voice.example.org"} 1.9e+09`, `voicebridge_mcp_tools{server="files"} 7`, `voicebridge_mcp_tools_held{server="files"} 1`)
}

// TestServe reads the operators' port, ends a profile with it, and rejects pages in a browser.
func TestServe(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	metrics := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "figures") })
	go func() { ended <- Serve(ctx, ln, metrics, slog.New(slog.DiscardHandler)) }()
	get := func(path, host string) (int, string) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+ln.Addr().String()+path, http.NoBody)
		must(t, err)
		r.Host = host
		r.Close = true
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			return 0, err.Error()
		}
		defer func() { _ = res.Body.Close() }()
		body, _ := io.ReadAll(res.Body)
		return res.StatusCode, string(body)
	}
	for _, c := range []struct {
		path, host string
		status     int
		want       string
	}{
		{"/metrics", "localhost:1", 200, "figures"}, {"/metrics", "", 200, "figures"}, {"/metrics", "[::1]:9", 200, "figures"}, {"/metrics", "127.0.0.1", 200, "figures"},
		{"/healthz", "", 200, "ok"}, {"/debug/pprof/", "", 200, "goroutine"}, {"/debug/pprof/heap?debug=1", "", 200, "heap profile"}, {"/debug/pprof/cmdline", "", 200, ""},
		{"/", "", 404, ""}, {"/metrics", "evil.example.org", 421, ""}, {"/debug/pprof/heap", "localhost.evil.example.org:80", 421, ""},
	} {
		if status, body := get(c.path, c.host); status != c.status || !strings.Contains(body, c.want) {
			t.Errorf("%s of %q: %d %.100s", c.path, c.host, status, body)
		}
	}
	profile := make(chan struct{})
	go func() { defer close(profile); get("/debug/pprof/trace?seconds=60", "") }()
	// Without a profile the server would end at once; with one it takes the second that Serve
	// allows.
	time.AfterFunc(100*time.Millisecond, stop)
	must(t, testkit.Take(t, "the end", ended))
	testkit.Take(t, "profile", profile)
	http.DefaultClient.CloseIdleConnections()
}

// TestServeFails checks the error of a broken listener.
func TestServeFails(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	must(t, ln.Close())
	if err := Serve(t.Context(), ln, http.NotFoundHandler(), slog.New(slog.DiscardHandler)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("got %v", err)
	}
}
