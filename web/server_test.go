package web

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"voicebridge/assistant"
	"voicebridge/internal/testkit"
	"voicebridge/persistence/privacy"
	"voicebridge/toolkit"
	"voicebridge/web/access"
)

func TestConfigAnswer(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *Config) {
		c.ICEServers = []ICEServer{{URLs: []string{"turn:t.example"}, Username: "u", Credential: access.NewSecret("p")}}
	})
	want := `{"upstream":"simulator","upstream_note":"a simulator","version":"test","model":"model-1","voice":"voice-1","turn_detection":null,` +
		`"authentication":false,"owner":"local","recording":false,"ice_servers":[{"urls":["turn:t.example"],"username":"u","credential":"p"}]}` + "\n"
	testkit.Equal(t, b.do(t, "GET", "/api/config", "").body, want, "b.do(t, \"GET\", \"/api/config\", \"\").body")
}

type namedTool string

func (n namedTool) Definition() toolkit.Definition {
	return toolkit.Definition{Name: string(n), Description: "d", Parameters: []byte(`{"type":"object"}`)}
}

func (n namedTool) Call(context.Context, toolkit.Call) iter.Seq2[toolkit.Chunk, error] { return nil }

func TestTools(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *Config) {
		tokens(c)
		c.Tools = func(_ context.Context, owner string, a assistant.Assistant) (*toolkit.Registry, error) {
			if owner == "bob" {
				return nil, errors.New("sk-canary1234 is broken")
			}
			r := toolkit.NewRegistry()
			if a.ID == "desk" {
				return r, r.Replace(nil, []toolkit.Entry{{Tool: namedTool("c"), Executor: toolkit.ExecutorApp}})
			}
			return r, r.Replace(nil, []toolkit.Entry{{Tool: namedTool("a"), Executor: toolkit.ExecutorApp}, {Tool: namedTool("s__b"), Executor: toolkit.ExecutorMCP, Server: "s"}})
		}
	})
	want := `{"tools":[{"name":"a","description":"d","parameters":{"type":"object"},"executor":"app"},` +
		`{"name":"s__b","description":"d","parameters":{"type":"object"},"executor":"mcp","server":"s"}]}` + "\n"
	testkit.Equal(t, b.do(t, "GET", "/api/tools", "", as("alice-token-of-tests")).body, want, "b.do")
	wantStatus(t, b.do(t, "POST", "/api/assistants", `{"name":"Desk"}`, alice), 201)
	of := "/api/tools?thread_id=" + decode[struct{ ID string }](t, b.do(t, "POST", "/api/threads", `{"assistant_id":"desk"}`, alice)).ID
	if got := b.do(t, "GET", of, "", alice).body; !strings.HasPrefix(got, `{"tools":[{"name":"c",`) {
		t.Errorf("of a thread: %s", got)
	}
	wantError(t, b.do(t, "GET", of, "", bob), 404, "thread_not_found")
	wantError(t, b.do(t, "GET", "/api/tools", "", as("bob-token-of-tests")), 500, "internal_error")
	if strings.Contains(b.log.String(), "canary") {
		t.Error("a key is in the log")
	}
	held := []HeldTool{{namedTool("s__b").Definition(), "changed"}, {namedTool("s__c").Definition(), "new"}}
	got := withHeld([]toolAnswer{{Name: "s__b", Server: "other"}, {Name: "s__b", Server: "s"}}, ToolServer{Name: "s", Held: held})
	if len(got) != 3 || got[0].State != "" || got[1].Why != "changed" || !*got[1].Offered || got[2].Name != "s__c" || got[2].State != "held" || *got[2].Offered || got[2].Why != "new" {
		t.Errorf("tools that need approval are %+v", got)
	}
	if got := setup(t, func(c *Config) { c.ToolServers = fakeServers{list: []ToolServer{{Name: "s", Held: held}}} }).do(t, "GET", "/api/tools", "").body; !strings.Contains(got,
		`"name":"s__c","description":"d","parameters":{"type":"object"},"executor":"mcp","server":"s","state":"held","offered":false,"why":"new"}`) || !strings.Contains(got, `"servers":[{"name":"s","connected":false,"tools":0}]`) {
		t.Errorf("with tools that need approval: %s", got)
	}
	testkit.Equal(t, setup(t, nil).do(t, "GET", "/api/tools", "").body, `{"tools":[]}`+"\n", "without tools")
}

