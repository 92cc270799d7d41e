package e2e

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"voicebridge/internal/testkit"
	"voicebridge/realtime/pcm"
)

const (
	publicURL    = "https://voice.example"
	carrierToken = "token-of-the-carrier"
	ulawFrame    = 160 // bytes of 20 ms
)

// carrier imitates a telephone company: it signs as that does, and refuses what that refuses.
type carrier struct {
	t       *testing.T
	r       *rig
	name    string
	private ed25519.PrivateKey
	public  string
	api     *httptest.Server
	answers chan string // addresses of streams that the API was told
}

func newCarrier(t *testing.T, name string) *carrier {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	must(t, err)
	c := &carrier{t: t, name: name, private: private, public: base64.StdEncoding.EncodeToString(public), answers: make(chan string, 8)}
	c.api = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var answer struct {
			URL   string `json:"stream_url"`
			Track string `json:"stream_track"`
			Mode  string `json:"stream_bidirectional_mode"`
			Codec string `json:"stream_bidirectional_codec"`
			Legs  string `json:"stream_bidirectional_target_legs"`
		}
		if json.Unmarshal(body, &answer) == nil && answer.URL != "" {
			if answer.Track+answer.Mode+answer.Codec+answer.Legs != "inbound_trackrtpPCMUself" || r.Header.Get("Authorization") != "Bearer "+carrierToken {
				t.Errorf("the call is answered with %s", body)
			}
			c.answers <- answer.URL
		}
	}))
	t.Cleanup(c.api.Close)
	return c
}

// settings are a line of the carrier, and an assistant that answers it.
func (c *carrier) settings(greeting string) []string {
	lines := fmt.Sprintf(`{"desk":{"carrier":%q,"number":"+493012345678","owner":"local","assistant":"desk","secret_env":"CARRIER_TOKEN","public_key":%q,"api_url":%q}}`, c.name, c.public, c.api.URL)
	return []string{
		"VOICEBRIDGE_PUBLIC_URL=" + publicURL, "VOICEBRIDGE_PHONE__LINES=" + lines, "CARRIER_TOKEN=" + carrierToken,
		fmt.Sprintf(`VOICEBRIDGE_ASSISTANTS=[{"id":"desk","name":"Desk","greeting":%q}]`, greeting), "VOICEBRIDGE_CALLS__GRACE_SECONDS=20",
	}
}

// request sends a signed request of the webhook.
func (c *carrier) request(path string, fields url.Values, event string) string {
	c.t.Helper()
	header := http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}
	body, joined := fields.Encode(), ""
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		joined += name + fields.Get(name)
	}
	sign := func(header http.Header, name string, sum []byte) {
		header.Set(name, base64.StdEncoding.EncodeToString(sum))
	}
	switch c.name {
	case "twilio":
		mac := hmac.New(sha1.New, []byte(carrierToken))
		mac.Write([]byte(publicURL + path + joined))
		sign(header, "X-Twilio-Signature", mac.Sum(nil))
	case "plivo":
		mac := hmac.New(sha256.New, []byte(carrierToken))
		mac.Write([]byte(publicURL + path + "?" + joined + ".nonce"))
		sign(header, "X-Plivo-Signature-V3", mac.Sum(nil))
		header.Set("X-Plivo-Signature-V3-Nonce", "nonce")
	case "telnyx":
		body = event
		at := fmt.Sprint(time.Now().Unix())
		header.Set("Content-Type", "application/json")
		header.Set("Telnyx-Timestamp", at)
		sign(header, "Telnyx-Signature-Ed25519", ed25519.Sign(c.private, []byte(at+"|"+body)))
	}
	r, err := http.NewRequestWithContext(c.t.Context(), http.MethodPost, c.r.url+path, strings.NewReader(body))
	must(c.t, err)
	r.Header = header
	res, err := unpooled.Do(r)
	must(c.t, err)
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	must(c.t, err)
	if res.StatusCode != http.StatusOK {
		c.t.Fatalf("%s: %d %s", path, res.StatusCode, text)
	}
	return string(text)
}

var streamURL = regexp.MustCompile(`wss://voice\.example(/phone/[^"<]+)`)

// ring has a number called, and returns the path of the stream that the answer names.
func (c *carrier) ring(call, from string) string {
	c.t.Helper()
	path := "/phone/" + c.name + "/desk"
	fields := url.Values{"CallSid": {call}, "From": {from}, "To": {"+493012345678"}, "CallStatus": {"ringing"}, "Direction": {"inbound"}}
	if c.name == "plivo" {
		fields = url.Values{"CallUUID": {call}, "From": {strings.TrimPrefix(from, "+")}, "To": {"493012345678"}, "CallStatus": {"ringing"}, "Direction": {"inbound"}}
	}
	answer := c.request(path, fields, fmt.Sprintf(`{"data":{"event_type":"call.initiated","payload":{"call_control_id":%q,"from":%q,"to":"+493012345678","direction":"incoming"}}}`, call, from))
	if c.name == "telnyx" {
		answer = testkit.Take(c.t, "the answer by the API", c.answers)
	}
	m := streamURL.FindStringSubmatch(answer)
	if m == nil {
		c.t.Fatalf("there is no stream in %s", answer)
	}
	return m[1]
}

