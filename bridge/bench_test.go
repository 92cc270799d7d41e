package bridge_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"voicebridge/assistant"
	"voicebridge/bridge"
	"voicebridge/internal/testkit"
	"voicebridge/persistence"
	"voicebridge/persistence/persistencetest"
	"voicebridge/persistence/spool"
	"voicebridge/realtime"
	"voicebridge/realtime/live"
	"voicebridge/realtime/media"
	"voicebridge/realtime/realtimetest/livetest"
	"voicebridge/realtime/rtc"
	"voicebridge/realtime/simulator"
	"voicebridge/realtime/wsserver"
	"voicebridge/thread"
	"voicebridge/toolkit"
	"voicebridge/toolkit/charts"
)

var must = testkit.Must

func TestMain(m *testing.M) { persistencetest.Main(m) }

const (
	testTimeout = 3 * time.Minute
	owner       = "ada"
)

// bench is everything that a call needs, and the callers.
type bench struct {
	t     *testing.T
	ctx   context.Context
	store *persistence.Store
	sim   *simulator.Server
	live  *livetest.Server
	calls *bridge.Calls
	stop  func() // ends Run and waits for it
	// offer makes a peer and its offer, of callers and for upstreams; http reaches the simulator, at address.
	offers  bridge.Offering
	http    *http.Client
	address string

	over pair
	// simulated is how the simulator is set, and cascades are the sessions of a cascade.
	simulated simulator.Config
	cascades  []*recorder
	door      *http.Client // reaches doorAt, where callers over WebSocket come in
	doorAt    string
	sockets   sync.Map // that wait there, by path

	mu    sync.Mutex
	ends  []bridge.EndReason
	turns map[thread.Key]int // reported
}

type benchConfig struct {
	over pair // the zero value is WebRTC on both sides
	// real means Pion, UDP and sockets in place of queues in memory.
	real      bool
	simulator simulator.Config
	bridge    bridge.Config
	// asked, if set, sees every request to the upstream first.
	asked func(*http.Request)
	// live makes the upstream GPT-Live.
	live *live.Client
	// others are the names of further upstreams, which are the same simulator.
	others []string
	// slow, when set, makes the database slow for the changes of calls.
	slow *slowStore
}

// slowStore is a database that, while slow is set, takes longer for the changes of calls
// than they wait. It gives up by itself: on a busy machine a time limit would also pass
// once it is fast again.
type slowStore struct {
	*persistence.Store
	slow atomic.Bool
}

