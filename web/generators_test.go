package web

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"voicebridge/persistence/persistencetest"
	"voicebridge/thread"
)

// TestGeneratedClients has oapi-codegen and ogen make clients of the document, in the versions of testdata/generators/go.mod, and reads each
// kind of part with both.
func TestGeneratedClients(t *testing.T) {
	t.Parallel()
	b := setup(t, tokens)
	key := b.thread(t, "alice")
	m := thread.Message{Role: thread.RoleAssistant}
	must(t, json.Unmarshal([]byte(`[{"type":"text","text":"hello"},{"type":"file","mediaType":"image/png","url":"data:image/png;base64,AA=="},{"type":"step-start"},
		{"type":"reasoning","text":"hm"},{"type":"tool-chart","toolCallId":"c1","state":"output-available","input":{},"output":[1]},
		{"type":"dynamic-tool","toolName":"n","toolCallId":"c2","state":"output-error","input":"x","errorText":"no"},{"type":"data-mood","data":{"a":1}}]`), &m.Parts))
	_, err := persistencetest.AppendMessage(t.Context(), b.db, key, m)
	must(t, err)
	dir := t.TempDir()
	must(t, os.CopyFS(dir, os.DirFS("testdata/generators")))
	document, err := openAPIDocument()
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, "openapi.json"), document, 0o600))
	for _, args := range [][]string{
		{"tool", "oapi-codegen", "-config", "oapi-codegen.yaml", "openapi.json"},
		{"tool", "oapi-codegen", "-package", "plain", "-generate", "types,client", "-o", "plain/plain.go", "openapi.json"},
		{"tool", "ogen", "-package", "ogen", "-target", "ogen", "openapi.json"},
		{"test", "-trimpath", "-count", "1", "."},
	} {
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "SERVER_URL="+b.listen(t).URL, "TOKEN=alice-token-of-tests", "THREAD_ID="+key.Thread)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go %v: %v\n%s", args, err, out)
		}
	}
}
