package rtc

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/pion/rtp"
	"github.com/pion/webrtc/v4"
	"go.uber.org/goleak"

	"voicebridge/internal/testkit"
	"voicebridge/realtime/media"
)

var must = testkit.Must

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for something that must happen.
const patience = 3 * time.Minute

func testContext(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// beside returns a context that ends with the test, and a way to run functions until then.
func beside(t *testing.T) (ctx context.Context, run func(func())) {
	t.Helper()
	ctx, cancel := context.WithCancel(testContext(t))
	var running sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return ctx, running.Go
}

// collect collects what a peer forwards through an open flow.
func collect(ctx context.Context, run func(func()), from *Peer) collector {
	got, flow := newCollector(), new(media.Flow)
	flow.Open()
	run(func() { _ = from.Forward(ctx, got, flow) })
	return got
}

func testLogger(t testing.TB) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelInfo}))
}

func newAPI(t testing.TB, cfg Config) *API {
	t.Helper()
	cfg.Loopback = true
	if cfg.Logger == nil {
		cfg.Logger = testLogger(t)
	}
	a, err := New(cfg)
	must(t, err)
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Errorf("API.Close: %v", err)
		}
	})
	return a
}

// recorder records what a peer's handlers are called with.
type recorder struct {
	mu       sync.Mutex
	messages [][]byte
	states   []media.State
	opened   int
	after    int // messages after media.StateClosed
	changed  chan struct{}
}

func newRecorder() *recorder { return &recorder{changed: make(chan struct{}, 1)} }

func (r *recorder) handlers() media.Handlers {
	return media.Handlers{
		Message: func(b []byte) {
			r.update(func() {
				r.messages = append(r.messages, b)
				if n := len(r.states); n > 0 && r.states[n-1] == media.StateClosed {
					r.after++
				}
			})
		},
		Open:  func() { r.update(func() { r.opened++ }) },
		State: func(s media.State) { r.update(func() { r.states = append(r.states, s) }) },
	}
}

func (r *recorder) update(f func()) {
	r.mu.Lock()
	f()
	r.mu.Unlock()
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// wait returns when cond holds; cond runs under the recorder's lock.
func (r *recorder) wait(t testing.TB, what string, cond func() bool) {
	t.Helper()
	deadline := time.After(patience)
	for {
		r.mu.Lock()
		ok := cond()
		r.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-r.changed:
		case <-deadline:
			r.mu.Lock()
			defer r.mu.Unlock()
			t.Fatalf("%s: not within %s (opened %d, %d messages, states %v)", what, patience, r.opened, len(r.messages), r.states)
		}
	}
}

func (r *recorder) waitState(t testing.TB, s media.State) {
	t.Helper()
	r.wait(t, "state "+s.String(), func() bool {
		return slices.Contains(r.states, s)
	})
}

func (r *recorder) waitMessages(t testing.TB, n int) [][]byte {
	t.Helper()
	r.wait(t, "messages", func() bool { return len(r.messages) >= n })
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.messages
}

// pair is two connected peers: one offers as to an upstream, the other answers as to a browser.
type pair struct {
	offerer, answerer *Peer
	off, ans          *recorder
}

func newPair(t testing.TB, offering, answering *API) *pair {
	t.Helper()
	p := &pair{off: newRecorder(), ans: newRecorder()}
	ctx := testContext(t)
	var err error
	var offer, answer string
	if p.offerer, offer, err = offering.Offer(ctx, p.off.handlers()); err != nil {
		t.Fatalf("Offer: %v", err)
	}
	t.Cleanup(func() { closePeer(t, p.offerer) })
	if offering.stream != 0 {
		offer += fmt.Sprintf("a=dcmap:%d\r\n", offering.stream)
	}
	if p.answerer, answer, err = answering.Answer(ctx, offer, p.ans.handlers()); err != nil {
		t.Fatalf("Answer: %v", err)
	}
	t.Cleanup(func() { closePeer(t, p.answerer) })
	must(t, p.offerer.Accept(ctx, answer))
	return p
}

func (p *pair) connected(t testing.TB) *pair {
	t.Helper()
	p.off.waitState(t, media.StateConnected)
	p.ans.waitState(t, media.StateConnected)
	return p
}

func (p *pair) open(t testing.TB) *pair {
	t.Helper()
	p.off.wait(t, "open", func() bool { return p.off.opened == 1 })
	p.ans.wait(t, "open", func() bool { return p.ans.opened == 1 })
	return p
}

func closePeer(t testing.TB, p *Peer) {
	t.Helper()
	if err := p.Close(); err != nil {
		t.Errorf("Peer.Close: %v", err)
	}
}

// sinkFunc is a media.Sink.
type sinkFunc func(*media.Packet) error

func (f sinkFunc) WriteAudio(p *media.Packet) error { return f(p) }

// onWire returns a packet as a browser sends it.
func onWire(p *media.Packet) *rtp.Packet {
	return &rtp.Packet{
		Header:  rtp.Header{Version: 2, Marker: p.Marker, SSRC: p.Source, SequenceNumber: p.Sequence, Timestamp: p.Timestamp},
		Payload: p.Payload,
	}
}

// microphone is a media.Sink that sends as a browser does.
type microphone struct{ *webrtc.TrackLocalStaticRTP }

func (m microphone) WriteAudio(p *media.Packet) error { return m.WriteRTP(onWire(p)) }

// speak writes packets to sink, 20 ms apart, until ctx ends.
func speak(ctx context.Context, sink media.Sink, ssrc uint32, sequence uint16, timestamp uint32) {
	tick := time.Tick(frameTime)
	payload := []byte{0xf8, 0xff, 0xfe} // 20 ms of silence (RFC 6716, CELT fullband)
	for {
		_ = sink.WriteAudio(&media.Packet{Source: ssrc, Sequence: sequence, Timestamp: timestamp, Payload: payload})
		sequence, timestamp = sequence+1, timestamp+frameStep
		select {
		case <-tick:
		case <-ctx.Done():
			return
		}
	}
}