func (s *slowStore) ApplyAll(ctx context.Context, groups []persistence.ThreadChanges) ([]persistence.Applied, error) {
	if !s.slow.Load() {
		return s.Store.ApplyAll(ctx, groups)
	}
	select {
	case <-time.After(100 * time.Millisecond):
		return nil, context.DeadlineExceeded
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func newBench(t *testing.T, store *persistence.Store, cfg benchConfig) *bench {
	t.Helper()
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelInfo}))
	cfg.simulator.Logger = log
	if cfg.simulator.Pace == (simulator.Pace{}) {
		cfg.simulator.Pace = simulator.Pace{Think: 20 * time.Millisecond, Step: 5 * time.Millisecond, Transcript: 30 * time.Millisecond}
	}
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	b := &bench{t: t, ctx: ctx, store: store, over: cfg.over, simulated: cfg.simulator}
	net := newNetwork(t, cfg.real)
	b.offers, cfg.simulator.Answer = net.offer, net.simulated
	var err error
	if b.sim, err = simulator.New(cfg.simulator); err != nil {
		t.Fatal(err)
	}
	b.live = livetest.New(cfg.simulator)
	b.http, b.address = net.serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if cfg.asked != nil {
			cfg.asked(r)
		}
		if strings.HasPrefix(r.URL.Path, "/v1/live/") {
			b.live.ServeHTTP(w, r)
			return
		}
		b.sim.ServeHTTP(w, r)
	}))
	cfg.bridge.Upstreams = []bridge.Route{{Upstream: b.driver(cfg.over.upstream, "simulator")}}
	if cfg.over.upstream == duplex && cfg.live == nil {
		cfg.live = &live.Client{}
	}
	if cfg.live != nil {
		cfg.live.URL, cfg.live.HTTP, cfg.live.Log = b.address+"/v1/live/sessions", b.http, log
		cfg.bridge.Upstreams = []bridge.Route{{Upstream: bridge.NewLiveBy("live", b.offers, cfg.live), Model: live.Model}}
	}
	for _, name := range cfg.others {
		cfg.bridge.Upstreams = append(cfg.bridge.Upstreams, bridge.Route{Upstream: b.driver(webRTC, name)})
	}
	cfg.bridge.Browser, cfg.bridge.Store, cfg.bridge.Logger = new(rtc.API), store, log
	b.turns = make(map[thread.Key]int)
	cfg.bridge.OnTurn = func(key thread.Key) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.turns[key]++
	}
	cfg.bridge.OnEnd = func(_ thread.Key, r bridge.EndReason) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.ends = append(b.ends, r)
	}
	if cfg.bridge.Tools == nil {
		cfg.bridge.Tools = chartTools
	}
	if cfg.live != nil {
		cfg.bridge.Tools = withAgent(cfg.bridge.Tools, cmp.Or(cfg.simulator.Script, simulator.DefaultScript()))
	}
	if reflect.ValueOf(cfg.bridge.Session).IsZero() {
		cfg.bridge.Session = bridge.SessionConfig{
			Model: "gpt-realtime-2.1", Voice: "marin", TranscriptionModel: "gpt-transcribe", Instructions: "SECRET house rules",
		}
	}
	if cfg.bridge.ReplayMessages == 0 {
		cfg.bridge.ReplayMessages = 20
	}
	if cfg.slow == nil {
		cfg.slow = &slowStore{}
	}
	cfg.slow.Store = store
	writer, err := spool.New(spool.Config{
		// A busy machine is not a slow database: what is saved late would be read too early.
		Store: cfg.slow, Dir: t.TempDir(), Logger: log, Timeout: testTimeout, Slow: testTimeout,
		Saved:   func(key thread.Key, messages []thread.Message) { b.calls.Saved(key, messages) },
		Delayed: func(pending int) { b.calls.StorageDelayed(pending) },
	})
	must(t, err)
	cfg.bridge.Writer = writer
	if b.calls, err = bridge.NewCalls(cfg.bridge); err != nil {
		t.Fatal(err)
	}
	bridge.AnswerBy(b.calls, net.answer)
	writeCtx, endWrite := context.WithCancel(context.Background())
	written := make(chan error, 1)
	go func() { written <- writer.Run(writeCtx) }()
	simCtx, endSim := context.WithCancel(ctx)
	runCtx, endRun := context.WithCancel(ctx)
	simDone, runDone := make(chan error, 1), make(chan error, 1)
	go func() { simDone <- b.sim.Run(simCtx) }()
	go func() { runDone <- b.calls.Run(runCtx) }()
	b.stop = sync.OnceFunc(func() {
		endRun()
		if err := <-runDone; err != nil {
			t.Errorf("run calls: %v", err)
		}
	})
	t.Cleanup(func() {
		b.stop()
		endSim()
		b.live.Close()
		endWrite()
		if err := errors.Join(<-simDone, <-written, net.close()); err != nil {
			t.Errorf("close: %v", err)
		}
		cancel()
	})
	if cfg.over.client != webRTC {
		b.openDoor(net)
	}
	return b
}

// chartTools returns the same registry to every call, as the program does.
func chartTools(context.Context, string, assistant.Assistant) (*toolkit.Registry, error) {
	return charted()
}

var charted = sync.OnceValues(func() (*toolkit.Registry, error) {
	r := toolkit.NewRegistry()
	for _, tool := range charts.Tools() {
		if err := r.Add(toolkit.Entry{Tool: tool, Executor: toolkit.ExecutorApp}); err != nil {
			return nil, err
		}
	}
	return r, nil
})

