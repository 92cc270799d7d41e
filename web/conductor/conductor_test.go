package conductor

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
	"go.uber.org/goleak"

	"voicebridge/chat"
	"voicebridge/chat/chattest"
	"voicebridge/internal/testkit"
	"voicebridge/llm"
	"voicebridge/llm/simulator"
	"voicebridge/persistence"
	"voicebridge/persistence/persistencetest"
	"voicebridge/thread"
	"voicebridge/web/problem"
	"voicebridge/web/socket"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestSessionsOwnToolKeepsItsName(t *testing.T) {
	t.Parallel()
	own := `[{"name":"agent_spawn","description":"own","parameters":{"type":"object"}}]`
	for _, query := range []string{"", agentToolkit} {
		tools, err := NewTools(persistence.TextSession{Tools: own}, query)
		if err != nil || tools.wireName("agent_spawn") != "agent_spawn" || query != "" && tools.wireName("agent_list") != "agent.list" {
			t.Errorf("%q: %+v, %v", query, tools.names, err)
		}
	}
}

// calls are those of a server on which the threads have a call, or none.
type calls struct {
	chat.Calls

	live bool
}

func (c *calls) Free(context.Context, thread.Key) error { return nil }

func (c *calls) Live(string, string) (string, bool) { return "call", c.live }

// coordinator runs text turns with the simulator on a store until the test ends.
func coordinator(t *testing.T) (*chat.Door, *calls, thread.Key) {
	t.Helper()
	db := persistencetest.SQLite(t)
	writer, _ := chattest.Writer(t, db)
	c, err := chat.New(chat.Config{Store: db, Writer: writer, Providers: []llm.Provider{simulator.New(simulator.Config{})}})
	testkit.Must(t, err)
	persistencetest.Start(t, c.Run)
	live := &calls{}
	return chat.NewDoor(c, live), live, persistencetest.NewThread(t, db, "alice", "")
}

// TestAppIsLostBeforeTheLastPartial has a turn end just when nothing can be sent any more:
// the app gets all of it when it comes back.
func TestAppIsLostBeforeTheLastPartial(t *testing.T) {
	t.Parallel()
	texts, _, key := coordinator(t)
	d := New(Config{
		Chat: texts, Now: time.Now, Logger: slog.New(slog.DiscardHandler),
		Admit:   func(context.Context, string) error { return nil },
		Explain: func(err error) *problem.Error { return problem.BadRequest("failed", "", err.Error()) },
	})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		if r.URL.Path == "/lost" {
			_ = conn.CloseNow()
			return
		}
		_ = d.Serve(context.WithoutCancel(r.Context()), key, key.Thread, "", Tools{}, socket.New(conn, socket.DefaultTiming(), "connect again"))
	}))
	defer server.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	dial := func(path string) *websocket.Conn {
		conn, _, err := websocket.Dial(ctx, "ws"+strings.TrimPrefix(server.URL, "http")+path, nil) //nolint:bodyclose // of a socket
		testkit.Must(t, err)
		return conn
	}

	begun, err := texts.Turn(ctx, chat.TurnRequest{Key: key, Text: "hi"})
	testkit.Must(t, err)
	gone := dial("/lost")
	_ = gone.CloseNow()
	first := d.app(key, key.Thread, Tools{}, connection{socket: socket.New(gone, socket.DefaultTiming(), "")})
	delivery := newTurn(begun, first.state("thinking"), first.message("user", "hi"))
	delivery.done = len(delivery.facts)
	for e, err := range begun.Events(ctx, 0) {
		// What cannot be written now is sent when the app comes back.
		_ = first.apply(ctx, delivery, turnStep{e, err})
	}
	d.sessions.mu.Lock()
	d.sessions.all[key] = &session{leftAt: time.Now(), turns: []*turn{delivery}}
	d.sessions.mu.Unlock()

	second := dial("/")
	defer func() { _ = second.CloseNow() }()
	var types []string
	for len(types) < 6 {
		var e envelope
		_, data, err := second.Read(ctx)
		if err == nil {
			err = json.Unmarshal(data, &e)
		}
		testkit.Must(t, err)
		types = append(types, e.Type)
	}
	want := []string{typePartial, typeFinal, typeToolCall, typeToolCall, typeToolCall, typeToolCall}
	testkit.Equal(t, types, want, "sent")
	if err := second.Close(websocket.StatusNormalClosure, ""); err != nil {
		t.Error(err)
	}
}

