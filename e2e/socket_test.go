package e2e

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"voicebridge/realtime/opus"
	"voicebridge/realtime/pcm"
	"voicebridge/realtime/simulator"
)

// told is an answer of which the simulator has a recording.
const told = "Here is your chart. Sales grew in every quarter of this year."

// socketCaller is a client of the Realtime API over WebSocket.
type socketCaller struct {
	*caller

	conn *websocket.Conn
}

// handshake is how such a client connects.
type handshake struct {
	query, token string
	protocols    []string
}

// connect opens a socket; it returns the status of a refusal, and what it says.
func (r *rig) connect(t *testing.T, q handshake) (c *socketCaller, status int, body string) {
	t.Helper()
	header := http.Header{}
	if q.token != "" {
		header.Set("Authorization", "Bearer "+q.token)
	}
	r.calling.Lock()
	defer r.calling.Unlock()
	before := len(r.sim.Sessions())
	return r.upgrade(t, "/v1/realtime?"+q.query, header, q.protocols, before)
}

// again connects a socket to a call.
func (r *rig) again(t *testing.T, old *caller) (c *socketCaller, status int, body string) {
	t.Helper()
	c, status, body = r.upgrade(t, reconnectPath(old), nil, nil, len(r.sim.Sessions()))
	if c != nil {
		c.id, c.thread, c.session = old.id, old.thread, old.session
	}
	return c, status, body
}

func (r *rig) upgrade(t *testing.T, path string, header http.Header, protocols []string, before int) (c *socketCaller, status int, body string) {
	t.Helper()
	conn, res, err := websocket.Dial(t.Context(), r.url+path, &websocket.DialOptions{ //nolint:bodyclose // of a socket
		HTTPHeader: header, Subprotocols: protocols, HTTPClient: unpooled,
	})
	if err != nil {
		if res == nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(res.Body)
		return nil, res.StatusCode, string(text)
	}
	conn.SetReadLimit(16 << 20)
	c = &socketCaller{caller: newCaller(t, r), conn: conn}
	c.id, c.thread = strings.TrimPrefix(res.Header.Get("Location"), "/v1/realtime/calls/"), res.Header.Get("X-Thread-Id")
	if strings.HasPrefix(path, "/v1/realtime?") && (c.id == "" || c.thread == "") {
		t.Fatalf("call: headers %v", res.Header)
	}
	c.session = r.sessionAfter(t, before, strings.HasPrefix(path, "/v1/realtime?") && !strings.Contains(path, "call_id="))
	c.send = func(data []byte) error { return conn.Write(context.Background(), websocket.MessageText, data) }
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c.read()
	}()
	t.Cleanup(func() { _ = conn.CloseNow(); <-ended })
	return c, res.StatusCode, conn.Subprotocol()
}

func (c *socketCaller) read() {
	for {
		_, data, err := c.conn.Read(context.Background())
		if err != nil {
			c.update(func() { c.closed = true })
			return
		}
		c.message(data)
	}
}

// append sends sound in pieces of 100 ms, as fast as it can.
func (c *socketCaller) append(samples []int16) {
	c.t.Helper()
	for part := range slices.Chunk(samples, 2400) {
		c.put(`{"type":"input_audio_buffer.append","audio":%q}`, base64.StdEncoding.EncodeToString(pcm.Linear.Append(nil, part)))
	}
}

// samples decodes recorded frames.
func samples(t *testing.T, frames [][]byte) (out []int16) {
	t.Helper()
	d, err := opus.NewDecoder(24_000)
	must(t, err)
	for _, frame := range frames {
		part, err := d.Decode(frame)
		must(t, err)
		out = append(out, part...)
	}
	return out
}

// correlation returns the correlation of two recordings, of which got may be up to 100 ms early or late.
func correlation(want, got []int16) (best float64) {
	const most = 2400
	for shift := -most; shift <= most; shift++ {
		var both, one, other float64
		for i := max(0, -shift); i < min(len(want), len(got)-shift); i += 2 {
			a, b := float64(want[i]), float64(got[i+shift])
			both, one, other = both+a*b, one+a*a, other+b*b
		}
		best = max(best, both/math.Sqrt(one*other+1))
	}
	return best
}

// TestSocketClients calls with OpenAI's packages for servers and changes nothing but their address.
func TestSocketClients(t *testing.T) {
	t.Parallel()
	for _, client := range []string{"openai", oldestSDK, newestSDK, "twilio"} {
		t.Run(client, func(t *testing.T) {
			t.Parallel()
			testSocketClient(t, client)
		})
	}
}

func testSocketClient(t *testing.T, client string) {
	t.Helper()
	wav, err := filepath.Abs(voice)
	must(t, err)
	r := newRig(t, rigConfig{})
	base, ca := r.url+"/v1", ""
	if client == "openai" { // which always takes wss
		target, err := url.Parse(r.url)
		must(t, err)
		proxy := httptest.NewTLSServer(&httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) { p.SetURL(target) }})
		t.Cleanup(proxy.Close)
		base, ca = proxy.URL+"/v1", filepath.Join(t.TempDir(), "ca.pem")
		must(t, os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: proxy.Certificate().Raw}), 0o600))
	}
	var seen clientWalk
	must(t, json.Unmarshal(runClient(t, client, base, wav, ca), &seen))
	seen.check(t)
	if !strings.HasPrefix(client, "openai") && !seen.Interrupted {
		t.Error("it does not know that an answer was interrupted")
	}
	if client == "twilio" && seen.Format != "audio/pcmu" {
		t.Errorf("the caller's telephone gets %q", seen.Format)
	}
}

// TestExampleSocket builds the client without WebRTC, and has it say the recorded question.
func TestExampleSocket(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	client, question, answer := filepath.Join(dir, "socket"), filepath.Join(dir, "question.wav"), filepath.Join(dir, "answer.wav")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", client, "../examples/socket").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	script := rigScript()
	script.Spoken = []simulator.Reply{{Transcript: spokenWords, Say: told}}
	r := newRig(t, rigConfig{simulator: simulator.Config{Script: script}})
	speech := pcm.Linear.Append(nil, samples(t, simulator.UserSpeech()))
	header := "RIFF\x00\x00\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00\xc0\x5d\x00\x00\x80\xbb\x00\x00\x02\x00\x10\x00data\x00\x00\x00\x00"
	must(t, os.WriteFile(question, append([]byte(header), speech...), 0o600))
	say := []string{"-server", strings.Replace(r.url, "http", "ws", 1) + "/v1/realtime", "-say", question, "-answer", answer}
	out, err := command(t, client, nil, say...).CombinedOutput()
	for _, words := range []string{"(thread ", "You: " + spokenWords + "\n", "It: " + told + "\n"} {
		if err != nil || !strings.Contains(string(out), words) {
			t.Errorf("it printed %q, %v, and not %q", out, err, words)
		}
	}
	file, err := os.ReadFile(answer)
	must(t, err)
	if like := correlation(samples(t, simulator.Speech(told)), pcm.Linear.Decode(nil, file[44:])); like < 0.98 {
		t.Errorf("the answer has a correlation of %.3f", like)
	}
	if out, err := command(t, client, nil, append(say[:3:3], client)...).CombinedOutput(); err == nil || !strings.Contains(string(out), "no WAV file") {
		t.Errorf("another file: %v, %s", err, out)
	}
}
