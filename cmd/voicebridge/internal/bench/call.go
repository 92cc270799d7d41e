package bench

import (
	"context"
	"encoding/binary"
	"errors"
	"sync"
	"time"

	"voicebridge/realtime"
	"voicebridge/realtime/media"
	"voicebridge/realtime/rtc"
)

// closeTimeout bounds how long requests may take at the end.
const closeTimeout = 10 * time.Second

// call is the caller's end of one call, and what the upstream's end says in it.
type call struct {
	peer  *rtc.Peer
	id    string
	words speaker
	all   sync.WaitGroup

	speech   [][]byte // what is said, over and over; nil if times are sent
	sequence uint64   // of the last packet sent
	packet   media.Packet
	payload  [payloadSize]byte
}

// next returns the caller's next packet.
func (c *call) next(m *meter) *media.Packet {
	c.sequence++
	payload := c.payload[:]
	if c.speech != nil {
		payload = c.speech[c.sequence%uint64(len(c.speech))]
	} else {
		payload[0] = tocByte
		binary.BigEndian.PutUint64(payload[1:], uint64(m.sentNow())) // read again by WriteAudio
	}
	c.packet = media.Packet{
		Source:    1,
		Sequence:  uint16(c.sequence),              // wraps as in RTP
		Timestamp: uint32(c.sequence) * frameTicks, // wraps as in RTP
		Payload:   payload,
	}
	return &c.packet
}

// hangUp ends the call at both ends and joins its goroutines, within closeTimeout.
func (c *call) hangUp(client *realtime.Client) error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	var err error
	if c.id != "" {
		err = client.Hangup(ctx, c.id)
	}
	if c.peer != nil {
		err = errors.Join(err, c.peer.Close())
	}
	c.all.Wait()
	return err
}
