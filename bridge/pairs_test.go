package bridge_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"voicebridge/bridge"
	"voicebridge/bridge/internal/task"
	"voicebridge/realtime"
	"voicebridge/realtime/media"
	"voicebridge/realtime/opus"
	"voicebridge/realtime/pcm"
	"voicebridge/realtime/served"
	"voicebridge/realtime/simulator"
	"voicebridge/realtime/ws"
	"voicebridge/realtime/wsserver"
)

// transport carries the events and the sound of one side of a call.
type transport int

const (
	webRTC transport = iota
	webSocket
	duplex    // of an upstream: GPT-Live, over WebRTC
	cascade   // of an upstream: a session in this process
	telephone // of a client: µ-law by a carrier
)

func (t transport) String() string {
	return [...]string{"WebRTC", "WebSocket", "GPT-Live", "cascade", "telephone"}[t]
}

// pair is the transports of both sides of a call.
type pair struct{ client, upstream transport }

func (p pair) String() string { return fmt.Sprintf("%v client, %v upstream", p.client, p.upstream) }

// pairsOf returns the pairs with these upstreams. A cascade has Opus, as upstreams over WebRTC: sockets are tried with these.
func pairsOf(upstreams ...transport) (all []pair) {
	for _, client := range []transport{webRTC, webSocket} {
		for _, upstream := range upstreams {
			if client != webSocket || upstream != cascade {
				all = append(all, pair{client, upstream})
			}
		}
	}
	return all
}

// pairs runs a test with each pair of transports, each in a bubble.
func pairs(t *testing.T, test func(t *testing.T, p pair)) {
	t.Helper()
	each(t, test, pairsOf(webRTC, webSocket, cascade))
}

// all runs a test with each pair of transports, and with GPT-Live.
func all(t *testing.T, test func(t *testing.T, p pair)) {
	t.Helper()
	each(t, test, pairsOf(webRTC, webSocket, duplex, cascade))
}

func each(t *testing.T, test func(t *testing.T, p pair), pairs []pair) {
	t.Helper()
	for _, p := range pairs {
		t.Run(p.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { test(t, p) })
		})
	}
}

// recorder keeps what a session of a cascade was sent.
type recorder struct {
	mu       sync.Mutex
	received []simulator.Record
	leg      bridge.UpstreamLeg
}

func (r *recorder) Received() []simulator.Record {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.received)
}

// play returns what makes a session of a cascade: the simulator's script, and a recorder.
func (b *bench) play() served.Config {
	r := &recorder{}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.cascades = append(b.cascades, r)
	cfg := simulator.Play(b.simulated)
	cfg.Oddities = func(e realtime.Event, handle func() *realtime.Error) *realtime.Error {
		refusal, got := handle(), simulator.Record{At: time.Now(), Event: e}
		if refusal != nil {
			got.Refused = refusal.Code
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.received = append(r.received, got)
		return refusal
	}
	return cfg
}

// dropping is a driver whose sessions a test can lose.
type dropping struct {
	bridge.Upstream

	b *bench
}

func (d dropping) Dial(ctx context.Context, dial bridge.Dial) (bridge.UpstreamLeg, error) {
	leg, err := d.Upstream.Dial(ctx, dial)
	d.b.mu.Lock()
	defer d.b.mu.Unlock()
	d.b.cascades[len(d.b.cascades)-1].leg = leg
	return leg, err
}

// driver returns a driver for the simulator.
func (b *bench) driver(over transport, name string) bridge.Upstream {
	switch over {
	case cascade:
		return dropping{bridge.NewCascadeOf(name, b.play), b}
	case webSocket:
		profile, _ := ws.Find("realtime")
		return bridge.NewWebSocket(name, &ws.Client{
			Profile: profile, URL: b.address + "/v1/realtime", Model: "gpt-realtime-2.1", HTTP: b.http,
		})
	}
	return bridge.NewRealtimeBy(name, b.offers, &realtime.Client{BaseURL: b.address + "/v1", HTTP: b.http})
}

// line is how a caller is connected.
type line interface {
	media.Sink // takes what the caller says, in Opus
	Send(ctx context.Context, event []byte) error
	Close() error
}

// openDoor serves the sockets of calls.
func (b *bench) openDoor(net *network) {
	var opened sync.WaitGroup
	b.t.Cleanup(opened.Wait)
	b.door, b.doorAt = net.serve(b.t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		opened.Add(1)
		defer opened.Done()
		client, _ := b.sockets.LoadAndDelete(r.URL.Path)
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			client.(interface{ Abandon() }).Abandon()
			return
		}
		client.(interface{ Serve(conn *websocket.Conn) }).Serve(conn)
	}))
}

