package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/chromedp"
	"github.com/google/go-cmp/cmp"

	"voicebridge/internal/testkit"
	"voicebridge/realtime"
	"voicebridge/realtime/simulator"
	"voicebridge/toolkit/mcptool/signin/signintest"
)

// The two assistants of TestTwoAssistants, and what the caller says to both.
const (
	receptionAssistant = `{"id":"empfang","name":"Empfang","instructions":"Du bist der Empfang. Antworte auf Deutsch.","mcp_servers":[],"tools":{"allow":[],"deny":["*"]},
		"voice":{"upstream":"spoken","voice":"cedar","speed":1.25,"language":"de"},"text":{"model":"model-of-the-reception","temperature":0.25,"max_tokens":321}}`
	postAssistant = `{"id":"post","name":"Post office","instructions":"You look after the user's post.","mcp_servers":["post"],"tools":{"allow":["post__*"]},
		"voice":{"upstream":"relayed","voice":"marin","language":"en"},"text":{"model":"model-of-the-post"}}`
	saidToBoth = "Who am I?"
)

// receptionAnswers is what the simulator says without tools. With one, it calls it.
const receptionAnswers = "Guten Tag, hier ist der Empfang."

func twoAssistantsScript() *simulator.Script {
	return &simulator.Script{
		Otherwise: simulator.Reply{Say: "Well."},
		Spoken: []simulator.Reply{{
			Transcript: saidToBoth, Calls: []simulator.Call{{Name: "post__*", Arguments: "{}"}}, Then: "I know who you are.", Failed: "I do not know who you are.",
			Else: &simulator.Reply{Transcript: saidToBoth, Say: receptionAnswers},
		}},
	}
}

// pagesTools are those that the page declares in a call.
var pagesTools = []string{"changeBrowserTheme", "look"}

// configured is what an upstream was told of a session.
type configured struct {
	Instructions string
	Voice        string
	Speed        float64
	Language     string
	Tools        []string
}

// configuredAs reads what a session of the simulator was told: all of its session.update, the later ones over the earlier ones.
func configuredAs(t *testing.T, s *simulator.Session) configured {
	t.Helper()
	var now struct {
		Session struct {
			Instructions string
			Audio        struct {
				Input  struct{ Transcription struct{ Language string } }
				Output struct {
					Voice string
					Speed float64
				}
			}
			Tools []struct{ Name string }
		}
	}
	for _, r := range s.Received() {
		if r.Event.Type != realtime.TypeSessionUpdate {
			continue
		}
		if r.Refused != "" {
			t.Errorf("refused with %s: %s", r.Refused, r.Event.Raw)
		}
		testkit.Must(t, json.Unmarshal(r.Event.Raw, &now))
	}
	told, audio := now.Session, now.Session.Audio
	c := configured{told.Instructions, audio.Output.Voice, audio.Output.Speed, audio.Input.Transcription.Language, nil}
	for _, tool := range told.Tools {
		c.Tools = append(c.Tools, tool.Name)
	}
	return c
}

func sorted(names []string) []string { return slices.Sorted(slices.Values(names)) }

// textRequest is what a text model was asked.
type textRequest struct {
	Model, System, User string
	Temperature         float64
	MaxTokens           int
	Tools               []string
}

// requestsFor returns the requests whose last message is the user's with these words, or the answer of a tool to it, in order.
func (m *toolModel) requestsFor(t *testing.T, words string) (list []textRequest) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, raw := range m.asked {
		var asked struct {
			Model       string
			Temperature float64
			MaxTokens   int `json:"max_tokens"`
			Messages    []struct {
				Role    string
				Content json.RawMessage
			}
			Tools []struct{ Function struct{ Name string } }
		}
		testkit.Must(t, json.Unmarshal([]byte(raw), &asked))
		one := textRequest{Model: asked.Model, Temperature: asked.Temperature, MaxTokens: asked.MaxTokens}
		for _, said := range asked.Messages {
			switch said.Role {
			case "system", "developer":
				_ = json.Unmarshal(said.Content, &one.System)
			case "user":
				_ = json.Unmarshal(said.Content, &one.User)
			}
		}
		for _, tool := range asked.Tools {
			one.Tools = append(one.Tools, tool.Function.Name)
		}
		if strings.HasSuffix(one.User, "\n"+words) { // after the context
			one.User = words
			list = append(list, one)
		}
	}
	return list
}

// beginWith begins a conversation with an assistant, in the page.
func (p *tab) beginWith(t *testing.T, id string) {
	t.Helper()
	p.pressID(t, "new-thread")
	p.pressID(t, "who")
	p.until(t, "the choice of assistants", "probe.all('choose-assistant')[0]?.options.length === 3")
	p.fill(t, "choose-assistant", id)
	p.until(t, "the assistant "+id, fmt.Sprintf("probe.all('choose-assistant')[0]?.value === %q", id))
	p.press(t, "Escape", 27)
	p.until(t, "no panel", "probe.all('choose-assistant').length === 0")
}

