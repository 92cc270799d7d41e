package web

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/coder/websocket"
	"github.com/google/go-cmp/cmp"

	"voicebridge/bridge"
	"voicebridge/persistence/cluster"
)

// relayedTo is a bundle whose calls are all with another process.
func relayedTo(t *testing.T, other *httptest.Server, gone func() bool) (url string) {
	t.Helper()
	t.Cleanup(other.Close)
	b := setup(t, tokens)
	b.calls.mu.Lock()
	b.calls.way = bridge.Way{Address: cluster.Address{URL: other.URL}, Ticket: "good", Gone: gone}
	if other.TLS != nil {
		sum := sha256.Sum256(other.Certificate().Raw)
		b.calls.way.Certificate = hex.EncodeToString(sum[:])
	}
	b.calls.mu.Unlock()
	address, _ := b.run(t)
	return "ws://" + address
}

func never() bool { return false }

// TestRelay passes sockets on, with nothing that the client has shown, and what comes back.
func TestRelay(t *testing.T) {
	t.Parallel()
	for name, serve := range map[string]func(http.Handler) *httptest.Server{"plain": httptest.NewServer, "TLS": httptest.NewTLSServer} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			asked := make(chan *http.Request, 2)
			other := serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked <- r
				w.Header().Set("X-Thread-Id", "thread-1")
				w.Header().Set("Cache-Control", "public")
				conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{"realtime"}})
				if err != nil {
					return
				}
				defer func() { _ = conn.CloseNow() }()
				kind, data, err := conn.Read(r.Context())
				if err == nil {
					_ = conn.Write(r.Context(), kind, append([]byte("echo "), data...))
					_ = conn.Close(websocket.StatusNormalClosure, "over")
				}
			}))
			url := relayedTo(t, other, never)
			for path, want := range map[string]string{
				"/v1/realtime?call_id=call-1&secret=1": "/v1/realtime?call_id=call-1", "/v1/realtime/calls/call-1/reconnect": "/v1/realtime/calls/call-1/reconnect",
			} {
				conn, res, err := websocket.Dial(within(t), url+path, &websocket.DialOptions{ //nolint:bodyclose // of a socket
					HTTPHeader:   http.Header{"Cookie": {"a=b"}, "X-Forwarded-For": {"10.1.1.1"}, "Authorization": {"Bearer alice-token-of-tests"}},
					Subprotocols: []string{"realtime", "openai-beta.realtime-v1"}, HTTPClient: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}},
				})
				must(t, err)
				r := <-asked
				if r.URL.String() != want {
					t.Errorf("%s became %s", path, r.URL)
				}
				var names []string
				for _, name := range []string{"Authorization", "Cookie", "X-Forwarded-For", "Origin", "Sec-Websocket-Protocol", headerTicket} {
					names = append(names, name+": "+strings.Join(r.Header.Values(name), " "))
				}
				if diff := cmp.Diff([]string{"Authorization: ", "Cookie: ", "X-Forwarded-For: ", "Origin: ", "Sec-Websocket-Protocol: realtime", "Voicebridge-Ticket: good"}, names); diff != "" {
					t.Errorf("headers (-want +got):\n%s", diff)
				}
				if res.Header.Get("X-Thread-Id") != "thread-1" || len(res.Header.Values("Cache-Control")) != 1 || conn.Subprotocol() != "realtime" {
					t.Errorf("the answer's headers: %v", res.Header)
				}
				must(t, conn.Write(within(t), websocket.MessageText, []byte("hello")))
				_, data, err := conn.Read(within(t))
				must(t, err)
				_, _, end := conn.Read(within(t))
				if string(data) != "echo hello" || websocket.CloseStatus(end) != websocket.StatusNormalClosure {
					t.Errorf("%q, %v", data, end)
				}
			}
		})
	}
}

// TestRelayRefused has the other process refuse, be away, show another certificate, and die.
func TestRelayRefused(t *testing.T) {
	t.Parallel()
	try := func(t *testing.T, url string) (conn *websocket.Conn, status int) {
		t.Helper()
		conn, status, _ = dial(t, url+"/v1/realtime?call_id=call-1", "Authorization", "Bearer alice-token-of-tests")
		return conn, status
	}
	t.Run("it refuses", func(t *testing.T) {
		t.Parallel()
		url := relayedTo(t, httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusTooManyRequests)
			_, _ = io.WriteString(w, "full")
		})), never)
		if _, status := try(t, url); status != http.StatusTooManyRequests {
			t.Errorf("status %d", status)
		}
	})
	t.Run("it is away", func(t *testing.T) {
		t.Parallel()
		other := httptest.NewServer(http.NotFoundHandler())
		url := relayedTo(t, other, never)
		other.Close()
		if _, status := try(t, url); status != http.StatusServiceUnavailable {
			t.Errorf("status %d", status)
		}
	})
	t.Run("another certificate", func(t *testing.T) {
		t.Parallel()
		b := setup(t, tokens)
		other := httptest.NewTLSServer(http.NotFoundHandler())
		t.Cleanup(other.Close)
		b.calls.mu.Lock()
		b.calls.way = bridge.Way{Address: cluster.Address{URL: other.URL, Certificate: strings.Repeat("0", 64)}, Ticket: "good", Gone: never}
		b.calls.mu.Unlock()
		address, _ := b.run(t)
		if _, status := try(t, "ws://"+address); status != http.StatusServiceUnavailable {
			t.Errorf("status %d", status)
		}
	})
	t.Run("it dies", func(t *testing.T) {
		t.Parallel()
		var gone atomic.Bool
		ended := make(chan struct{})
		url := relayedTo(t, httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			defer close(ended)
			conn, err := websocket.Accept(w, r, nil)
			if err != nil {
				return
			}
			defer func() { _ = conn.CloseNow() }()
			gone.Store(true) // its machine says nothing more
			_, _, _ = conn.Read(r.Context())
		})), gone.Load)
		conn, _ := try(t, url)
		if conn == nil {
			t.Fatal("not connected")
		}
		if _, _, err := conn.Read(within(t)); err == nil {
			t.Error("the socket goes on")
		}
		<-ended
	})
}

// TestTickets has sockets come with tickets: of another call, and with none that is good.
func TestTickets(t *testing.T) {
	t.Parallel()
	b := setup(t, tokens)
	address, _ := b.run(t)
	for name, tt := range map[string]struct {
		path, ticket string
		status       int
	}{
		"a forged one":       {"/v1/realtime?call_id=call-1", "bad", 401},
		"of another call":    {"/v1/realtime?call_id=call-2", "good", 401},
		"for a new call":     {"/v1/realtime?thread_id=x", "good", 401},
		"for a call's route": {"/v1/realtime/calls/call-2/reconnect", "good", 401},
		"a call that ended":  {"/v1/realtime?call_id=call-1", "good", 404},
		"a secret beside it": {"/v1/realtime?call_id=call-1", "", 401},
	} {
		headers := []string{}
		if tt.ticket != "" {
			headers = append(headers, headerTicket, tt.ticket)
		}
		if _, status, _ := dial(t, "ws://"+address+tt.path, headers...); status != tt.status {
			t.Errorf("%s: %d", name, status)
		}
	}
}
