package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"

	"voicebridge/internal/testkit"
	"voicebridge/persistence/persistencetest"
)

// diggingTool is slowTool with an end: it is done when dug is closed.
func diggingTool(t *testing.T, dug <-chan struct{}) (config string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var request struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
		}
		if r.Method != http.MethodPost || json.NewDecoder(r.Body).Decode(&request) != nil {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		result := ""
		switch request.Method {
		case "initialize":
			result = `{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"slow","version":"1"}}`
		case "tools/list":
			result = `{"tools":[{"name":"dig","description":"Digs a hole","inputSchema":{"type":"object"}}]}`
		case "tools/call":
			select {
			case <-dug:
			case <-r.Context().Done():
			}
			result = `{"content":[{"type":"text","text":"a hole"}]}`
		}
		if request.ID == nil { // a notification
			w.WriteHeader(http.StatusAccepted)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if result == "" {
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}`, request.ID)
			return
		}
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, request.ID, result)
	}))
	t.Cleanup(server.Close)
	return write(t, fmt.Sprintf(`{"mcpServers":{"garden":{"url":%q}}}`, server.URL))
}

// digging is a page in a call whose tool runs until dug is called.
func digging(t *testing.T, environ ...string) (s *rig, p *tab, dug func()) {
	t.Helper()
	end := make(chan struct{})
	dug = sync.OnceFunc(func() { close(end) })
	t.Cleanup(dug)
	cfg := speaking(greets)
	onPlease(cfg.Script, "Dig a hole.", "garden__dig", "{}")
	s = serveWith(t, persistencetest.SQLiteURL(t), cfg, slices.Concat(waiting, environ, []string{"VOICEBRIDGE_MCP_CONFIG=" + diggingTool(t, end)})...)
	return s, openBrowser(t), dug
}

const diggingCard = `document.querySelector('[data-testid=tool-card][data-tool=garden__dig]')`

func (p *tab) dig(t *testing.T) {
	t.Helper()
	p.click(t, "talk")
	p.untilLive(t)
	p.say(t, "Dig a hole.")
	p.until(t, "a tool that runs", diggingCard+`?.dataset.state === 'running'`)
}

// dugOnce waits for the spoken result, ends the call and checks that all of it was one
// call, in which the tool ran once.
func (p *tab) dugOnce(t *testing.T, s *rig) {
	t.Helper()
	p.untilMessage(t, "assistant voice completed", "It is done.")
	p.untilSilent(t)
	p.until(t, "one card and one answer", `document.querySelectorAll('[data-testid=tool-card]').length === 1 &&
		probe.messages().filter((m) => m.text.includes('It is done.')).length === 1`)
	p.until(t, "audio that was heard", "probe.heard().then((h) => h.packets > 0)")
	thread := p.thread(t)
	p.click(t, "hangup")
	p.untilOver(t)
	testkit.Equal(t, s.untilEnded(t, 1), []string{"hangup"}, "the calls ended")
	testkit.Equal(t, s.rows(t, "SELECT name, status FROM tool_calls"), []string{"garden__dig | done"}, "tool calls")
	testkit.Equal(t, len(s.sim.Sessions()), 1, "upstream sessions")
	var lines []string
	for _, m := range s.messages(t, thread) {
		lines = append(lines, fmt.Sprintf("%s %s: %s", m.Role, m.Metadata.Status, m.Text()))
	}
	testkit.Equal(t, lines, []string{"user completed: Dig a hole.", "assistant completed: ", "assistant completed: It is done."}, "thread")
}

// detours is a proxy for the program. All media and events of calls through it take paths
// of the test, which it can cut.
type detours struct {
	*httptest.Server
	mu    sync.Mutex
	paths []*lossyPath
	out   bool // there is no way at all
}

func newDetours(t *testing.T, program string) *detours {
	t.Helper()
	target, err := url.Parse(program)
	must(t, err)
	d := &detours{}
	door := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Host = r.In.Host
			r.Out.Header.Del("Accept-Encoding") // answers are changed on the way
			if isSDP(r.In.Header) {
				_ = replaceBody(&r.Out.Body, &r.Out.ContentLength, r.Out.Header, func(offer string) (string, error) { return withoutCandidates(offer), nil })
			}
		},
		ModifyResponse: func(r *http.Response) error {
			if !isSDP(r.Header) {
				return nil
			}
			return replaceBody(&r.Body, &r.ContentLength, r.Header, d.lead)
		},
	}
	d.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d.mu.Lock()
		out := d.out
		d.mu.Unlock()
		if out {
			panic(http.ErrAbortHandler)
		}
		door.ServeHTTP(w, r)
	}))
	t.Cleanup(func() { d.cut(); d.CloseClientConnections(); d.Close() })
	return d
}

func isSDP(h http.Header) bool { return strings.HasPrefix(h.Get("Content-Type"), "application/sdp") }

func replaceBody(body *io.ReadCloser, length *int64, h http.Header, change func(string) (string, error)) error {
	whole, err := io.ReadAll(*body)
	if err != nil {
		return err
	}
	changed, err := change(string(whole))
	if err != nil {
		return err
	}
	*body, *length = io.NopCloser(strings.NewReader(changed)), int64(len(changed))
	h.Set("Content-Length", strconv.Itoa(len(changed)))
	return nil
}

// lead redirects an answer to a new path.
func (d *detours) lead(answer string) (string, error) {
	path, answer, err := newLossyPath(answer, rand.New(rand.NewPCG(1, 1)))
	if err != nil {
		return "", err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.paths = append(d.paths, path)
	return answer, nil
}

// cut closes all paths.
func (d *detours) cut() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, path := range d.paths {
		path.close()
	}
	d.paths = nil
}

// fail is an outage: nothing comes through any more, until it is over.
func (d *detours) fail() (over func()) {
	set := func(out bool) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.out = out
	}
	set(true)
	d.cut()
	d.CloseClientConnections()
	return func() { set(false) }
}

// TestPageKeepsItsCall reloads the page while a tool runs and rejoins the call, cuts its
// path until ICE has restarted, and moves the call to another browser, where the user holds no
// button to speak. The tool runs on, and its result is spoken once.
func TestPageKeepsItsCall(t *testing.T) {
	t.Parallel()
	s, p, dug := digging(t, "VOICEBRIDGE_REALTIME__TURN_DETECTION__TYPE=semantic_vad")
	door := newDetours(t, s.url)
	p.visit(t, door.URL)
	p.dig(t)
	p.reload(t)
	p.until(t, "the way back", "probe.all('rejoin').length === 1")
	p.click(t, "rejoin")
	p.untilLive(t)
	p.until(t, "the tool that still runs", diggingCard+`?.dataset.state === 'running'`)

	connection := eval[string](t, p, "(window.before = voicebridge.pc).connectionState")
	testkit.Equal(t, connection, "connected", "the connection")
	door.cut()
	p.until(t, "a page that misses its connection", "voicebridge.pc.connectionState !== 'connected'")
	p.until(t, "the connection on another path", "voicebridge.pc.connectionState === 'connected'")
	p.untilLive(t)
	if !eval[bool](t, p, "voicebridge.pc === window.before") {
		t.Error("the page made a new connection and did not restart ICE")
	}
	p.until(t, "the tool that runs on", diggingCard+`?.dataset.state === 'running'`)

	p.click(t, "call-settings")
	p.click(t, "choose-hold")
	p.untilTurns(t, "null")
	p.do(t, "choose a speed", chromedp.Evaluate[chromedp.Void]("((speed) => { speed.value = 1.5; speed.dispatchEvent(new Event('change', { bubbles: true })); })(probe.all('choose-speed')[0])"))
	p.untilSpeed(t, 1.5)

	other := p.elsewhere(t)
	other.visit(t, s.url+eval[string](t, p, "location.hash"))
	other.until(t, "the call of the first browser", "probe.all('take-over').length === 1")
	other.click(t, "take-over")
	other.untilLive(t)
	p.untilOver(t)
	other.untilTurns(t, `"semantic_vad"`)
	other.until(t, "the tool that runs on", diggingCard+`?.dataset.state === 'running'`)
	dug()
	other.dugOnce(t, s)
}
