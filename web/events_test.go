package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"voicebridge/internal/testkit"
	"voicebridge/persistence"
	"voicebridge/web/access"
)

// patience is how long a test waits for an event that must come.
const patience = 3 * time.Minute

// within bounds what a test waits for; nothing should take this long.
func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// run serves the bundle on its own port until the test ends or stop is called, which
// returns Run's error.
func (b *bundle) run(t *testing.T) (address string, stop func() error) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	ln = smallBuffers{ln}
	ctx, cancel := context.WithCancel(context.Background())
	done, ended := make(chan error, 1), make(chan struct{})
	go func() {
		defer close(ended)
		done <- b.Run(ctx, ln)
	}()
	t.Cleanup(func() { cancel(); <-ended })
	return ln.Addr().String(), func() error { cancel(); return <-done }
}

// smallBuffers has connections that block soon if their client does not read.
type smallBuffers struct{ net.Listener }

func (l smallBuffers) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err == nil {
		err = conn.(*net.TCPConn).SetWriteBuffer(4 << 10)
	}
	return conn, err
}

// dial opens a socket; status is the server's answer, 0 if there was none.
func dial(t *testing.T, url string, headers ...string) (conn *websocket.Conn, status int, err error) {
	t.Helper()
	transport := &http.Transport{DisableKeepAlives: true}
	t.Cleanup(transport.CloseIdleConnections)
	options := &websocket.DialOptions{HTTPClient: &http.Client{Transport: transport}, HTTPHeader: http.Header{}}
	for i := 0; i < len(headers); i += 2 {
		if options.HTTPHeader.Set(headers[i], headers[i+1]); headers[i] == "Host" {
			options.Host = headers[i+1]
		}
	}
	conn, res, err := websocket.Dial(within(t), url, options)
	if res != nil {
		status = res.StatusCode
		if conn == nil {
			_ = res.Body.Close()
		}
	}
	if conn != nil {
		conn.SetReadLimit(1 << 20)
		t.Cleanup(func() { _ = conn.CloseNow() })
	}
	return conn, status, err
}

func open(t *testing.T, url string, headers ...string) *websocket.Conn {
	t.Helper()
	conn, _, err := dial(t, url, headers...)
	must(t, err)
	return conn
}

func next(t *testing.T, conn *websocket.Conn) persistence.Event {
	t.Helper()
	kind, data, err := conn.Read(within(t))
	must(t, err)
	var e persistence.Event
	if err := json.Unmarshal(data, &e); err != nil || kind != websocket.MessageText {
		t.Fatalf("frame %q: %v", data, err)
	}
	return e
}

func wantClosed(t *testing.T, conn *websocket.Conn, code websocket.StatusCode, reason string) {
	t.Helper()
	for {
		_, _, err := conn.Read(within(t))
		if err == nil {
			continue
		}
		closed, ok := errors.AsType[websocket.CloseError](err)
		if !ok || closed.Code != code || !strings.Contains(closed.Reason, reason) {
			t.Errorf("ended with %v, want code %d and %q", err, code, reason)
		}
		return
	}
}

func wantHello(t *testing.T, conn *websocket.Conn, thread string, maxSeq int64) {
	t.Helper()
	e := next(t, conn)
	want := fmt.Sprintf(`{"session_id":%q,"queue_length":0,"queue_config":{"enabled":true,"max_size":10,"delay_seconds":0},"server_max_seq":%d,"call_id":null,"busy":false}`, thread, maxSeq)
	if e.Type != "connected" || string(e.Data) != want {
		t.Errorf("greeting %s %s, want %s", e.Type, e.Data, want)
	}
}

// wantRefusal checks that an event is an error with the given code.
func wantRefusal(t *testing.T, e persistence.Event, code string) {
	t.Helper()
	var got errorData
	if err := json.Unmarshal(e.Data, &got); err != nil || e.Type != "error" || got.Code != code || got.Message == "" || e.Seq != 0 {
		t.Errorf("event %s %s, want the error %s", e.Type, e.Data, code)
	}
}

func TestSocketEndsWithTheServer(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	address, stop := b.run(t)
	key := b.thread(t, access.LocalOwner)
	conns := make([]*websocket.Conn, 3)
	for i := range conns {
		conns[i] = open(t, "ws://"+address+"/api/threads/"+key.Thread+"/ws")
		wantHello(t, conns[i], key.Thread, 0)
	}
	stopped := make(chan error, 1)
	go func() { stopped <- stop() }()
	for _, conn := range conns {
		wantClosed(t, conn, websocket.StatusGoingAway, "shutting down")
	}
	must(t, testkit.Take(t, "the stop", stopped))
	testkit.Equal(t, b.door.open.Count(), 0, "sockets are left")
	wantError(t, b.do(t, "GET", "/readyz", ""), 503, "shutting_down")
}

func TestSocketEndsWithTheStore(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	address, _ := b.run(t)
	key := b.thread(t, access.LocalOwner)
	conn := open(t, "ws://"+address+"/api/threads/"+key.Thread+"/ws")
	wantHello(t, conn, key.Thread, 0)
	must(t, b.db.Close())
	wantClosed(t, conn, websocket.StatusGoingAway, "")
}

func TestSlowClientIsClosedWithAReason(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	slow := make(chan struct{})
	b.door.timing.Write, b.door.timing.Slow = time.Second, func() { close(slow) } // longer than the greeting takes on a busy machine
	address, _ := b.run(t)
	key := b.thread(t, access.LocalOwner)
	conn := open(t, "ws://"+address+"/api/threads/"+key.Thread+"/ws")
	wantHello(t, conn, key.Thread, 0)
	data, err := json.Marshal(map[string]string{"text": strings.Repeat("a", 64<<10)})
	must(t, err)
	for flooding := true; flooding; { // meanwhile the client reads nothing
		b.db.Publish(t.Context(), key, persistence.Event{Type: "message_delta", Data: data})
		select {
		case <-slow:
			flooding = false
		case <-time.After(time.Millisecond):
		}
	}
	wantClosed(t, conn, websocket.StatusTryAgainLater, "too slow")
}

func TestVanishedClientIsNoticed(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	b.door.timing.PingEvery, b.door.timing.PingTimeout = time.Millisecond, 20*time.Millisecond
	address, _ := b.run(t)
	key := b.thread(t, access.LocalOwner)
	conn := rawConn(t, address)
	// A client that shakes hands and then never answers a ping.
	if _, err := fmt.Fprintf(conn, "GET /api/threads/%s/ws HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n", key.Thread); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 4096)
	for {
		if _, err := conn.Read(buf); err != nil {
			var timeout net.Error
			if errors.As(err, &timeout) && timeout.Timeout() {
				t.Error("the server keeps the connection")
			}
			return
		}
	}
}
