package web

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"voicebridge/internal/testkit"
	"voicebridge/persistence"
	"voicebridge/persistence/cluster"
	"voicebridge/persistence/persistencetest"
	"voicebridge/persistence/records"
	"voicebridge/thread"
	"voicebridge/web/access"
)

// elsewhere has another process, which has an address, hold a call of alice: call-1.
func (b *bundle) elsewhere(t *testing.T, at cluster.Address) (other *persistence.Store, key thread.Key) {
	t.Helper()
	other = persistencetest.Open(t, b.url, persistence.Options{Instance: "other"})
	must(t, other.Serve(t.Context()))
	other.Cluster.Announce(t.Context(), func() cluster.Address { return at })
	key = persistencetest.NewThread(t, b.db, "alice", "")
	must(t, other.Records.SaveCall(t.Context(), key, records.Call{ID: "call-1"}))
	return other, key
}

// at is where a server is reached.
func at(server *httptest.Server) (a cluster.Address) {
	a.URL = server.URL
	if server.TLS != nil {
		sum := sha256.Sum256(server.Certificate().Raw)
		a.Certificate = hex.EncodeToString(sum[:])
	}
	return a
}

// TestPassSocket passes sockets on, with nothing that the client has shown, and what comes back.
func TestPassSocket(t *testing.T) {
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
			t.Cleanup(other.Close)
			b := setup(t, tokens)
			b.elsewhere(t, at(other))
			address, _ := b.run(t)
			url := "ws://" + address
			for path, want := range map[string]string{
				"/v1/realtime?call_id=call-1&secret=1": "/v1/realtime?call_id=call-1", "/v1/realtime/calls/call-1/reconnect": "/v1/realtime/calls/call-1/reconnect",
			} {
				conn, res, err := websocket.Dial(within(t), url+path, &websocket.DialOptions{ //nolint:bodyclose // of a socket
					HTTPHeader:   http.Header{"Cookie": {"a=b"}, "X-Forwarded-For": {"10.1.1.1"}, "Authorization": {"Bearer alice-token-of-tests"}},
					Subprotocols: []string{"realtime", "openai-beta.realtime-v1"}, HTTPClient: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}},
				})
				must(t, err)
				r := testkit.Take(t, "a request", asked)
				pass, err := b.passed.Read(r.Header.Get(headerPass), r, "other")
				if who := pass.Identity(); err != nil || who.Owner != "alice" || who.Name != "alice" || !who.IsServer() || pass.IP != "10.1.1.1" {
					t.Errorf("the pass: %+v, %v", pass, err)
				}
				if r.URL.String() != want {
					t.Errorf("%s became %s", path, r.URL)
				}
				var names []string
				for _, name := range []string{"Authorization", "Cookie", "X-Forwarded-For", "Origin", "Sec-Websocket-Protocol"} {
					names = append(names, name+": "+strings.Join(r.Header.Values(name), " "))
				}
				testkit.Equal(t, names, []string{"Authorization: ", "Cookie: ", "X-Forwarded-For: ", "Origin: ", "Sec-Websocket-Protocol: realtime"}, "headers")
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

// TestPassRefused has the other process refuse, be away, have no address, show another certificate, and die.
func TestPassRefused(t *testing.T) {
	t.Parallel()
	full := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) }))
	misdirected := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }))
	closed, another := httptest.NewServer(http.NotFoundHandler()), httptest.NewTLSServer(http.NotFoundHandler())
	closed.Close()
	for _, s := range []*httptest.Server{full, misdirected, another} {
		t.Cleanup(s.Close)
	}
	for name, tt := range map[string]struct {
		at     cluster.Address
		status int
	}{
		"it refuses": {at(full), 429}, "it is another instance": {at(misdirected), 503}, "it is away": {at(closed), 503},
		"a version without addresses": {cluster.Address{}, 503},
		"another certificate":         {cluster.Address{URL: another.URL, Certificate: strings.Repeat("0", 64)}, 503},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, tokens)
			b.elsewhere(t, tt.at)
			address, _ := b.run(t)
			if _, status, _ := dial(t, "ws://"+address+"/v1/realtime?call_id=call-1", "Authorization", "Bearer alice-token-of-tests"); status != tt.status {
				t.Errorf("status %d", status)
			}
		})
	}
	t.Run("it dies", func(t *testing.T) {
		t.Parallel()
		b, begun, ended := setup(t, tokens), make(chan struct{}), make(chan struct{})
		silent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			defer close(ended)
			conn, err := websocket.Accept(w, r, nil)
			if err != nil {
				return
			}
			defer func() { _ = conn.CloseNow() }()
			close(begun)
			_, _, _ = conn.Read(r.Context())
		}))
		t.Cleanup(silent.Close)
		other, _ := b.elsewhere(t, at(silent))
		address, _ := b.run(t)
		conn := open(t, "ws://"+address+"/v1/realtime?call_id=call-1", "Authorization", "Bearer alice-token-of-tests")
		testkit.Take(t, "the beginning", begun)
		must(t, other.Close())
		must(t, b.db.Cluster.Look(t.Context()))
		if _, _, err := conn.Read(within(t)); err == nil {
			t.Error("the socket goes on")
		}
		testkit.Take(t, "the end", ended)
	})
}

