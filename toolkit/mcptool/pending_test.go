package mcptool

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"voicebridge/toolkit"
)

// TestOddAnswers has servers that answer one call as no call should be. It fails at once, and costs neither the
// session nor another call in it.
func TestOddAnswers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status       int
		kind, answer string
		want         string
	}{
		"an error without an id":    {200, "application/json", `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"no such city"}}`, "refused the call: calling \"tools/call\": no such city"},
		"the same with a status":    {400, "application/json", `{"jsonrpc":"2.0","error":{"code":-32600,"message":"no such city"}}`, "no such city"},
		"the same in an event":      {200, "text/event-stream", "data: {\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":1,\"message\":\"no such city\"}}\n\n", "no such city"},
		"an error with another id":  {200, "application/json", `{"jsonrpc":"2.0","id":"server-error","error":{"code":-32600,"message":"no such city"}}`, "no such city"},
		"a page":                    {500, "text/html", "<html>", "HTTP 500 Internal Server Error"},
		"a page as an answer":       {200, "text/html", "<html>", "HTTP 200 OK"},
		"a text":                    {413, "text/plain; charset=utf-8", "too much\n", "HTTP 413 Request Entity Too Large: too much"},
		"other credentials":         {401, "application/json", `{"error":"invalid_token"}`, "HTTP 401 Unauthorized: invalid_token (HTTP 401: it wants other credentials"},
		"not allowed":               {403, "application/json", `{"detail":"not from here"}`, "HTTP 403 Forbidden: not from here"},
		"not allowed, no reason":    {403, "text/html", `<html>`, "HTTP 403 Forbidden (HTTP 403: it wants other credentials"},
		"too many requests":         {429, "text/plain", "wait a minute", "HTTP 429 Too Many Requests: wait a minute"},
		"nothing":                   {202, "", "", "HTTP 202 Accepted"},
		"an empty message":          {200, "application/json", "", "not a message of MCP"},
		"no JSON":                   {200, "application/json", `{"jsonrpc":`, "not a message of MCP"},
		"a string as an error":      {200, "application/json", `{"jsonrpc":"2.0","id":null,"error":"no"}`, "not a message of MCP"},
		"a message that is too big": {200, "application/json", strings.Repeat(" ", maxMessage+1), "longer than"},
		"an event that is too big":  {200, "text/event-stream", "data: " + strings.Repeat("x", maxMessage+1), "longer than"},
		"no event":                  {200, "text/event-stream", ": still there\n\n", "ended its answer before the result"},
		"an event id of no use":     {200, "text/event-stream", "id: 1\ndata: \n\n", "ended its answer before the result"},
		"another event":             {200, "text/event-stream", "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{}}\n\n", "ended its answer before the result"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checkOdd(t, TypeHTTP, newHTTPHandler(t), func(w http.ResponseWriter) {
				w.Header().Set("Content-Type", c.kind)
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, c.answer)
			}, c.want)
		})
	}
}

// TestPolledAnswer has a server that closes the answer to a call again and again before it has the result.
func TestPolledAnswer(t *testing.T) {
	t.Parallel()
	var call struct{ ID json.RawMessage }
	next := newHTTPHandler(t)
	h := serveHandler(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		id := r.Header.Get("Last-Event-Id")
		if id == "" && !bytes.Contains(body, []byte(`"name":"echo"`)) {
			next.ServeHTTP(w, r)
			return
		}
		if id == "" {
			_ = json.Unmarshal(body, &call) // the call's id, which is valid
		}
		w.Header().Set("Content-Type", "text/event-stream")
		if id == strings.Repeat("+", 9) {
			fmt.Fprintf(w, `data: {"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"at last"}]}}`+"\n\n", call.ID)
			return
		}
		fmt.Fprintf(w, "id: %s+\nretry: 1\ndata: \n\n", id)
	}))
	b := open(t, map[string]Server{"s": {Type: TypeHTTP, URL: h.url}})
	for range 2 {
		if result := b.call(t, "s__echo", `{"text":"x"}`); result.Model != "at last" {
			t.Errorf("got %+v\n%s", result, b.log)
		}
	}
	if n := strings.Count(b.log.String(), "MCP server connected"); n != 1 {
		t.Errorf("there were %d sessions", n)
	}
}

// TestOddAnswersOverSSE has servers of the older transport that do not accept one call.
func TestOddAnswersOverSSE(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer func(http.ResponseWriter)
		want   string
	}{
		"a status":  {func(w http.ResponseWriter) { w.WriteHeader(http.StatusInternalServerError) }, "500 Internal Server Error"},
		"no answer": {func(http.ResponseWriter) { panic(http.ErrAbortHandler) }, "EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := newTestServer()
			checkOdd(t, TypeSSE, mcp.NewSSEHandler(func(*http.Request) *mcp.Server { return server }, nil), c.answer, c.want)
		})
	}
}

// checkOdd checks that an odd answer to a call fails it with the error want, and nothing else.
func checkOdd(t *testing.T, kind string, next http.Handler, odd func(http.ResponseWriter), want string) {
	t.Helper()
	var sessions atomic.Int32
	h := serveHandler(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		switch {
		case bytes.Contains(body, []byte(`"server/discover"`)):
			http.NotFound(w, r)
		case bytes.Contains(body, []byte(`"name":"echo"`)):
			odd(w)
		default:
			if bytes.Contains(body, []byte(`"initialize"`)) {
				sessions.Add(1)
			}
			next.ServeHTTP(w, r)
		}
	}))
	b := open(t, map[string]Server{"s": {Type: kind, URL: h.url}})
	steps := 0
	other := b.router.Call(t.Context(), toolkit.Call{Name: "s__progress"}, func(toolkit.Chunk) {
		if steps++; steps != 3 {
			return
		}
		if result := b.call(t, "s__echo", `{"text":"x"}`); !strings.Contains(result.Error, want) {
			t.Errorf("got %.1000s\n%s", result.Error, b.log)
		}
		if result := b.call(t, "s__release", ""); result.Failed() {
			t.Errorf("the next call: %s", result.Error)
		}
	})
	if other.Model != "progressed" || sessions.Load() != 1 {
		t.Errorf("in %d sessions, the other call got %+v", sessions.Load(), other)
	}
}

// TestRefusedNotifications has a server that refuses to be told anything.
func TestRefusedNotifications(t *testing.T) {
	t.Parallel()
	next := newHTTPHandler(t)
	h := serveHandler(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		if bytes.Contains(body, []byte(`"method":"notifications/`)) {
			next.ServeHTTP(httptest.NewRecorder(), r)
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		next.ServeHTTP(w, r)
	}))
	b := open(t, map[string]Server{"s": {Type: TypeHTTP, URL: h.url}})
	if result := b.call(t, "s__echo", `{"text":"x"}`); result.Model != "x" {
		t.Errorf("got %+v\n%s", result, b.log)
	}
}
