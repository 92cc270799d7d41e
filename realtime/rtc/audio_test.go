package rtc

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pion/webrtc/v4"

	"voicebridge/internal/testkit"
	"voicebridge/realtime/media"
)

// collector is a media.Sink that keeps copies of packets.
type collector struct{ packets chan media.Packet }

func newCollector() collector { return collector{make(chan media.Packet, 1000)} }

func (c collector) WriteAudio(p *media.Packet) error {
	select {
	case c.packets <- p.Clone():
	default: // the test has seen enough
	}
	return nil
}

func (c collector) next(t testing.TB) media.Packet {
	t.Helper()
	select {
	case p := <-c.packets:
		return p
	case <-time.After(patience):
		t.Fatal("no packet came")
		return media.Packet{}
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
	var flow media.Flow
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
	testkit.Equal(t, flow.Packets.Load(), 0, "packets passed the shut gate")
	flow.Open()
	last := got.next(t)
	for range 3 {
		next := got.next(t)
		if next.Sequence != last.Sequence+1 || next.Timestamp != last.Timestamp+frameStep {
			t.Errorf("%d/%d follows %d/%d", next.Sequence, next.Timestamp, last.Sequence, last.Timestamp)
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
	testkit.Equal(t, next.Sequence, last.Sequence+1, "after the pause comes number, before it %d", last.Sequence)
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
	var flow media.Flow
	flow.Open()
	for range 3 {
		short, stop := context.WithCancel(ctx)
		got := newCollector()
		done := make(chan error, 1)
		go func() { done <- p.answerer.Forward(short, got, &flow) }()
		got.next(t)
		if err := p.answerer.Forward(short, got, &flow); err == nil || errors.Is(err, media.ErrClosed) {
			t.Errorf("second Forward: %v", err)
		}
		stop()
		if err := testkit.Take(t, "the end", done); !errors.Is(err, context.Canceled) {
			t.Errorf("Forward: %v", err)
		}
	}
	done := make(chan error, 1)
	go func() { done <- p.answerer.Forward(ctx, newCollector(), &flow) }()
	closePeer(t, p.offerer)
	if err := testkit.Take(t, "the end", done); !errors.Is(err, media.ErrClosed) {
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
	var flow media.Flow
	flow.Open()
	calls := 0
	err := p.answerer.Forward(ctx, sinkFunc(func(*media.Packet) error {
		if calls++; calls > 3 {
			return media.ErrClosed
		}
		return errors.New("full")
	}), &flow)
	if !errors.Is(err, media.ErrClosed) || flow.Errors.Load() != 4 || flow.Packets.Load() != 0 {
		t.Errorf("%v, %d errors, %d packets", err, flow.Errors.Load(), flow.Packets.Load())
	}

	var s media.Switch
	if err := s.WriteAudio(&media.Packet{}); err != nil {
		t.Errorf("switch to nothing: %v", err)
	}
	s.Set(sinkFunc(func(*media.Packet) error { return media.ErrClosed }))
	if err := s.WriteAudio(&media.Packet{}); err != nil {
		t.Errorf("switch to an ended sink: %v", err)
	}
	full := errors.New("full")
	s.Set(sinkFunc(func(*media.Packet) error { return full }))
	if err := s.WriteAudio(&media.Packet{}); !errors.Is(err, full) {
		t.Errorf("switch to a full sink: %v", err)
	}
	s.Set(nil)
	if err := s.WriteAudio(&media.Packet{}); err != nil {
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
		if next.Sequence != last.Sequence+1 || next.Timestamp-last.Timestamp < frameStep || next.Timestamp-last.Timestamp > 20*frameStep {
			t.Errorf("%d/%d follows %d/%d", next.Sequence, next.Timestamp, last.Sequence, last.Timestamp)
		}
		last = next
	}
}

// TestStripped drops header extensions, CSRCs and padding.
func TestStripped(t *testing.T) {
	t.Parallel()
	b := newRawBrowser(t, newAPI(t, Config{}), rawOptions{})
	b.rec.waitState(t, media.StateConnected)
	ctx, run := beside(t)
	run(func() {
		speak(ctx, sinkFunc(func(p *media.Packet) error {
			sent := onWire(p)
			sent.Marker, sent.CSRC = true, []uint32{1, 2}
			sent.Padding, sent.Header.PaddingSize = true, 20
			if err := sent.SetExtension(1, []byte{0x80 | 33}); err != nil {
				t.Errorf("SetExtension: %v", err)
			}
			return b.track.WriteRTP(sent)
		}), 1, 1, 1)
	})
	got := collect(ctx, run, b.peer)
	p := got.next(t)
	if !p.Marker || !bytes.Equal(p.Payload, []byte{0xf8, 0xff, 0xfe}) {
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
	b.rec.waitState(t, media.StateConnected)
	ctx, run := beside(t)
	var both atomic.Bool
	run(func() {
		speak(ctx, sinkFunc(func(p *media.Packet) error {
			err := microphone{b.track}.WriteAudio(p)
			if both.Load() {
				err = errors.Join(err, microphone{second}.WriteAudio(p))
			}
			return err
		}), 1, 1, 1)
	})
	got := collect(ctx, run, b.peer)
	source := got.next(t).Source
	both.Store(true)
	for range 10 {
		if p := got.next(t); p.Source != source {
			t.Errorf("packet of %d among those of %d", p.Source, source)
		}
	}
}

// TestNewSource has a remote go on under an SSRC that no description names, as after a restart of its encoder. Its
// sound is followed, on both kinds of legs.
func TestNewSource(t *testing.T) {
	t.Parallel()
	a := newAPI(t, Config{})
	p := newPair(t, a, a).connected(t)
	pion, err := newPionAPI(webrtc.SettingEngine{})
	must(t, err)
	ctx, run := beside(t)
	for from, to := range map[*Peer]*Peer{p.offerer: p.answerer, p.answerer: p.offerer} {
		got, flow := newCollector(), new(media.Flow)
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
		run(func() { speak(ctx, microphone{track}, 1, 500, 500) })
		for next := first; next.Source == first.Source; {
			next = got.next(t)
		}
		testkit.Equal(t, flow.Errors.Load(), 0, "packets could not be passed on")
		t.Cleanup(func() { _ = sender.Stop() })
	}
}

// TestTerseAnswer talks to an upstream whose answer names neither the source of its audio nor the direction, sendrecv.
func TestTerseAnswer(t *testing.T) {
	t.Parallel()
	a := newAPI(t, Config{})
	ctx, run := beside(t)
	offerer, offer, err := a.Offer(ctx, media.Handlers{})
	must(t, err)
	t.Cleanup(func() { closePeer(t, offerer) })
	answerer, answer, err := a.Answer(ctx, offer, media.Handlers{})
	must(t, err)
	t.Cleanup(func() { closePeer(t, answerer) })
	must(t, offerer.Accept(ctx, without(without(answer, "a=ssrc:"), "a=sendrecv")))
	for from, to := range map[*Peer]*Peer{offerer: answerer, answerer: offerer} {
		run(func() { speak(ctx, from, 1, 1, 1) })
		got := collect(ctx, run, to)
		got.next(t)
	}
}

// TestConcurrentWriters has four sources write at once, for the race detector. No write fails, and none is counted
// twice.
func TestConcurrentWriters(t *testing.T) {
	t.Parallel()
	a := newAPI(t, Config{})
	p, _, err := a.Offer(testContext(t), media.Handlers{})
	must(t, err)
	defer closePeer(t, p)
	const each = 2000
	var wg sync.WaitGroup
	for ssrc := range uint32(4) {
		wg.Go(func() {
			for i := range uint16(each) {
				err := p.WriteAudio(&media.Packet{Source: ssrc, Sequence: i, Payload: []byte{1}})
				if err != nil {
					t.Errorf("WriteAudio: %v", err)
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
	p, _, err := a.Offer(testContext(t), media.Handlers{})
	must(t, err)
	defer closePeer(t, p)
	var flow media.Flow
	flow.Open()
	r := relay{peer: p, dst: p, flow: &flow}
	b := marshal(t, withExtension(t, 0xbede, 1, []byte{42}))
	sequence := uint16(0)
	testkit.Equal(t, testing.AllocsPerRun(2000, func() {
		sequence++
		b[2], b[3] = byte(sequence>>8), byte(sequence)
		if err := r.pass(b, time.Now()); err != nil {
			t.Error(err)
		}
	}), 0, "allocations per packet")
	if n := flow.Packets.Load(); n < 2000 {
		t.Errorf("%d packets", n)
	}
}

// TestDownlinkSwitch has two upstreams speak at once and switches between them at the gates: the browser sees one
// stream, even if both use the same SSRC.
func TestDownlinkSwitch(t *testing.T) {
	t.Parallel()
	a := newAPI(t, Config{})
	browser := newPair(t, a, a).connected(t)
	ctx, run := beside(t)
	var flows [2]media.Flow
	for i := range flows {
		upstream := newPair(t, a, a).connected(t)
		run(func() { speak(ctx, upstream.answerer, 7, uint16(65_000+i*900), uint32(i)<<31+77) })
		run(func() { _ = upstream.offerer.Forward(ctx, browser.answerer, &flows[i]) })
	}
	got := newCollector()
	var received media.Flow
	received.Open()
	run(func() { _ = browser.offerer.Forward(ctx, got, &received) })
	flows[0].Open()
	last := got.next(t)
	for round := range 6 {
		for range 10 {
			next := got.next(t)
			step := next.Timestamp - last.Timestamp
			if next.Sequence != last.Sequence+1 || next.Source != last.Source || step < frameStep || step > 50*frameStep {
				t.Errorf("round %d: %d/%d follows %d/%d", round, next.Sequence, next.Timestamp, last.Sequence, last.Timestamp)
			}
			last = next
		}
		flows[round%2].Shut()
		flows[1-round%2].Open()
	}
}

// TestSilenceIsNotSent passes on speech with silence in it that is not sent (DTX), either way alike: times and markers
// are kept, and numbers have no gap. Where a remote hears somebody speak, silence takes its place, in the same stream.
func TestSilenceIsNotSent(t *testing.T) {
	t.Parallel()
	a := newAPI(t, Config{DTX: true})
	from, to := newPair(t, a, a).connected(t), newPair(t, a, a).connected(t)
	ctx, run := beside(t)
	flow, filler := new(media.Flow), media.NewFiller(to.offerer)
	flow.Open()
	run(func() { _ = from.answerer.Forward(ctx, filler, flow) })
	got := collect(ctx, run, to.answerer)
	var sequence uint16
	send := func(frame uint32, marker bool, payload ...byte) media.Packet {
		sequence++
		must(t, from.offerer.WriteAudio(&media.Packet{Source: 7, Sequence: sequence, Timestamp: 77 + frame*frameStep, Marker: marker, Payload: payload}))
		return got.next(t)
	}
	first := send(0, true, 0xf8, 0xff, 0xfe)
	for i, p := range []struct {
		frame   uint32
		marker  bool
		payload []byte
	}{
		{1, false, []byte{0xf8}}, {21, false, []byte{0xf8, 0xff, 0xfe}}, {22, false, []byte{0xf8}}, {42, false, []byte{0xf8, 0xff, 0xfe}},
		{43, false, []byte{0xf8}}, {50, true, []byte{0xf8, 1, 2}}, {51, false, []byte{0xf8}},
	} {
		next := send(p.frame, p.marker, p.payload...)
		if next.Sequence != first.Sequence+uint16(i)+1 || next.Timestamp-first.Timestamp != p.frame*frameStep || next.Marker != p.marker || !bytes.Equal(next.Payload, p.payload) {
			t.Errorf("packet %d is %+v, the first %+v", i, next, first)
		}
	}
	filler.Hears(true)
	last := got.next(t)
	for range 5 {
		next := got.next(t)
		if next.Sequence != last.Sequence+1 || next.Timestamp != last.Timestamp+frameStep || next.Pauses() {
			t.Errorf("of silence %+v follows %+v", next, last)
		}
		last = next
	}
	filler.Hears(false)
	for next := send(80, true, 0xf8, 3, 4); ; next = got.next(t) {
		if next.Sequence != last.Sequence+1 || next.Timestamp-last.Timestamp < frameStep || next.Timestamp-last.Timestamp > 100*frameStep || next.Source != first.Source {
			t.Errorf("after silence %+v follows %+v", next, last)
		}
		if last = next; next.Payload[1] == 3 {
			return
		}
	}
}

// TestEarlySound is spoken before a gate first opens: it comes then, from the first packet on and in order, and what is
// said while the gate is shut again is dropped.
func TestEarlySound(t *testing.T) {
	t.Parallel()
	a := newAPI(t, Config{})
	p := newPair(t, a, a).connected(t)
	ctx, run := beside(t)
	got, flow := newCollector(), new(media.Flow)
	flow.KeepEarly()
	run(func() { _ = p.answerer.Forward(ctx, got, flow) })
	run(func() { speak(ctx, p.offerer, 1, 1, 1) })
	poll := time.NewTicker(time.Millisecond)
	defer poll.Stop()
	for p.answerer.in.unread.Count() < 5 {
		select {
		case <-poll.C:
		case <-ctx.Done():
			t.Fatal("nothing waits")
		}
	}
	if flow.Packets.Load()+flow.Gated.Load() > 0 || len(got.packets) > 0 {
		t.Errorf("%d packets passed the shut gate, and %d were dropped", flow.Packets.Load(), flow.Gated.Load())
	}
	opened := time.Now()
	flow.Open()
	last := got.next(t)
	if !last.Came.Before(opened) {
		t.Errorf("what was held came %s after it was let through", last.Came.Sub(opened))
	}
	for range 10 {
		next := got.next(t)
		if next.Sequence != last.Sequence+1 || next.Timestamp != last.Timestamp+frameStep {
			t.Errorf("%d/%d follows %d/%d", next.Sequence, next.Timestamp, last.Sequence, last.Timestamp)
		}
		last = next
	}
	flow.Shut()
	for flow.Gated.Load() == 0 {
		select {
		case <-poll.C:
		case <-ctx.Done():
			t.Fatal("nothing is gated")
		}
	}
}

// TestEarlySoundIsLimited keeps the last seconds of what is spoken before a gate opens, however few packets have them,
// until the peer ends.
func TestEarlySoundIsLimited(t *testing.T) {
	t.Parallel()
	const spoken = 12 * time.Second
	for name, every := range map[string]time.Duration{"speech": frameTime, "silence (DTX)": 400 * time.Millisecond, "long packets": 120 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := &Peer{done: make(chan struct{})}
				p.in.init()
				flow := new(media.Flow)
				flow.KeepEarly()
				ended := make(chan error, 1)
				go func() { ended <- p.keepEarly(t.Context(), flow, make([]byte, readMTU)) }()
				all := int(spoken / every)
				for n := range all {
					_, err := p.in.unread.Write(binary.BigEndian.AppendUint16(nil, uint16(n)), nil)
					must(t, err)
					time.Sleep(every)
				}
				synctest.Wait()
				kept, dropped := p.in.unread.Count(), int(flow.Gated.Load())
				if held := time.Duration(kept) * every; kept+dropped != all || held < earlySeconds*time.Second-every || held > (earlySeconds+1)*time.Second+every {
					t.Errorf("of %d packets %d are kept, %s, and %d dropped", all, kept, held, dropped)
				}
				first := make([]byte, readMTU)
				if _, _, err := p.in.unread.Read(first, nil); err != nil || int(binary.BigEndian.Uint16(first)) != dropped {
					t.Errorf("the oldest is %d: %v", first[:2], err)
				}
				p.end(media.StateClosed)
				if err := <-ended; !errors.Is(err, media.ErrClosed) {
					t.Errorf("after the end: %v", err)
				}
			})
		})
	}
}
