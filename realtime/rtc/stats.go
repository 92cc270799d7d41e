package rtc

import "time"

// Stats is a snapshot of a peer's counters.
type Stats struct {
	State State
	// Data-channel messages and their bytes.
	MessagesIn, MessagesOut   uint64
	DataBytesIn, DataBytesOut uint64
	// MessagesTooLarge counts messages above our limit, which were dropped.
	MessagesTooLarge uint64
	// BufferedAmount is the result of Peer.BufferedAmount.
	BufferedAmount uint64
	// AudioIn counts the remote's packets that came while Forward ran, AudioLost those missing between them (negative
	// if there were duplicates).
	AudioIn   uint32
	AudioLost int64
	// Jitter is the interarrival jitter of the remote's audio (RFC 3550, 6.4.1).
	Jitter time.Duration
	// AudioOut counts packets sent, AudioDropped those that came too late or while another source was writing.
	AudioOut     uint32
	AudioDropped uint64
	// RoundTrip is that of the latest ICE check, 0 if unknown.
	RoundTrip time.Duration
	// Local and Remote are the selected pair's candidate types and protocol,
	// such as "host/udp"; empty before the connection.
	Local, Remote string
}

// Stats returns the peer's counters. It may be called at any time, even after Close.
func (p *Peer) Stats() Stats {
	c := &p.channel
	s := Stats{
		State:            State(p.state.Load()),
		MessagesIn:       c.received.Load(),
		MessagesOut:      c.sent.Load(),
		DataBytesIn:      c.receivedBytes.Load(),
		DataBytesOut:     c.sentBytes.Load(),
		MessagesTooLarge: c.tooBig.Load(),
		BufferedAmount:   p.BufferedAmount(),
		AudioIn:          p.in.stats.received.Load(),
		AudioLost:        p.in.stats.lost(),
		Jitter:           time.Duration(p.in.stats.jitter.Load()>>4) * time.Second / opusClockRate,
		AudioOut:         p.out.stats.packets.Load(),
		AudioDropped:     p.out.dropped.Load(),
	}
	transport := p.pc.SCTP().Transport().ICETransport()
	if pair, err := transport.GetSelectedCandidatePair(); err == nil && pair != nil {
		s.Local = pair.Local.Typ.String() + "/" + pair.Local.Protocol.String()
		s.Remote = pair.Remote.Typ.String() + "/" + pair.Remote.Protocol.String()
	}
	if pair, ok := transport.GetSelectedCandidatePairStats(); ok {
		s.RoundTrip = time.Duration(pair.CurrentRoundTripTime * float64(time.Second))
	}
	return s
}
