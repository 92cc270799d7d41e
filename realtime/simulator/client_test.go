package simulator_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"voicebridge/internal/testkit"
	"voicebridge/realtime"
	"voicebridge/realtime/media"
	"voicebridge/realtime/opus"
	"voicebridge/realtime/pcm"
	"voicebridge/realtime/rtc"
	"voicebridge/realtime/simulator"
)

var must = testkit.Must

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const testTimeout = 2 * time.Minute

// bench is a running simulator.
type bench struct {
	t    *testing.T
	srv  *simulator.Server
	http *httptest.Server
	rtc  *rtc.API
	ctx  context.Context
	n    int
}

func newBench(t *testing.T, cfg simulator.Config) *bench {
	t.Helper()
	t.Parallel()
	cfg.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	if cfg.Pace == (simulator.Pace{}) {
		cfg.Pace = simulator.Pace{Think: 20 * time.Millisecond, Step: 5 * time.Millisecond, Transcript: 30 * time.Millisecond}
	}
	srv, err := simulator.New(cfg)
	must(t, err)
	api, err := rtc.New(rtc.Config{Loopback: true})
	must(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	ran := make(chan error, 1)
	go func() { ran <- srv.Run(ctx) }()
	ts := httptest.NewServer(srv)
	t.Cleanup(func() {
		if err := api.Close(); err != nil {
			t.Errorf("close client API: %v", err)
		}
		cancel()
		if err := <-ran; err != nil {
			t.Errorf("run: %v", err)
		}
		ts.Close()
		for _, s := range srv.Sessions() {
			select {
			case <-s.Done():
			default:
				t.Errorf("session %s still runs after Run returned", s.ID())
			}
		}
	})
	return &bench{t: t, srv: srv, http: ts, rtc: api, ctx: ctx}
}

func (b *bench) client() *realtime.Client {
	return &realtime.Client{BaseURL: b.http.URL + "/v1", HTTP: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
}

// caller is a Pion client of the simulator.
type caller struct {
	t    *testing.T
	ctx  context.Context
	peer *rtc.Peer
	ses  *simulator.Session

	mu      sync.Mutex
	events  []realtime.Event
	raw     []string
	changed chan struct{}
	seen    int // number of events that next has passed

	sink  *sink
	over  chan struct{} // closed when the connection has ended
	ends  sync.Once
	flow  media.Flow
	audio chan error
	ids   atomic.Int64
	mic   uint32
	seq   uint16
}

// sink decodes what the simulator says.
type sink struct {
	dec     *opus.Decoder
	mu      sync.Mutex
	packets []media.Packet // without their sound
	loud    int
	errors  int
	last    time.Time
}

func (s *sink) WriteAudio(p *media.Packet) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.packets = append(s.packets, media.Packet{Marker: p.Marker, Sequence: p.Sequence, Timestamp: p.Timestamp})
	s.last = time.Now()
	samples, err := s.dec.Decode(p.Payload)
	if err != nil || len(samples) != 960 {
		s.errors++
		return nil
	}
	if pcm.Level(samples) > -50 {
		s.loud++
	}
	return nil
}

func (s *sink) counts() (packets, loud, errs int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.packets), s.loud, s.errors
}

// await waits for n packets: on a busy machine they arrive after the event that says they
// were played. It returns the counts.
func (s *sink) await(ctx context.Context, n int) (packets, loud, errs int) {
	tick := time.Tick(10 * time.Millisecond)
	for {
		if packets, loud, errs = s.counts(); packets >= n {
			return packets, loud, errs
		}
		select {
		case <-tick:
		case <-ctx.Done():
			return packets, loud, errs
		}
	}
}

const sessionAudio = `{"type":"realtime","model":"gpt-realtime-2.1","output_modalities":["audio"],"audio":{"input":{"transcription":{"model":"gpt-transcribe"},"turn_detection":{"type":"server_vad","silence_duration_ms":400}}}}`

// dial connects a caller with the given session.
func (b *bench) dial(session string) *caller {
	b.t.Helper()
	b.n++
	dec, err := opus.NewDecoder(48_000)
	must(b.t, err)
	c := &caller{t: b.t, ctx: b.ctx, sink: &sink{dec: dec}, audio: make(chan error, 1), over: make(chan struct{})}
	c.flow.Open()
	peer, offer, err := b.rtc.Offer(b.ctx, media.Handlers{Message: c.message, State: c.state})
	must(b.t, err)
	c.peer = peer
	call, err := b.client().CreateCall(b.ctx, offer, []byte(session))
	must(b.t, err)
	must(b.t, peer.Accept(b.ctx, call.Answer))
	go func() { c.audio <- peer.Forward(b.ctx, c.sink, &c.flow) }()
	b.t.Cleanup(func() {
		if err := peer.Close(); err != nil {
			b.t.Errorf("close caller: %v", err)
		}
		<-c.audio
	})
	if c.ses, err = b.srv.WaitSession(b.ctx, b.n); err != nil {
		b.t.Fatal(err)
	}
	if !strings.HasPrefix(call.ID, "rtc_") || call.ID != c.ses.ID() || call.Location != "/v1/realtime/calls/"+call.ID {
		b.t.Fatalf("call id %q at %q, session %q", call.ID, call.Location, c.ses.ID())
	}
	created := c.next(realtime.TypeSessionCreated)
	if first := c.all()[0]; first.Type != realtime.TypeSessionCreated || created.Type != first.Type {
		b.t.Fatalf("first event is %s", first.Type)
	}
	return c
}

