package rtc

import (
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pion/rtcp"
	"github.com/pion/rtp"
)

// Packets that a network has lost are asked for, and repeated under the SSRC and number that they had (generic
// NACK, RFC 4585, 6.2.1). Browsers do so for sound if the answer says it, though they do not offer it. What was
// asked for mostly comes too late to be played, so while a remote misses packets each one is sent twice, the second
// time with the next one: receivers drop what they have already (RFC 3711, 3.3.2).

const (
	// repeatable is how many of the newest packets can be asked for and repeated, 640 ms. Nobody waits longer to
	// play one.
	repeatable = 32
	// maxRepeats is how often one packet is repeated: so a request cannot be made to cause more than a few.
	maxRepeats = 4
	// doubleFor is how long packets are sent twice after a remote has asked for one, or has reported that it misses
	// 2 % or more: then it has none to miss, so nothing else says whether the network is still bad.
	doubleFor  = 10 * time.Second
	doubleFrom = 256 * 2 / 100
	// nackAttribute is the attribute of a session description that allows it, without the payload type.
	nackAttribute = " nack"
)

// askAfter are the packets that come after a lost one and cause a request for it: the first one at once, as a
// packet that was only overtaken costs little.
var askAfter = [...]int{1, 4, 9, 16}

// withNack adds to a line that describes the format of a payload type that its packets are repeated.
func withNack(format string) string {
	name, _, _ := strings.Cut(format, " ")
	return format + "\r\na=rtcp-fb:" + strings.TrimPrefix(name, "a=fmtp:") + nackAttribute + "\r\n"
}

// gaps finds the packets of a source that have not come.
type gaps struct {
	started bool
	newest  uint16
	missing uint32 // the nth bit is the packet n+1 before the newest one
}

// take takes the number of a packet that came and returns those that should be asked for.
func (g *gaps) take(sequence uint16) (ask []uint16) {
	ahead := int(sequence - g.newest)
	if behind := g.newest - sequence; g.started && behind <= repeatable {
		g.missing &^= uint32(uint64(1) << behind >> 1)
		return nil
	}
	if !g.started || ahead > repeatable { // it begins, or there was no network
		*g = gaps{started: true, newest: sequence}
		return nil
	}
	g.newest, g.missing = sequence, g.missing<<ahead|(1<<(ahead-1)-1)
	if g.missing == 0 {
		return nil
	}
	for n := range repeatable {
		behind := n + 1
		for _, after := range askAfter {
			if g.missing>>n&1 == 1 && behind-ahead < after && after <= behind {
				ask = append(ask, sequence-uint16(behind))
				break
			}
		}
	}
	return ask
}

// sent keeps the newest packets for a remote that misses some. Most never do: before the first loss nothing is kept.
type sent struct {
	to   func(*rtp.Packet) error
	bare bool // no packet is sent twice that was not asked for
	kept atomic.Pointer[kept]
}

type kept struct {
	mu      sync.Mutex
	doubles time.Time // until then packets are sent twice
	packets [repeatable]struct {
		packet  rtp.Packet
		doubled bool
		repeats int // that are left
	}
}

// write sends a packet, and the one before it again if the remote misses packets.
func (s *sent) write(packet *rtp.Packet, now time.Time) error {
	k := s.kept.Load()
	if k == nil {
		return s.to(packet)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	before := &k.packets[(packet.SequenceNumber-1)%repeatable]
	if before.packet.SequenceNumber == packet.SequenceNumber-1 && !before.doubled && now.Before(k.doubles) {
		before.doubled = true
		_ = s.to(&before.packet) // lost again
	}
	slot := &k.packets[packet.SequenceNumber%repeatable]
	slot.packet.Header, slot.doubled, slot.repeats = packet.Header, false, maxRepeats
	slot.packet.Payload = append(slot.packet.Payload[:0], packet.Payload...)
	return s.to(packet)
}

// lost takes that the remote misses packets. The reader of RTCP is the one goroutine that calls it.
func (s *sent) lost() *kept {
	k := s.kept.Load()
	if k == nil {
		k = new(kept)
		for i := range k.packets {
			k.packets[i].doubled = true // there is none
		}
		s.kept.Store(k)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if !s.bare {
		k.doubles = time.Now().Add(doubleFor)
	}
	return k
}

// reported takes what the remote says of the packets that it has got.
func (s *sent) reported(source uint32, receptions []rtcp.ReceptionReport) {
	for _, r := range receptions {
		if r.SSRC == source && r.FractionLost >= doubleFrom && !s.bare {
			s.lost()
		}
	}
}

// repeat sends packets again that the remote asks for.
func (s *sent) repeat(request *rtcp.TransportLayerNack) {
	k := s.lost()
	k.mu.Lock()
	defer k.mu.Unlock()
	for i := range request.Nacks {
		for _, sequence := range request.Nacks[i].PacketList() {
			slot := &k.packets[sequence%repeatable]
			if slot.packet.SequenceNumber == sequence && slot.repeats > 0 {
				slot.repeats--
				_ = s.to(&slot.packet) // lost again
			}
		}
	}
}