// TestPasses has requests come with passes: good once, for one request, and only from a process of the same database.
func TestPasses(t *testing.T) {
	t.Parallel()
	b := setup(t, tokens)
	key := b.thread(t, "alice")
	b.calls.live["alice/"+key.Thread] = "call-1"
	const call, another = "GET /v1/realtime?call_id=call-1", "GET /v1/realtime?call_id=call-2"
	who, here := access.Pass{Owner: "alice", Program: true, IP: "10.1.1.1"}, b.db.Instance()
	early, err := access.NewPasses(b.cfg.Auth.Secret, func() time.Time { return b.db.Cluster.Now().Add(-16 * time.Second) })
	must(t, err)
	stranger, err := access.NewPasses(access.NewSecret("another secret"), b.db.Cluster.Now)
	must(t, err)
	used := b.passed.Sign(who, here, call, nil)
	for _, tt := range []struct {
		name, request, pass string
		status              int
	}{
		{"a good one", call, used, 426}, // it is no socket
		{"the same again", call, used, 401},
		{"no pass", call, "x", 401},
		{"half a pass", call, strings.TrimRight(used, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"), 401},
		{"a forged one", call, stranger.Sign(who, here, call, nil), 401},
		{"an old one", call, early.Sign(who, here, call, nil), 401},
		{"for another process", call, b.passed.Sign(who, "other", call, nil), 401},
		{"for another request", another, b.passed.Sign(who, here, call, nil), 401},
		{"for a route without passes", "GET /api/threads", b.passed.Sign(who, here, "GET /api/threads", nil), 401},
	} {
		method, target, _ := strings.Cut(tt.request, " ")
		if r := b.do(t, method, target, "", header(headerPass, tt.pass)); r.StatusCode != tt.status {
			t.Errorf("%s: status %d %s", tt.name, r.StatusCode, r.body)
		}
	}
	const recording = "/v1/realtime/calls/recorded/recording"
	for body, status := range map[string]int{`{"state":"on"}`: 200, `{"state":"paused"}`: 400} {
		pass := header(headerPass, b.passed.Sign(who, here, "POST "+recording, []byte(`{"state":"on"}`)))
		if r := b.do(t, "POST", recording, body, pass, header("X-Forwarded-For", "10.9.9.9")); r.StatusCode != status {
			t.Errorf("the body %s: status %d %s", body, r.StatusCode, r.body)
		}
	}
	const hangup = "/v1/realtime/calls/call-1/hangup"
	for _, status := range []int{200, 404} {
		asks := who
		asks.Thread, asks.Why = &key.Thread, whyTakeover
		wantStatus(t, b.do(t, "POST", hangup, "", header(headerPass, b.passed.Sign(asks, here, "POST "+hangup, nil))), status)
	}
	if log := b.log.String(); !strings.Contains(log, "10.1.1.1") || strings.Contains(log, "10.9.9.9") {
		t.Error("the log does not have the client's address")
	}
}

// TestHangUpCallOfADeadProcess hangs up a call whose process has just died: that ends it, so it was there.
func TestHangUpCallOfADeadProcess(t *testing.T) {
	t.Parallel()
	b := setup(t, tokens)
	other, _ := b.elsewhere(t, cluster.Address{URL: "http://127.0.0.1:9"})
	alice, path := as("alice-token-of-tests"), "/v1/realtime/calls/call-1/hangup"
	if r := b.do(t, "POST", path, "", alice); r.StatusCode != http.StatusServiceUnavailable || r.Header.Get("Retry-After") == "" {
		t.Errorf("while it is silent: %d %s", r.StatusCode, r.body)
	}
	must(t, other.Close())
	must(t, b.db.Serve(t.Context()))
	wantStatus(t, b.do(t, "POST", path, "", alice), 200)
	if c, err := b.db.Records.Call(t.Context(), "alice", "call-1"); err != nil || c.EndReason != "process_ended" {
		t.Errorf("Call() = %+v, %v", c, err)
	}
	wantStatus(t, b.do(t, "POST", path, "", alice), 404)
}

// TestAskedByAProcess has a process erase an owner and take a thread over, of whom another one has the call: it asks that
// one to end the call and to erase what it has.
func TestAskedByAProcess(t *testing.T) {
	t.Parallel()
	var erased []string
	b := setup(t, func(c *Config) {
		tokens(c)
		c.EraseHere = func(_ context.Context, owner string) error { erased = append(erased, owner); return nil }
	})
	cfg, _ := scriptedChat()
	other := b.otherProcess(t, cfg)
	live := func(id string) records.Call {
		key := b.thread(t, "alice")
		b.calls.mu.Lock()
		defer b.calls.mu.Unlock()
		b.calls.live["alice/"+key.Thread] = id
		must(t, b.db.Records.SaveCall(t.Context(), key, records.Call{ID: id}))
		call, err := b.db.Records.Call(t.Context(), "alice", id)
		must(t, err)
		return call
	}
	taken := live("call-1")
	must(t, other.GiveUp(t.Context(), taken, false)) // it does not wait for its client
	must(t, other.GiveUp(t.Context(), taken, true))
	if err := other.GiveUp(t.Context(), taken, true); !errors.Is(err, persistence.ErrNotFound) {
		t.Errorf("a call that is over: %v", err)
	}
	live("call-2")
	wantStatus(t, other.do(t, "DELETE", "/api/me", "", as("alice-token-of-tests")), 204)
	testkit.Equal(t, b.calls.hungUp, []string{"call-1", "call-2"}, "calls that were ended")
	testkit.Equal(t, erased, []string{"alice"}, "erased")
}
