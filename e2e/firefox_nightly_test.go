//go:build nightly

package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"voicebridge/internal/testkit"
	"voicebridge/persistence/persistencetest"
)

// firefox is a page in Firefox, which speaks WebDriver BiDi: https://w3c.github.io/webdriver-bidi.
type firefox struct {
	ctx      context.Context
	conn     *websocket.Conn
	commands int
	context  string // of the page
}

// firefoxPrefs let a call be made without a network, a device and a user.
const firefoxPrefs = `user_pref("media.peerconnection.ice.loopback", true);
user_pref("media.peerconnection.ice.obfuscate_host_addresses", false);
user_pref("media.autoplay.default", 0);
user_pref("media.autoplay.blocking_policy", 0);
user_pref("media.navigator.permission.disabled", true);
user_pref("media.navigator.streams.fake", true);
user_pref("datareporting.policy.dataSubmissionEnabled", false);
user_pref("app.update.auto", false);
user_pref("browser.shell.checkDefaultBrowser", false);
`

var listening = regexp.MustCompile(`WebDriver BiDi listening on (ws://\S+)`)

// openFirefox starts Firefox with one page, whose microphone makes a tone.
func openFirefox(t *testing.T) *firefox {
	t.Helper()
	path, err := exec.LookPath("firefox-esr")
	if err != nil {
		t.Fatal("Firefox is not installed. Run: bash .ci/install nightly")
	}
	takePlace(t)
	profile := t.TempDir()
	must(t, os.WriteFile(filepath.Join(profile, "user.js"), []byte(firefoxPrefs), 0o600))
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	cmd := command(t, path, []string{"HOME=" + profile, "MOZ_CRASHREPORTER_DISABLE=1"}, "--headless", "--no-remote", "--profile", profile, "--remote-debugging-port", "0")
	said, err := cmd.StderrPipe()
	must(t, err)
	must(t, cmd.Start())
	lines, read := make(chan string, 1), make(chan struct{})
	go func() {
		defer close(read)
		for scanner := bufio.NewScanner(said); scanner.Scan(); {
			if found := listening.FindStringSubmatch(scanner.Text()); found != nil {
				lines <- found[1]
			}
		}
	}()
	p := &firefox{ctx: ctx}
	t.Cleanup(func() {
		if p.conn != nil {
			_, _ = p.send("browser.close", map[string]any{})
			_ = p.conn.CloseNow()
		}
		_ = cmd.Process.Kill()
		<-read
		_ = cmd.Wait()
	})
	address, _ := testkit.Receive(t, "the address of Firefox", lines)
	p.conn, _, err = websocket.Dial(ctx, address+"/session", &websocket.DialOptions{HTTPClient: unpooled}) //nolint:bodyclose // of a socket
	must(t, err)
	p.conn.SetReadLimit(16 << 20)
	p.do(t, "session.new", map[string]any{"capabilities": map[string]any{}})
	p.do(t, "script.addPreloadScript", map[string]any{"functionDeclaration": "() => {" + probe + "}"})
	var tree struct{ Contexts []struct{ Context string } }
	must(t, json.Unmarshal(p.do(t, "browsingContext.getTree", map[string]any{}), &tree))
	p.context = tree.Contexts[0].Context
	return p
}

// send sends a command, and returns its result.
func (p *firefox) send(method string, params map[string]any) (json.RawMessage, error) {
	ctx, cancel := context.WithTimeout(p.ctx, 2*testkit.Patience)
	defer cancel()
	p.commands++
	command, err := json.Marshal(map[string]any{"id": p.commands, "method": method, "params": params})
	if err != nil {
		return nil, err
	}
	if err := p.conn.Write(ctx, websocket.MessageText, command); err != nil {
		return nil, err
	}
	for {
		_, data, err := p.conn.Read(ctx)
		if err != nil {
			return nil, err
		}
		var answer struct {
			ID             int
			Result         json.RawMessage
			Error, Message string
		}
		if err := json.Unmarshal(data, &answer); err != nil || answer.ID == p.commands {
			if answer.Error != "" {
				err = fmt.Errorf("%s: %s", answer.Error, answer.Message)
			}
			return answer.Result, err
		}
	}
}

func (p *firefox) do(t *testing.T, method string, params map[string]any) json.RawMessage {
	t.Helper()
	result, err := p.send(method, params)
	if err != nil {
		t.Fatalf("%s: %v", method, err)
	}
	return result
}

func (p *firefox) visit(t *testing.T, url string) {
	t.Helper()
	p.do(t, "browsingContext.navigate", map[string]any{"context": p.context, "url": url, "wait": "complete"})
}

// evaluate reads the value of an expression, awaited where it is a promise, as if the user had just clicked.
func (p *firefox) evaluate(t *testing.T, expression string, value any) {
	t.Helper()
	var evaluated struct {
		Result           struct{ Value string }
		ExceptionDetails struct{ Text string }
	}
	must(t, json.Unmarshal(p.do(t, "script.evaluate", map[string]any{
		"expression": "(async () => JSON.stringify(await (" + expression + ") ?? null))()", "target": map[string]any{"context": p.context},
		"awaitPromise": true, "userActivation": true,
	}), &evaluated))
	if evaluated.ExceptionDetails.Text != "" {
		t.Fatalf("%s: %s", expression, evaluated.ExceptionDetails.Text)
	}
	if value != nil {
		must(t, json.Unmarshal([]byte(evaluated.Result.Value), value))
	}
}