// connect opens the socket of a caller in a call that begin finds or makes.
func (b *bench) connect(begin func(*wsserver.Conn) error) (*browser, error) {
	b.t.Helper()
	c := b.newBrowser()
	client := wsserver.New()
	if err := begin(client); err != nil {
		return c, err
	}
	path := fmt.Sprintf("/%p", client)
	b.sockets.Store(path, client)
	conn, _, err := websocket.Dial(b.ctx, b.doorAt+path, &websocket.DialOptions{HTTPClient: b.door}) //nolint:bodyclose // of a socket
	must(b.t, err)
	conn.SetReadLimit(-1)
	l := &socketLine{conn: conn, caller: c, complete: make(map[string]bool), cut: make(map[string]bool), stopped: make(map[string]bool)}
	c.line = l
	ctx, cancel := context.WithCancel(b.ctx)
	read, play := task.Go(l.read), task.Go(func() { l.play(ctx) })
	b.t.Cleanup(func() { cancel(); _ = conn.CloseNow(); <-read; <-play })
	return c, nil
}

// socketLine is a client over WebSocket. As such clients do, it plays answers by its own clock and says how much of an
// interrupted one was heard. What that begins and ends is told to the caller as an upstream tells a browser, so that a
// test need not know how its caller is connected.
type socketLine struct {
	conn    *websocket.Conn
	caller  *browser
	decoder *opus.Decoder // of what the caller says
	source  uint32

	mu       sync.Mutex
	queue    []delta
	playing  string          // a response
	item     string          // of it, whose sound is being played
	content  int             // of the item
	heard    int             // bytes of it
	idle     int             // frames since the last sound
	complete map[string]bool // responses of which nothing more comes
	cut      map[string]bool // those of them that were cancelled, whose truncation may come after all that there was of them is played
	stopped  map[string]bool // responses of which nothing more is played
}

// delta is sound that was not played yet.
type delta struct {
	response, item string
	content        int
	sound          []byte
}

// heardFrame is 20 ms of sound for the client.
var heardFrame = media.Format{Rate: 24_000}.Frame()

// speakerFrames is how many of them a client's loudspeaker is late: more than the bridge's clock on a busy machine.
const speakerFrames = 50

func (l *socketLine) Send(ctx context.Context, event []byte) error {
	return l.conn.Write(ctx, websocket.MessageText, event)
}

func (l *socketLine) Close() error {
	_ = l.conn.Close(websocket.StatusNormalClosure, "") // it may be closed
	return nil
}

// WriteAudio implements media.Sink.
func (l *socketLine) WriteAudio(p *media.Packet) (err error) {
	if l.decoder == nil || p.Source != l.source {
		if l.decoder, err = opus.NewDecoder(24_000); err != nil {
			return err
		}
		l.source = p.Source
	}
	samples, err := l.decoder.Decode(p.Payload)
	if err != nil {
		return err
	}
	return l.Send(l.caller.b.ctx, fmt.Appendf(nil, `{"type":"input_audio_buffer.append","audio":%q}`, base64.StdEncoding.EncodeToString(pcm.Linear.Append(nil, samples))))
}

// read takes what comes until the socket ends.
func (l *socketLine) read() {
	for {
		_, data, err := l.conn.Read(context.Background())
		if err != nil {
			l.caller.hungUp()
			return
		}
		ev, ok := l.caller.decoded(data)
		if ok {
			l.take(ev)
		}
	}
}

