package bridge_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"voicebridge/bridge"
	"voicebridge/bridge/internal/task"
	"voicebridge/internal/testkit"
	"voicebridge/phone"
	"voicebridge/realtime"
	"voicebridge/realtime/media"
	"voicebridge/realtime/opus"
	"voicebridge/realtime/pcm"
	"voicebridge/realtime/simulator"
	"voicebridge/realtime/wsserver"
	"voicebridge/thread"
)

// handset is a caller's telephone, whose carrier speaks Twilio's Media Streams: it plays in time what it gets.
type handset struct {
	caller *browser
	client *wsserver.Conn
	stream *phone.Stream
	ran    bool

	decoder *opus.Decoder // of what the caller says
	source  uint32

	mu      sync.Mutex
	wire    *websocket.Conn
	opened  time.Time
	queue   []byte   // µ-law that was not played yet
	marks   []marker // in it
	sounds  []int    // how many frames each sound was long that was heard, with what comes a second after it at most
	known   int      // how many of them the test has waited for
	quiet   int      // frames since the last of them
	most    int      // bytes that waited
	cleared int      // how often what waited was dropped
}

// marker is the name of a mark, and how much is to be played before it, in bytes.
type marker struct {
	name string
	at   int
}

// lawFrame is 20 ms of µ-law.
const lawFrame = 160

// ring starts a call by telephone.
func (b *bench) ring(start bridge.Start) (c *browser, err error) {
	b.t.Helper()
	c = b.newBrowser()
	law := media.Format{Encoding: pcm.ULaw, Rate: 8000}
	h := &handset{caller: c, client: wsserver.New()}
	h.client.Use(law)
	start.Socket, start.Phone = h.client, &bridge.Phone{Line: "desk", Caller: "+493011111111", Called: "+493012345678"}
	if c.Started, err = b.calls.Start(b.ctx, start); err != nil {
		return c, err
	}
	h.stream = phone.NewStream(phone.Config{
		Carrier: phone.Carriers["twilio"], Start: phone.Message{Call: "CA1", Stream: "MZ1", Format: law}, Grace: 30 * time.Second,
		Log: slog.New(slog.DiscardHandler), Mask: c.MaskKeys,
		Keys: func(keys string) {
			m := textMessage("", "DTMF: "+keys)
			m.Metadata.Source = thread.SourceKeys
			if _, err := b.calls.Say(b.ctx, c.key(), m, ""); err != nil {
				b.t.Errorf("keys: %v", err)
			}
		},
		Gone: func() { _ = b.calls.End(b.ctx, start.Owner, c.CallID, bridge.EndCallerHangup) },
	})
	h.client.Stops(h.stream.Stop)
	c.line = h
	h.open()
	return c, nil
}

// open opens the carrier's socket, perhaps again.
func (h *handset) open() {
	b := h.caller.b
	b.t.Helper()
	path := fmt.Sprintf("/%p", h)
	b.sockets.Store(path, h)
	conn, _, err := websocket.Dial(b.ctx, b.doorAt+path, &websocket.DialOptions{HTTPClient: b.door}) //nolint:bodyclose // of a socket
	must(b.t, err)
	h.mu.Lock()
	h.wire, h.opened = conn, time.Now()
	h.mu.Unlock()
	read := task.Go(func() { h.read(conn) })
	play := task.Go(func() { h.play(conn, read) })
	b.t.Cleanup(func() { _ = conn.CloseNow(); <-play })
}

// Serve has the program take a socket of the carrier.
func (h *handset) Serve(conn *websocket.Conn) {
	if h.ran {
		h.stream.Attach(conn)
		return
	}
	h.ran = true
	h.stream.Run(conn, func() { h.client.ServeSocket(seen{h.stream, h.caller}) })
}

func (h *handset) Abandon() { h.client.Abandon() }

// seen is the call's side of a stream, whose events the test sees.
type seen struct {
	*phone.Stream

	caller *browser
}

func (s seen) Write(ctx context.Context, data []byte) error {
	if ev, ok := s.caller.decoded(data); ok {
		s.caller.got(ev)
	}
	return s.Stream.Write(ctx, data)
}

func (s seen) Close() error {
	s.caller.hungUp()
	return s.Stream.Close()
}

// Send sends a message of the carrier.
func (h *handset) Send(ctx context.Context, message []byte) error {
	h.mu.Lock()
	conn := h.wire
	h.mu.Unlock()
	return conn.Write(ctx, websocket.MessageText, message)
}