// telephone is a call as its carrier has it: it plays in real time what it gets, and sends what is spoken.
type telephone struct {
	*carrier

	call, stream string
	path         string
	chunk        int

	mu      sync.Mutex
	conn    *websocket.Conn
	queue   []byte   // not played yet
	marks   []marked // of what is in the queue
	heard   []byte   // all that was played
	begun   int      // where what is heard began, after silence
	last    time.Time
	speech  []byte   // to be spoken
	most    int      // ms that waited
	cleared []int    // how much had been heard then, in bytes
	wrong   []string // what the carrier would refuse
	over    bool
}

type marked struct {
	name  string
	after int // bytes
}

// dial calls a number.
func (c *carrier) dial(call, from string) *telephone {
	c.t.Helper()
	p := &telephone{carrier: c, call: call, stream: "MZ" + call, path: c.ring(call, from)}
	p.open()
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); p.play(ctx) }()
	c.t.Cleanup(func() {
		stop()
		<-done
		p.lose()
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.most > 1500 {
			c.t.Errorf("%d ms of sound waited at the carrier", p.most)
		}
		for _, w := range p.wrong {
			c.t.Errorf("the carrier refuses %.200s", w)
		}
	})
	return p
}

// open opens the stream's socket, perhaps again.
func (p *telephone) open() {
	p.t.Helper()
	conn, _, err := websocket.Dial(p.t.Context(), p.r.url+p.path, nil) //nolint:bodyclose // of a socket
	must(p.t, err)
	go p.read(conn)
	for _, message := range map[string][]string{
		"twilio": {`{"event":"connected","protocol":"Call","version":"1.0.0"}`, `{"event":"start","sequenceNumber":"1","streamSid":"STREAM","start":{"streamSid":"STREAM","accountSid":"AC1","callSid":"CALL","tracks":["inbound"],"customParameters":{},"mediaFormat":{"encoding":"audio/x-mulaw","sampleRate":8000,"channels":1}}}`},
		"telnyx": {`{"event":"connected","version":"1.0.0"}`, `{"event":"start","sequence_number":"1","stream_id":"STREAM","start":{"call_control_id":"CALL","from":"+1","to":"+2","media_format":{"encoding":"PCMU","sample_rate":8000,"channels":1}}}`},
		"plivo":  {`{"event":"start","sequenceNumber":0,"start":{"callId":"CALL","streamId":"STREAM","accountId":"1","tracks":["inbound"],"mediaFormat":{"encoding":"audio/x-mulaw","sampleRate":8000}},"extra_headers":"{}"}`},
	}[p.name] {
		must(p.t, conn.Write(p.t.Context(), websocket.MessageText, []byte(strings.NewReplacer("STREAM", p.stream, "CALL", p.call).Replace(message))))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conn, p.chunk = conn, 0
}

// lose breaks the connection.
func (p *telephone) lose() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.conn != nil {
		_ = p.conn.CloseNow()
		p.conn = nil
	}
}

func (p *telephone) send(format string, args ...any) {
	p.mu.Lock()
	conn := p.conn
	p.mu.Unlock()
	if conn != nil {
		_ = conn.Write(context.Background(), websocket.MessageText, fmt.Appendf(nil, format, args...)) // reading ends, too
	}
}

// play lets time pass: each 20 ms is heard, and spoken. Telnyx' messages come in another order at times.
func (p *telephone) play(ctx context.Context) {
	next := time.NewTimer(0)
	defer next.Stop()
	var held string
	for at := time.Now(); ; {
		select {
		case <-next.C:
		case <-ctx.Done():
			return
		}
		at = at.Add(frame) // what is late is made up for
		next.Reset(time.Until(at))
		p.mu.Lock()
		n := min(ulawFrame, len(p.queue))
		if p.heard, p.queue = append(p.heard, p.queue[:n]...), p.queue[n:]; n > 0 {
			p.last = at
		}
		reached := p.pass(n)
		spoken := bytes.Repeat([]byte{0xff}, ulawFrame)
		n = copy(spoken, p.speech)
		p.speech = p.speech[n:]
		p.chunk++
		chunk := p.chunk
		p.mu.Unlock()
		p.echo(reached)
		message := fmt.Sprintf(`{"event":"media","media":{"track":"inbound","chunk":"%d","timestamp":"%d","payload":%q}}`, chunk, chunk*20, base64.StdEncoding.EncodeToString(spoken))
		switch {
		case p.name == "telnyx" && chunk%10 == 0:
			held = message
			continue
		case p.name == "twilio" && chunk%50 == 7:
			continue // lost
		}
		p.send("%s", message)
		if held != "" {
			p.send("%s", held)
			held = ""
		}
	}
}

