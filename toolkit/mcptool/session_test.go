package mcptool

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"voicebridge/internal/testkit"
	"voicebridge/toolkit"
)

// forgetful is a server with sessions, which it forgets on demand. It has no stream that would end then.
type forgetful struct {
	next   http.Handler
	status int    // of its answer to a request in a forgotten session
	answer string // its body

	begun     atomic.Int32 // sessions
	seen      sync.Map     // their ids
	forgotten sync.Map
	all       atomic.Bool // it forgets each session at once
	calls     atomic.Bool // the same, at a call
	refused   atomic.Int32
}

func (f *forgetful) forget() {
	f.seen.Range(func(id, _ any) bool {
		f.forgotten.Store(id, true)
		return true
	})
}

func (f *forgetful) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	id := r.Header.Get("Mcp-Session-Id")
	_, forgotten := f.forgotten.Load(id)
	f.seen.Store(id, true)
	if bytes.Contains(body, []byte(`"method":"initialize"`)) {
		f.begun.Add(1)
	}
	switch {
	case r.Method == http.MethodGet:
		w.WriteHeader(http.StatusMethodNotAllowed)
	case bytes.Contains(body, []byte("server/discover")):
		http.NotFound(w, r)
	case id != "" && (forgotten || f.all.Load() || f.calls.Load() && bytes.Contains(body, []byte(`"tools/call"`))):
		f.refused.Add(1)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(f.status)
		_, _ = io.WriteString(w, f.answer)
	default:
		f.next.ServeHTTP(w, r)
	}
}

// TestForgottenSession has servers that forget a session, as by a restart: the call is made once more in another, and no
// call that still runs in the old one ends.
func TestForgottenSession(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status int
		answer string
	}{
		"plain":                   {http.StatusNotFound, "session not found"},
		"of Python's SDK":         {http.StatusNotFound, `{"jsonrpc":"2.0","id":"server-error","error":{"code":-32600,"message":"Session not found"}}`},
		"of server-everything":    {http.StatusBadRequest, `{"jsonrpc":"2.0","id":2,"error":{"code":-32000,"message":"Bad Request: No valid session ID provided"}}`},
		"of the TypeScript SDK":   {http.StatusNotFound, `{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}`},
		"before it was initiated": {http.StatusBadRequest, `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Bad Request: Server not initialized"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &forgetful{next: newHTTPHandler(t), status: c.status, answer: c.answer}
			b := open(t, map[string]Server{"s": {Type: TypeHTTP, URL: serveHandler(t, f).url}})
			running := b.router.Call(t.Context(), toolkit.Call{Name: "s__progress"}, func() func(toolkit.Chunk) {
				steps := 0
				return func(toolkit.Chunk) {
					if steps++; steps != 3 {
						return
					}
					for n := range 3 {
						f.forget()
						if result := b.call(t, "s__echo", fmt.Sprintf(`{"text":"%d"}`, n)); result.Model != fmt.Sprint(n) {
							t.Errorf("got %+v\n%s", result, b.log)
						}
					}
					if result := b.call(t, "s__release", ""); result.Failed() {
						t.Errorf("got %+v", result)
					}
				}
			}())
			if begun := f.begun.Load(); begun != 4 || running.Model != "progressed" {
				t.Errorf("%d sessions were begun; the call in the first got %+v", begun, running)
			}
		})
	}
}

// TestSessionNeverKept has a server that forgets each session at once. A call is made twice, not more.
func TestSessionNeverKept(t *testing.T) {
	t.Parallel()
	f := &forgetful{next: newHTTPHandler(t), status: http.StatusNotFound, answer: "session not found"}
	b := open(t, map[string]Server{"s": {Type: TypeHTTP, URL: serveHandler(t, f).url}})
	f.calls.Store(true)
	if result := b.call(t, "s__echo", `{"text":"x"}`); !strings.Contains(result.Error, "session not found") || f.refused.Load() != 2 {
		t.Errorf("%d calls were refused, got %+v", f.refused.Load(), result)
	}
}

// TestRefusedCall has a server that refuses a call with the status 400, and knows the session.
func TestRefusedCall(t *testing.T) {
	t.Parallel()
	const answer = `{"jsonrpc":"2.0","id":2,"error":{"code":-32602,"message":"Invalid params: no such city"}}`
	f := &forgetful{next: newHTTPHandler(t), status: http.StatusBadRequest, answer: answer}
	b := open(t, map[string]Server{"s": {Type: TypeHTTP, URL: serveHandler(t, f).url}})
	f.all.Store(true)
	for range 2 {
		if result := b.call(t, "s__echo", `{"text":"x"}`); !strings.Contains(result.Error, "refused the call") || !strings.Contains(result.Error, "no such city") {
			t.Errorf("got %+v", result)
		}
	}
	testkit.Equal(t, f.begun.Load(), 1, "sessions were begun")
}

// TestCredentials has servers that refuse those of the configuration, at once or later.
func TestCredentials(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusUnauthorized, http.StatusForbidden} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			t.Parallel()
			var expired atomic.Bool
			next := newHTTPHandler(t)
			h := serveHandler(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if expired.Load() || r.Header.Get("Authorization") != "Bearer right" {
					w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="https://example.com/"`)
					w.WriteHeader(status)
					_, _ = io.WriteString(w, `{"error":"invalid_token","error_description":"insufficient scope"}`)
					return
				}
				next.ServeHTTP(w, r)
			}))
			b := open(t, map[string]Server{
				"right": {Type: TypeHTTP, URL: h.url, Headers: map[string]string{"Authorization": "Bearer right"}},
				"wrong": {Type: TypeHTTP, URL: h.url, Headers: map[string]string{"Authorization": "Bearer wrong"}},
			})
			want := "insufficient scope"
			if status == http.StatusUnauthorized {
				want = "it wants other credentials"
			}
			if s := b.Status(); !s[0].Connected || s[1].Connected || !strings.Contains(s[1].Error, want) {
				t.Errorf("got %+v", s)
			}
			expired.Store(true)
			if result := b.call(t, "right__echo", `{"text":"x"}`); !strings.Contains(result.Error, want) {
				t.Errorf("got %+v", result)
			}
		})
	}
}
