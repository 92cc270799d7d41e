package mcptool

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"voicebridge/internal/testkit"
	"voicebridge/toolkit"
)

// httpServer is a real HTTP server that can be stopped and started at one address.
type httpServer struct {
	url     string
	address string
	handler http.Handler
	server  *httptest.Server
}

func serveHTTP(t *testing.T) *httpServer {
	t.Helper()
	return serveHandler(t, newHTTPHandler(t))
}

func newHTTPHandler(t *testing.T) http.Handler {
	t.Helper()
	server := newTestServer()
	t.Cleanup(func() { // sessions whose client left silently
		for session := range server.Sessions() {
			_ = session.Close()
		}
	})
	return handlerOf(server)
}

func handlerOf(server *mcp.Server) http.Handler {
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil)
}

func serveHandler(t *testing.T, handler http.Handler) *httpServer {
	t.Helper()
	h := &httpServer{handler: handler, address: "127.0.0.1:0"}
	h.start(t)
	t.Cleanup(func() { h.stop() })
	return h
}

func (h *httpServer) start(t *testing.T) {
	t.Helper()
	listener, err := net.Listen("tcp", h.address)
	must(t, err)
	h.address = listener.Addr().String()
	h.url = "http://" + h.address + "/mcp"
	h.server = &httptest.Server{Listener: listener, Config: &http.Server{Handler: h.handler}}
	h.server.Start()
}

func (h *httpServer) stop() {
	h.server.CloseClientConnections()
	h.server.Close()
}

func TestHTTPTools(t *testing.T) {
	t.Parallel()
	b := open(t, map[string]Server{"s": {Type: TypeHTTP, URL: serveHTTP(t).url}})
	if result := b.call(t, "s__echo", `{"text":"over HTTP"}`); result.Model != "over HTTP" {
		t.Errorf("got %+v", result)
	}
	if result := b.call(t, "s__fail", ``); result.Error != "the file is locked" {
		t.Errorf("got %+v", result)
	}
}

// TestOlderTransport has a server that speaks only SSE, at an address with no type given.
func TestOlderTransport(t *testing.T) {
	t.Parallel()
	server := newTestServer()
	sse := mcp.NewSSEHandler(func(*http.Request) *mcp.Server { return server }, nil)
	for name, refuse := range map[string]http.Handler{
		"plain":          sse,
		"not found":      http.NotFoundHandler(),
		"not allowed":    http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusMethodNotAllowed) }),
		"not acceptable": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotAcceptable) }),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := serveHandler(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodPost && r.URL.RawQuery == "" {
					refuse.ServeHTTP(w, r)
					return
				}
				sse.ServeHTTP(w, r)
			}))
			b := open(t, map[string]Server{"s": {Type: TypeHTTP, URL: h.url}})
			if result := b.call(t, "s__echo", `{"text":"the older way"}`); result.Model != "the older way" {
				t.Errorf("got %+v\n%s", result, b.log)
			}
		})
	}
}

// TestNoTransport has a server that speaks neither: its first refusal is reported.
func TestNoTransport(t *testing.T) {
	t.Parallel()
	h := serveHandler(t, http.NotFoundHandler())
	b := openWith(t, map[string]Server{"s": {Type: TypeHTTP, URL: h.url}}, Options{})
	if status := b.Status()[0]; status.Connected || !strings.Contains(status.Error, "Not Found") {
		t.Errorf("got %+v", status)
	}
}

func TestSSETools(t *testing.T) {
	t.Parallel()
	server := newTestServer()
	h := serveHandler(t, mcp.NewSSEHandler(func(*http.Request) *mcp.Server { return server }, nil))
	b := open(t, map[string]Server{"s": {Type: TypeSSE, URL: h.url}})
	if result := b.call(t, "s__echo", `{"text":"over SSE"}`); result.Model != "over SSE" {
		t.Errorf("got %+v", result)
	}
}

func TestHeadersGoToTheConfiguredHostOnly(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	got := map[string]bool{}
	record := func(who string, next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			got[who+" "+r.Header.Get("Authorization")] = true
			mu.Unlock()
			next.ServeHTTP(w, r)
		})
	}
	good := serveHandler(t, record("good", newHTTPHandler(t)))
	thief := serveHandler(t, record("thief", newHTTPHandler(t)))
	lure := serveHandler(t, record("lure", http.RedirectHandler(thief.url, http.StatusTemporaryRedirect)))
	headers := map[string]string{"Authorization": "Bearer token-of-ours"}
	b := open(t, map[string]Server{
		"good": {Type: TypeHTTP, URL: good.url, Headers: headers},
		"lure": {Type: TypeHTTP, URL: lure.url, Headers: headers},
	})
	for _, s := range b.Status() {
		if s.Connected != (s.Name == "good") {
			t.Errorf("got %+v", s)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if !got["good Bearer token-of-ours"] || !got["lure Bearer token-of-ours"] {
		t.Errorf("got %v", got)
	}
	for key := range got {
		if strings.HasPrefix(key, "thief") {
			t.Errorf("the other host was called: %v", got)
		}
	}
}

func TestHTTPAnswersAreBounded(t *testing.T) {
	t.Parallel()
	endless := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"jsonrpc":"2.0","id":1,"result":"`))
		chunk := []byte(strings.Repeat("x", 1<<20))
		for range 20 {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	})
	b := open(t, map[string]Server{"s": {Type: TypeHTTP, URL: serveHandler(t, endless).url}})
	if s := b.Status()[0]; s.Connected || !strings.Contains(s.Error, "longer than 8388608 bytes") {
		t.Errorf("got %+v", s)
	}
}