// browser is a caller: a Pion peer that makes the offer, as a browser does, or a client over WebSocket.
type browser struct {
	b    *bench
	t    *testing.T
	line line
	peer bridge.Offerer // the line of a browser
	bridge.Started

	mu      sync.Mutex
	events  []realtime.Event
	changed chan struct{}
	seen    int
	closed  bool
	flow    media.Flow
	packets int
	last    media.Packet
	tape    tape      // of what was heard
	stopped time.Time // when a client over WebSocket last stopped an answer
	spoken  uint32
	said    []time.Time // when each frame of what was spoken was sent
}

// WriteAudio counts the packets that the caller receives, which are those of one stream. A client over WebSocket has
// none.
func (c *browser) WriteAudio(p *media.Packet) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p != nil {
		if step := p.Sequence - c.last.Sequence; c.packets > 0 && (p.Source != c.last.Source || step == 0 || step > 1<<15 || int32(p.Timestamp-c.last.Timestamp) <= 0) {
			c.t.Errorf("packet %d at %d follows %d at %d", p.Sequence, p.Timestamp, c.last.Sequence, c.last.Timestamp)
		}
		c.last = *p
		c.last.Payload = nil
		_ = c.tape.WriteAudio(p) // it only keeps it
	}
	c.packets++
	c.signal()
	return nil
}

func (c *browser) signal() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// decoded reads an event.
func (c *browser) decoded(data []byte) (ev realtime.Event, ok bool) {
	ev, err := realtime.Decode(data)
	if err != nil {
		c.t.Errorf("the browser got %q: %v", data, err)
	}
	return ev, err == nil
}

// got takes an event.
func (c *browser) got(ev realtime.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events = append(c.events, ev)
	c.signal()
}

// hungUp takes the end of the connection.
func (c *browser) hungUp() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	c.signal()
}

func (b *bench) newBrowser() *browser {
	c := &browser{b: b, t: b.t, changed: make(chan struct{})}
	b.t.Cleanup(func() {
		c.leave()
		if b.t.Failed() {
			_ = os.WriteFile(filepath.Join(b.t.ArtifactDir(), "events.jsonl"), []byte(c.log()), 0o600)
		}
	})
	return c
}

// offer makes a browser and its offer.
func (b *bench) offer() (*browser, string) {
	b.t.Helper()
	c := b.newBrowser()
	peer, sdp, err := b.offers(b.ctx, media.Handlers{
		Message: func(data []byte) {
			if ev, ok := c.decoded(data); ok {
				c.got(ev)
			}
		},
		State: func(s media.State) {
			if s == media.StateClosed || s == media.StateFailed {
				c.hungUp()
			}
		},
	})
	must(b.t, err)
	c.line, c.peer = peer, peer
	return c, sdp
}

// leave closes the tab.
func (c *browser) leave() {
	if c.line == nil {
		return
	}
	if err := c.line.Close(); err != nil {
		c.t.Errorf("close browser: %v", err)
	}
}

// dial starts a call and connects to it.
func (b *bench) dial(start bridge.Start) *browser {
	b.t.Helper()
	c, err := b.try(start)
	must(b.t, err)
	return c
}

func (b *bench) try(start bridge.Start) (c *browser, err error) {
	b.t.Helper()
	start.Owner = cmp.Or(start.Owner, owner)
	var started bridge.Started
	switch b.over.client {
	case telephone:
		return b.ring(start)
	case webSocket:
		c, err = b.connect(func(socket *wsserver.Conn) (err error) {
			start.Socket = socket
			started, err = b.calls.Start(b.ctx, start)
			return err
		})
		c.Started = started
		return c, err
	}
	c, start.Offer = b.offer()
	if started, err = b.calls.Start(b.ctx, start); err != nil {
		return c, err
	}
	c.accept(started, started.Answer)
	return c, nil
}

// accept takes the answer by which a browser is in a call.
func (c *browser) accept(started bridge.Started, answer string) {
	c.t.Helper()
	c.Started = started
	must(c.t, c.peer.Accept(c.b.ctx, answer))
	c.flow.Open()
	go func() { _ = c.peer.Forward(c.b.ctx, c, &c.flow) }()
}

// send sends an event.
func (c *browser) send(format string, args ...any) {
	c.t.Helper()
	must(c.t, c.line.Send(c.b.ctx, fmt.Appendf(nil, format, args...)))
}