func (c *caller) state(s media.State) {
	if s == media.StateFailed || s == media.StateClosed {
		c.ends.Do(func() { close(c.over) })
	}
}

func (c *caller) message(data []byte) {
	e, err := realtime.Decode(data)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.raw = append(c.raw, string(data))
	if err == nil {
		c.events = append(c.events, e)
	}
	if c.changed != nil {
		close(c.changed)
		c.changed = nil
	}
}

func (c *caller) all() []realtime.Event {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.events)
}

// wait returns the next event that matches, and passes all before it.
func (c *caller) wait(what string, match func(realtime.Event) bool) realtime.Event {
	c.t.Helper()
	for {
		c.mu.Lock()
		for c.seen < len(c.events) {
			e := c.events[c.seen]
			c.seen++
			if match(e) {
				c.mu.Unlock()
				return e
			}
		}
		if c.changed == nil {
			c.changed = make(chan struct{})
		}
		changed := c.changed
		c.mu.Unlock()
		select {
		case <-changed:
		case <-c.over: // what had come before was handed on
			c.mu.Lock()
			left := len(c.events) - c.seen
			c.mu.Unlock()
			if left == 0 {
				c.t.Fatalf("connection ended while waiting for %s; got %v", what, c.types())
			}
		case <-c.ctx.Done():
			c.t.Fatalf("no %s; got %v", what, c.types())
		}
	}
}

func (c *caller) next(kind string) realtime.Event {
	c.t.Helper()
	return c.wait(kind, func(e realtime.Event) bool { return e.Type == kind })
}

func (c *caller) types() []string {
	var out []string
	for _, e := range c.all() {
		out = append(out, e.Type)
	}
	return out
}

func (c *caller) send(raw []byte) {
	c.t.Helper()
	must(c.t, c.peer.Send(c.ctx, raw))
}

func (c *caller) id() string { return fmt.Sprintf("evt-%d", c.ids.Add(1)) }

// update sends a session.update and waits for its answer.
func (c *caller) update(session string) realtime.Event {
	c.t.Helper()
	c.send(realtime.SessionUpdate(c.id(), json.RawMessage(session)))
	return c.next(realtime.TypeSessionUpdated)
}

// say sends typed text and asks for an answer.
func (c *caller) say(text string) {
	c.t.Helper()
	c.send(realtime.ItemCreate(c.id(), realtime.Item{
		Type: realtime.ItemMessage, Role: "user", Content: []realtime.Content{{Type: realtime.ContentInputText, Text: text}},
	}, ""))
	c.send(realtime.ResponseCreate(c.id()))
}

// fails sends an event and returns the error that it causes.
func (c *caller) fails(id string, raw []byte) *realtime.Error {
	c.t.Helper()
	c.send(raw)
	e := c.wait("error for "+id, func(e realtime.Event) bool {
		return e.Type == realtime.TypeError && e.Error != nil && e.Error.EventID == id
	})
	return e.Error
}

// speak sends user speech in real time, cut to the given number of frames (0: all).
func (c *caller) speak(frames int) {
	c.t.Helper()
	speech := simulator.UserSpeech()
	if frames > 0 {
		speech = speech[:frames]
	}
	tick := time.Tick(20 * time.Millisecond)
	for _, f := range speech {
		c.packet(f)
		select {
		case <-tick:
		case <-c.ctx.Done():
			c.t.Fatal("timed out while speaking")
		}
	}
}

// heard waits until n packets of the caller have arrived.
func (c *caller) heard(n int64) {
	c.t.Helper()
	tick := time.Tick(10 * time.Millisecond)
	for c.ses.AudioPackets() < n {
		select {
		case <-tick:
		case <-c.ctx.Done():
			c.t.Fatal("the caller is not heard")
		}
	}
}

func (c *caller) packet(payload []byte) {
	c.seq++
	c.mic += 960
	err := c.peer.WriteAudio(&media.Packet{Source: 7, Sequence: c.seq, Timestamp: c.mic, Payload: payload})
	if err != nil && !errors.Is(err, media.ErrClosed) {
		c.t.Errorf("send audio: %v", err)
	}
}

func item(t *testing.T, e realtime.Event) realtime.Item {
	t.Helper()
	it, err := realtime.DecodeItem(e.Item)
	must(t, err)
	return it
}

func response(t *testing.T, e realtime.Event) realtime.Response {
	t.Helper()
	r, err := realtime.DecodeResponse(e.Response)
	must(t, err)
	return r
}
