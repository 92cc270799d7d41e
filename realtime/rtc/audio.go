package rtc

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/pion/rtcp"
	"github.com/pion/rtp"
	"github.com/pion/transport/v5/packetio"

	"voicebridge/realtime/media"
)

// readMTU is the largest RTP packet that is read, in bytes. A 120 ms Opus packet at 64 kbit/s takes 960.
const readMTU = 1500

// timeLen is the length of the time in front of a packet that waits for Forward, in ns.
const timeLen = 8

// Forward waits for the remote's audio and passes it to dst while flow's gate is open, until the peer ends
// (ErrClosed), dst has closed (also ErrClosed) or ctx ends (its cause). Other errors of dst are counted in flow.
// Payload, marker, order and timing are kept; CSRCs, header extensions and padding are dropped. The SSRC is replaced
// by a number that is unique in this process, whatever the remotes choose, so that it identifies the source to
// WriteAudio. The packet passed to dst is reused.
//
// A remote may go on under another SSRC, with a new offer or without (RFC 3550, 8.2): Forward follows it. Of several
// sources that sound at once, one is heard until it pauses.
//
// Only one Forward at a time can run on a peer.
func (p *Peer) Forward(ctx context.Context, dst media.Sink, flow *media.Flow) error {
	if !p.in.reading.CompareAndSwap(false, true) {
		return errors.New("forward audio: the peer's audio is being forwarded already")
	}
	defer p.in.reading.Store(false)
	return fmt.Errorf("forward audio: %w", p.forward(ctx, dst, flow))
}

func (p *Peer) forward(ctx context.Context, dst media.Sink, flow *media.Flow) error {
	unread := p.in.unread
	if err := unread.SetReadDeadline(time.Time{}); err != nil {
		return err
	}
	interrupted := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(interrupted)
		_ = unread.SetReadDeadline(time.Unix(1, 0)) // never fails
	})
	defer func() {
		if !stop() {
			<-interrupted
		}
	}()

	r := relay{peer: p, dst: dst, flow: flow}
	buf := make([]byte, timeLen+readMTU)
	if err := p.keepEarly(ctx, flow, buf); err != nil {
		return err
	}
	for late := flow.Opened() != nil; ; {
		n, _, err := unread.Read(buf, nil)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, io.EOF):
			return media.ErrClosed
		case err != nil: // a packet larger than readMTU
			flow.Errors.Add(1)
			continue
		}
		came := p.in.zero.Add(time.Duration(binary.BigEndian.Uint64(buf)))
		if err := r.pass(buf[timeLen:n], came); err != nil {
			return err
		}
		if late = late && unread.Count() > 0; late {
			select {
			case <-time.After(earlyPace):
			case <-ctx.Done():
			}
		}
	}
}

// Of what comes before a flow's first opening, that of the last earlySeconds is kept. Then it is passed on four times
// as fast as it was spoken.
const (
	earlySeconds = 5
	earlyPace    = media.FrameTime / 4
)

// keepEarly waits until the flow has been opened, if packets shall wait for that.
func (p *Peer) keepEarly(ctx context.Context, flow *media.Flow, buf []byte) error {
	if flow.Opened() == nil {
		return nil
	}
	trim := time.NewTicker(time.Second)
	defer trim.Stop()
	var came [earlySeconds]int // how many packets had come by each of the last seconds
	for second, gone := 0, 0; ; second++ {
		select {
		case <-flow.Opened():
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-p.done:
			return media.ErrClosed
		case <-trim.C:
		}
		oldest := &came[second%earlySeconds]
		for ; gone < *oldest; gone++ {
			if _, _, err := p.in.unread.Read(buf, nil); err != nil {
				break // read again by forward
			}
			flow.Gated.Add(1)
		}
		*oldest = gone + p.in.unread.Count()
	}
}

// relay passes on the packets of one Forward.
type relay struct {
	peer   *Peer
	dst    media.Sink
	flow   *media.Flow
	number renumber
	last   time.Time    // when the last packet was let through
	packet media.Packet // reused, so that a packet costs no allocation
}

// pass handles one packet. It fails only if dst has ended.
func (r *relay) pass(b []byte, came time.Time) error {
	h, payload, ok := parsePacket(b)
	if !ok || !r.peer.isOpus(b[1]&0x7f) {
		r.flow.Errors.Add(1)
		return nil
	}
	if !r.follows(h.ssrc, came) {
		return nil
	}
	r.peer.in.stats.count(h, came)
	if !r.flow.IsOpen() {
		r.flow.Gated.Add(1)
		r.number.hold()
		return nil
	}
	sequence, ok := r.number.next(h.sequence)
	if !ok || len(payload) == 0 {
		return nil
	}
	r.packet = media.Packet{
		Marker: h.marker, Sequence: sequence, Timestamp: h.timestamp, Source: r.peer.in.source, Payload: payload,
		Came: came,
	}
	err := r.dst.WriteAudio(&r.packet)
	switch {
	case errors.Is(err, media.ErrClosed):
		r.flow.Errors.Add(1)
		return fmt.Errorf("write: %w", media.ErrClosed)
	case err != nil:
		r.flow.Errors.Add(1)
	default:
		now := time.Now()
		r.flow.Count(r.last, now)
		r.last = now
	}
	return nil
}

