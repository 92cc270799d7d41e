package realtimetest

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// Strict is a Realtime server over WebSocket, written from the vendors' pages and not from this program: it refuses
// what they do not name, and sends sound ten times as fast as it is heard.
type Strict struct {
	Dialect Dialect
	Model   string
	// Lives is how long a session lives; 0: an hour.
	Lives time.Duration
	// Hears are the words that the n-th utterance has, of all sessions.
	Hears []string
	// Answer says what is answered to what was typed or heard, or to a tool's output.
	Answer func(words string) Reply

	mu       sync.Mutex
	sessions []*StrictSession
	heard    int
	refused  []string
}

// Serve starts the server, and returns its address.
func (s *Strict) Serve(t testing.TB) (url string) {
	t.Helper()
	var all sync.WaitGroup
	ctx, stop := context.WithCancel(context.Background())
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		all.Add(1)
		defer all.Done()
		s.serve(ctx, w, r)
	}))
	t.Cleanup(func() {
		stop()
		server.Close()
		all.Wait()
	})
	return "ws" + strings.TrimPrefix(server.URL, "http") + "/v1/realtime"
}

// Sessions returns those that there were, oldest first.
func (s *Strict) Sessions() []*StrictSession {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.sessions)
}

// Refused says what was refused, of all sessions and connections.
func (s *Strict) Refused() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.refused)
}

func (s *Strict) note(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused = append(s.refused, fmt.Sprintf(format, args...))
}

// hears returns the words of the next utterance.
func (s *Strict) hears() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heard++
	return s.Hears[min(s.heard, len(s.Hears))-1]
}

func (s *Strict) serve(ctx context.Context, w http.ResponseWriter, r *http.Request) {
	d := &s.Dialect
	deny := func(status int, code, message string) {
		s.note("connection: %s", message)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(tree{"error": tree{"type": "invalid_request_error", "code": code, "message": message, "param": nil}})
	}
	switch {
	case r.URL.Path != "/v1/realtime":
		deny(http.StatusNotFound, "not_found", "There is nothing at "+r.URL.Path+".")
	case r.Header.Get(d.KeyHeader) != d.KeyPrefix+Key:
		deny(http.StatusUnauthorized, "invalid_api_key", "The key is not in "+d.KeyHeader+".")
	case r.Header.Get(d.NoHeader) != "":
		deny(http.StatusUnauthorized, "invalid_api_key", d.NoHeader+" is not expected.")
	case r.Header.Get("OpenAI-Beta") != "":
		deny(http.StatusBadRequest, "beta_api_shape_disabled", "OpenAI-Beta is not supported any more.")
	case r.URL.Query().Get("model") != s.Model || len(r.URL.Query()) != 1:
		deny(http.StatusBadRequest, "invalid_model", "The query is "+r.URL.RawQuery+".")
	default:
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			s.note("connection: %v", err)
			return
		}
		conn.SetReadLimit(16 << 20)
		s.mu.Lock()
		to := &conversation{
			wire:  &wire{d: d, conn: conn, note: s.note, number: len(s.sessions)},
			items: map[string]*item{}, calls: map[string]bool{},
		}
		session := &StrictSession{
			answers: answers{conversation: to, answer: s.Answer}, model: s.Model, lives: cmp.Or(s.Lives, time.Hour), hears: s.hears, settings: tree{},
		}
		s.sessions = append(s.sessions, session)
		s.mu.Unlock()
		session.run(ctx)
	}
}