// say types a text and asks for an answer.
func (c *browser) say(text string) {
	c.t.Helper()
	c.send(`{"type":"conversation.item.create","item":{"type":"message","role":"user","content":[{"type":"input_text","text":%q}]}}`, text)
	c.send(`{"type":"response.create"}`)
}

// until waits until ok, called with c.mu held, returns true.
func (c *browser) until(what string, ok func() bool) {
	c.t.Helper()
	for {
		c.mu.Lock()
		done, changed, closed := ok(), c.changed, c.closed
		c.mu.Unlock()
		if done {
			return
		}
		if closed {
			c.t.Fatalf("the call ended before %s; events:\n%s", what, c.log())
		}
		select {
		case <-changed:
		case <-c.b.ctx.Done():
			c.t.Fatalf("no %s; events:\n%s", what, c.log())
		}
	}
}

// wait waits for the next event that match accepts; those before it count as seen.
func (c *browser) wait(what string, match func(realtime.Event) bool) (found realtime.Event) {
	c.t.Helper()
	c.until(what, func() bool {
		for c.seen < len(c.events) {
			found = c.events[c.seen]
			c.seen++
			if match(found) {
				return true
			}
		}
		return false
	})
	return found
}

// played waits until this browser has played n answers to their end. On a busy machine an
// answer may end before or after the events that come with it.
func (c *browser) played(answers int) {
	c.t.Helper()
	c.until(fmt.Sprintf("end of answer %d", answers), func() bool {
		n := 0
		for _, ev := range c.events {
			if ev.Type == realtime.TypeOutputBufferStopped {
				n++
			}
		}
		return n >= answers
	})
}

func (c *browser) next(kind string) realtime.Event {
	c.t.Helper()
	return c.wait(kind, func(ev realtime.Event) bool { return ev.Type == kind })
}

// ended waits for the end and its reason.
func (c *browser) ended() bridge.EndReason {
	c.t.Helper()
	ev := c.next("bridge.ended")
	var e struct{ Reason bridge.EndReason }
	c.decode(ev, &e)
	return e.Reason
}

func (c *browser) decode(ev realtime.Event, v any) {
	c.t.Helper()
	if err := json.Unmarshal(ev.Raw, v); err != nil {
		c.t.Fatalf("%s: %v", ev.Raw, err)
	}
}

func (c *browser) log() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var b strings.Builder
	for _, ev := range c.events {
		fmt.Fprintf(&b, "%.300s\n", ev.Raw)
	}
	return b.String()
}

// types lists the events, deltas once.
func (c *browser) types() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var types []string
	for _, ev := range c.events {
		if n := len(types); n > 0 && types[n-1] == ev.Type && strings.HasSuffix(ev.Type, ".delta") {
			continue
		}
		types = append(types, ev.Type)
	}
	return types
}

// waitPackets waits until the caller has received n packets.
func (c *browser) waitPackets(n int) {
	c.t.Helper()
	c.until(fmt.Sprintf("packet %d of sound", n), func() bool { return c.packets >= n })
}

// hear waits for n packets more.
func (c *browser) hear(n int) {
	c.t.Helper()
	c.mu.Lock()
	n += c.packets
	c.mu.Unlock()
	c.waitPackets(n)
}

// speak sends the recorded question once, as a microphone would, until the upstream has recognised a turn: if this
// machine stood still meanwhile, that may be before the end, and the rest would be another one.
func (c *browser) speak() { c.speakFor(1 << 20) }

// all lists the events so far: a test that looks at them must not read what the peer connection still writes.
func (c *browser) all() []realtime.Event {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.events)
}

// turns is how many spoken turns the upstream has recognised.
func (c *browser) turns() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, ev := range c.events {
		if ev.Type == realtime.TypeInputCommitted {
			n++
		}
	}
	return n
}

