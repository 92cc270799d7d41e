package rtc

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pion/rtp"
	"github.com/pion/webrtc/v4"
)

// collector is an AudioSink that keeps copies of packets.
type collector struct{ packets chan rtp.Packet }

func newCollector() collector { return collector{make(chan rtp.Packet, 1000)} }

func (c collector) WriteRTP(p *rtp.Packet) error {
	select {
	case c.packets <- rtp.Packet{Header: p.Header, Payload: bytes.Clone(p.Payload)}:
	default: // the test has seen enough
	}
	return nil
}

func (c collector) next(t testing.TB) rtp.Packet {
	t.Helper()
	select {
	case p := <-c.packets:
		return p
	case <-time.After(patience):
		t.Fatal("no packet came")
		return rtp.Packet{}
	}
}

// TestGate shuts the gate for a while: time jumps, but numbers have no gap.
func TestGate(t *testing.T) {
	t.Parallel()
	a := newAPI(t, Config{})
	p := newPair(t, a, a).connected(t)
	ctx, run := beside(t)
	run(func() { speak(ctx, p.offerer, 1, 40, 400) })
	got := newCollector()
	var flow Flow
	run(func() {
		if err := p.answerer.Forward(ctx, got, &flow); !errors.Is(err, context.Canceled) {
			t.Errorf("Forward: %v", err)
		}
	})
	waitGated := func(n uint64) {
		for end := flow.Gated.Load() + n; flow.Gated.Load() < end; {
			select {
			case <-time.After(5 * time.Millisecond):
			case <-ctx.Done():
				t.Fatal("nothing is gated")
			}
		}
	}
	if flow.IsOpen() {
		t.Error("a new flow is not shut")
	}
	waitGated(3)
	if n := flow.Packets.Load(); n != 0 {
		t.Errorf("%d packets passed the shut gate", n)
	}
	flow.Open()
	last := got.next(t)
	for range 3 {
		next := got.next(t)
		if next.SequenceNumber != last.SequenceNumber+1 || next.Timestamp != last.Timestamp+frameStep {
			t.Errorf("%d/%d follows %d/%d", next.SequenceNumber, next.Timestamp, last.SequenceNumber, last.Timestamp)
		}
		last = next
	}
	flow.Shut()
	waitGated(5)
	for len(got.packets) > 0 {
		last = got.next(t)
	}
	flow.Open()
	next := got.next(t)
	if next.SequenceNumber != last.SequenceNumber+1 {
		t.Errorf("after the pause comes number %d, before it %d", next.SequenceNumber, last.SequenceNumber)
	}
	if step := next.Timestamp - last.Timestamp; step < 5*frameStep {
		t.Errorf("after the pause the timestamp is %d later", step)
	}
}

// TestForwardAgain ends Forward by its context and starts it again. A second one at the same time fails.
func TestForwardAgain(t *testing.T) {
	t.Parallel()
	a := newAPI(t, Config{})
	p := newPair(t, a, a).connected(t)
	ctx, run := beside(t)
	run(func() { speak(ctx, p.offerer, 1, 1, 1) })
	var flow Flow
	flow.Open()
	for range 3 {
		short, stop := context.WithCancel(ctx)
		got := newCollector()
		done := make(chan error, 1)
		go func() { done <- p.answerer.Forward(short, got, &flow) }()
		got.next(t)
		if err := p.answerer.Forward(short, got, &flow); err == nil || errors.Is(err, ErrClosed) {
			t.Errorf("second Forward: %v", err)
		}
		stop()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Forward: %v", err)
		}
	}
	done := make(chan error, 1)
	go func() { done <- p.answerer.Forward(ctx, newCollector(), &flow) }()
	closePeer(t, p.offerer)
	if err := <-done; !errors.Is(err, ErrClosed) {
		t.Errorf("Forward after the remote's end: %v", err)
	}
}

// TestSinkErrors counts packets that a sink rejects, and ends with a sink that has closed.
func TestSinkErrors(t *testing.T) {
	t.Parallel()
	a := newAPI(t, Config{})
	p := newPair(t, a, a).connected(t)
	ctx, run := beside(t)
	run(func() { speak(ctx, p.offerer, 1, 1, 1) })
	var flow Flow
	flow.Open()
	calls := 0
	err := p.answerer.Forward(ctx, sinkFunc(func(*rtp.Packet) error {
		if calls++; calls > 3 {
			return ErrClosed
		}
		return errors.New("full")
	}), &flow)
	if !errors.Is(err, ErrClosed) || flow.Errors.Load() != 4 || flow.Packets.Load() != 0 {
		t.Errorf("%v, %d errors, %d packets", err, flow.Errors.Load(), flow.Packets.Load())
	}

	var s Switch
	if err := s.WriteRTP(&rtp.Packet{}); err != nil {
		t.Errorf("switch to nothing: %v", err)
	}
	s.Set(sinkFunc(func(*rtp.Packet) error { return ErrClosed }))
	if err := s.WriteRTP(&rtp.Packet{}); err != nil {
		t.Errorf("switch to an ended sink: %v", err)
	}
	full := errors.New("full")
	s.Set(sinkFunc(func(*rtp.Packet) error { return full }))
	if err := s.WriteRTP(&rtp.Packet{}); !errors.Is(err, full) {
		t.Errorf("switch to a full sink: %v", err)
	}
	s.Set(nil)
	if err := s.WriteRTP(&rtp.Packet{}); err != nil {
		t.Errorf("switch back to nothing: %v", err)
	}
}

