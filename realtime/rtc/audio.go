package rtc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pion/rtp"
	"github.com/pion/webrtc/v4"
)

// readMTU is the size in bytes of the largest RTP packet that is read. A
// 120 ms Opus packet at 64 kbit/s has 960.
const readMTU = 1500

// AudioSink takes a stream of Opus packets. It must not keep the packet or its
// payload. A Peer is an AudioSink, and so is a Switch.
type AudioSink interface {
	WriteRTP(packet *rtp.Packet) error
}

// Switch is an AudioSink that passes packets on to another one, which can be
// changed while packets flow. Without one it drops packets.
type Switch struct{ sink atomic.Pointer[AudioSink] }

// Set sends all following packets to sink; nil drops them.
func (s *Switch) Set(sink AudioSink) {
	if sink == nil {
		s.sink.Store(nil)
		return
	}
	s.sink.Store(&sink)
}

// WriteRTP implements AudioSink. A sink that has closed is no error: a Switch
// outlives its sinks.
func (s *Switch) WriteRTP(packet *rtp.Packet) error {
	sink := s.sink.Load()
	if sink == nil {
		return nil
	}
	if err := (*sink).WriteRTP(packet); err != nil && !errors.Is(err, ErrClosed) {
		return err
	}
	return nil
}

// Flow is the gate and the counters of one direction of audio. The zero value
// is shut. It is safe for concurrent use.
type Flow struct {
	open atomic.Bool

	// Packets and Bytes (of payload) were let through.
	Packets, Bytes atomic.Uint64
	// Gated packets came while the gate was shut and were dropped.
	Gated atomic.Uint64
	// Errors counts packets that could not be read or that the sink refused.
	Errors atomic.Uint64

	resumed atomic.Int64 // when the first packet after a pause was let through, Unix ns
	next    atomic.Pointer[chan time.Time]
}

// pause is how long no packet comes between two stretches of sound, at least.
const pause = 100 * time.Millisecond

// First tells when the sound was let through that has begun after since: its first
// packet or, where sound has been flowing all the time, the next one. The channel is
// closed without a time when First is called again before there is any.
func (f *Flow) First(since time.Time) <-chan time.Time {
	first := make(chan time.Time, 1)
	if at := f.resumed.Load(); at >= since.UnixNano() {
		first <- time.Unix(0, at)
		return first
	}
	if old := f.next.Swap(&first); old != nil {
		close(*old)
	}
	return first
}

// Open lets packets through from now on.
func (f *Flow) Open() { f.open.Store(true) }

// Shut drops packets from now on. Those after the next Open are numbered as if
// nothing was between, so that the pause is a step in time but no loss.
func (f *Flow) Shut() { f.open.Store(false) }

// IsOpen says whether packets are let through.
func (f *Flow) IsOpen() bool { return f.open.Load() }

// count notes a packet that was let through at a time; last was the one before.
func (f *Flow) count(payload int, last, now time.Time) {
	f.Packets.Add(1)
	f.Bytes.Add(uint64(payload)) // a length
	if now.Sub(last) > pause {
		f.resumed.Store(now.UnixNano())
	}
	if f.next.Load() == nil {
		return
	}
	if first := f.next.Swap(nil); first != nil {
		*first <- now // it has room
	}
}

// inbound is the remote's audio.
type inbound struct {
	// tracks holds the newest track that Forward has not taken yet.
	tracks  chan *webrtc.TrackRemote
	reading atomic.Bool
	track   *webrtc.TrackRemote // of the one Forward that runs
	source  uint32              // names the track among all of the API's
	hearing atomic.Pointer[hearing]
	stats   receiverStats
}

func (in *inbound) init() { in.tracks = make(chan *webrtc.TrackRemote, 1) }

// outbound is the audio to the remote.
type outbound struct {
	turn    sync.Mutex // only ever tried, never blocked on
	splice  splice
	packet  rtp.Packet // reused, so that a packet costs no allocation
	dropped atomic.Uint64
	stats   senderStats
}

// onTrack takes an audio track of the remote. There is one, and another one only
// when a new offer has replaced it; Forward comes to that when the first one has
// ended. Pion bounds what piles up on tracks that nobody reads.
func (p *Peer) onTrack(track *webrtc.TrackRemote, receiver *webrtc.RTPReceiver) {
	if track.Kind() != webrtc.RTPCodecTypeAudio {
		return
	}
	p.begin(func() { p.drainReceiver(receiver) })
	for {
		select {
		case p.in.tracks <- track:
			return
		case old := <-p.in.tracks:
			p.log.Warn("audio track ignored", "ssrc", old.SSRC())
		}
	}
}