func TestHealth(t *testing.T) {
	t.Parallel()
	b := setup(t, tokens)
	wantStatus(t, b.do(t, "GET", "/healthz", ""), 200)
	wantStatus(t, b.do(t, "GET", "/readyz", ""), 200)
	must(t, b.db.Close())
	wantStatus(t, b.do(t, "GET", "/healthz", ""), 200)
	wantError(t, b.do(t, "GET", "/readyz", ""), 503, "storage_unavailable")
	wantError(t, b.do(t, "GET", "/api/threads", "", as("alice-token-of-tests")), 503, "shutting_down")
}

// TestHead asks for headers alone, as monitors do: they are those of GET.
func TestHead(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	server := b.listen(t)
	thread := "/api/threads/" + b.thread(t, access.LocalOwner).Thread
	ask := func(method, path string) (status, body string) {
		req, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, nil)
		must(t, err)
		r, err := server.Client().Do(req)
		must(t, err)
		defer r.Body.Close()
		data, err := io.ReadAll(r.Body)
		must(t, err)
		return r.Status + " " + r.Header.Get("Content-Type"), string(data)
	}
	for _, path := range []string{
		"/", "/healthz", "/readyz", "/metrics", "/openapi.json", "/api/config", "/api/threads", thread, thread + "/messages", thread + "/export", thread + "/queue",
		"/api/threads/none", "/nope",
	} {
		want, _ := ask("GET", path)
		if got, body := ask("HEAD", path); got != want || body != "" {
			t.Errorf("HEAD %s: %s with body %q, want %s without", path, got, body, want)
		}
	}
	// A stream and a socket have no headers to wait for.
	for _, path := range []string{thread + "/stream", thread + "/ws", "/api/ws", "/conductor"} {
		if got, _ := ask("HEAD", path); !strings.HasPrefix(got, "405 ") {
			t.Errorf("HEAD %s: %s", path, got)
		}
	}
}

// TestMalformedQuery asks with values that are not escaped: dropping them would answer another question.
func TestMalformedQuery(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	for _, query := range []string{"q=%zz", "q=a;b", "limit=5&q=%", "%=x"} {
		wantError(t, b.do(t, "GET", "/api/threads?"+query, ""), 400, "invalid_query")
		wantError(t, b.do(t, "POST", callsPath+"?"+query, sdpOffer, sdpType), 400, "invalid_query")
		wantStatus(t, b.do(t, "GET", "/?"+query, ""), 200)
	}
	wantStatus(t, b.do(t, "GET", "/api/threads?q=a%3Bb+c&&x", ""), 200)
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	wantStatus(t, b.do(t, "POST", callsPath, sdpOffer, sdpType), 201)
	wantStatus(t, b.do(t, "POST", callsPath, "", sdpType), 400)
	for _, path := range []string{"/made-up-1", "/made-up-2", "/", "/favicon.svg", "/api/threads/some-thread"} {
		b.do(t, "GET", path, "")
	}
	b.do(t, "BREW", "/", "")
	b.do(t, "GET", "/api/ws", "", header("Connection", "Upgrade"), header("Upgrade", "websocket"))
	b.pipeline.metrics.CallEnded("hangup")
	b.pipeline.metrics.DraftsDropped(3)
	r := b.do(t, "GET", "/metrics", "")
	wantStatus(t, r, 200)
	body := r.body
	for _, line := range []string{
		"voicebridge_calls_live 1", "voicebridge_calls_started_total 1", `voicebridge_calls_refused_total{code="bad_sdp"} 1`,
		`voicebridge_calls_ended_total{reason="hangup"} 1`, `voicebridge_call_events_total{event="renewal_failed"} 0`, "voicebridge_drafts_dropped_total 3", "voicebridge_thread_events_dropped_total 0", "voicebridge_sockets_live 0",
		`voicebridge_http_requests_total{method="POST",route="/v1/realtime/calls",status="201"} 1`,
		`voicebridge_http_requests_total{method="GET",route="other",status="404"} 2`,
		`voicebridge_http_requests_total{method="GET",route="/api/threads/:id",status="404"} 1`,
		`voicebridge_http_requests_total{method="GET",route="/",status="200"} 1`,
		`voicebridge_http_requests_total{method="GET",route="page",status="200"} 1`,
		`voicebridge_http_request_duration_seconds_count{route="page"} 1`, "go_goroutines ",
	} {
		if !strings.Contains(body, "\n"+line) {
			t.Errorf("%q is missing", line)
		}
	}
	if strings.Contains(body, "made-up") || strings.Contains(body, "BREW") || strings.Contains(body, "some-thread") {
		t.Error("requests of strangers create metrics")
	}
	if strings.Contains(body, `voicebridge_http_request_duration_seconds_count{route="/api/ws"}`) {
		t.Error("the life of a socket counts as the time of a request")
	}
}