// TestSourceChange sends two upstreams, one after the other, to one browser.
func TestSourceChange(t *testing.T) {
	t.Parallel()
	a := newAPI(t, Config{})
	p := newPair(t, a, a).connected(t)
	ctx, run := beside(t)
	got := collect(ctx, run, p.answerer)

	first, stop := context.WithCancel(ctx)
	run(func() { speak(first, p.offerer, 1, 65534, 1<<32-1000) })
	last := got.next(t)
	for range 4 {
		last = got.next(t)
	}
	stop()
	run(func() { speak(ctx, p.offerer, 2, 30_000, 77) })
	for range 6 {
		next := got.next(t)
		if next.SequenceNumber != last.SequenceNumber+1 || next.Timestamp-last.Timestamp < frameStep || next.Timestamp-last.Timestamp > 20*frameStep {
			t.Errorf("%d/%d follows %d/%d", next.SequenceNumber, next.Timestamp, last.SequenceNumber, last.Timestamp)
		}
		last = next
	}
}

// TestStripped drops header extensions, CSRCs and padding.
func TestStripped(t *testing.T) {
	t.Parallel()
	b := newRawBrowser(t, newAPI(t, Config{}), rawOptions{})
	b.rec.waitState(t, StateConnected)
	ctx, run := beside(t)
	run(func() {
		speak(ctx, sinkFunc(func(p *rtp.Packet) error {
			p.Marker, p.CSRC = true, []uint32{1, 2}
			p.Padding, p.Header.PaddingSize = true, 20
			if err := p.SetExtension(1, []byte{0x80 | 33}); err != nil {
				t.Errorf("SetExtension: %v", err)
			}
			return b.track.WriteRTP(p)
		}), 1, 1, 1)
	})
	got := collect(ctx, run, b.peer)
	p := got.next(t)
	if p.Extension || p.Padding || p.PaddingSize != 0 || p.Header.PaddingSize != 0 || len(p.CSRC) != 0 || !p.Marker || !bytes.Equal(p.Payload, []byte{0xf8, 0xff, 0xfe}) {
		t.Errorf("forwarded %+v", p)
	}
}

// TestSecondTrack has a remote send two audio tracks at once: the first one counts.
func TestSecondTrack(t *testing.T) {
	t.Parallel()
	second, err := webrtc.NewTrackLocalStaticRTP(opusCapability(), "mic2", "browser2")
	must(t, err)
	b := newRawBrowser(t, newAPI(t, Config{}), rawOptions{before: func(pc *webrtc.PeerConnection) {
		if _, err := pc.AddTrack(second); err != nil {
			t.Error(err)
		}
	}})
	b.rec.waitState(t, StateConnected)
	ctx, run := beside(t)
	var both atomic.Bool
	run(func() {
		speak(ctx, sinkFunc(func(p *rtp.Packet) error {
			err := b.track.WriteRTP(p)
			if both.Load() {
				err = errors.Join(err, second.WriteRTP(p))
			}
			return err
		}), 1, 1, 1)
	})
	got := collect(ctx, run, b.peer)
	source := got.next(t).SSRC
	both.Store(true)
	for range 10 {
		if p := got.next(t); p.SSRC != source {
			t.Errorf("packet of %d among those of %d", p.SSRC, source)
		}
	}
}

// TestNewSource has a remote go on under an SSRC that no description names, as after a restart of its encoder. Its sound
// is followed, on both kinds of legs.
func TestNewSource(t *testing.T) {
	t.Parallel()
	a := newAPI(t, Config{})
	p := newPair(t, a, a).connected(t)
	pion, err := newPionAPI(webrtc.SettingEngine{})
	must(t, err)
	ctx, run := beside(t)
	for from, to := range map[*Peer]*Peer{p.offerer: p.answerer, p.answerer: p.offerer} {
		got, flow := newCollector(), new(Flow)
		flow.Open()
		run(func() { _ = to.Forward(ctx, got, flow) })
		short, stop := context.WithCancel(ctx)
		run(func() { speak(short, from, 1, 1, 1) })
		first := got.next(t)
		stop()

		track, err := webrtc.NewTrackLocalStaticRTP(opusCapability(), "restarted", "remote")
		must(t, err)
		sender, err := pion.NewRTPSender(track, from.pc.SCTP().Transport())
		must(t, err)
		must(t, sender.Send(sender.GetParameters()))
		run(func() { speak(ctx, track, 1, 500, 500) })
		for next := first; next.SSRC == first.SSRC; {
			next = got.next(t)
		}
		if flow.Errors.Load() != 0 {
			t.Errorf("%d packets could not be passed on", flow.Errors.Load())
		}
		t.Cleanup(func() { _ = sender.Stop() })
	}
}