// TestEndlessList has servers whose list always has another page.
func TestEndlessList(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		tools int
		next  func(page int) (cursor string, tools bool)
	}{
		"the same page":         {100, func(int) (string, bool) { return "next", true }},
		"pages without tools":   {100, func(n int) (string, bool) { return fmt.Sprint("page ", n), n == 1 }},
		"ever new cursors":      {100, func(n int) (string, bool) { return fmt.Sprint("page ", n), true }},
		"nothing but new pages": {0, func(n int) (string, bool) { return fmt.Sprint("page ", n), false }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, nil)
			for n := range 100 {
				remoteTool(server, fmt.Sprint("t", n), "Does something", `{"type":"object"}`)
			}
			var pages atomic.Int32
			server.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
				return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
					if list, ok := r.(*mcp.ListToolsRequest); ok && list.Params != nil {
						list.Params.Cursor = ""
					}
					result, err := next(ctx, method, r)
					if page, ok := result.(*mcp.ListToolsResult); ok && err == nil {
						var tools bool
						if page.NextCursor, tools = c.next(int(pages.Add(1))); !tools {
							page.Tools = []*mcp.Tool{}
						}
					}
					return result, err
				}
			})
			b := openWith(t, map[string]Server{"s": {Type: TypeHTTP, URL: serveRemote(t, server)}}, Options{ConnectTimeout: time.Hour})
			if status := b.Status()[0]; !status.Connected || status.Tools != c.tools {
				t.Errorf("got %+v", status)
			}
			if pages := pages.Load(); pages != maxPages || !strings.Contains(b.log.String(), "ever more pages") {
				t.Errorf("%d pages were read, the log has\n%s", pages, b.log)
			}
		})
	}
}

// TestRedirects has servers that redirect to where they are. Only with some statuses does a request arrive
// there as it is.
func TestRedirects(t *testing.T) {
	t.Parallel()
	next := newHTTPHandler(t)
	for status, want := range map[int]string{
		http.StatusMovedPermanently: "its url is http://", http.StatusSeeOther: "its url is http://",
		http.StatusTemporaryRedirect: "", http.StatusPermanentRedirect: "",
	} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			t.Parallel()
			h := serveHandler(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/mcp" {
					http.Redirect(w, r, "/mcp/", status)
					return
				}
				next.ServeHTTP(w, r)
			}))
			b := open(t, map[string]Server{"s": {Type: TypeHTTP, URL: h.url}})
			if s := b.Status()[0]; s.Connected != (want == "") || !strings.Contains(s.Error, want) {
				t.Errorf("got %+v", s)
			}
			if result := b.call(t, "s__echo", `{"text":"x"}`); want == "" && result.Model != "x" {
				t.Errorf("got %+v", result)
			}
		})
	}
	plain, secure := &http.Request{URL: &url.URL{Scheme: "http", Host: "a", Path: "/b"}}, &http.Request{URL: &url.URL{Scheme: "https", Host: "a", Path: "/b"}}
	if err := checkRedirect(plain, []*http.Request{secure}); err == nil || !strings.Contains(err.Error(), "lacks a /") {
		t.Errorf("got %v", err)
	}
	if err := checkRedirect(secure, []*http.Request{plain}); err == nil || !strings.Contains(err.Error(), "https://a/b now") {
		t.Errorf("got %v", err)
	}
}

// TestStreamWithoutHead has a server that answers the request for its stream with the first event only, which never comes: it
// counts as one without a stream.
func TestStreamWithoutHead(t *testing.T) {
	t.Parallel()
	h := serveHandler(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	r := &remote{config: Server{Type: TypeHTTP, URL: h.url}, server: &server{}}
	_, err := r.connect()
	must(t, err)
	defer r.stop()
	r.client.Transport.(*headerTransport).streams.ResponseHeaderTimeout = time.Nanosecond
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, h.url, http.NoBody)
	must(t, err)
	response, err := r.client.Do(request)
	must(t, err)
	if _ = response.Body.Close(); response.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("got %s", response.Status)
	}
}

// TestCutStream has a proxy that cuts the stream of notifications whenever it is silent. Calls and later notifications do not
// suffer.
func TestCutStream(t *testing.T) {
	t.Parallel()
	next := newHTTPHandler(t)
	cut, opened := make(chan struct{}), make(chan struct{}, 10)
	h := serveHandler(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		switch {
		case bytes.Contains(body, []byte(`"server/discover"`)):
			http.NotFound(w, r)
			return
		case r.Method == http.MethodGet:
			opened <- struct{}{}
			ctx, cancel := context.WithCancel(r.Context())
			defer cancel()
			go func() {
				select {
				case <-cut:
					cancel()
				case <-ctx.Done():
				}
			}()
			r = r.WithContext(ctx)
		}
		next.ServeHTTP(w, r)
	}))
	b := open(t, map[string]Server{"s": {Type: TypeHTTP, URL: h.url, TrustChanges: true}})
	testkit.Take(t, "that it is open", opened)
	steps := 0
	result := b.router.Call(t.Context(), toolkit.Call{Name: "s__progress"}, func(toolkit.Chunk) {
		if steps++; steps == 3 {
			cut <- struct{}{}
			<-opened
			if r := b.call(t, "s__release", ""); r.Failed() {
				t.Error(r.Error)
			}
		}
	})
	if result.Model != "progressed" {
		t.Errorf("got %+v\n%s", result, b.log)
	}
	if r := b.call(t, "s__grow", ""); r.Failed() {
		t.Fatal(r.Error)
	}
	testkit.Take(t, "a notice", b.notified)
}
