package bench

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// payloadSize is the size of 20 ms of speech at 32 kbit/s.
const payloadSize = 80

// stamp is what our packets carry in place of audio.
type stamp struct {
	stream   uint32 // id of the stream
	sequence uint64 // from 1
	sent     int64  // ns on the clock of the measurement
}

// head begins every payload: an Opus TOC byte for one 20 ms frame of full-band audio (RFC 6716,
// 3.1), and a mark that identifies our packets.
var head = []byte{0xf8, 'v', 'b', 'l', 'd'}

const (
	streamAt   = 5
	sequenceAt = 9
	sentAt     = 17
	stampEnd   = 25
)

// put writes s into a payload of payloadSize bytes.
func (s stamp) put(payload []byte) {
	copy(payload, head)
	binary.BigEndian.PutUint32(payload[streamAt:], s.stream)
	binary.BigEndian.PutUint64(payload[sequenceAt:], s.sequence)
	binary.BigEndian.PutUint64(payload[sentAt:], uint64(s.sent)) // reversed by readStamp
}

// readStamp returns the stamp of a payload, or false if the packet is not ours or was changed.
func readStamp(payload []byte) (stamp, bool) {
	if len(payload) != payloadSize || !bytes.HasPrefix(payload, head) {
		return stamp{}, false
	}
	for _, b := range payload[stampEnd:] {
		if b != 0 {
			return stamp{}, false
		}
	}
	return stamp{
		stream:   binary.BigEndian.Uint32(payload[streamAt:]),
		sequence: binary.BigEndian.Uint64(payload[sequenceAt:]),
		sent:     int64(binary.BigEndian.Uint64(payload[sentAt:])), // reversed by put
	}, true
}

// timedText returns a text of size bytes that begins with a time of the measurement's clock.
func timedText(ns int64, size int) string {
	text := fmt.Sprintf(" %0*s", stampBytes-1, strconv.FormatInt(ns, 36))
	if more := size - len(text); more > 0 {
		text += strings.Repeat(" and words", more/10+1)[:more]
	}
	return text
}

// readTime reads the time from what timedText returned.
func readTime(text string) (ns int64, ok bool) {
	if len(text) < stampBytes || text[0] != ' ' {
		return 0, false
	}
	ns, err := strconv.ParseInt(text[1:stampBytes], 36, 64)
	return ns, err == nil
}

// frame is the time between packets, and samples the same in RTP timestamps (RFC 7587, 4.2).
const (
	frame   = 20 * time.Millisecond
	samples = 960
)