// TestTerseAnswer talks to an upstream whose answer names neither the source of its audio nor the direction, sendrecv.
func TestTerseAnswer(t *testing.T) {
	t.Parallel()
	a := newAPI(t, Config{})
	ctx, run := beside(t)
	offerer, offer, err := a.Offer(ctx, Handlers{})
	must(t, err)
	t.Cleanup(func() { closePeer(t, offerer) })
	answerer, answer, err := a.Answer(ctx, offer, Handlers{})
	must(t, err)
	t.Cleanup(func() { closePeer(t, answerer) })
	must(t, offerer.Accept(ctx, without(without(answer, "a=ssrc:"), "a=sendrecv")))
	for from, to := range map[*Peer]*Peer{offerer: answerer, answerer: offerer} {
		run(func() { speak(ctx, from, 1, 1, 1) })
		got := collect(ctx, run, to)
		got.next(t)
	}
}

// TestConcurrentWriters has four sources write at once, for the race detector. No write fails, and none is counted twice.
func TestConcurrentWriters(t *testing.T) {
	t.Parallel()
	a := newAPI(t, Config{})
	p, _, err := a.Offer(testContext(t), Handlers{})
	must(t, err)
	defer closePeer(t, p)
	const each = 2000
	var wg sync.WaitGroup
	for ssrc := range uint32(4) {
		wg.Go(func() {
			for i := range uint16(each) {
				err := p.WriteRTP(&rtp.Packet{Header: rtp.Header{SSRC: ssrc, SequenceNumber: i}, Payload: []byte{1}})
				if err != nil {
					t.Errorf("WriteRTP: %v", err)
				}
			}
		})
	}
	wg.Wait()
	if n := p.out.stats.packets.Load(); n == 0 || n > 4*each {
		t.Errorf("%d sent of %d", n, 4*each)
	}
}

// TestAllocations checks that our part of the packet path does not allocate. It is not parallel, because it counts the
// allocations of the whole process.
func TestAllocations(t *testing.T) {
	a := newAPI(t, Config{})
	p, _, err := a.Offer(testContext(t), Handlers{})
	must(t, err)
	defer closePeer(t, p)
	var flow Flow
	flow.Open()
	r := relay{peer: p, dst: p, flow: &flow}
	b := marshal(t, withExtension(t, 0xbede, 1, []byte{42}))
	sequence := uint16(0)
	if n := testing.AllocsPerRun(2000, func() {
		sequence++
		b[2], b[3] = byte(sequence>>8), byte(sequence)
		if err := r.pass(b); err != nil {
			t.Error(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations per packet, want 0", n)
	}
	if n := flow.Packets.Load(); n < 2000 {
		t.Errorf("%d packets", n)
	}
}

// TestFlowFirst covers a sound that has just begun, one that goes on (the next packet counts), and a channel replaced
// by a later First.
func TestFlowFirst(t *testing.T) {
	t.Parallel()
	var f Flow
	begin := time.Unix(1_000, 0)
	f.count(time.Time{}, begin)
	f.count(begin, begin.Add(20*time.Millisecond))
	if got := <-f.First(begin.Add(-time.Second)); !got.Equal(begin) {
		t.Errorf("a sound that has begun: %v", got)
	}
	replaced := f.First(begin.Add(time.Millisecond))
	first := f.First(begin.Add(time.Millisecond))
	if _, ok := <-replaced; ok {
		t.Error("whoever asked before was told")
	}
	last := begin.Add(20 * time.Millisecond)
	for range 3 {
		f.count(last, last.Add(20*time.Millisecond))
		last = last.Add(20 * time.Millisecond)
	}
	if got := <-first; !got.Equal(begin.Add(40 * time.Millisecond)) {
		t.Errorf("a sound that goes on: %v", got)
	}
	// A gap of 100 ms is one of a late packet; a longer one is a pause.
	for gap, pauses := range map[time.Duration]bool{pause: false, pause + time.Millisecond: true} {
		var f Flow
		f.count(time.Time{}, begin)
		f.count(begin, begin.Add(gap))
		select {
		case at := <-f.First(begin.Add(time.Millisecond)):
			if !pauses || !at.Equal(begin.Add(gap)) {
				t.Errorf("after a gap of %s sound began at %v", gap, at)
			}
		default:
			if pauses {
				t.Errorf("a gap of %s is no pause", gap)
			}
		}
	}
}
