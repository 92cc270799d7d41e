package e2e

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"voicebridge/internal/testkit"
	"voicebridge/realtime"
)

// clientsFolder contains third-party programs from npm that use the server, or that it
// uses.
const clientsFolder = "testdata/clients"

// clients returns the folder with the installed npm packages. They are only available from
// the registry; without them the test fails, since nothing is skipped silently.
func clients(t *testing.T) string {
	t.Helper()
	return installed(t, clientsFolder)
}

// installed returns the path of a folder with npm packages.
func installed(t *testing.T, folder string) string {
	t.Helper()
	folder, err := filepath.Abs(folder)
	must(t, err)
	if _, err := os.Stat(filepath.Join(folder, "node_modules", ".package-lock.json")); err != nil {
		t.Fatal("The clients are not installed. Run: bash .ci/install (for those of the night, bash .ci/install nightly)")
	}
	return folder
}

// runNode runs a script there and returns its output.
func runNode(t *testing.T, args ...string) []byte {
	t.Helper()
	cmd := command(t, "node", nil, args...)
	cmd.Dir = clients(t)
	return outputOf(t, cmd)
}

// runClient calls over WebSocket with a package of OpenAI, and returns its output.
func runClient(t *testing.T, client, base, wav, certificate string) []byte {
	t.Helper()
	if client != "openai-go" {
		return runNode(t, "socket.mjs", client, base, wav, certificate)
	}
	// A module of its own.
	program := filepath.Join(t.TempDir(), "openaigo")
	outputOf(t, exec.Command("go", "build", "-C", "testdata/openaigo", "-o", program, "."))
	return outputOf(t, command(t, program, nil, base, wav))
}

// clientWalk is what a client of the Realtime API has seen of the call in walk.mjs.
type clientWalk struct {
	First, Format      string // Format is that of the last answer
	Said, Errors       []string
	Ran                []float64
	HeardMS, AfterStop float64
	AfterDone, Answers int
	Interrupted        bool // of those that say so
}

// check compares it with what there was: each question has one answer, and nothing was an error.
func (w *clientWalk) check(t *testing.T) {
	t.Helper()
	if len(w.Errors) > 0 || !slices.Equal(w.Ran, []float64{1}) || w.First != realtime.TypeSessionCreated {
		t.Errorf("errors %q, the tool ran with %v, the first event is %s", w.Errors, w.Ran, w.First)
	}
	if w.Answers != 9 || w.AfterDone > 0 || w.AfterStop > 1500 {
		t.Errorf("%d answers, %d deltas after the end of theirs, %.0f ms after the app had stopped one", w.Answers, w.AfterDone, w.AfterStop)
	}
	for _, words := range []string{"user: " + spokenWords, "assistant: " + spokenAnswer, "assistant: Wait.", "assistant: It said so.", "assistant: I draw.", "assistant: " + chartAnswer, "user: " + secondWords} {
		if !slices.Contains(w.Said, words) {
			t.Errorf("no %q in %q", words, w.Said)
		}
	}
}

// outputOf runs a program that must succeed.
func outputOf(t *testing.T, cmd *exec.Cmd) []byte {
	t.Helper()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	limit := time.AfterFunc(2*testkit.Patience, func() { _ = cmd.Process.Kill() })
	defer limit.Stop()
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %v\n%s%s", cmd, err, out.Bytes(), errs.Bytes())
	}
	return out.Bytes()
}

// npmServer is the entry of an MCP server from npm in mcp.json.
func npmServer(t *testing.T, script string, args ...string) map[string]any {
	t.Helper()
	return map[string]any{"command": "node", "args": append([]string{filepath.Join(clients(t), "node_modules", filepath.FromSlash(script))}, args...)}
}

// mcpServers writes an mcp.json with the Model Context Protocol's server "everything" and
// the given others, and returns its path.
func mcpServers(t *testing.T, more map[string]any) string {
	t.Helper()
	servers := map[string]any{"everything": npmServer(t, "@modelcontextprotocol/server-everything/dist/index.js", "stdio")}
	maps.Copy(servers, more)
	config, err := json.Marshal(map[string]any{"mcpServers": servers})
	must(t, err)
	path := filepath.Join(t.TempDir(), "mcp.json")
	must(t, os.WriteFile(path, config, 0o600))
	return path
}

// TestAISDK talks to the server with the first version of the AI SDK that can, and with the newest.
func TestAISDK(t *testing.T) {
	t.Parallel()
	testAISDK(t, "5-first", "7")
}

func testAISDK(t *testing.T, generations ...string) {
	t.Helper()
	if _, err := exec.LookPath("node"); err != nil {
		t.Fatal(err)
	}
	server := launch(t, append(environment(t), "VOICEBRIDGE_MCP_CONFIG="+mcpServers(t, nil), "VOICEBRIDGE_TOOLS__APPROVE=create_pie_chart"),
		"serve", "--listen", "127.0.0.1:0")
	untilTools(t, server.url, "everything__echo")
	t.Run("generations", func(t *testing.T) {
		for _, generation := range generations {
			t.Run(generation, func(t *testing.T) {
				t.Parallel()
				wantSeen(t, generation, runNode(t, "aisdk.mjs", generation, server.url, newThread(t, server.url)))
			})
		}
	})
}

// wantSeen checks what a client has seen.
func wantSeen(t *testing.T, generation string, out []byte) {
	t.Helper()
	var got map[string]any
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	greeting := "Hello, I am the simulator. Ask me for a chart, a theme, a tool, or a long story."
	want := map[string]any{
		"bodies":      []any{"id messages trigger", "id messageId messages trigger"},
		"greeting":    greeting,
		"regenerated": map[string]any{"text": greeting, "another": true, "messages": 2.0},
		"edited":      map[string]any{"messages": 2.0, "same": true},
		"chart":       "tool-create_bar_chart output-available bar",
		"echo":        "dynamic-tool everything__echo output-available Echo: from the client",
		"picture":     "image/png true image/png",
		"failed":      "error",
		"errors":      []any{"The simulator was asked to fail (quota)."},
		"data":        []any{"data-tool-progress"},
		"approvals":   []any{"approval-requested", "output-available", "approval-requested", "output-denied"},
		"finishes":    []any{"stop", "stop", "stop", "stop", "stop", "stop", "stop", "error", "tool-calls", "stop", "tool-calls", "stop", "abort", "abort", "stop", "stop"},
		"cut":         "in_progress",
		"gaveWay":     greeting + " interrupted",
		"valid":       true,
		"after":       "Yes, I remember what we said earlier on this thread. You said: Hello",
		"resumed":     "assistant ready interrupted",
	}
	if strings.HasPrefix(generation, "5") { // has no approvals, and began without reasons
		want["approvals"] = []any{}
		want["finishes"] = []any{"-", "-", "-", "-", "-", "-", "-", "error", "abort", "abort", "-", "-"}
	}
	if generation == "5-first" { // tells the end of whole answers only
		want["finishes"] = []any{"-", "-", "-", "-", "-", "-", "-", "-", "-"}
		want["valid"] = "not checked"
	}
	testkit.Equal(t, got, want, "seen")
}

// untilTools waits until the server offers a tool.
func untilTools(t *testing.T, url, name string) {
	t.Helper()
	untilGet(t, url+"/api/tools", `"`+name+`"`)
}