// Close hangs up.
func (h *handset) Close() error {
	_ = h.Send(context.Background(), []byte(`{"event":"stop","stop":{}}`)) // the call may be over
	return nil
}

// lose breaks the carrier's socket, and with it goes what was to be played.
func (h *handset) lose() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.queue, h.marks = nil, nil
	_ = h.wire.CloseNow()
}

// keys presses keys.
func (h *handset) keys(keys string) {
	h.caller.t.Helper()
	for _, key := range keys {
		h.caller.send(`{"event":"dtmf","dtmf":{"track":"inbound_track","digit":"%c"}}`, key)
	}
}

// hears waits until an answer was said, and nothing more of it is to be heard.
func (h *handset) hears(words string) {
	h.caller.t.Helper()
	h.caller.wait(words, func(ev realtime.Event) bool {
		return ev.Type == realtime.TypeResponseDone && strings.Contains(string(ev.Raw), words)
	})
	h.caller.until("the end of "+words, func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return len(h.sounds) > h.known && h.quiet > 50 // the event may come before the sound
	})
	h.known = len(h.sounds)
}

// WriteAudio implements media.Sink.
func (h *handset) WriteAudio(p *media.Packet) (err error) {
	if h.decoder == nil || p.Source != h.source {
		if h.decoder, err = opus.NewDecoder(8000); err != nil {
			return err
		}
		h.source = p.Source
	}
	samples, err := h.decoder.Decode(p.Payload)
	if err != nil {
		return err
	}
	h.mu.Lock()
	at := time.Since(h.opened).Milliseconds()
	h.mu.Unlock()
	return h.Send(h.caller.b.ctx, fmt.Appendf(nil, `{"event":"media","media":{"track":"inbound","timestamp":"%d","payload":%q}}`,
		at, base64.StdEncoding.EncodeToString(pcm.ULaw.Append(nil, samples))))
}

// read takes what the stream sends until the socket ends.
func (h *handset) read(conn *websocket.Conn) {
	for {
		_, data, err := conn.Read(context.Background())
		if err != nil {
			return
		}
		var m struct {
			Event, StreamSid string
			Media            struct{ Payload []byte }
			Mark             struct{ Name string }
		}
		if err := json.Unmarshal(data, &m); err != nil || m.StreamSid != "MZ1" || len(m.Media.Payload)%lawFrame != 0 {
			h.caller.t.Errorf("the carrier refuses %.200s", data)
		}
		h.mu.Lock()
		var back []marker
		switch m.Event {
		case "media":
			h.queue = append(h.queue, m.Media.Payload...)
			h.most = max(h.most, len(h.queue))
		case "mark":
			h.marks = append(h.marks, marker{m.Mark.Name, len(h.queue)})
		case "clear":
			h.cleared++
			back, h.marks, h.queue = h.marks, nil, nil
		}
		h.mu.Unlock()
		echo(conn, back)
	}
}

// play plays 20 ms after 20 ms until the socket is gone.
func (h *handset) play(conn *websocket.Conn, gone <-chan struct{}) {
	tick := time.NewTicker(media.FrameTime)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-gone:
			return
		}
		h.mu.Lock()
		n := min(lawFrame, len(h.queue))
		if slices.ContainsFunc(pcm.ULaw.Decode(nil, h.queue[:n]), func(s int16) bool { return s > 40 || s < -40 }) {
			if len(h.sounds) == 0 || h.quiet > 50 {
				h.sounds, h.quiet = append(h.sounds, 0), 0
			}
			h.sounds[len(h.sounds)-1] += h.quiet + 1
			h.quiet = -1
		}
		h.queue, h.quiet = h.queue[n:], h.quiet+1
		var back []marker
		h.marks = slices.DeleteFunc(h.marks, func(m marker) bool {
			if m.at <= lawFrame {
				back = append(back, m)
			}
			return m.at <= lawFrame
		})
		for i := range h.marks {
			h.marks[i].at -= n
		}
		h.mu.Unlock()
		h.caller.plays(n > 0)
		echo(conn, back)
	}
}

// plays tells who waits that time has passed, and whether there was sound.
func (c *browser) plays(sound bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if sound {
		c.packets++
	}
	c.signal()
}

// echo tells which marks were reached.
func echo(conn *websocket.Conn, marks []marker) {
	for _, m := range marks {
		message := fmt.Appendf(nil, `{"event":"mark","streamSid":"MZ1","mark":{"name":%q}}`, m.name)
		_ = conn.Write(context.Background(), websocket.MessageText, message) // reading ends, too
	}
}