func TestNewChecksItsConfig(t *testing.T) {
	t.Parallel()
	_, err := New(Config{})
	for _, want := range []string{"Calls", "Chat", "Queue", "Store", "ToolServers", "Privacy", "CheckHook", "Page", "authentication"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error %v does not name %s", err, want)
		}
	}
	b := setup(t, nil)
	good := Config{ToolServers: fakeServers{}, Calls: b.calls, Chat: b.chat, Queue: b.queue, Store: b.db, Privacy: privacy.Parts(b.db), CheckHook: func(url string) (string, error) { return url, nil }, Page: testPage, Loopback: true, Auth: access.Auth{Secret: access.NewSecret("s")}}
	if _, err := New(good); err != nil {
		t.Error(err)
	}
	good.AllowedOrigins = []string{"*"}
	if _, err := New(good); err == nil {
		t.Error("every origin is allowed")
	}
}

func TestPanicEndsOneRequest(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *Config) {
		c.Tools = func(context.Context, string, assistant.Assistant) (*toolkit.Registry, error) { panic("sk-canary1234") }
	})
	r := b.do(t, "GET", "/api/tools", "")
	body := r.body
	if r.StatusCode != http.StatusInternalServerError || strings.Contains(body, "canary") || !strings.Contains(body, "internal_error") {
		t.Errorf("status %d: %s", r.StatusCode, body)
	}
	if log := b.log.String(); !strings.Contains(log, "handler panicked") || !strings.Contains(log, "server_test.go") || !strings.Contains(log, "status=500") {
		t.Errorf("the log has no trace: %s", log)
	}
	wantStatus(t, b.do(t, "GET", "/healthz", ""), 200)
}

func TestLogHasNoQuery(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	b.do(t, "GET", "/api/threads?token=canary", "", as("canary"), header("Cookie", "x=canary"))
	if log := b.log.String(); !strings.Contains(log, "path=/api/threads") || strings.Contains(log, "canary") {
		t.Errorf("log %s", log)
	}
}

func TestRunWaitsForRequests(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	b.calls.entered, b.calls.hold = make(chan struct{}, 1), make(chan struct{})
	address, stop := b.run(t)
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	status := make(chan int, 1)
	go func() {
		res, err := client.Post("http://"+address+callsPath, "application/sdp", strings.NewReader(sdpOffer))
		if err != nil {
			status <- 0
			return
		}
		defer func() { _ = res.Body.Close() }()
		status <- res.StatusCode
	}()
	testkit.Take(t, "the beginning", b.calls.entered)
	stopped := make(chan error, 1)
	go func() { stopped <- stop() }()
	for !b.closing.Load() { // the server has begun to stop
		select {
		case err := <-stopped:
			t.Fatalf("it stopped with a request running: %v", err)
		case <-time.After(time.Millisecond):
		}
	}
	close(b.calls.hold)
	testkit.Equal(t, testkit.Take(t, "the status", status), 201, "status")
	must(t, testkit.Take(t, "the stop", stopped))
	if _, err := net.DialTimeout("tcp", address, time.Second); err == nil {
		t.Error("it still listens")
	}
}

// deadlined records whether an answer has a deadline.
type deadlined struct {
	*httptest.ResponseRecorder
	until time.Time
}

func (d *deadlined) SetWriteDeadline(until time.Time) error {
	d.until = until
	return nil
}

// bodyEnd is the end of a body, which notes what time the answer had until then.
type bodyEnd struct {
	answer *deadlined
	until  time.Time
}

func (e *bodyEnd) Read([]byte) (int, error) {
	e.until = e.answer.until
	return 0, io.EOF
}

// TestAnswerAfterALongBody gives the answer to a conversation its whole time once that has arrived.
func TestAnswerAfterALongBody(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	w := &deadlined{ResponseRecorder: httptest.NewRecorder()}
	end := &bodyEnd{answer: w}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, messagesPath(b.thread(t, access.LocalOwner)), io.MultiReader(strings.NewReader(`{"content":""}`), end))
	r.Host = "localhost"
	r.Header.Set("Content-Type", "application/json")
	if b.ServeHTTP(w, r); w.Code != http.StatusBadRequest || end.until.IsZero() || !w.until.After(end.until) {
		t.Errorf("status %d, time until %v, and before the end of the body until %v", w.Code, w.until, end.until)
	}
}

