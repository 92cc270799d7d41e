package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"voicebridge/internal/testkit"
	"voicebridge/persistence/persistencetest"
	"voicebridge/realtime"
	"voicebridge/realtime/simulator"
	"voicebridge/thread"
)

// Versions of OpenAI's Agents SDK that apps use, as installed from npm.
const (
	oldestSDK = "v0.4"
	newestSDK = "v0.20"
)

// sdkClient is an app written with that SDK. It knows only the address of this server. One of
// its two tools has the name of a server tool.
const sdkClient = `window.client = (() => {
  const { OpenAIRealtimeWebRTC, RealtimeAgent, RealtimeSession, tool } = OpenAIAgentsRealtime;
  const ran = [], errors = [], warnings = [];
  const warn = console.warn;
  console.warn = (...words) => { warnings.push(words.join(' ')); warn(...words); };
  const parameters = { type: 'object', properties: { theme: { type: 'string' } }, required: ['theme'], additionalProperties: false };
  const agent = new RealtimeAgent({
    name: 'Tester',
    instructions: 'Answer in short sentences.',
    tools: [
      tool({
        name: 'changeBrowserTheme', description: 'Change the colours of the page.', parameters,
        execute: ({ theme }) => { ran.push('theme ' + theme); return 'The page is ' + theme + ' now.'; },
      }),
      tool({
        name: 'create_bar_chart', description: 'Draw.', parameters: { ...parameters, properties: {}, required: [] },
        execute: () => { ran.push('chart'); return 'A chart of the app.'; },
      }),
    ],
  });
  let session;
  return {
    ran, errors, warnings,
    async connect(base, apiKey) {
      const transport = new OpenAIRealtimeWebRTC({ baseUrl: base + '/v1/realtime/calls' });
      session = new RealtimeSession(agent, { transport });
      session.on('error', ({ error }) => errors.push(error?.error?.code ?? error?.message ?? String(error)));
      const began = performance.now();
      await session.connect({ apiKey });
      return { ms: performance.now() - began, callId: transport.callId ?? '' };
    },
    say: (text) => session.sendMessage(text),
    interrupt: () => session.interrupt(),
    close: () => session.close(),
    history: () => session.history.map((item) => item.type === 'message'
      ? item.role + ': ' + item.content.map((c) => c.text ?? c.transcript ?? '').join(' ')
      : item.type + ' ' + item.name + ': ' + (item.output ?? '')),
    says: (words) => client.history().some((line) => line.startsWith(words)),
  };
})(); undefined`

// untilHistory waits for a line of the SDK's own history.
func (p *tab) untilHistory(t *testing.T, words string) {
	t.Helper()
	p.until(t, "in the SDK's history: "+words, fmt.Sprintf("client.says(%q)", words))
}

// sdkSay sends a text with the SDK.
func (p *tab) sdkSay(t *testing.T, text string) {
	t.Helper()
	eval[any](t, p, fmt.Sprintf("client.say(%q) ?? null", text))
}

// otherSite is a page of another origin that loads a generation of the SDK.
func otherSite(t *testing.T, generation string) *httptest.Server {
	t.Helper()
	script := filepath.Join(clients(t), "node_modules/@openai/agents-realtime-"+generation, "dist/bundle/openai-realtime-agents.umd.js")
	site := http.NewServeMux()
	site.HandleFunc("/agents.js", func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, script) })
	site.HandleFunc("/{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprint(w, `<!doctype html><meta charset="utf-8"><title>An app</title><link rel="icon" href="data:,"><script src="/agents.js"></script>`)
	})
	server := httptest.NewServer(site)
	t.Cleanup(server.Close)
	return server
}

// clientSecret requests a short-lived key, as an app's own server does.
func (r *rig) clientSecret(t *testing.T) (key string) {
	t.Helper()
	transport := &http.Transport{DisableKeepAlives: true}
	res, err := (&http.Client{Transport: transport}).Post(r.url+"/v1/realtime/client_secrets", "application/json", strings.NewReader("{}"))
	must(t, err)
	defer res.Body.Close()
	var secret struct{ Value string }
	if err := json.NewDecoder(res.Body).Decode(&secret); err != nil || !strings.HasPrefix(secret.Value, "ek_") {
		t.Fatalf("status %d, error %v, secret %q", res.StatusCode, err, secret.Value)
	}
	return secret.Value
}