// speakOnce calls, says what the microphone has once, waits for the answer and hangs up.
func (p *tab) speakOnce(t *testing.T, words, answer string) {
	t.Helper()
	p.click(t, "talk")
	p.talk(t, words)
	p.untilMessage(t, "assistant voice completed", answer)
	p.untilSilent(t)
	p.click(t, "hangup")
	p.untilOver(t)
}

// openServers opens the panel with the MCP servers, and waits for the state of one.
func (p *tab) openServers(t *testing.T, server, state string) {
	t.Helper()
	p.pressID(t, "about")
	p.pressID(t, "show-assistant")
	p.untilServer(t, server, state)
}

func (p *tab) untilServer(t *testing.T, server, state string) {
	t.Helper()
	p.until(t, server+" in the state "+state, fmt.Sprintf("document.querySelector('[data-testid=mcp-server][data-server=%s]')?.dataset.state === %q", server, state))
}

// window returns another window of the browser, once it has come to an address with these words.
func (p *tab) window(t *testing.T, address string) *tab {
	t.Helper()
	var id target.ID
	mine := chromedp.FromContext(p.ctx).BrowserContextID
	testkit.Eventually(t, "a window at "+address, func() bool {
		windows, err := chromedp.Targets(p.ctx)
		testkit.Must(t, err)
		at := slices.IndexFunc(windows, func(w *target.Info) bool {
			return w.Type == "page" && w.BrowserContextID == mine && strings.Contains(w.URL, address)
		})
		if at >= 0 {
			id = windows[at].TargetID
		}
		return at >= 0
	})
	return openTab(p.ctx, t, p.microphone, chromedp.WithTargetID(id))
}

// backFrom closes a window, after which the user is back at the tab.
func (p *tab) backFrom(t *testing.T, window *tab) {
	t.Helper()
	window.do(t, "close the window", chromedp.Evaluate[chromedp.Void]("(setTimeout(() => window.close()), undefined)"))
	p.do(t, "have the focus again", chromedp.Evaluate[chromedp.Void]("(dispatchEvent(new Event('focus')), undefined)"))
}

