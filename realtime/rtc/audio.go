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

// readMTU is the largest RTP packet that is read, in bytes. A 120 ms Opus packet at 64 kbit/s takes 960.
const readMTU = 1500

// AudioSink takes a stream of Opus packets. It must not keep the packet or its payload. Peer and Switch are AudioSinks.
type AudioSink interface {
	WriteRTP(packet *rtp.Packet) error
}

// Switch is an AudioSink that passes packets on to another one, which can be changed while packets flow. With none set,
// it drops them.
type Switch struct{ sink atomic.Pointer[AudioSink] }

// Set sends all following packets to sink; nil drops them.
func (s *Switch) Set(sink AudioSink) {
	if sink == nil {
		s.sink.Store(nil)
		return
	}
	s.sink.Store(&sink)
}

// WriteRTP implements AudioSink. A closed sink is not an error: a Switch outlives its sinks.
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

	// Packets counts what was let through.
	Packets atomic.Uint64
	// Gated counts packets that were dropped because the gate was shut.
	Gated atomic.Uint64
	// Errors counts packets that could not be read or that the sink rejected.
	Errors atomic.Uint64

	resumed atomic.Int64 // Unix ns of the first packet let through after a pause
	next    atomic.Pointer[chan time.Time]
}

// pause is the shortest gap between packets that separates two stretches of sound.
const pause = 100 * time.Millisecond

// First sends the time at which the first stretch of sound after since was let through: the time of its first packet,
// or of the next packet if sound has been flowing all along. If First is called again before that, the earlier channel
// is closed without a value.
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

// Shut drops packets from now on. Numbering continues after the next Open without a gap, so that the pause shows as a
// step in time but not as loss.
func (f *Flow) Shut() { f.open.Store(false) }

// IsOpen reports whether packets are let through.
func (f *Flow) IsOpen() bool { return f.open.Load() }

// count records that a packet was let through at time now; last is when the one before it was.
func (f *Flow) count(last, now time.Time) {
	f.Packets.Add(1)
	if now.Sub(last) > pause {
		f.resumed.Store(now.UnixNano())
	}
	if f.next.Load() == nil {
		return
	}
	if first := f.next.Swap(nil); first != nil {
		*first <- now // never blocks: it is buffered
	}
}

// inbound is the remote's audio.
type inbound struct {
	// tracks holds the newest track that Forward has not taken yet.
	tracks  chan *webrtc.TrackRemote
	reading atomic.Bool
	track   *webrtc.TrackRemote // of the one Forward that runs
	source  uint32              // names the track among all of the API's
	stats   receiverStats
}

func (in *inbound) init() { in.tracks = make(chan *webrtc.TrackRemote, 1) }

// outbound is the audio to the remote.
type outbound struct {
	turn   sync.Mutex // only tried, never waited for
	splice splice
	packet rtp.Packet // reused, so that a packet costs no allocation
	stats  senderStats
}

// onTrack takes an audio track of the remote. There is only one, unless a new offer has replaced it; Forward then moves
// on to the new one when the old one has ended. What piles up on tracks that nobody reads is bounded (maxUnread).
func (p *Peer) onTrack(track *webrtc.TrackRemote, _ *webrtc.RTPReceiver) {
	if track.Kind() != webrtc.RTPCodecTypeAudio {
		return
	}
	for {
		select {
		case p.in.tracks <- track:
			return
		case old := <-p.in.tracks:
			p.log.Warn("audio track ignored", "ssrc", old.SSRC())
		}
	}
}

// Forward waits for the remote's audio and passes it to dst while flow's gate is open, until the peer ends (ErrClosed),
// dst has closed (also ErrClosed) or ctx ends (its cause). Other errors of dst are counted in flow. Payload, marker,
// order and timing are kept; CSRCs, header extensions and padding are dropped. The SSRC is replaced by a number that is
// unique among all tracks of the API's peers, whatever the remotes choose, so that it identifies the source to
// WriteRTP. The packet passed to dst is reused.
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

// forward passes on the packets of one track.
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
			// a payload type that was not negotiated, or a packet larger than readMTU
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

// ready is a closed channel, for selects that need not wait.
var ready = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// relay passes on the packets of one Forward.
type relay struct {
	peer   *Peer
	dst    AudioSink
	flow   *Flow
	number renumber
	last   time.Time  // when the last packet was let through
	packet rtp.Packet // reused, so that a packet costs no allocation
}

// pass handles one packet. It fails only if dst has ended.
func (r *relay) pass(b []byte) error {
	now := time.Now()
	h, payload, ok := parsePacket(b)
	if !ok {
		r.flow.Errors.Add(1)
		return nil
	}
	r.peer.in.stats.count(h, now)
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
		r.flow.count(r.last, now)
		r.last = now
	}
	return nil
}

// WriteRTP sends one Opus packet to the remote, with the negotiated SSRC and payload type. The packet's own SSRC
// identifies its source: when it changes, the stream goes on with the next sequence number and a timestamp advanced by
// the time elapsed, at least one frame. Header extensions, CSRCs and padding are dropped. Packets sent before the
// connection is up are dropped silently. Besides Pion's errors it returns only ErrClosed.
//
// Only one source writes at a time. A packet that arrives while another is being written is dropped, so that no writer
// waits.
func (p *Peer) WriteRTP(packet *rtp.Packet) error {
	select {
	case <-p.done:
		return ErrClosed
	default:
	}
	if !p.out.turn.TryLock() {
		return nil
	}
	defer p.out.turn.Unlock()
	now := time.Now()
	sequence, timestamp, ok := p.out.splice.next(packet.SSRC, packet.SequenceNumber, packet.Timestamp, now)
	if !ok {
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
