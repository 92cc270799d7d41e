package mcptool

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"voicebridge/internal/testkit"
	"voicebridge/toolkit"
)

// TestReasons reads why a server refuses, as servers, gateways and OAuth write it.
func TestReasons(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ challenge, kind, body, want string }{
		"nothing":               {},
		"a challenge":           {`Bearer error="insufficient_scope", error_description="needs repo:read", scope="x"`, "application/json", `{"message":"no"}`, "needs repo:read"},
		"a short challenge":     {`Bearer realm="x", error="invalid_token"`, "", "", "invalid_token"},
		"a bare challenge":      {`Bearer resource_metadata="https://h.org/"`, "application/json", `{"error":"invalid_token"}`, "invalid_token"},
		"OAuth":                 {"", "application/json", `{"error":"invalid_token","error_description":"it has expired"}`, "it has expired"},
		"an object":             {"", "application/json", `{"error":{"code":7,"message":"quota"}}`, "quota"},
		"GitHub":                {"", "application/json", `{"message":"Bad credentials","status":"401"}`, "Bad credentials"},
		"FastAPI":               {"", "application/json", `{"detail":"Not authenticated"}`, "Not authenticated"},
		"a text":                {"", "text/plain", "no\n\n entry\x00\xff ", "no entry\x00\ufffd"},
		"a text without a kind": {"", "", "forbidden", "forbidden"},
		"a page":                {"", "text/html; charset=utf-8", "<html>no", ""},
		"other JSON":            {"", "application/json", `{"error":7,"message":["x"]}`, ""},
		"a long text":           {"", "text/plain", strings.Repeat("é", 5000), strings.Repeat("é", maxReason-1) + "…"},
	} {
		header := http.Header{"Www-Authenticate": {c.challenge}, "Content-Type": {c.kind}}
		testkit.Equal(t, readReason(header, []byte(c.body)), c.want, "%s", name)
	}
}

