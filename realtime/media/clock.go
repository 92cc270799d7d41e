package media

import (
	"errors"
	"fmt"
	"time"
)

// maxLate is how late a frame may be to be sent at once, with those after it until the clock is met: later, the clock
// begins anew.
const maxLate = 100 * time.Millisecond

// Clock sends frames of sound as the packets of one source, in real time. It belongs to one goroutine.
type Clock struct {
	Packet Packet    // the last packet; each one reuses it
	Next   time.Time // when the next frame is due; zero before the first one
	last   time.Time // when the last packet was let through
}

// Tick takes that a frame is due, and that the next one is due that much later.
func (c *Clock) Tick(later time.Duration) {
	now := time.Now()
	c.Packet.Marker = false
	if late := now.Sub(c.Next); c.Next.IsZero() || late > maxLate {
		if !c.Next.IsZero() {
			c.Packet.Timestamp += uint32(late/FrameTime) * FrameStep // time has gone on, RFC 3550, 5.1
		}
		c.Packet.Marker, c.Next = true, now
	}
	c.Next = c.Next.Add(later)
	c.Packet.Timestamp += FrameStep
}

// Send passes the frame that is due on. It fails, with ErrClosed, only if dst has ended.
func (c *Clock) Send(frame []byte, dst Sink, flow *Flow) error {
	c.Packet.Sequence++
	c.Packet.Payload = frame
	err := dst.WriteAudio(&c.Packet)
	switch {
	case errors.Is(err, ErrClosed):
		flow.Errors.Add(1)
		return fmt.Errorf("write: %w", ErrClosed)
	case err != nil:
		flow.Errors.Add(1)
	default:
		now := time.Now()
		flow.Count(c.last, now)
		c.last = now
	}
	return nil
}