// follows reports whether packets of a source are passed on now. Another source than before takes over once that
// pauses.
func (r *relay) follows(ssrc uint32, now time.Time) bool {
	in := &r.peer.in
	if in.source == 0 || ssrc != in.ssrc {
		if now.Sub(in.heard) < media.Pause {
			return false
		}
		in.ssrc, in.source, r.number = ssrc, media.NewSource(), renumber{}
	}
	in.heard = now
	return true
}

// isOpus reports whether the payload type was negotiated: it is Opus then, for nothing else is.
func (p *Peer) isOpus(payloadType uint8) bool {
	if payloadType == p.in.opus {
		return true
	}
	for _, receiver := range p.pc.GetReceivers() {
		for _, codec := range receiver.GetParameters().Codecs {
			if uint8(codec.PayloadType) == payloadType {
				p.in.opus = payloadType
				return true
			}
		}
	}
	return false
}

// WriteAudio sends one packet to the remote as Opus, with the negotiated SSRC and payload type. The packet's Source
// identifies its stream: when it changes, the stream goes on with the next sequence number and a timestamp advanced by
// the time elapsed, at least one frame. Header extensions, CSRCs and padding are dropped. Packets sent before the
// connection is up, or while the remote's offer does not receive, are dropped silently. Besides Pion's errors it
// returns only ErrClosed.
//
// Only one source writes at a time. A packet that arrives while another is being written is dropped, so that no writer
// waits.
func (p *Peer) WriteAudio(packet *media.Packet) error {
	if packet.Format != (media.Format{}) {
		return p.out.encoded.WriteAudio(packet)
	}
	select {
	case <-p.done:
		return media.ErrClosed
	default:
	}
	if !p.out.turn.TryLock() {
		return nil
	}
	defer p.out.turn.Unlock()
	if p.out.held.Load() {
		p.out.splice.sequence.hold()
		return nil
	}
	now := time.Now()
	sequence, timestamp, ok := p.out.splice.next(packet.Source, packet.Sequence, packet.Timestamp, now)
	if !ok {
		return nil
	}
	p.out.packet = rtp.Packet{
		Header:  rtp.Header{Version: 2, Marker: packet.Marker, SequenceNumber: sequence, Timestamp: timestamp},
		Payload: packet.Payload,
	}
	err := p.out.sent.write(&p.out.packet, now)
	p.out.packet.Payload = nil
	if err != nil {
		if errors.Is(err, io.ErrClosedPipe) {
			return media.ErrClosed
		}
		return fmt.Errorf("write audio: %w", err)
	}
	p.out.stats.count(len(packet.Payload), timestamp, now)
	return nil
}

// maxSources is from how many sources a remote may send, counting RTP and RTCP apart. Pion keeps each until the peer
// ends; a browser needs a few, and one more each time that it replaces its microphone.
const maxSources = 512

// buffer makes the buffer into which Pion puts the packets of one source of the remote. Audio of all of them waits for
// Forward in one place, and not in Pion's tracks, which a source must be declared for; RTCP is read as it arrives.
func (p *Peer) buffer(kind packetio.BufferPacketType, source uint32) io.ReadWriteCloser {
	if n := p.in.named.Add(1); n > maxSources {
		if n == maxSources+1 {
			p.log.Warn("too many sources, peer ended")
			p.end(media.StateFailed)
		}
		return nowhere{}
	}
	switch {
	case kind == packetio.RTCPBufferPacket:
		return reports{source: source, stats: &p.in.stats, sent: &p.out.sent, repairs: p.repairs}
	case source == 0: // Chrome's probes of the bandwidth
		return nowhere{}
	}
	return &arrivals{peer: p, source: source}
}

// arrivals takes the audio of one source. Pion's reader is the one goroutine that writes to it.
type arrivals struct {
	nowhere

	peer   *Peer
	source uint32
	gaps   gaps
	timed  []byte // reused
}

// Write takes one packet, and drops it if there is no room.
func (a *arrivals) Write(b []byte) (int, error) {
	a.timed = binary.BigEndian.AppendUint64(a.timed[:0], uint64(time.Since(a.peer.in.zero)))
	a.timed = append(a.timed, b...)
	_, _ = a.peer.in.unread.Write(a.timed, nil)
	if h, _, ok := parsePacket(b); ok && a.peer.repairs {
		if lost := a.gaps.take(h.sequence); len(lost) > 0 {
			a.peer.askFor(a.source, lost)
		}
	}
	return len(b), nil
}

// askFor asks the remote for lost packets of a source.
func (p *Peer) askFor(source uint32, lost []uint16) {
	own, ok := p.ownSource()
	if !ok {
		return
	}
	request := &rtcp.TransportLayerNack{
		SenderSSRC: own, MediaSSRC: source, Nacks: rtcp.NackPairsFromSequenceNumbers(lost),
	}
	if err := p.pc.WriteRTCP([]rtcp.Packet{request}); err != nil {
		p.log.Debug("RTCP request not sent", "error", err)
	}
}

// ownSource returns the SSRC of the audio to the remote.
func (p *Peer) ownSource() (uint32, bool) {
	senders := p.pc.GetSenders()
	if len(senders) == 0 {
		return 0, false
	}
	encodings := senders[0].GetParameters().Encodings
	if len(encodings) == 0 {
		return 0, false
	}
	return uint32(encodings[0].SSRC), true
}
