package rtc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/pion/rtp"
	"github.com/pion/transport/v4/packetio"
	"github.com/pion/webrtc/v4"
)

// readMTU is the largest RTP packet that is read, in bytes. A 120 ms Opus packet at 64 kbit/s takes 960.
const readMTU = 1500

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
			// A payload type that was not negotiated, or a packet larger than readMTU.
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

const (
	// maxUnread is how many bytes of a source's audio wait for Forward, some 10 s; what arrives then is dropped.
	maxUnread = 64 << 10
	// maxSources is from how many sources a remote may send, counting RTP and RTCP apart. Pion keeps each until the peer
	// ends; a browser needs a few, and one more each time that it replaces its microphone.
	maxSources = 512
)

// buffer makes the buffer into which Pion puts the packets of one source of the remote: audio waits there for Forward,
// RTCP is read as it arrives.
func (p *Peer) buffer(kind packetio.BufferPacketType, source uint32) io.ReadWriteCloser {
	if n := p.in.named.Add(1); n > maxSources {
		if n == maxSources+1 {
			p.log.Warn("too many sources, peer ended")
			p.end(StateFailed)
		}
		return nowhere{}
	}
	if kind == packetio.RTCPBufferPacket {
		return reports{source, &p.in.stats}
	}
	b := packetio.NewBuffer()
	b.SetLimitSize(maxUnread)
	return b
}

// nowhere is the buffer of a source that is not wanted.
type nowhere struct{}

// Write drops a packet.
func (nowhere) Write(b []byte) (int, error) { return len(b), nil }

// Read has nothing to return.
func (nowhere) Read([]byte) (int, error) { return 0, io.EOF }

// Close implements [io.Closer].
func (nowhere) Close() error { return nil }
