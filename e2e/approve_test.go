package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"voicebridge/internal/testkit"
	"voicebridge/persistence"
	"voicebridge/persistence/persistencetest"
)

// follower is a client of the thread socket.
type follower struct {
	t    *testing.T
	conn *websocket.Conn
	ctx  context.Context //nolint:containedctx // it bounds what a test waits for
	// messages are those that came; lost says why no more come, once they are closed. They are read also while
	// a test does something else: who does not read does not answer pings, and is cut off.
	messages chan []byte
	lost     error
	// greeting is the first event of the socket.
	greeting struct {
		CallID *string `json:"call_id"`
	}
}

// followThread connects to the socket of a thread.
func followThread(t *testing.T, url, thread string) *follower {
	t.Helper()
	return follow(t, url+"/api/threads/"+thread+"/ws")
}

// followOwner connects to the socket of all threads of the owner.
func followOwner(t *testing.T, url string) *follower {
	t.Helper()
	return follow(t, url+"/api/ws")
}

func follow(t *testing.T, url string) *follower {
	t.Helper()
	ctx := testkit.Context(t, "events of "+url)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	conn, res, err := websocket.Dial(ctx, strings.Replace(url, "http://", "ws://", 1), &websocket.DialOptions{HTTPClient: client})
	if err != nil {
		if res != nil {
			_ = res.Body.Close()
		}
		t.Fatal(err)
	}
	conn.SetReadLimit(8 << 20)
	t.Cleanup(func() { _ = conn.CloseNow() })
	f := &follower{t: t, conn: conn, ctx: ctx, messages: make(chan []byte, 1<<14)}
	go f.read()
	f.next("connected", &f.greeting)
	return f
}

func (f *follower) read() {
	defer close(f.messages)
	for {
		_, data, err := f.conn.Read(f.ctx)
		if err != nil {
			f.lost = err
			return
		}
		f.messages <- data
	}
}

// leave closes the socket; a slow machine may not answer in time.
func (f *follower) leave() { _ = f.conn.Close(websocket.StatusNormalClosure, "") }

// learns reads up to the next event of a type, which must be about a call.
func (f *follower) learns(kind string, c *caller) {
	f.t.Helper()
	var about struct {
		ThreadID string `json:"thread_id"`
		CallID   string `json:"call_id"`
	}
	if f.next(kind, &about); about.ThreadID != c.thread || about.CallID != c.id {
		f.t.Errorf("%s of call %q on thread %q, want %q on %q", kind, about.CallID, about.ThreadID, c.id, c.thread)
	}
}

// next reads up to the next event of a type, and decodes its data into v.
func (f *follower) next(kind string, v any) {
	f.t.Helper()
	for {
		e := f.event(kind)
		if string(e.Type) != kind {
			continue
		}
		if v != nil {
			if err := json.Unmarshal(e.Data, v); err != nil {
				f.t.Fatalf("%s: %v", e.Data, err)
			}
		}
		return
	}
}

// event returns the next event; the test waits for one that is so named.
func (f *follower) event(wanted string) (e persistence.Event) {
	f.t.Helper()
	data, ok := testkit.Receive(f.t, wanted, f.messages)
	if !ok {
		f.t.Fatalf("no %s: %v", wanted, f.lost)
	}
	if err := json.Unmarshal(data, &e); err != nil {
		f.t.Fatalf("event %s: %v", data, err)
	}
	return e
}

// questionEvent is an approval request as watchers get it.
type questionEvent struct {
	ToolCallID string `json:"tool_call_id"`
	Name       string
	Input      json.RawMessage
	Nonce      string
}

func (f *follower) question() questionEvent {
	f.t.Helper()
	var q questionEvent
	f.next("bridge.tool.approval_required", &q)
	return q
}

func (f *follower) answer(q questionEvent, verb string) {
	f.t.Helper()
	text := fmt.Sprintf(`{"type":"bridge.tool.%s","tool_call_id":%q,"nonce":%q}`, verb, q.ToolCallID, q.Nonce)
	must(f.t, f.conn.Write(f.ctx, websocket.MessageText, []byte(text)))
}

// typedAnswer is the response to a posted message.
type typedAnswer struct {
	status int
	body   string
}

// say posts a message in the background.
func say(t *testing.T, url, thread, text string) <-chan typedAnswer {
	t.Helper()
	answered := make(chan typedAnswer, 1)
	go func() {
		body, _ := json.Marshal(map[string]string{"content": text})
		r, err := unpooled.Post(url+"/api/threads/"+thread+"/messages", "application/json", strings.NewReader(string(body)))
		if err != nil {
			answered <- typedAnswer{0, err.Error()}
			return
		}
		defer func() { _ = r.Body.Close() }()
		data, _ := io.ReadAll(r.Body)
		answered <- typedAnswer{r.StatusCode, string(data)}
	}()
	return answered
}

const pieArguments = `{"title":"A","data":[{"label":"a","value":1},{"label":"b","value":2}]}`

// approving are the settings of a server whose charts need approval.
func approving(t *testing.T, database string) []string {
	t.Helper()
	return []string{
		"DATABASE_URL=" + database, "VOICEBRIDGE_LISTEN=127.0.0.1:0", "VOICEBRIDGE_TEXT_PROVIDER=simulator",
		"VOICEBRIDGE_CONFIG=" + write(t, "tools: {approve: [create_pie_chart]}\n"),
	}
}

// TestCrashWhileAsking kills the server while a tool waits for approval: the next one
// leaves nothing open.
func TestCrashWhileAsking(t *testing.T) {
	t.Parallel()
	database := persistencetest.SQLiteURL(t)
	environ := approving(t, database)
	first := launch(t, environ, "serve")
	id := newThread(t, first.url)
	f := followThread(t, first.url, id)
	answered := say(t, first.url, id, "call create_pie_chart "+pieArguments)
	q := f.question()
	first.kill()
	testkit.Receive(t, "the end of the request", answered)
	second := launch(t, environ, "serve")
	rows := persistencetest.Rows(t, database, "SELECT c.status, c.error, a.outcome FROM approvals a JOIN tool_calls c ON c.id = a.id")
	testkit.Equal(t, fmt.Sprint(rows), "[[failed process ended process_ended]]", "rows")
	f = followThread(t, second.url, id)
	f.answer(q, "approve")
	var refused struct{ Code string }
	f.next("error", &refused)
	if refused.Code != "approval_not_pending" {
		t.Errorf("a late answer: %+v", refused)
	}
}