// TestTelephone calls each kind of upstream by µ-law: a greeting, keys that nobody else learns, the words of a chart, a
// socket that is lost, an interruption of which is known what was heard, and an end by the model. The next call knows.
func TestTelephone(t *testing.T) {
	t.Parallel()
	each(t, testTelephone, []pair{{telephone, webSocket}, {telephone, webRTC}, {telephone, duplex}, {telephone, cascade}})
}

func testTelephone(t *testing.T, p pair) {
	t.Helper()
	const greeting, drawn, here = "Good morning, this is the desk.", "Here is your chart. Sales grew.", "It is here."
	script := simulator.DefaultScript()
	long := script.Spoken[2]
	chart := simulator.Reply{Calls: script.Spoken[1].Calls, Then: drawn}
	bye := simulator.Reply{Say: "Goodbye!", Calls: []simulator.Call{{Name: "end_call", Arguments: `{"reason":"done"}`}}, Then: "Goodbye!"}
	script.Typed = []simulator.Rule{
		{Match: regexp.MustCompile("chart"), Reply: chart}, {Match: regexp.MustCompile("DTMF: 9#"), Reply: bye},
		{Match: regexp.MustCompile("DTMF: 4711#"), Reply: simulator.Reply{Say: "Thank you."}},
	}
	script.Spoken = []simulator.Reply{chart, long, {Transcript: "And where?", Say: here}}
	script.Spoken[0].Transcript = "Can you show me a chart?"
	b := newBench(t, sqlite(t), benchConfig{over: p, simulator: simulator.Config{Script: script}})
	b.makes(`{"id":"desk","name":"Desk","greeting":"` + greeting + `","end_call":true,"mask_keys":true}`)
	c := b.dial(bridge.Start{Assistant: chosen("desk")})
	h := c.line.(*handset)
	has := func(what string, ok func(m thread.Message) bool) (found thread.Message) {
		t.Helper()
		testkit.Eventually(t, what, func() bool {
			all := b.messages(c.key())
			at := slices.IndexFunc(all, ok)
			if at >= 0 {
				found = all[at]
			}
			return at >= 0
		})
		return found
	}
	says := func(role thread.Role, words string) func(m thread.Message) bool {
		return func(m thread.Message) bool { return m.Role == role && strings.Contains(m.Text(), words) }
	}
	h.hears(greeting)
	h.keys("4711#")
	b.heard(1, "DTMF: 4711#")
	h.hears("Thank you.")
	c.speak()
	h.hears(drawn)
	h.lose()
	<-time.After(5 * time.Second)
	h.open()
	c.speak()
	has("a long answer", says(thread.RoleAssistant, long.Say[:20]))
	c.hear(100)
	c.speak()
	story := h.known // its sound
	h.known++
	h.hears(here)
	h.mu.Lock()
	heard, cleared, waited := int64(h.sounds[story]*20), h.cleared, h.most/8
	h.mu.Unlock()
	cut := has("what was heard of it", says(thread.RoleAssistant, long.Say[:20]))
	if meta := cut.Metadata; meta.Status != thread.StatusInterrupted || meta.HeardText == nil || meta.AudioEndMS == nil {
		t.Errorf("the long answer is %+v", meta)
	} else if late := *meta.AudioEndMS - heard; late < -100 || late > 200 || len(*meta.HeardText) < 30 || len(*meta.HeardText) > 120 {
		t.Errorf("%d ms were heard, and it is said to be %d, %q", heard, *meta.AudioEndMS, *meta.HeardText)
	}
	if p.upstream == webSocket && cleared != 1 { // the others speak in real time: nothing waits
		t.Errorf("the carrier was told %d times to drop what waits", cleared)
	}
	if waited > 1500 {
		t.Errorf("%d ms of sound waited at the carrier", waited)
	}
	h.keys("9#")
	testkit.Equal(t, c.ended(), bridge.EndAssistant, "ended because")
	has("the end", says(thread.RoleAssistant, "Goodbye!"))

	again := b.dial(bridge.Start{ThreadID: c.ThreadID, Assistant: chosen("desk")})
	again.line.(*handset).hears(greeting)
	b.hangUp(again)
	known := strings.Join(b.told(2), "\n")
	for _, words := range []string{"Can you show me a chart?", drawn, "DTMF: ****", here} {
		if !strings.Contains(known, words) {
			t.Errorf("the next call does not know %q:\n%s", words, known)
		}
	}
	if script := b.script(c.key()) + known + c.log(); strings.Contains(script, "4711") {
		t.Errorf("everybody knows the keys:\n%s", script)
	}
}
