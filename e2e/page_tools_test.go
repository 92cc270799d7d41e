package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"voicebridge/internal/testkit"
	"voicebridge/persistence/persistencetest"
	"voicebridge/realtime/simulator"
)

// onPlease makes the simulator answer typed words with a call to a tool.
func onPlease(script *simulator.Script, words, tool, arguments string) {
	script.Typed = slices.Insert(script.Typed, 0, simulator.Rule{
		Match: regexp.MustCompile("^" + regexp.QuoteMeta(words) + "$"),
		Reply: simulator.Reply{Calls: []simulator.Call{{Name: tool, Arguments: arguments}}, Then: "It is done.", Failed: "It did not work."},
	})
}

// slowTool is an MCP server whose only tool reports progress and never ends by itself. It
// returns a settings file that names the server, and gone, which is closed when a call of
// the tool is over.
func slowTool(t *testing.T) (config string, gone <-chan struct{}) {
	t.Helper()
	over := make(chan struct{}, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var request struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
			Params struct {
				Meta struct {
					Token json.RawMessage `json:"progressToken"`
				} `json:"_meta"`
			} `json:"params"`
		}
		if r.Method != http.MethodPost || json.NewDecoder(r.Body).Decode(&request) != nil {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		answer := func(result string) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, request.ID, result)
		}
		switch request.Method {
		case "initialize":
			answer(`{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"slow","version":"1"}}`)
		case "tools/list":
			answer(`{"tools":[{"name":"dig","description":"Digs a hole","inputSchema":{"type":"object"}}]}`)
		case "tools/call":
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, "data: "+`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":3,"total":8,"message":"Three metres deep"}}`+"\n\n", request.Params.Meta.Token)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
			over <- struct{}{}
		default:
			if request.ID == nil { // a notification
				w.WriteHeader(http.StatusAccepted)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}`, request.ID)
		}
	}))
	t.Cleanup(server.Close)
	config = filepath.Join(t.TempDir(), "mcp.json")
	must(t, os.WriteFile(config, fmt.Appendf(nil, `{"mcpServers":{"garden":{"url":%q}}}`, server.URL), 0o600))
	return config, over
}

// TestPageStopsATool watches a tool's progress and stops it. The call goes on, and the
// page's own tool runs once the user has agreed.
func TestPageStopsATool(t *testing.T) {
	t.Parallel()
	cfg := speaking(greets)
	onPlease(cfg.Script, "Dig a hole.", "garden__dig", "{}")
	mcp, gone := slowTool(t)
	s := serveWith(t, persistencetest.SQLiteURL(t), cfg, "VOICEBRIDGE_MCP_CONFIG="+mcp,
		"VOICEBRIDGE_CONFIG="+write(t, "tools: {approve: [changeBrowserTheme]}\n"))
	p := openBrowser(t)
	p.visit(t, s.url)
	p.click(t, "talk")
	p.untilLive(t)
	p.say(t, "Dig a hole.")
	const card = `document.querySelector('[data-testid=tool-card][data-tool=garden__dig]')`
	p.until(t, "how far the tool is", card+`?.dataset.state === 'running' && ['Three metres deep', '38%'].every((w) => `+card+`.innerText.includes(w))`)
	// The page is told before the change is saved.
	testkit.Eventually(t, "the record of a tool that runs", func() bool {
		return slices.Equal(s.rows(t, "SELECT name, status FROM tool_calls"), []string{"garden__dig | running"})
	})
	p.click(t, "stop-tool")
	p.until(t, "a card that says so", card+`.dataset.state === 'cancelled' && `+card+`.innerText.includes('The user cancelled this tool call.') && probe.all('stop-tool').length === 0`)
	testkit.Receive(t, "the end of the tool's request", gone)
	p.untilMessage(t, "assistant voice completed", "It did not work.") // the model was told
	p.say(t, "Make it dark.")
	p.until(t, "the question", "probe.all('approval-dialog').length === 1")
	if dark := eval[bool](t, p, "document.documentElement.dataset.theme === 'dark'"); dark {
		t.Error("the page's tool ran before the user had agreed")
	}
	p.click(t, "approve")
	p.until(t, "the dark page", "document.documentElement.dataset.theme === 'dark'")
	p.say(t, chartWords)
	p.untilMessage(t, "assistant voice completed", drawn)
	p.click(t, "hangup")
	p.untilOver(t)
	if got := s.untilEnded(t, 1); got[0] != "hangup" {
		t.Errorf("the call ended with %q", got[0])
	}
	rows := s.rows(t, "SELECT name, executor, status, error FROM tool_call_log")
	want := []string{"garden__dig | mcp | cancelled | The user cancelled", "changeBrowserTheme | client | done", "create_bar_chart | app | done"}
	if !slices.EqualFunc(rows, want, strings.HasPrefix) {
		t.Errorf("tool calls %q", rows)
	}
	p.reload(t)
	p.until(t, "the card after a reload", card+`?.innerText.includes('The user cancelled this tool call.')`)
}