// TestAnswersHaveTime checks that a client that does not read its answer holds nothing for ever, whatever it calls itself.
func TestAnswersHaveTime(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	for _, upgrade := range []string{"", "websocket"} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
		r.Host = "localhost"
		r.Header.Set("Upgrade", upgrade)
		w := &deadlined{ResponseRecorder: httptest.NewRecorder()}
		if b.ServeHTTP(w, r); w.Code != http.StatusOK || w.until.IsZero() {
			t.Errorf("Upgrade %q: status %d, time until %v", upgrade, w.Code, w.until)
		}
	}
}

// rawConn connects to a server until the test ends, or something takes too long.
func rawConn(t *testing.T, address string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	must(t, conn.SetDeadline(time.Now().Add(patience)))
	return conn
}

// TestMuchTooLargeBody sends a body to its end before it reads the answer, as simple clients do.
func TestMuchTooLargeBody(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	b.pipeline.bodyTimeout = patience
	address, _ := b.run(t)
	const size = 30 << 20
	for path, kind := range map[string]string{"/api/threads": "application/json", "/api/threads/" + b.thread(t, access.LocalOwner).Thread + "/images": "image/png"} {
		conn := rawConn(t, address)
		_, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n", path, kind, size)
		if err == nil {
			_, err = conn.Write(make([]byte, size))
		}
		must(t, err)
		if answer, err := io.ReadAll(conn); err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 413") {
			t.Errorf("%s: answer %q, err %v", path, answer, err)
		}
	}
}

func TestSlowBodyIsCutOff(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	b.pipeline.bodyTimeout = 20 * time.Millisecond
	address, _ := b.run(t)
	for name, c := range map[string]struct{ request, answer string }{
		"read":         {"POST /v1/realtime/calls HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/sdp\r\nContent-Length: 100\r\n\r\nv=0", "HTTP/1.1 400"},
		"after a form": {"POST /v1/realtime/calls HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; boundary=x\r\nContent-Length: 1000\r\n\r\n" + form("sdp", sdpOffer), "HTTP/1.1 400"},
		"not read":     {"POST /v1/realtime/calls/x/hangup HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nv=0", "HTTP/1.1 404"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := rawConn(t, address)
			if _, err := conn.Write([]byte(c.request)); err != nil {
				t.Fatal(err)
			}
			answer, err := io.ReadAll(conn)
			if err != nil || !strings.HasPrefix(string(answer), c.answer) {
				t.Errorf("answer %q, err %v", answer, err)
			}
		})
	}
}

// A large body may take longer than others.
func TestLargeBodyTakesItsTime(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	b.pipeline.bodyTimeout = 20 * time.Millisecond
	address, _ := b.run(t)
	conn := rawConn(t, address)
	image := pngOf(t, 3, 2)
	head := fmt.Sprintf("POST /api/threads/%s/images HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: image/png\r\nContent-Length: %d\r\n\r\n",
		b.thread(t, access.LocalOwner).Thread, len(image))
	for _, part := range []string{head + image[:20], image[20:]} {
		if _, err := conn.Write([]byte(part)); err != nil {
			t.Fatal(err)
		}
		<-time.After(2 * b.pipeline.bodyTimeout) // waits for the limit of other bodies, which is short
	}
	if answer, err := io.ReadAll(conn); err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 201") {
		t.Errorf("answer %q, err %v", answer, err)
	}
}

// A call whose set-up takes longer than its body may take to arrive is not cut off.
func TestBodyTimeLimitEndsWithTheBody(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	b.pipeline.bodyTimeout = 20 * time.Millisecond
	b.calls.entered, b.calls.hold = make(chan struct{}, 1), make(chan struct{})
	address, _ := b.run(t)
	transport := &http.Transport{DisableKeepAlives: true}
	status := make(chan int, 1)
	go func() {
		res, err := (&http.Client{Transport: transport}).Post("http://"+address+callsPath, "application/sdp", strings.NewReader(sdpOffer))
		if err != nil {
			status <- 0
			return
		}
		defer func() { _ = res.Body.Close() }()
		status <- res.StatusCode
	}()
	select {
	case <-b.calls.entered:
	case got := <-status:
		t.Fatalf("status %d before the set-up", got)
	}
	<-time.After(2 * b.pipeline.bodyTimeout) // waits for the real limit, which is short
	close(b.calls.hold)
	testkit.Equal(t, testkit.Take(t, "the status", status), 201, "status")
}
