package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"voicebridge/internal/testkit"
)

// toolModel is a language model of OpenAI's kind: when told "call NAME ARGUMENTS" it calls
// that tool, and then says what it has read and how many images it was shown.
type toolModel struct {
	*httptest.Server
	mu      sync.Mutex
	offered map[string]json.RawMessage // the schemas of its tools
	asked   []string                   // all requests
}

func newToolModel(t *testing.T) *toolModel {
	t.Helper()
	m := &toolModel{offered: map[string]json.RawMessage{}}
	m.Server = httptest.NewServer(http.HandlerFunc(m.answer))
	t.Cleanup(m.Close)
	return m
}

var order = regexp.MustCompile(`(?s)call (\S+) (\{.*\})`)

func (m *toolModel) answer(w http.ResponseWriter, r *http.Request) {
	var req struct {
		Messages []struct {
			Role    string          `json:"role"`
			Content json.RawMessage `json:"content"`
		} `json:"messages"`
		Tools []struct {
			Function struct {
				Name       string          `json:"name"`
				Parameters json.RawMessage `json:"parameters"`
			} `json:"function"`
		} `json:"tools"`
	}
	body, err := io.ReadAll(r.Body)
	if err != nil || json.Unmarshal(body, &req) != nil || len(req.Messages) == 0 {
		http.Error(w, "bad request", http.StatusBadRequest)
		return
	}
	m.mu.Lock()
	m.asked = append(m.asked, string(body))
	for _, tool := range req.Tools {
		m.offered[tool.Function.Name] = tool.Function.Parameters
	}
	m.mu.Unlock()
	last := req.Messages[len(req.Messages)-1]
	var words, tool string
	_ = json.Unmarshal(last.Content, &words)
	images := strings.Count(string(last.Content), `"image_url":{"url":"data:image/`)
	for _, m := range req.Messages {
		if m.Role == "tool" {
			_ = json.Unmarshal(m.Content, &tool)
		}
	}
	delta, finish := map[string]any{"role": "assistant", "content": fmt.Sprintf("%d images: %s", images, tool)}, "stop"
	if m := order.FindStringSubmatch(words); m != nil && last.Role == "user" {
		call := map[string]any{"index": 0, "id": "call_1", "type": "function", "function": map[string]any{"name": m[1], "arguments": m[2]}}
		delta, finish = map[string]any{"role": "assistant", "tool_calls": []any{call}}, "tool_calls"
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for _, choice := range []map[string]any{{"index": 0, "delta": delta}, {"index": 0, "delta": map[string]any{}, "finish_reason": finish}} {
		data, _ := json.Marshal(map[string]any{"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": []any{choice}})
		fmt.Fprintf(w, "data: %s\n\n", data)
	}
	fmt.Fprint(w, "data: [DONE]\n\n")
}

// overHTTP starts the server "everything" with streamable HTTP. It returns a function that restarts it.
func overHTTP(t *testing.T) (url string, restart func()) {
	t.Helper()
	_, port, err := net.SplitHostPort(keptAddress(t))
	must(t, err)
	start := func() (stop func()) {
		cmd := command(t, "node", []string{"PORT=" + port}, filepath.Join(clients(t), "node_modules/@modelcontextprotocol/server-everything/dist/index.js"), "streamableHttp")
		must(t, cmd.Start())
		return func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	}
	stop := start()
	t.Cleanup(func() { stop() })
	return "http://127.0.0.1:" + port + "/mcp", func() {
		stop()
		stop = start()
	}
}

// TestMCPServers uses third-party servers, processes over stdio and streamable HTTP, in text turns.
func TestMCPServers(t *testing.T) {
	t.Parallel()
	files, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	must(t, os.WriteFile(filepath.Join(files, "dot.png"), dotPNG, 0o600))
	memory := npmServer(t, "@modelcontextprotocol/server-memory/dist/index.js")
	memory["env"] = map[string]any{"MEMORY_FILE_PATH": filepath.Join(files, "memory.jsonl")}
	model := newToolModel(t)
	web, _ := overHTTP(t)
	config := mcpServers(t, map[string]any{
		"web":    map[string]any{"type": "streamable-http", "url": web},
		"files":  npmServer(t, "@modelcontextprotocol/server-filesystem/dist/index.js", files),
		"memory": memory,
		"browser": npmServer(t, "@playwright/mcp/cli.js", "--headless", "--isolated", "--no-sandbox", "--executable-path", findBrowser(t),
			"--output-dir", t.TempDir()),
	})
	server := launch(t, append(environment(t), "OPENAI_BASE_URL="+model.URL+"/v1", "OPENAI_API_KEY=key-of-the-tests", "VOICEBRIDGE_UPSTREAM=simulator",
		"VOICEBRIDGE_TEXT_PROVIDER=openai", "VOICEBRIDGE_MCP_CONFIG="+config), "serve", "--listen", "127.0.0.1:0")
	for _, name := range []string{"everything__echo", "web__echo", "files__read_text_file", "memory__create_entities", "browser__browser_take_screenshot"} {
		untilTools(t, server.url, name)
	}
	if _, body := get(t, server.url+"/api/tools"); strings.Contains(body, "simulate-research-query") {
		t.Error("a tool that needs tasks is offered")
	}
	thread := newThread(t, server.url)
	for _, c := range []struct{ call, want string }{
		{`everything__get-sum {"a":2,"b":3}`, "0 images: The sum of 2 and 3 is 5."},
		{`web__get-sum {"a":2,"b":4}`, "0 images: The sum of 2 and 4 is 6."},
		{`everything__get-tiny-image {}`, "1 images: Here's the image you requested:\n[image, image/png, 20×20]"},
		{`web__get-tiny-image {}`, "1 images: Here's the image you requested:\n[image, image/png, 20×20]"},
		{fmt.Sprintf(`files__write_file {"path":%q,"content":"kept"}`, filepath.Join(files, "a.txt")), "0 images: Successfully wrote"},
		{fmt.Sprintf(`files__read_text_file {"path":%q}`, filepath.Join(files, "a.txt")), "0 images: kept"},
		{fmt.Sprintf(`files__read_text_file {"path":%q}`, "/etc/passwd"), "0 images: Error: "},
		{fmt.Sprintf(`files__read_media_file {"path":%q}`, filepath.Join(files, "dot.png")), "1 images: [image, image/png, 1×1]"},
		{`memory__create_entities {"entities":[{"name":"Anna","entityType":"person","observations":["likes tea"]}]}`, "0 images: "},
		{`memory__search_nodes {"query":"tea"}`, "Anna"},
		{fmt.Sprintf(`browser__browser_navigate {"url":%q}`, server.url), "0 images: "},
		// All of its arguments have defaults, and some of them are required.
		{`browser__browser_take_screenshot {}`, "1 images: "},
	} {
		status, body := post(t, server.url+"/api/threads/"+thread+"/messages", string(toJSON(t, map[string]string{"content": "call " + c.call})))
		var turn struct {
			Message struct {
				Parts []struct {
					Type   string          `json:"type"`
					Text   string          `json:"text"`
					Output json.RawMessage `json:"output"`
				} `json:"parts"`
			} `json:"message"`
		}
		if err := json.Unmarshal([]byte(body), &turn); err != nil || status != http.StatusOK {
			t.Fatalf("%s: status %d, %s", c.call, status, body)
		}
		var said strings.Builder
		for _, p := range turn.Message.Parts {
			said.WriteString(p.Text)
		}
		if !strings.Contains(said.String(), c.want) {
			t.Errorf("%s: the model says %.300q, want %q", c.call, said.String(), c.want)
		}
		if !strings.HasPrefix(c.want, "1 images") {
			continue
		}
		url := regexp.MustCompile(`/api/threads/[^"]+/images/[^"]+`).FindString(body)
		if status, picture := get(t, server.url+url); url == "" || status != http.StatusOK || !strings.HasPrefix(http.DetectContentType([]byte(picture)), "image/") {
			t.Errorf("%s: the page finds no image at %q: %d", c.call, url, status)
		}
		if strings.Contains(body, `"iVBOR`) {
			t.Errorf("%s: the message holds the data: %.500s", c.call, body)
		}
	}
	// The servers' schemas are passed on unchanged: a model fills in what a schema says.
	var schema struct {
		Required []string `json:"required"`
	}
	if err := json.Unmarshal(model.offered["everything__get-sum"], &schema); err != nil || !cmp.Equal(schema.Required, []string{"a", "b"}) {
		t.Errorf("the schema of get-sum is %s", model.offered["everything__get-sum"])
	}
}

// TestMCPServerRestarts restarts the process of a server, which then refuses its old sessions with the status 400 and an error of JSON-RPC.
func TestMCPServerRestarts(t *testing.T) {
	t.Parallel()
	web, restart := overHTTP(t)
	model := newToolModel(t)
	server := launch(t, append(environment(t), "OPENAI_BASE_URL="+model.URL+"/v1", "OPENAI_API_KEY=key-of-the-tests", "VOICEBRIDGE_UPSTREAM=simulator",
		"VOICEBRIDGE_TEXT_PROVIDER=openai", "VOICEBRIDGE_MCP_CONFIG="+mcpServers(t, map[string]any{"web": map[string]any{"url": web}})), "serve", "--listen", "127.0.0.1:0")
	untilTools(t, server.url, "web__echo")
	thread := newThread(t, server.url)
	sum := func() string {
		status, body := post(t, server.url+"/api/threads/"+thread+"/messages", `{"content":"call web__get-sum {\"a\":2,\"b\":4}"}`)
		if status != http.StatusOK {
			t.Fatalf("status %d, %s", status, body)
		}
		return body
	}
	const want = "The sum of 2 and 4 is 6."
	if body := sum(); !strings.Contains(body, want) {
		t.Fatalf("the model says %s", body)
	}
	restart()
	testkit.Eventually(t, "it listens again", func() bool {
		c, err := net.Dial("tcp", strings.TrimSuffix(strings.TrimPrefix(web, "http://"), "/mcp"))
		return err == nil && c.Close() == nil
	})
	testkit.Eventually(t, "a new session begins", func() bool { return strings.Contains(sum(), want) })
}

func toJSON(t *testing.T, v any) []byte {
	t.Helper()
	data, err := json.Marshal(v)
	must(t, err)
	return data
}

// dotPNG is a picture of one pixel.
var dotPNG = []byte("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x04\x00\x00\x00\xb5\x1c\x0c\x02\x00\x00\x00\vIDAT" +
	"x\xdacd\xf8\x0f\x00\x01\x05\x01\x01'\x18\xe3f\x00\x00\x00\x00IEND\xaeB`\x82")