// pass takes that so many bytes were played, and returns the marks that were reached.
func (p *telephone) pass(n int) (reached []string) {
	for i := range p.marks {
		p.marks[i].after -= n
	}
	for len(p.marks) > 0 && p.marks[0].after <= 0 {
		reached = append(reached, p.marks[0].name)
		p.marks = p.marks[1:]
	}
	return reached
}

func (p *telephone) echo(marks []string) {
	for _, name := range marks {
		if p.name == "plivo" {
			p.send(`{"event":"playedStream","streamId":%q,"name":%q}`, p.stream, name)
			continue
		}
		p.send(`{"event":"mark","streamSid":%q,"mark":{"name":%q}}`, p.stream, name)
	}
}

// read takes what the program sends.
func (p *telephone) read(conn *websocket.Conn) {
	for {
		_, data, err := conn.Read(context.Background())
		if err != nil {
			p.mu.Lock()
			p.over = websocket.CloseStatus(err) == websocket.StatusNormalClosure
			p.mu.Unlock()
			return
		}
		p.take(data)
	}
}

func (p *telephone) take(data []byte) {
	var m struct {
		Event, StreamSid, StreamID, Name string
		Media                            struct {
			Payload, ContentType string
			SampleRate           int
		}
		Mark struct{ Name string }
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	refuse := func() { p.wrong = append(p.wrong, string(data)) }
	if json.Unmarshal(data, &m) != nil || p.name == "twilio" && m.StreamSid != p.stream || p.name == "plivo" && m.StreamID != p.stream {
		refuse()
		return
	}
	event := m.Event
	if p.name == "plivo" {
		event = map[string]string{"playAudio": "media", "checkpoint": "mark", "clearAudio": "clear"}[event]
		if event == "media" && (m.Media.ContentType != "audio/x-mulaw" || m.Media.SampleRate != 8000) {
			refuse()
		}
	}
	switch event {
	case "media":
		sound, err := base64.StdEncoding.DecodeString(m.Media.Payload)
		if err != nil || len(sound) == 0 || len(sound)%ulawFrame != 0 || bytes.HasPrefix(sound, []byte("RIFF")) {
			refuse()
		}
		if len(p.queue) == 0 && time.Since(p.last) > time.Second {
			p.begun = len(p.heard)
		}
		p.queue = append(p.queue, sound...)
		p.most = max(p.most, len(p.queue)/8)
	case "mark":
		name := m.Name + m.Mark.Name
		if name == "" {
			refuse()
		}
		p.marks = append(p.marks, marked{name, len(p.queue)})
	case "clear":
		p.cleared = append(p.cleared, len(p.heard))
		var names []string
		for _, mark := range p.marks {
			names = append(names, mark.name)
		}
		p.queue, p.marks = nil, nil
		if p.name != "plivo" { // which says only what was played
			go p.echo(names)
		}
	default:
		refuse()
	}
}

// speak has the caller say something, at 24 kHz.
func (p *telephone) speak(samples []int16) {
	p.t.Helper()
	r, err := pcm.NewResampler(24_000, 8000)
	must(p.t, err)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.speech = append(p.speech, pcm.ULaw.Append(nil, r.Process(samples))...)
}

// sound returns what was heard from a place on, at 24 kHz, from its first sound.
func (p *telephone) sound(from int) []int16 {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	r, err := pcm.NewResampler(8000, 24_000)
	must(p.t, err)
	heard := r.Process(pcm.ULaw.Decode(nil, p.heard[from:]))
	return fromFirst(heard)
}

func fromFirst(samples []int16) []int16 {
	at := slices.IndexFunc(samples, func(s int16) bool { return s > 300 || s < -300 })
	return samples[max(at, 0):]
}

// awaits waits for something that is about the telephone.
func (p *telephone) awaits(what string, ok func() bool) {
	p.t.Helper()
	testkit.Eventually(p.t, what, func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return ok()
	})
}

// hangUp ends the call as the carrier does.
func (p *telephone) hangUp() {
	p.t.Helper()
	if p.name == "plivo" { // which says nothing on the stream
		p.lose()
		p.request("/phone/plivo/desk/status", url.Values{"CallUUID": {p.call}, "CallStatus": {"completed"}, "Event": {"Hangup"}}, "")
		return
	}
	p.send(`{"event":"stop","sequenceNumber":"5","streamSid":%q,"stop":{"accountSid":"AC1","callSid":%q}}`, p.stream, p.call)
}
