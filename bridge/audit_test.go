package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"voicebridge/bridge/internal/session"
	"voicebridge/internal/testkit"
	"voicebridge/persistence"
	"voicebridge/thread"
	"voicebridge/toolkit"
)

// auditLog records what a call saves and publishes.
type auditLog struct {
	mu   sync.Mutex
	rows map[string]thread.ToolCall // the last of each, by the model's id
	text strings.Builder            // everything
}

func (l *auditLog) ApplyAll(_ context.Context, groups []persistence.ThreadChanges) ([]persistence.Applied, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var saved []thread.Message
	for _, o := range groups[0].Changes {
		switch o := o.(type) {
		case persistence.PutToolCall:
			l.rows[o.ToolCall.ToolCallID] = o.ToolCall
			fmt.Fprintf(&l.text, "%+v\n", o.ToolCall)
		case persistence.PutDraft:
			fmt.Fprintf(&l.text, "%+v\n", o.Draft)
		case persistence.PutMessage:
			data, err := json.Marshal(o.Message)
			if err = errors.Join(err, o.Message.Validate()); err != nil {
				return nil, fmt.Errorf("%w: %w", persistence.ErrInvalid, err)
			}
			fmt.Fprintf(&l.text, "%s\n", data)
			saved = append(saved, o.Message)
		case persistence.PutEvent:
			fmt.Fprintf(&l.text, "%s %s\n", o.Type, o.Data)
		}
	}
	return []persistence.Applied{{Messages: saved}}, nil
}

func (l *auditLog) Watched(thread.Key) bool { return true }

func (l *auditLog) Publish(_ context.Context, _ thread.Key, e persistence.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintf(&l.text, "%s %s\n", e.Type, e.Data)
}

// auditTool ends the way a test wants.
type auditTool struct {
	name string
	run  func(ctx context.Context, call toolkit.Call, yield func(toolkit.Chunk, error) bool)
}

func (a auditTool) Definition() toolkit.Definition {
	return toolkit.Definition{Name: a.name, Parameters: json.RawMessage(`{"type":"object"}`)}
}

func (a auditTool) Call(ctx context.Context, call toolkit.Call) iter.Seq2[toolkit.Chunk, error] {
	return func(yield func(toolkit.Chunk, error) bool) { a.run(ctx, call, yield) }
}

func auditTools() []auditTool {
	waits := func(ctx context.Context, _ toolkit.Call, yield func(toolkit.Chunk, error) bool) {
		<-ctx.Done()
		yield(toolkit.Chunk{}, context.Cause(ctx))
	}
	return []auditTool{
		{"echo", func(_ context.Context, call toolkit.Call, yield func(toolkit.Chunk, error) bool) {
			if yield(toolkit.Chunk{Message: "half way", Data: json.RawMessage(`{"session_token":"hush"}`)}, nil) {
				yield(toolkit.Chunk{Result: &toolkit.Result{Output: json.RawMessage(call.Arguments)}}, nil)
			}
		}},
		{"fails", func(_ context.Context, _ toolkit.Call, yield func(toolkit.Chunk, error) bool) {
			yield(toolkit.Chunk{Result: &toolkit.Result{Error: "out of order: https://a.org/?api_key=hush&x=1", Output: json.RawMessage(`{"password":"hush"}`)}}, nil)
		}},
		{"panics", func(context.Context, toolkit.Call, func(toolkit.Chunk, error) bool) { panic("oh") }},
		{"waits", waits},
		{"waits_too", waits},
		{"waits_long", waits},
	}
}

// auditCall is the upstream's event about a function call of the model.
func auditCall(id, name, arguments string) string {
	text, _ := json.Marshal(arguments)
	return fmt.Sprintf(`{"type":"response.output_item.done","response_id":"r1","item":{"id":"i%[1]s","type":"function_call","status":"completed","call_id":%[1]q,"name":%[2]q,"arguments":%[3]s}}`, id, name, text)
}

// nonceOf returns the nonce of the approval request about a call.
func (b *bubble) nonceOf(id string) string {
	b.t.Helper()
	b.browser.mu.Lock()
	defer b.browser.mu.Unlock()
	for _, sent := range b.browser.sent {
		var q struct {
			Type       string
			ToolCallID string `json:"tool_call_id"`
			Nonce      string
		}
		if json.Unmarshal([]byte(sent), &q) == nil && q.Type == "bridge.tool.approval_required" && q.ToolCallID == id {
			return q.Nonce
		}
	}
	b.t.Fatalf("the user was not asked about %s", id)
	return ""
}