// TestTurnsAreAdmitted begins no turn of an owner who is refused, or on a thread with a call.
func TestTurnsAreAdmitted(t *testing.T) {
	t.Parallel()
	texts, live, key := coordinator(t)
	full := errors.New("too fast")
	var refuse error
	d := New(Config{
		Chat: texts, Now: time.Now, Logger: slog.New(slog.DiscardHandler),
		Admit: func(_ context.Context, owner string) error {
			testkit.Equal(t, owner, key.Owner, "a turn of was counted")
			return refuse
		},
		Explain: func(err error) *problem.Error { return problem.BadRequest("failed", "", err.Error()) },
	})
	a := d.app(key, key.Thread, Tools{}, connection{stopped: make(chan struct{}), more: make(chan struct{}, 1), end: func(error) {}})
	a.session, _ = d.sessions.enter(key, &a.connection)
	for _, tt := range []struct {
		refuse error
		inCall bool
		want   error
	}{{nil, false, nil}, {full, false, full}, {nil, true, chat.ErrInCall}} {
		refuse, live.live = tt.refuse, tt.inCall
		if err := a.transcript(t.Context(), json.RawMessage(`{"text":"hi"}`)); !errors.Is(err, tt.want) {
			t.Errorf("transcript() = %v, want %v", err, tt.want)
		}
	}
}

// TestSessionsAreKept forgets an app only when it has been away for long.
func TestSessionsAreKept(t *testing.T) {
	t.Parallel()
	left := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for away, want := range map[time.Duration]int{KeepSession: 1, KeepSession + time.Second: 0} {
		d := New(Config{Now: func() time.Time { return left.Add(away) }})
		d.sessions.all[thread.Key{Owner: "alice", Thread: "t"}] = &session{leftAt: left}
		if d.Forget(); d.Count() != want {
			t.Errorf("%d sessions after %v, want %d", d.Count(), away, want)
		}
	}
}

// TestTooManyUndelivered begins no turn for an app that does not read.
func TestTooManyUndelivered(t *testing.T) {
	t.Parallel()
	refused := errors.New("refused")
	d := New(Config{Now: time.Now, Admit: func(context.Context, string) error { return refused }})
	a := d.app(thread.Key{Owner: "alice", Thread: "t"}, "t", Tools{}, connection{})
	a.session = &session{}
	for n := range maxUndelivered + 1 {
		want := refused
		if n == maxUndelivered {
			want = chat.ErrBusy
		}
		if err := a.transcript(t.Context(), json.RawMessage(`{"text":"hi"}`)); !errors.Is(err, want) {
			t.Errorf("with %d turns: transcript() = %v, want %v", n, err, want)
		}
		a.session.turns = append(a.session.turns, &turn{})
	}
}

// TestLastPartial ends a turn with a partial only if the app does not have all of the text.
func TestLastPartial(t *testing.T) {
	t.Parallel()
	for grown, want := range map[bool]string{true: typePartial, false: typeFinal} {
		a := New(Config{Now: time.Now}).app(thread.Key{}, "t", Tools{}, connection{})
		ended := newTurn(nil)
		ended.grown = grown
		a.conclude(ended, chat.Result{Text: "Yes.", Finish: chat.FinishStop})
		testkit.Equal(t, ended.facts[0].Type, want, "grown %v: the end begins", grown)
	}
}

// hijacker is a response whose connection can be taken.
type hijacker struct {
	*httptest.ResponseRecorder

	conn net.Conn
}

func (h hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return h.conn, bufio.NewReadWriter(bufio.NewReader(h.conn), bufio.NewWriter(h.conn)), nil
}

// piped returns a socket whose client sends nothing, and a channel that gets all that the client was
// sent when the connection has ended.
func piped(t *testing.T) (k *socket.Socket, all <-chan string) {
	t.Helper()
	client, server := net.Pipe()
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	for name, value := range map[string]string{
		"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
	} {
		r.Header.Set(name, value)
	}
	conn, err := websocket.Accept(hijacker{httptest.NewRecorder(), server}, r, nil)
	testkit.Must(t, err)
	read := make(chan string, 1)
	go func() {
		sent, _ := io.ReadAll(client) // the end of the pipe
		read <- string(sent)
	}()
	return socket.New(conn, socket.DefaultTiming(), ""), read
}

// TestTakenOverWhileItWaits has a connection taken over while it waits for the one before it, which
// does not let go: it ends with the reason, and is not cut.
func TestTakenOverWhileItWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := New(Config{Now: time.Now, Logger: slog.New(slog.DiscardHandler)})
		key := thread.Key{Owner: "alice", Thread: "t"}
		k, cut := piped(t)
		first := &connection{socket: k, end: func(error) {}, began: make(chan struct{}), stopped: make(chan struct{})}
		close(first.began)
		go func() {
			<-cut
			close(first.stopped)
		}()
		d.sessions.enter(key, first)

		ctx, cancel := context.WithCancel(t.Context())
		var serving sync.WaitGroup
		serve := func() <-chan string {
			k, all := piped(t)
			serving.Go(func() { _ = d.Serve(ctx, key, key.Thread, "", Tools{}, k) })
			synctest.Wait()
			return all
		}
		second := serve()
		time.Sleep(closeWait / 2) // what the second needs after the first has stopped is longer
		serve()
		if got := <-second; !strings.Contains(got, socket.ErrTaken.Error()) {
			t.Errorf("the second connection was sent %q", got)
		}
		cancel()
		serving.Wait()
	})
}

func TestPrevented(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]bool{400: false, 413: false, 404: true, 409: true, 429: true, 503: true} {
		if got := prevented(&problem.Error{Status: status}); got != want {
			t.Errorf("%d: %v", status, got)
		}
	}
}