func (l *socketLine) take(ev realtime.Event) {
	switch {
	case strings.HasPrefix(ev.Type, "output_audio_buffer."):
		l.caller.t.Errorf("the client got %s, which is of WebRTC", ev.Raw)
		return
	case ev.Type == realtime.TypeOutputAudioDelta:
		l.add(&ev)
		return
	}
	l.caller.got(ev)
	switch ev.Type {
	case realtime.TypeInputSpeechStarted:
		l.stop("", true)
	case realtime.TypeItemTruncated: // by the server
		l.stop(ev.ItemID, false)
	case realtime.TypeResponseDone:
		var done struct{ Response struct{ ID, Status string } }
		l.caller.decode(ev, &done)
		l.mu.Lock()
		l.complete[done.Response.ID], l.cut[done.Response.ID] = true, done.Response.Status == realtime.ResponseCancelled
		l.mu.Unlock()
	}
}

// add queues sound.
func (l *socketLine) add(ev *realtime.Event) {
	sound, err := base64.StdEncoding.DecodeString(ev.Delta)
	l.caller.tape.linear(sound, time.Now())
	l.mu.Lock()
	defer l.mu.Unlock()
	switch n := len(l.queue); {
	case err != nil, ev.ItemID == "", ev.ResponseID == "", l.complete[ev.ResponseID]:
		l.caller.t.Errorf("sound that cannot be played (%v): %.200s", err, ev.Raw)
	case l.stopped[ev.ResponseID]:
	case n > 0 && l.queue[n-1].item == ev.ItemID && l.queue[n-1].content == ev.ContentIndex:
		l.queue[n-1].sound = append(l.queue[n-1].sound, sound...)
	default:
		l.queue = append(l.queue, delta{ev.ResponseID, ev.ItemID, ev.ContentIndex, sound})
	}
}

// stop stops what is being played: everything, or an item. speaks means that the caller does it, of which the server
// has to be told.
func (l *socketLine) stop(item string, speaks bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.playing == "" || item != "" && item != l.item {
		return
	}
	l.stopped[l.playing], l.queue, l.caller.stopped = true, nil, time.Now()
	l.tell(realtime.TypeOutputBufferCleared)
	l.playing = ""
	if !speaks {
		return
	}
	ms := l.heard * 20 / heardFrame
	event := fmt.Appendf(nil, `{"type":"conversation.item.truncate","item_id":%q,"content_index":%d,"audio_end_ms":%d}`, l.item, l.content, ms)
	if err := l.Send(l.caller.b.ctx, event); err != nil {
		l.caller.t.Logf("truncate: %v", err)
	}
}

// play plays a frame every 20 ms.
func (l *socketLine) play(ctx context.Context) {
	tick := time.NewTicker(media.FrameTime)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			l.frame()
		case <-ctx.Done():
			return
		}
	}
}

// frame plays what is due.
func (l *socketLine) frame() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.queue) == 0 || l.queue[0].response != l.playing {
		if l.idle++; len(l.queue) == 0 && l.idle < speakerFrames {
			return
		}
		if l.playing != "" && (len(l.queue) > 0 || l.complete[l.playing]) {
			if l.cut[l.playing] {
				l.tell(realtime.TypeOutputBufferCleared)
			} else {
				l.tell(realtime.TypeOutputBufferStopped)
			}
			l.playing = ""
		}
		if len(l.queue) == 0 {
			return
		}
	}
	first := &l.queue[0]
	if l.playing == "" {
		l.playing = first.response
		l.tell(realtime.TypeOutputBufferStarted)
	}
	if l.item != first.item {
		l.item, l.content, l.heard = first.item, first.content, 0
	}
	l.idle = 0
	n := min(heardFrame, len(first.sound))
	first.sound = first.sound[n:]
	l.heard += n
	if len(first.sound) == 0 {
		l.queue = l.queue[1:]
	}
	_ = l.caller.WriteAudio(nil) // it only counts
}

// tell has the caller hear what the player does. l.mu is held.
func (l *socketLine) tell(kind string) {
	ev, _ := l.caller.decoded(fmt.Appendf(nil, `{"type":%q,"response_id":%q}`, kind, l.playing))
	l.caller.got(ev)
}