// TestEveryToolCallIsRecorded makes tool calls that end in every possible way. Each leaves
// one row with its end, and no secret is saved or shown.
func TestEveryToolCallIsRecorded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := &auditLog{rows: map[string]thread.ToolCall{}}
		b := newBubble(t, func(b *bubble) {
			for _, tool := range auditTools() {
				testkit.Must(t, b.registry.Add(toolkit.Entry{Tool: tool, Executor: toolkit.ExecutorMCP, Server: "box"}))
			}
			b.database, b.call.thread = log, log
		})
		b.ready()
		b.call.post(session.BrowserEvent{Gen: 1, Data: []byte(`{"type":"session.update","session":{"type":"realtime","tools":[{"type":"function","name":"theme"}]}}`)})
		b.upEvent(`{"type":"session.updated","session":{"type":"realtime"}}`)
		for _, c := range [][3]string{
			{"good", "echo", `{"api_key":"hush","body":"{\"password\":\"hush\"}","n":1}`},
			{"fails", "fails", `{}`},
			{"panics", "panics", `{}`},
			{"late", "waits", `{}`},
			{"malformed", "echo", `{"token":"hush","n":`},
			{"not an object", "echo", `["secret"]`},
			{"unknown", "no_such_tool", `{"password":"hush"}`},
			{"empty", "", ``},
			{"denied", "create_line_chart", `{"title":"x"}`},
			{"unanswered", "create_line_chart", `{"title":"x"}`},
			{"cancelled", "waits_too", `{}`},
			{"client", "theme", `{"access_token":"hush"}`},
			{"silent client", "theme", `{}`},
			{"good", "echo", `{"n":"a second time"}`},
		} {
			b.upEvent(auditCall(c[0], c[1], c[2]))
		}
		synctest.Wait()
		b.call.post(session.BrowserEvent{Gen: 1, Data: fmt.Appendf(nil, `{"type":"bridge.tool.deny","tool_call_id":"denied","nonce":%q}`, b.nonceOf("denied"))})
		b.call.post(session.BrowserEvent{Gen: 1, Data: []byte(`{"type":"bridge.tool.cancel","tool_call_id":"cancelled"}`)})
		b.call.post(session.BrowserEvent{Gen: 1, Data: []byte(`{"type":"conversation.item.create","item":{"type":"function_call_output","call_id":"client","output":"{\"cookie\":\"hush\"}"}}`)})
		time.Sleep(2 * time.Minute) // virtual: every time limit has passed
		b.upEvent(auditCall("hung up", "waits_long", `{}`))
		b.upEvent(`{"type":"input_audio_buffer.committed","item_id":"u1","previous_item_id":null}`)
		synctest.Wait()
		b.call.stop(EndHangup)
		b.upEvent(auditCall("too late", "echo", `{"secret":"hush"}`)) // while the call waits for the last words
		b.end(EndHangup)

		const ended, refused = "The call ended before the tool did.", "The user refused this tool call."
		for id, want := range map[string]string{
			"good":          `mcp box done `,
			"fails":         "mcp box failed out of order: https://a.org/?api_key=[masked]&x=1",
			"panics":        "mcp box failed the tool broke down",
			"late":          "mcp box failed the tool timed out after 30s",
			"malformed":     "mcp box failed the arguments are not valid JSON",
			"not an object": "mcp box failed the arguments must be a JSON object",
			"unknown":       `app  failed there is no tool named "no_such_tool"`,
			"empty":         `app  failed there is no tool named ""`,
			"denied":        "app  failed " + refused,
			"unanswered":    "app  failed The user was asked to approve this tool call and did not answer in time.",
			"cancelled":     "mcp box cancelled The user cancelled this tool call.",
			"client":        "client  done ",
			"silent client": "client  failed ",
			"hung up":       "mcp box cancelled " + ended,
			"too late":      "mcp box cancelled " + ended,
		} {
			r, ok := log.rows[id]
			if got := fmt.Sprintf("%s %s %s %s", r.Executor, r.Server, r.Status, r.Error); !ok || !strings.HasPrefix(got, want) {
				t.Errorf("%s: row %q, want %q", id, got, want)
			}
			if r.StartedAt.IsZero() || r.FinishedAt == nil || r.FinishedAt.Before(r.StartedAt) || r.CallID != "call-1" || r.MessageID == "" {
				t.Errorf("%s: row %+v", id, r)
			}
			outputs := 0
			for _, sent := range b.up.sent {
				outputs += strings.Count(sent, fmt.Sprintf(`"call_id":%q`, id))
			}
			if over := strings.HasSuffix(want, ended); outputs != 1 && !over || outputs != 0 && over {
				t.Errorf("%s: the model was answered %d times", id, outputs)
			}
		}
		testkit.Equal(t, len(log.rows), 15, "rows")
		if want := `{"api_key":"[masked]","body":"{\"password\":\"[masked]\"}","n":1}`; log.rows["good"].Input != want || !strings.Contains(log.rows["good"].Output, `"api_key":"[masked]"`) {
			t.Errorf("row %+v", log.rows["good"])
		}
		testkit.Equal(t, log.rows["malformed"].Input, `{"token":"[masked]","n":`, "row %+v", log.rows["malformed"])
		b.wantNoSecret(log)
	})
}

// wantNoSecret looks for secrets in everything saved, and in what the browser is sent
// beside the upstream's own events.
func (b *bubble) wantNoSecret(log *auditLog) {
	b.t.Helper()
	for line := range strings.Lines(log.text.String()) {
		if i := strings.Index(line, "hush"); i >= 0 {
			b.t.Errorf("a secret is saved or published: %.300s", line[max(0, i-150):])
		}
	}
	for _, sent := range b.browser.sent {
		if strings.Contains(sent, `"bridge.`) && strings.Contains(sent, "hush") {
			b.t.Errorf("a secret is shown: %.300s", sent[max(0, strings.Index(sent, "hush")-150):])
		}
	}
	if !b.up.has(`hush`) || !b.up.has(`api_key=hush&x=1`) && !b.up.has(`api_key=hush\u0026x=1`) {
		b.t.Error("the model did not get the tool's whole output")
	}
}
