package web

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"voicebridge/chat"
	"voicebridge/persistence"
	"voicebridge/thread"
	"voicebridge/toolkit"
	"voicebridge/web/access"
)

// asking is a server that asks for approval before each run of the tools add and broken.
func asking(t *testing.T, change func(*Config), answers ...scripted) *bundle {
	t.Helper()
	cfg, _ := scriptedChat(answers...)
	cfg.Tools, cfg.ApproveTools = streamTools(t), toolkit.MustNames("add", "broken")
	return setupChat(t, cfg, change)
}

// begin starts a turn in the background.
func (b *bundle) begin(t *testing.T, key thread.Key) *chat.Turn {
	t.Helper()
	turn, err := b.chat.Turn(t.Context(), chat.TurnRequest{Key: key, Text: "hello"})
	must(t, err)
	return turn
}

// asked is the data of an approval request.
type asked struct {
	ToolCallID string `json:"tool_call_id"`
	Name       string
	Input      json.RawMessage
	Nonce      string
}

// nextOf reads up to the next event of a type.
func nextOf(t *testing.T, conn *websocket.Conn, kind persistence.EventType) persistence.Event {
	t.Helper()
	for {
		if e := next(t, conn); e.Type == kind {
			return e
		}
	}
}

func nextQuestion(t *testing.T, conn *websocket.Conn) asked {
	t.Helper()
	e := nextOf(t, conn, persistence.EventApprovalRequired)
	var q asked
	if err := json.Unmarshal(e.Data, &q); err != nil || q.Nonce == "" {
		t.Fatalf("question %s: %v", e.Data, err)
	}
	return q
}

func send(t *testing.T, conn *websocket.Conn, format string, args ...any) {
	t.Helper()
	must(t, conn.Write(within(t), websocket.MessageText, fmt.Appendf(nil, format, args...)))
}

func TestApproveOnTheSocket(t *testing.T) {
	t.Parallel()
	b := asking(t, nil, toolCalls("", "c1", "add", `{"a":1}`, "c2", "broken", `{}`), words("Done."))
	address, _ := b.run(t)
	key := b.thread(t, access.LocalOwner)
	url := "ws://" + address + "/api/threads/" + key.Thread + "/ws"
	first := open(t, url)
	wantHello(t, first, key.Thread, 0)
	turn := b.begin(t, key)
	add, broken := nextQuestion(t, first), nextQuestion(t, first)
	if add.ToolCallID != "c1" || add.Name != "add" || string(add.Input) != `{"a":1}` || broken.ToolCallID != "c2" || add.Nonce == broken.Nonce {
		t.Errorf("questions %+v, %+v", add, broken)
	}
	// A client that connects meanwhile is asked too, and may answer.
	second := open(t, strings.Replace(url, "/threads/", "/sessions/", 1))
	if e := next(t, second); e.Type != "connected" {
		t.Errorf("greeting %s", e.Type)
	}
	if again := nextQuestion(t, second); again.ToolCallID != "c1" || again.Nonce != add.Nonce {
		t.Errorf("asked again %+v", again)
	}
	send(t, second, `{"type":"bridge.tool.approve","data":{"tool_call_id":"c1","nonce":%q}}`, add.Nonce)
	want := `{"tool_call_id":"c1","approved":true,"reason":""}`
	for _, conn := range []*websocket.Conn{first, second} {
		if e := nextOf(t, conn, "bridge.tool.approval_closed"); string(e.Data) != want {
			t.Errorf("closed %s, want %s", e.Data, want)
		}
	}
	send(t, second, `{"type":"bridge.tool.deny","tool_call_id":"c1","nonce":%q}`, add.Nonce)
	wantRefusal(t, nextOf(t, second, "error"), "approval_not_pending")
	send(t, first, `{"type":"bridge.tool.deny","tool_call_id":"c2","nonce":%q}`, broken.Nonce)
	want = `{"tool_call_id":"c2","approved":false,"reason":""}`
	if e := nextOf(t, second, "bridge.tool.approval_closed"); string(e.Data) != want {
		t.Errorf("closed %s, want %s", e.Data, want)
	}
	result, err := turn.Wait(within(t))
	if err != nil || result.Text != "Done." {
		t.Errorf("turn %+v, %v", result, err)
	}
	// After the end nobody is asked.
	third := open(t, url+"?after=0")
	b.db.Publish(t.Context(), key, persistence.Event{Type: "end"})
	for {
		e := next(t, third)
		if e.Type == persistence.EventApprovalRequired {
			t.Errorf("asked again: %s", e.Data)
		}
		if e.Type == persistence.EventMessage && strings.Contains(string(e.Data), "Done.") {
			break
		}
	}
}