// Forward waits for the remote's audio and passes it to dst as far as flow's
// gate is open, until the peer ends (ErrClosed), dst has ended (also ErrClosed)
// or ctx does (its cause). Other errors of dst are counted in flow. Payload,
// marker, order and timing stay; CSRCs, header extensions and padding are
// dropped. The SSRC becomes a number that no other track has among those of the
// API's peers, whatever remotes choose, so that it tells the source to WriteRTP.
// The packet that dst gets is reused.
//
// Only one Forward at a time can run on a peer.
func (p *Peer) Forward(ctx context.Context, dst AudioSink, flow *Flow) error {
	if !p.in.reading.CompareAndSwap(false, true) {
		return errors.New("forward audio: the peer's audio is being forwarded already")
	}
	defer p.in.reading.Store(false)
	for {
		if err := p.awaitTrack(ctx); err != nil {
			return fmt.Errorf("forward audio: %w", err)
		}
		err := p.forward(ctx, p.in.track, dst, flow)
		if !errors.Is(err, errTrackEnded) {
			return fmt.Errorf("forward audio: %w", err)
		}
		p.in.track = nil
	}
}

// awaitTrack waits for the remote's audio.
func (p *Peer) awaitTrack(ctx context.Context) error {
	if err := p.await(ctx, ready); err != nil || p.in.track != nil {
		return err
	}
	select {
	case p.in.track = <-p.in.tracks:
		p.in.source = p.api.sources.Add(1)
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-p.done:
		return ErrClosed
	}
}

var errTrackEnded = errors.New("track ended")

// forward passes the packets of one track on.
func (p *Peer) forward(ctx context.Context, track *webrtc.TrackRemote, dst AudioSink, flow *Flow) error {
	if err := track.SetReadDeadline(time.Time{}); err != nil {
		return err
	}
	interrupted := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(interrupted)
		_ = track.SetReadDeadline(time.Unix(1, 0)) // fails only on an ended track
	})
	defer func() {
		if !stop() {
			<-interrupted
		}
	}()

	r := relay{peer: p, dst: dst, flow: flow}
	buf := make([]byte, readMTU)
	for {
		n, _, err := track.Read(buf)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrClosedPipe):
			return errTrackEnded
		case err != nil:
			// A payload type that was not negotiated, or a packet above readMTU.
			flow.Errors.Add(1)
			if err := p.await(ctx, ready); err != nil {
				return err
			}
			continue
		}
		if err := r.pass(buf[:n]); err != nil {
			return err
		}
	}
}

// ready is a channel on which nothing is waited for.
var ready = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// relay passes packets of one Forward on.
type relay struct {
	peer   *Peer
	dst    AudioSink
	flow   *Flow
	number renumber
	last   time.Time  // when a packet was let through
	packet rtp.Packet // reused, so that a packet costs no allocation
}

// pass handles one packet. It fails only when dst has ended.
func (r *relay) pass(b []byte) error {
	now := time.Now()
	h, payload, ok := parsePacket(b)
	if !ok {
		r.flow.Errors.Add(1)
		return nil
	}
	r.peer.in.stats.count(h, now)
	if l := r.peer.in.hearing.Load(); l != nil {
		l.take(payload)
	}
	if !r.flow.open.Load() {
		r.flow.Gated.Add(1)
		r.number.hold()
		return nil
	}
	sequence, ok := r.number.next(h.sequence)
	if !ok || len(payload) == 0 {
		return nil
	}
	r.packet.Header = rtp.Header{
		Version: 2, Marker: h.marker, SequenceNumber: sequence, Timestamp: h.timestamp, SSRC: r.peer.in.source,
	}
	r.packet.Payload = payload
	err := r.dst.WriteRTP(&r.packet)
	switch {
	case errors.Is(err, ErrClosed):
		r.flow.Errors.Add(1)
		return fmt.Errorf("write: %w", ErrClosed)
	case err != nil:
		r.flow.Errors.Add(1)
	default:
		r.flow.count(len(payload), r.last, now)
		r.last = now
	}
	return nil
}

// WriteRTP sends one Opus packet to the remote. SSRC and payload type become
// those that were negotiated. The packet's SSRC tells its source: when it
// changes, the stream goes on with the next sequence number and a timestamp
// that is later by the time that has passed, at least one frame. Header
// extensions, CSRCs and padding are dropped. Before the connection is up
// packets are dropped in silence. The only error besides Pion's is ErrClosed.
//
// One source writes at a time; a packet that comes while another is being
// written is dropped and counted, so that no writer waits.
func (p *Peer) WriteRTP(packet *rtp.Packet) error {
	select {
	case <-p.done:
		return ErrClosed
	default:
	}
	if !p.out.turn.TryLock() {
		p.out.dropped.Add(1)
		return nil
	}
	defer p.out.turn.Unlock()
	now := time.Now()
	sequence, timestamp, ok := p.out.splice.next(packet.SSRC, packet.SequenceNumber, packet.Timestamp, now)
	if !ok {
		p.out.dropped.Add(1)
		return nil
	}
	p.out.packet = rtp.Packet{
		Header: rtp.Header{
			Version: 2, Marker: packet.Marker, SequenceNumber: sequence, Timestamp: timestamp,
		},
		Payload: packet.Payload,
	}
	err := p.track.WriteRTP(&p.out.packet)
	p.out.packet.Payload = nil
	if err != nil {
		if errors.Is(err, io.ErrClosedPipe) {
			return ErrClosed
		}
		return fmt.Errorf("write audio: %w", err)
	}
	p.out.stats.count(len(packet.Payload), timestamp, now)
	return nil
}
