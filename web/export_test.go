package web

import (
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"voicebridge/internal/testkit"
	"voicebridge/persistence"
	"voicebridge/thread"
	"voicebridge/web/access"
)

func TestExport(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	key := b.thread(t, access.LocalOwner)
	wantStatus(t, b.do(t, "POST", messagesPath(key), `{"content":"hello"}`), 200)
	path := "/api/threads/" + key.Thread + "/export"
	for query, want := range map[string]struct{ media, file, begin string }{
		"":                 {"text/markdown; charset=utf-8", ".md", "# "},
		"?format=markdown": {"text/markdown; charset=utf-8", ".md", "# "},
		"?format=json":     {"application/json", ".json", `{"thread":{"id":"` + key.Thread},
	} {
		r := b.do(t, "GET", path+query, "")
		wantStatus(t, r, 200)
		if r.Header.Get("Content-Type") != want.media || !strings.HasPrefix(r.body, want.begin) || !strings.Contains(r.body, "hello") || !strings.Contains(r.body, "simulator") {
			t.Errorf("%q: headers %v, body %s", query, r.Header, r.body)
		}
		testkit.Equal(t, r.Header.Get("Content-Disposition"), `attachment; filename="thread-`+key.Thread+want.file+`"`, "%q", query)
		if query == "?format=json" && !json.Valid([]byte(r.body)) {
			t.Errorf("not JSON: %s", r.body)
		}
	}
	for _, query := range []string{"?format=pdf", "?format=srt", "?format=JSON", "?format=..%2f", "?format=%00"} {
		wantError(t, b.do(t, "GET", path+query, ""), 400, "invalid_value")
	}
	wantError(t, b.do(t, "GET", "/api/threads/unknown/export", ""), 404, "thread_not_found")
}

// TestExportIsNotRead stops the server while a client does not read the export it asked
// for: the stop waits for it, but not as long as it may.
func TestExportIsNotRead(t *testing.T) {
	t.Parallel()
	// The quarter of it that is left when the client is given up must do on a busy machine.
	b := setup(t, func(c *Config) { c.ShutdownTimeout = 8 * time.Second })
	key := b.thread(t, access.LocalOwner)
	output := json.RawMessage(`"` + strings.Repeat("word ", 20_000) + `"`) // a tool's: text would be indexed
	err := b.db.Batch(t.Context(), key, func(w *persistence.Batch) error {
		for range 5 {
			m := thread.Message{
				Role:     thread.RoleAssistant,
				Parts:    []thread.Part{{Type: "dynamic-tool", ToolName: "t", ToolCallID: "c", State: thread.ToolOutputAvailable, Input: json.RawMessage("{}"), Output: output}},
				Metadata: thread.Metadata{Source: thread.SourceText, Status: thread.StatusCompleted},
			}
			if _, err := w.AppendMessage(m); err != nil {
				return err
			}
		}
		return nil
	})
	must(t, err)
	address, stop := b.run(t)
	conn, err := net.Dial("tcp", address)
	must(t, err)
	defer conn.Close()
	if err := conn.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil { // the rest must not fit into buffers
		t.Fatal(err)
	}
	if _, err := fmt.Fprintf(conn, "GET /api/threads/%s/export HTTP/1.1\r\nHost: %s\r\n\r\n", key.Thread, address); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Read(make([]byte, 1)); err != nil { // the answer has begun
		t.Fatal(err)
	}
	if err := stop(); err != nil {
		t.Errorf("Run() = %v", err)
	}
}