// TestRefusals has servers that refuse one call. It fails with what they say, and costs neither the session nor another call
// in it.
func TestRefusals(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status       int
		kind, answer string
		want         string
	}{
		"an error":               {400, "application/json", `{"jsonrpc":"2.0","id":"server-error","error":{"code":-32600,"message":"no such city"}}`, `refused the call: calling "tools/call": no such city`},
		"an error without an id": {400, "application/json", `{"jsonrpc":"2.0","error":{"code":-32600,"message":"no such city"}}`, "HTTP 400 Bad Request: no such city"},
		"a page":                 {500, "text/html", "<html>", "HTTP 500 Internal Server Error"},
		"a text":                 {413, "text/plain; charset=utf-8", "too much\n", "HTTP 413 Request Entity Too Large: too much"},
		"other credentials":      {401, "application/json", `{"error":"invalid_token"}`, "HTTP 401 Unauthorized: invalid_token; it wants other credentials"},
		"not allowed":            {403, "application/json", `{"detail":"not from here"}`, "HTTP 403 Forbidden: not from here"},
		"not allowed, no reason": {403, "text/html", `<html>`, "HTTP 403 Forbidden; it wants other credentials"},
		"too many requests":      {429, "text/plain", "wait a minute", "HTTP 429 Too Many Requests: wait a minute"},
		"too long":               {200, "application/json", strings.Repeat(" ", maxMessage+1), "its answer is longer than 8388608 bytes"},
		"to log in":              {200, "text/html", "<html>", "its answer is no message of MCP (HTTP 200, text/html)"},
		"no JSON":                {200, "application/json", `{"jsonrpc":`, "its answer is no message of MCP (HTTP 200, application/json)"},
		"nothing":                {200, "application/json", "", "its answer is no message of MCP (HTTP 200, application/json)"},
		"accepted":               {202, "", "", "its answer is no message of MCP (HTTP 202, text/plain"},
		"no content":             {204, "", "", "its answer is no message of MCP (HTTP 204, text/plain"},
		"moved nowhere":          {302, "text/html", "<html>", "HTTP 302 Found"},
		"a number":               {200, "application/json", "7", "its answer is no message of MCP"},
		"an error of nobody":     {200, "application/json", `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}`, "refused the call: calling \"tools/call\": Parse error"},
		"an error with details":  {200, "application/json", `{"jsonrpc":"2.0","id":null,"error":{"code":-32602,"message":"Invalid params","data":{"field":"date"}}}`, `Invalid params ({"field":"date"})`},
		"an address, escaped":    {200, "application/json", `{"jsonrpc":"2.0","id":null,"error":{"code":-32042,"message":"Consent","data":{"url":"https:\/\/h.org\/c?a=1\u0026n=12345678901234567890"}}}`, `Consent ({"url":"https://h.org/c?a=1&n=12345678901234567890"})`},
		"details as a text":      {200, "application/json", `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"No","data":"locked until noon"}}`, `No (locked until noon)`},
		"too deep":               {200, "application/json", strings.Repeat("[", 2000), "its answer nests deeper than 200 levels"},
		"too many values":        {200, "application/json", "[" + strings.Repeat("0,", toolkit.MaxValues), "its answer has more than 200000 values"},
		"an event too long":      {200, "text/event-stream", "data: " + strings.Repeat("x", maxMessage+1) + "\n\n", "its answer is longer than 8388608 bytes"},
		"a cut event":            {200, "text/event-stream", "event: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":3,\"resu", "its answer is no message of MCP"},
		"a malformed event":      {200, "text/event-stream", "event: message\ndata {}\n\n", "request terminated without response"},
		"no event":               {200, "text/event-stream", ": still there\n\n", "request terminated without response"},
		"a stream with no rest":  {200, "text/event-stream", "id: 1\ndata: \n\n", "HTTP 400 Bad Request"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var sessions atomic.Int32
			next := newHTTPHandler(t)
			h := serveHandler(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				r.Body = io.NopCloser(bytes.NewReader(body))
				switch {
				case bytes.Contains(body, []byte(`"server/discover"`)):
					http.NotFound(w, r)
				case bytes.Contains(body, []byte(`"name":"echo"`)):
					w.Header().Set("Content-Type", c.kind)
					w.WriteHeader(c.status)
					_, _ = io.WriteString(w, c.answer)
				default:
					if bytes.Contains(body, []byte(`"initialize"`)) {
						sessions.Add(1)
					}
					next.ServeHTTP(w, r)
				}
			}))
			b := open(t, map[string]Server{"s": {Type: TypeHTTP, URL: h.url}})
			steps := 0
			other := b.router.Call(t.Context(), toolkit.Call{Name: "s__progress"}, func(toolkit.Chunk) {
				if steps++; steps != 3 {
					return
				}
				if result := b.call(t, "s__echo", `{"text":"x"}`); !strings.Contains(result.Error, c.want) {
					t.Errorf("got %.1000s\n%s", result.Error, b.log)
				}
				if result := b.call(t, "s__release", ""); result.Failed() {
					t.Errorf("the next call: %s", result.Error)
				}
			})
			if other.Model != "progressed" || sessions.Load() != 1 {
				t.Errorf("in %d sessions, the other call got %+v", sessions.Load(), other)
			}
		})
	}
}

// TestRefusedOverSSE has servers of the older transport that refuse one call. Where they do not know the session, the call
// is made once more in another.
func TestRefusedOverSSE(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status      int
		words, want string
		sessions    int32
	}{
		"out of order": {500, "out of order", "HTTP 500 Internal Server Error: out of order", 1},
		"not here":     {404, "no such session", "", 2},
		"to log in":    {401, "", "it wants other credentials", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var odd atomic.Bool
			var sessions atomic.Int32
			server := newTestServer()
			next := mcp.NewSSEHandler(func(*http.Request) *mcp.Server { return server }, nil)
			h := serveHandler(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				r.Body = io.NopCloser(bytes.NewReader(body))
				if bytes.Contains(body, []byte(`"name":"echo"`)) && odd.CompareAndSwap(true, false) {
					w.WriteHeader(c.status)
					_, _ = io.WriteString(w, c.words)
					return
				}
				if r.Method == http.MethodGet {
					sessions.Add(1)
				}
				next.ServeHTTP(w, r)
			}))
			b := open(t, map[string]Server{"s": {Type: TypeSSE, URL: h.url}})
			odd.Store(true)
			if result := b.call(t, "s__echo", `{"text":"x"}`); !strings.Contains(result.Error, c.want) || c.want == "" && result.Model != "x" {
				t.Errorf("got %.1000s\n%s", result.Error, b.log)
			}
			if result := b.call(t, "s__echo", `{"text":"y"}`); result.Model != "y" || sessions.Load() != c.sessions {
				t.Errorf("in %d sessions, the next call got %+v\n%s", sessions.Load(), result, b.log)
			}
		})
	}
}