// speakFor sends the first frames of it, of 20 ms each.
func (c *browser) speakFor(n int) {
	c.t.Helper()
	frames := simulator.UserSpeech()
	frames = frames[:min(n, len(frames))]
	due := time.Now()
	c.spoken++
	p := media.Packet{Source: c.spoken} // a new source each time
	before := c.turns()
	for _, frame := range frames {
		if c.turns() > before {
			return
		}
		due = due.Add(20 * time.Millisecond) // what a busy machine delays follows at once, as from a browser
		select {
		case <-time.After(time.Until(due)):
		case <-c.b.ctx.Done():
			return
		}
		p.Payload = frame
		c.said = append(c.said, time.Now())
		if err := c.line.WriteAudio(&p); err != nil {
			return
		}
		p.Sequence++
		p.Timestamp += 960
	}
}

// session waits for the n-th session of the simulator.
func (b *bench) session(n int) *simulator.Session {
	b.t.Helper()
	s, err := b.sim.WaitSession(b.ctx, n)
	must(b.t, err)
	return s
}

// upstream is a session of the simulator, of either kind.
type upstream interface {
	Received() []simulator.Record
}

// upstream waits for the n-th session.
func (b *bench) upstream(n int) upstream {
	b.t.Helper()
	switch b.over.upstream {
	case cascade:
		sessions := func() []*recorder {
			b.mu.Lock()
			defer b.mu.Unlock()
			return b.cascades
		}
		testkit.Eventually(b.t, "a session", func() bool { return len(sessions()) >= n })
		return sessions()[n-1]
	case webRTC, webSocket:
		return b.session(n)
	}
	testkit.Eventually(b.t, "a session", func() bool { return len(b.live.Sessions()) >= n })
	return b.live.Sessions()[n-1]
}

// drop loses the n-th session, and expire has it end as too old.
func (b *bench) drop(n int) {
	b.t.Helper()
	switch s := b.upstream(n).(type) {
	case *livetest.Session:
		s.Drop()
	case *recorder:
		_ = s.leg.Close()
	case *simulator.Session:
		s.Drop()
	}
}

func (b *bench) expire(n int) {
	b.t.Helper()
	switch s := b.upstream(n).(type) {
	case *livetest.Session:
		s.Expire()
	case *recorder:
		_ = s.leg.Close() // it does not expire
	case *simulator.Session:
		s.Expire()
	}
}

// heard waits until the n-th session was told something.
func (b *bench) heard(n int, words string) {
	b.t.Helper()
	s := b.upstream(n)
	testkit.Eventually(b.t, words, func() bool {
		return slices.ContainsFunc(s.Received(), func(r simulator.Record) bool { return strings.Contains(string(r.Event.Raw), words) })
	})
}

// told lists what the n-th session was told, one message or event after the other, from its history on.
func (b *bench) told(n int) (all []string) {
	b.t.Helper()
	s := b.upstream(n)
	if l, ok := s.(*livetest.Session); ok {
		var created struct{ Input []json.RawMessage }
		must(b.t, json.Unmarshal(l.Session(), &created))
		for _, m := range created.Input {
			all = append(all, string(m))
		}
	}
	for _, r := range s.Received() {
		all = append(all, string(r.Event.Raw))
		if r.Refused != "" && r.Refused != "response_cancel_not_active" {
			b.t.Errorf("the upstream refused %s: %s", r.Event.Raw, r.Refused)
		}
	}
	return all
}

// key identifies the browser's thread.
func (c *browser) key() thread.Key { return thread.Key{Owner: owner, Thread: c.ThreadID} }

// messages reads the thread.
func (b *bench) messages(key thread.Key) []thread.Message {
	b.t.Helper()
	all, err := b.store.Messages(b.ctx, key, 0, 1000)
	must(b.t, err)
	return all
}

// script is the thread with one message per line.
func (b *bench) script(key thread.Key) string {
	b.t.Helper()
	var out strings.Builder
	for _, m := range b.messages(key) {
		fmt.Fprintf(&out, "%s %s %s: %s", m.Role, m.Metadata.Source, m.Metadata.Status, m.Text())
		for _, p := range m.Parts {
			if p.IsTool() {
				fmt.Fprintf(&out, " [%s %s]", p.Type, p.State)
			}
		}
		out.WriteByte('\n')
	}
	return out.String()
}

// textMessage is what a user types, with images.
func textMessage(id, text string, images ...thread.Part) thread.Message {
	return thread.Message{ID: id, Parts: append([]thread.Part{thread.TextPart(text)}, images...)}
}