func (p *firefox) until(t *testing.T, what, expression string) {
	t.Helper()
	var ok bool
	if p.evaluate(t, watching(expression), &ok); ok {
		return
	}
	var shown json.RawMessage
	p.evaluate(t, "probe.gist()", &shown)
	t.Fatalf("waited in vain for: %s; the page shows %s", what, shown)
}

func (p *firefox) click(t *testing.T, id string) {
	t.Helper()
	p.until(t, "a button "+id, fmt.Sprintf("probe.all(%q).length === 1", id))
	p.evaluate(t, fmt.Sprintf("probe.all(%q)[0].click()", id), nil)
}

// say types a text and sends it.
func (p *firefox) say(t *testing.T, text string) {
	t.Helper()
	p.evaluate(t, "probe.all('textbox')[0].focus()", nil)
	var keys []map[string]any
	for _, key := range text {
		keys = append(keys, map[string]any{"type": "keyDown", "value": string(key)}, map[string]any{"type": "keyUp", "value": string(key)})
	}
	p.do(t, "input.performActions", map[string]any{"context": p.context, "actions": []map[string]any{{"type": "key", "id": "keyboard", "actions": keys}}})
	p.click(t, "send")
}

// speak has the microphone, which makes a tone, heard as an utterance; page calls begin with one that is open.
func (p *firefox) speak(t *testing.T) {
	t.Helper()
	const begun = "probe.events.filter(({ event }) => event.type === 'input_audio_buffer.speech_started').length"
	p.evaluate(t, `((mute) => {
		const muted = mute.ariaPressed === 'true';
		window.begun = muted ? `+begun+` : 0;
		if (muted) mute.click();
	})(probe.all('mute')[0])`, nil)
	p.until(t, "speech", begun+" > window.begun")
	p.click(t, "mute")
}

// untilMessage is as that of a tab, and so are the others.
func (p *firefox) untilMessage(t *testing.T, want, words string) {
	t.Helper()
	p.until(t, "the message "+want+": "+words, fmt.Sprintf("probe.message(%q, %q)", want, words))
}

func (p *firefox) untilLive(t *testing.T) {
	t.Helper()
	p.until(t, "a live call", "['listening', 'thinking', 'speaking'].includes(probe.state())")
}

// outage is shorter than the server and the page wait for each other, and longer than Firefox waits for a path.
const outage = 22 * time.Second

// TestPageInFirefox walks through the page in Firefox: a call with speech, captions, silence that is not sent, a text and a chart,
// which an outage does not end.
func TestPageInFirefox(t *testing.T) {
	t.Parallel()
	s := serveWith(t, persistencetest.SQLiteURL(t), speaking(greets), waiting...)
	door := newDetours(t, s.url)
	p := openFirefox(t)
	p.visit(t, door.URL)
	p.click(t, "talk")
	p.untilLive(t)
	p.speak(t)
	p.untilMessage(t, "user voice completed", heardWords)
	p.untilMessage(t, "assistant voice completed", greeting)
	p.until(t, "sound", "probe.heard().then((h) => h.packets > 0)")
	var rate float64
	p.evaluate(t, sentPerSecond(3*time.Second), &rate)
	if t.Logf("%.1f packets a second while muted", rate); rate < 1 || rate > 8 {
		t.Error("silence is sent")
	}
	p.say(t, "Show me the sales as a chart, please.")
	p.untilMessage(t, "assistant voice completed", drawn)
	p.until(t, "a chart", "document.querySelector('"+drawnChart+"') !== null")

	var sdp struct{ Offer, Answer string }
	p.evaluate(t, "{ offer: voicebridge.pc.localDescription.sdp, answer: voicebridge.pc.remoteDescription.sdp }", &sdp)
	if !strings.Contains(sdp.Offer, "stereo=1") || strings.Contains(sdp.Answer, "stereo=1") {
		t.Errorf("Firefox offers\n%s\nand gets\n%s", sdp.Offer, sdp.Answer)
	}

	p.until(t, "silence", "probe.silent()")
	over := door.fail()
	p.until(t, "a page that misses its connection", "voicebridge.pc.connectionState !== 'connected'")
	<-time.After(outage)
	over()
	p.until(t, "the connection on another path", "voicebridge.pc.connectionState === 'connected' && probe.channel.readyState === 'open'")
	p.untilLive(t)
	p.say(t, "Remember me.")
	p.untilMessage(t, "assistant voice completed", "Yes, I remember")
	p.until(t, "silence", "probe.silent()")
	p.speak(t)
	p.until(t, "the answer after it", "probe.messages().filter(({ role, status, text }) => role === 'assistant' && status === 'completed' && text.includes('"+greeting+"')).length === 2")
	p.until(t, "silence", "probe.silent()")
	p.click(t, "hangup")
	p.until(t, "the end of the call", "probe.state() === 'none'")
	testkit.Equal(t, s.untilEnded(t, 1), []string{"hangup"}, "the calls ended")
	testkit.Equal(t, len(s.sim.Sessions()), 1, "upstream sessions")
	s.wantLike(t, s.rows(t, "SELECT id FROM threads")[0], []string{
		"user voice completed: " + heardWords, "assistant voice completed: " + greeting + "…",
		"user text completed: Show me the sales as a chart, please.", "assistant voice completed: Let me draw that for you.…[tool-create_bar_chart output-available]", "assistant voice completed: " + drawn + "…",
		"user text completed: Remember me.", "assistant voice completed: Yes, I remember…",
		"user voice completed: " + heardWords, "assistant voice completed: " + greeting + "…",
	})
}