// TestTwoAssistants has two assistants on one page: a German one with a voice of its own and no tools, and one with an MCP server to which
// the owner signs in, in the page. Each has a call and a typed message; what their upstreams and text models get is what each is configured
// with. The tool works for the account of the sign-in until the owner gives that back, and then says in words that it needs one.
func TestTwoAssistants(t *testing.T) {
	t.Parallel()
	authority, model := signintest.NewAuthority(t), newToolModel(t)
	resource := authority.NewServer(t)
	r := newRig(t, rigConfig{
		simulator: simulator.Config{Script: twoAssistantsScript(), Pace: quick}, upstreams: "[" + byWebRTC + "," + bySocket + "]",
		environ: []string{
			"VOICEBRIDGE_API_TOKENS=anna:" + anna + ",bert:" + bert, "OPENAI_BASE_URL=" + model.URL + "/v1", "VOICEBRIDGE_TEXT_PROVIDER=openai",
			"VOICEBRIDGE_MCP_CONFIG=" + writeMCP(t, map[string]any{"post": map[string]any{"url": resource, "auth": "oauth"}}),
			"VOICEBRIDGE_TOOLS__WEB__ALLOW_NETWORKS=127.0.0.0/8,::1/128", "VOICEBRIDGE_TOOLS__WEB__ALLOW_PORTS=" + portOf(t, authority.URL),
		},
	})
	ann := &owner{t: t, url: r.url, token: anna}
	ann.want("POST", "/api/assistants", receptionAssistant)
	ann.want("POST", "/api/assistants", postAssistant)

	// At another site than the authority, so that the browser sends what it sends to another site.
	p := openBrowser(t)
	p.visit(t, strings.Replace(r.url, "127.0.0.1", "localhost", 1))
	p.signIn(t, anna)
	p.until(t, "the page of a user", "probe.all('token-dialog').length + probe.all('notice').length === 0 && probe.all('textbox').length === 1")

	p.beginWith(t, "empfang")
	p.speakOnce(t, saidToBoth, receptionAnswers)
	p.say(t, "Wer ist da?")
	p.untilMessage(t, "assistant text completed", "0 images:")

	p.openServers(t, "post", "sign_in")
	p.click(t, "mcp-connect")
	window := p.window(t, "/api/mcp/callback?")
	window.until(t, "the end of the sign-in", "document.body?.innerText.includes('Signed in to post')")
	p.backFrom(t, window)
	p.untilServer(t, "post", "connected")
	p.press(t, "Escape", 27)

	p.beginWith(t, "post")
	p.speakOnce(t, saidToBoth, "I know who you are.")
	const card = `document.querySelector('[data-testid=tool-card][data-tool=post__whoami]')`
	p.until(t, "a tool that has worked", card+`?.dataset.state === 'done'`)
	p.say(t, "call post__whoami {}")
	p.untilMessage(t, "assistant text completed", "0 images: You are user-1")

	// What the upstreams were told.
	sessions := r.sim.Sessions()
	if len(sessions) != 2 {
		t.Fatalf("%d sessions of the upstreams", len(sessions))
	}
	for i, want := range []configured{
		{"Du bist der Empfang. Antworte auf Deutsch.", "cedar", 1.25, "de", nil},
		{"You look after the user's post.", "marin", 0, "en", slices.Concat(pagesTools, []string{"post__whoami"})},
	} {
		got := configuredAs(t, sessions[i])
		if !strings.HasPrefix(got.Instructions, want.Instructions) {
			t.Errorf("session %d has the instructions %q", i+1, got.Instructions)
		}
		got.Instructions = want.Instructions
		want.Tools, got.Tools = sorted(want.Tools), sorted(got.Tools)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("session %d (-want +got):\n%s", i+1, diff)
		}
	}
	if diff := cmp.Diff([]string{"empfang | spoken | cedar", "post | relayed | marin"}, r.rows(t, "SELECT assistant_id, upstream, voice FROM calls ORDER BY started_at")); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	// What the text models were asked.
	for words, want := range map[string][]textRequest{
		"Wer ist da?":          {{Model: "model-of-the-reception", System: "Du bist der Empfang. Antworte auf Deutsch.", Temperature: 0.25, MaxTokens: 321}},
		"call post__whoami {}": slices.Repeat([]textRequest{{Model: "model-of-the-post", System: "You look after the user's post.", Tools: []string{"post__whoami"}}}, 2),
	} {
		got := model.requestsFor(t, words)
		if len(got) != len(want) {
			t.Fatalf("%q: %d requests, want %d", words, len(got), len(want))
		}
		for i := range want {
			if !strings.HasPrefix(got[i].System, want[i].System) {
				t.Errorf("%q: the instructions are %q", words, got[i].System)
			}
			want[i].User, got[i].System = words, want[i].System
			if diff := cmp.Diff(want[i], got[i]); diff != "" {
				t.Errorf("%q, request %d (-want +got):\n%s", words, i+1, diff)
			}
		}
	}
	// It was the owner's account, and is nobody else's.
	const outputs = "SELECT name, status, output FROM tool_calls ORDER BY started_at"
	for _, row := range r.rows(t, outputs) {
		if !strings.HasPrefix(row, "post__whoami | done | ") || !strings.Contains(row, "You are user-1") {
			t.Errorf("a tool call: %s", row)
		}
	}
	if bob := (&owner{t: t, url: r.url, token: bert}); bob.state("post") != "sign_in" {
		t.Errorf("for bert the server is %s", bob.state("post"))
	}

	// The owner gives the sign-in back, in the page.
	p.openServers(t, "post", "connected")
	p.click(t, "mcp-disconnect")
	p.untilServer(t, "post", "sign_in")
	p.press(t, "Escape", 27)
	if authority.Count("revoke") != 1 || authority.Open() != 0 {
		t.Errorf("%d revoked, %d open", authority.Count("revoke"), authority.Open())
	}
	p.beginWith(t, "post")
	p.speakOnce(t, saidToBoth, "I do not know who you are.")
	const refused = `document.querySelector('[data-testid=tool-card][data-tool=post__sign_in]')`
	p.until(t, "a tool that says why", refused+`?.dataset.state === 'failed' && `+refused+`.innerText.includes('You have to sign in to post first.')`)
	p.say(t, "call post__sign_in {}")
	p.untilMessage(t, "assistant text completed", "has to sign in")
	if got := sorted(configuredAs(t, r.sim.Sessions()[2]).Tools); !slices.Equal(got, sorted(append(pagesTools, "post__sign_in"))) {
		t.Errorf("the session after the sign-in was given back has %q", got)
	}
	for _, one := range model.requestsFor(t, "call post__sign_in {}") {
		if !slices.Equal(one.Tools, []string{"post__sign_in"}) {
			t.Errorf("the text model after the sign-in was given back has %q", one.Tools)
		}
	}
	for _, token := range authority.Tokens() {
		if strings.Contains(r.stderr.String(), token) {
			t.Error("the log has a token")
		}
	}
}
