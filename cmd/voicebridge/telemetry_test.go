package main

import (
	"context"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"voicebridge/internal/testkit"
)

// serving runs serve until the test ends, and returns the address of the page and the program's
// log.
func serving(t *testing.T, environ ...string) (url string, log *output) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	var out, errs output
	ended := make(chan int, 1)
	go func() { ended <- execute(ctx, []string{"serve"}, environment(t, environ...), &out, &errs) }()
	t.Cleanup(func() {
		stop()
		testkit.Equal(t, <-ended, 0, "serve ended with: %s", errs.String())
	})
	address := regexp.MustCompile(`http://\S+`)
	eventually(t, func() bool {
		url = address.FindString(out.String())
		return url != "" || len(ended) > 0
	})
	if url == "" {
		t.Fatalf("serve did not begin: %s", errs.String())
	}
	return url, &errs
}

// eventually polls until something is true.
func eventually(t *testing.T, so func() bool) {
	t.Helper()
	again := time.Tick(10 * time.Millisecond)
	limit := time.After(3 * time.Minute)
	for !so() {
		select {
		case <-again:
		case <-limit:
			t.Fatal("it took a minute")
		}
	}
}

// request sends a request and returns the body of its answer.
func request(t *testing.T, method, url, accept, body string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	must(t, err)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", accept)
	res, err := new(http.Client).Do(r)
	must(t, err)
	defer func() { _ = res.Body.Close() }()
	raw, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode >= 300 {
		t.Fatalf("%s %s: %d %v %s", method, url, res.StatusCode, err, raw)
	}
	return string(raw)
}

// TestTelemetryOfATurn types a message that calls a tool and checks what operators see on their port.
func TestTelemetryOfATurn(t *testing.T) {
	t.Parallel()
	url, log := serving(t, "VOICEBRIDGE_METRICS_LISTEN=:0")
	thread := regexp.MustCompile(`"id":"([^"]+)"`).FindStringSubmatch(request(t, http.MethodPost, url+"/api/threads", "", "{}"))[1]
	request(t, http.MethodPost, url+"/api/threads/"+thread+"/messages", "", `{"content":"Draw me a chart of the canaries, please."}`)

	operators := "http://" + regexp.MustCompile(`metrics and profiles" address=(\S+)`).FindStringSubmatch(log.String())[1]
	if !strings.HasPrefix(operators, "http://127.0.0.1:") {
		t.Errorf("without a host the port is on %s", operators)
	}
	wantIn := func(text string, want ...string) {
		t.Helper()
		for _, w := range want {
			if !strings.Contains(text, w) {
				t.Errorf("%q is not in\n%s", w, text)
			}
		}
	}
	// The turn is reported after its answer was sent.
	figures := ""
	eventually(t, func() bool {
		figures = request(t, http.MethodGet, operators+"/metrics", "", "")
		return strings.Contains(figures, `stage="total"`)
	})
	wantIn(figures, `voicebridge_tool_calls_total{executor="app",outcome="done",tool="create_bar_chart"} 1`, `voicebridge_tokens_total{kind="text"`,
		`voicebridge_database_commit_duration_seconds_count{outcome="saved"}`, "voicebridge_spool_changes 0", "voicebridge_queue_waiting 0", "voicebridge_calls_live 0", "go_goroutines")
	wantIn(request(t, http.MethodGet, url+"/metrics", "", ""), "voicebridge_tool_calls_total") // without authentication the main port answers, too
	wantIn(request(t, http.MethodGet, operators+"/debug/pprof/goroutine?debug=1", "", ""), "goroutine profile")
}