// TestHostileMessagesOnTheSocket sends messages that do not belong there. Each is answered
// with an error, and the socket stays open.
func TestHostileMessagesOnTheSocket(t *testing.T) {
	t.Parallel()
	b := asking(t, tokens, toolCalls("", "c1", "add", `{}`), words("Done."))
	address, _ := b.run(t)
	key, other := b.thread(t, "alice"), b.thread(t, "alice")
	url := "ws://" + address + "/api/threads/"
	conn := open(t, url+key.Thread+"/ws", "Authorization", "Bearer alice-token-of-tests")
	turn := b.begin(t, key)
	q := nextQuestion(t, conn)
	otherSocket := open(t, url+other.Thread+"/ws", "Authorization", "Bearer alice-token-of-tests")
	answer := fmt.Sprintf(`{"type":"bridge.tool.approve","tool_call_id":"c1","nonce":%q}`, q.Nonce)
	for _, c := range []struct {
		name    string
		conn    *websocket.Conn
		kind    websocket.MessageType
		message string
		code    string
	}{
		{"no JSON", conn, websocket.MessageText, `hello`, "bad_envelope"},
		{"nothing", conn, websocket.MessageText, ``, "bad_envelope"},
		{"half of it", conn, websocket.MessageText, answer[:len(answer)-2], "bad_envelope"},
		{"two of them", conn, websocket.MessageText, answer + answer, "bad_envelope"},
		{"a list", conn, websocket.MessageText, `[` + answer + `]`, "bad_envelope"},
		{"bytes", conn, websocket.MessageBinary, answer, "bad_envelope"},
		{"no type", conn, websocket.MessageText, `{}`, "unknown_type"},
		{"another type", conn, websocket.MessageText, `{"type":"session.update"}`, "unknown_type"},
		{"a type that is a number", conn, websocket.MessageText, `{"type":5}`, "bad_envelope"},
		{"a type of a megabyte", conn, websocket.MessageText, `{"type":"` + strings.Repeat("x", 1<<20) + `"}`, "too_large"},
		{"deep", conn, websocket.MessageText, `{"data":` + strings.Repeat("[", 2000) + strings.Repeat("]", 2000) + `}`, "bad_envelope"},
		{"no call", conn, websocket.MessageText, fmt.Sprintf(`{"type":"bridge.tool.approve","nonce":%q}`, q.Nonce), "missing_value"},
		{"no nonce", conn, websocket.MessageText, `{"type":"bridge.tool.approve","tool_call_id":"c1"}`, "missing_value"},
		{"a nonce that is an object", conn, websocket.MessageText, `{"type":"bridge.tool.approve","tool_call_id":"c1","nonce":{"$ne":""}}`, "bad_envelope"},
		{"a guess", conn, websocket.MessageText, `{"type":"bridge.tool.approve","tool_call_id":"c1","nonce":"guess"}`, "approval_not_pending"},
		{"a wildcard", conn, websocket.MessageText, `{"type":"bridge.tool.approve","tool_call_id":"c1","nonce":"%' OR '1'='1"}`, "approval_not_pending"},
		{"hostile ids", conn, websocket.MessageText, `{"type":"bridge.tool.deny","tool_call_id":"\u0000","nonce":"\ud800"}`, "approval_not_pending"},
		{"an unknown call", conn, websocket.MessageText, fmt.Sprintf(`{"type":"bridge.tool.deny","tool_call_id":"c2","nonce":%q}`, q.Nonce), "approval_not_pending"},
		{"another thread", otherSocket, websocket.MessageText, answer, "approval_not_pending"},
	} {
		if err := c.conn.Write(within(t), c.kind, []byte(c.message)); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		e := nextOf(t, c.conn, "error")
		var got errorData
		if err := json.Unmarshal(e.Data, &got); err != nil || got.Code != c.code || got.Message == "" {
			t.Errorf("%s: %s, want %s", c.name, e.Data, c.code)
		}
	}
	for _, keepAlive := range []string{`{"type":"ping"}`, `{"type":"keepalive","data":{}}`} {
		send(t, conn, "%s", keepAlive)
	}
	if _, status, err := dial(t, url+key.Thread+"/ws", "Authorization", "Bearer bob-token-of-tests"); status != http.StatusNotFound {
		t.Errorf("a stranger: status %d, %v", status, err)
	}
	send(t, conn, "%s", answer)
	if e := nextOf(t, conn, "bridge.tool.approval_closed"); !strings.Contains(string(e.Data), `"approved":true`) {
		t.Errorf("closed %s", e.Data)
	}
	if result, err := turn.Wait(within(t)); err != nil || result.Text != "Done." {
		t.Errorf("turn %+v, %v", result, err)
	}
	if text := b.log.String(); strings.Contains(text, "level=ERROR") || strings.Contains(text, q.Nonce) {
		t.Errorf("the log has\n%s", text)
	}
}

// TestStreamAsksForApproval compares the stream of a turn that asks with its golden file.
func TestStreamAsksForApproval(t *testing.T) {
	t.Parallel()
	b := asking(t, nil, toolCalls("", "c1", "add", `{"a":1}`), toolCalls("", "c2", "add", `{"a":2}`), words("Done."))
	key := b.thread(t, access.LocalOwner)
	f := follow(t, b.listen(t), "POST", messagesPath(key), `{"content":"hello"}`)
	for _, approved := range []bool{true, false} {
		e := f.until("data-tool-approval")
		q, _ := e.body["data"].(map[string]any)
		id, _ := q["toolCallId"].(string)
		nonce, _ := q["nonce"].(string)
		if err := b.chat.Decide(t.Context(), key, chat.Decision{ToolCallID: id, Nonce: nonce, Approved: approved, By: access.LocalOwner}); err != nil {
			t.Fatalf("%s: %v", e.data, err)
		}
		f.until("data-tool-approval") // the answer
	}
	compare(t, "approval", f.rest(), b.do(t, "GET", messagesPath(key), "").body)
}