// TestSDK calls with OpenAI's own client and changes nothing but the base URL.
func TestSDK(t *testing.T) {
	t.Parallel()
	for _, generation := range []string{oldestSDK, newestSDK} {
		t.Run(generation, func(t *testing.T) {
			t.Parallel()
			testSDK(t, generation)
		})
	}
}

func testSDK(t *testing.T, generation string) {
	t.Helper()
	site := otherSite(t, generation)
	s := serveWith(t, persistencetest.SQLiteURL(t), speaking(greets), "VOICEBRIDGE_ALLOWED_ORIGINS="+site.URL)
	p := openBrowser(t)
	p.visit(t, site.URL)
	eval[any](t, p, sdkClient)

	connected := eval[struct {
		MS     float64
		CallID string `json:"callId"`
	}](t, p, fmt.Sprintf("client.connect(%q, %q)", s.url, s.clientSecret(t)))
	if rows := s.rows(t, "SELECT id FROM calls"); len(rows) != 1 || rows[0] != connected.CallID {
		t.Errorf("the SDK's call is %q, saved are %q", connected.CallID, rows)
	}
	sdkSession(t, p)
	testkit.Equal(t, eval[[]string](t, p, "client.errors"), []string{"tool_name_taken"}, "the SDK reports the errors")

	// A spoken turn: the SDK retrieves the item to get its words.
	p.speak(t)
	p.untilHistory(t, "user: "+heardWords)
	p.untilHistory(t, "assistant: "+greeting)
	p.until(t, "items that were retrieved", "probe.has('conversation.item.retrieved')")
	p.untilSilent(t)

	p.sdkSay(t, "Good morning!")
	p.untilHistory(t, "assistant: Good to see you again.")

	p.sdkSay(t, "Make the page dark, please.")
	p.untilHistory(t, "assistant: I have changed the colours of the page for you.")
	testkit.Equal(t, eval[[]string](t, p, "client.ran"), []string{"theme dark"}, "the app has run")
	wantToolOutput(t, s.upstream(t, 0), "The page is dark now.")

	// The server's tools draw, one of them with the name of the app's and one that the app does
	// not know: the SDK runs nothing and sends nothing for them.
	p.sdkSay(t, "Show me two charts.")
	p.untilHistory(t, "assistant: "+drawn)
	testkit.Equal(t, eval[[]string](t, p, "client.errors"), []string{"tool_name_taken"}, "the SDK reports the errors")
	testkit.Equal(t, eval[[]string](t, p, "client.ran"), []string{"theme dark"}, "the app has run")
	testkit.Equal(t, eval[int](t, p, "probe.events.filter(({ way, event }) => way === 'out' && event.item?.type === 'function_call_output').length"), 1, "the SDK has sent outputs")
	want := []string{
		"user: " + heardWords, "assistant: " + greeting, "user: Good morning!", "assistant: Good to see you again.",
		"user: Make the page dark, please.", "function_call changeBrowserTheme: The page is dark now.", "assistant: I have changed the colours of the page for you.",
		"user: Show me two charts.", "assistant: Let me draw that for you.", "assistant: " + drawn,
	}
	got := eval[[]string](t, p, "client.history()")
	if !slices.EqualFunc(got, want, strings.HasPrefix) {
		t.Errorf("the SDK's history:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}

	sdkInterrupt(t, p, s)
	eval[any](t, p, "client.close() ?? null")
	if got := s.untilEnded(t, 1); got[0] != "browser_closed" {
		t.Errorf("the call ended with %q", got[0])
	}
	wantTools := []string{"changeBrowserTheme | client | done", "create_bar_chart | app | done", "create_pie_chart | app | done"}
	testkit.Equal(t, s.rows(t, "SELECT name, executor, status FROM tool_call_log"), wantTools, "tool calls")
	if got := eval[[]string](t, p, "client.warnings"); len(got) != 0 {
		t.Errorf("the SDK warns: %q (connected after %.0f ms)", got, connected.MS)
	}
}

// sdkSession checks the first session.updated that the SDK got: its own tool is there, and
// nothing of the server's.
func sdkSession(t *testing.T, p *tab) {
	t.Helper()
	type session struct {
		Instructions string
		Tools        []struct{ Name string }
	}
	seen := eval[[]session](t, p, "probe.events.filter(({ event }) => event.type === 'session.updated').map(({ event }) => event.session)")
	if len(seen) == 0 {
		t.Fatal("the SDK has seen no session.updated")
	}
	first := seen[0]
	if len(first.Tools) != 1 || first.Tools[0].Name != "changeBrowserTheme" || first.Instructions != "" {
		t.Errorf("the session that the SDK sees is %+v", first)
	}
}

// wantToolOutput checks which outputs of the app's tool the model got.
func wantToolOutput(t *testing.T, session *simulator.Session, want string) {
	t.Helper()
	var outputs []string
	for _, r := range session.Received() {
		var it realtime.Item
		if r.Event.Type != realtime.TypeItemCreate || json.Unmarshal(r.Event.Item, &it) != nil || it.Type != realtime.ItemFunctionCallOutput {
			continue
		}
		outputs = append(outputs, it.Output)
	}
	testkit.Equal(t, outputs, []string{want}, "the model was told, want %q", want)
}

// sdkInterrupt interrupts a long answer and asks for another one.
func sdkInterrupt(t *testing.T, p *tab, s *rig) {
	t.Helper()
	p.untilSilent(t)
	p.sdkSay(t, "Tell me a long story.")
	p.untilHistory(t, "assistant: Let me tell you how a call travels. Your voice")
	p.until(t, "a second of its sound", `(({ at, event }) => event.type === 'output_audio_buffer.started' && performance.now() - at > 1000)(
		probe.events.findLast(({ event }) => event.type.startsWith('output_audio_buffer.')))`)
	eval[any](t, p, "client.interrupt() ?? null")
	p.until(t, "the end of the sound", "probe.has('output_audio_buffer.cleared')")
	p.sdkSay(t, "Hello")
	p.until(t, "an answer after the interruption", "client.history().findLast((line) => line.startsWith('assistant: '))?.startsWith('assistant: Good to see you again.')")
	var m thread.Message
	testkit.Eventually(t, "a message that was interrupted", func() bool {
		var messages []thread.Message
		for _, thread := range s.rows(t, "SELECT id FROM threads") {
			messages = append(messages, s.messages(t, thread)...)
		}
		at := slices.IndexFunc(messages, func(m thread.Message) bool { return m.Metadata.Status == thread.StatusInterrupted })
		if at >= 0 {
			m = messages[at]
		}
		return at >= 0
	})
	if h := m.Metadata.HeardText; h == nil || *h == "" || !strings.HasPrefix(m.Parts[len(m.Parts)-1].Text, *h) || *h == m.Parts[len(m.Parts)-1].Text {
		whole, _ := json.Marshal(m)
		t.Errorf("not partly heard: %s", whole)
	}
}

// TestSDKWithAWrongKey gets the reason why it cannot call. Older generations do not look at the status.
func TestSDKWithAWrongKey(t *testing.T) {
	t.Parallel()
	site := otherSite(t, newestSDK)
	s := serveWith(t, persistencetest.SQLiteURL(t), simulator.Config{}, "VOICEBRIDGE_ALLOWED_ORIGINS="+site.URL)
	p := openBrowser(t)
	p.visit(t, site.URL)
	eval[any](t, p, sdkClient)
	got := eval[string](t, p, fmt.Sprintf("client.connect(%q, 'ek_wrong').then(() => 'connected', (error) => error.message)", s.url))
	testkit.Equal(t, got, "Realtime call request failed with status 401: This client secret is unknown or has expired.", "it")
	if rows := s.rows(t, "SELECT id FROM threads"); len(rows) != 0 {
		t.Errorf("threads %q", rows)
	}
}
