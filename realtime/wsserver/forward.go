package wsserver

import (
	"context"
	"errors"
	"fmt"
	"time"

	"voicebridge/realtime/media"
)

const (
	// jitter is how much sound waits without being a delay. What is more is sent a little faster than it was spoken, as
	// clients' clocks are not ours.
	jitter, faster = 60 * time.Millisecond, 19 * time.Millisecond
	// What waited for the gate is sent four times as fast as it was spoken, as a [media.Switch] sends what it holds, but no
	// more than 5 s.
	hurried, hurry = 5 * time.Second, media.FrameTime / 4
	// maxLate is how late a packet may be to be sent at once, with those after it until the clock is met: later, the clock
	// begins anew.
	maxLate = 100 * time.Millisecond
)

// Forward passes the client's sound to dst, in packets of 20 ms and in real time, while flow's gate is open. What comes
// while it is shut waits. It runs until the connection ends (media.ErrClosed), dst has closed (also media.ErrClosed) or
// ctx ends (its cause). The packet passed to dst is reused. Only one Forward at a time can run.
func (c *Conn) Forward(ctx context.Context, dst media.Sink, flow *media.Flow) error {
	if err := c.forward(ctx, dst, flow); err != nil {
		return fmt.Errorf("forward audio: %w", err)
	}
	return nil
}

func (c *Conn) forward(ctx context.Context, dst media.Sink, flow *media.Flow) error {
	c.input.mu.Lock()
	c.input.flow = flow
	c.input.mu.Unlock()
	p := player{packet: media.Packet{Source: media.NewSource()}}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		wait, wake := time.Until(p.next), chan struct{}(nil)
		if wait <= 0 {
			wake = c.input.wake
			frame, waiting, freed := c.input.frame(p.packet.Payload)
			switch {
			case frame != nil:
				p.packet.Format = c.input.current()
				if err := p.play(frame, waiting, dst, flow); err != nil {
					return err
				}
				if freed {
					c.release()
				}
				continue
			case waiting >= media.FrameTime: // for the gate
				p.hurry = int(hurried / media.FrameTime)
				wait = media.FrameTime
			default:
				wait = time.Hour
			}
		}
		timer.Reset(wait)
		select {
		case <-timer.C:
		case <-wake:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-c.done:
			return media.ErrClosed
		}
	}
}

// player is the clock of a Forward.
type player struct {
	packet media.Packet
	next   time.Time // when the next packet is due; zero before the first one
	last   time.Time // when the last one was let through
	hurry  int       // packets that are sent faster than they were spoken
}

// play passes a frame on; so much sound waits behind it. It fails only if dst has ended.
func (p *player) play(frame []byte, waiting time.Duration, dst media.Sink, flow *media.Flow) error {
	now := time.Now()
	if late := now.Sub(p.next); p.next.IsZero() || late > maxLate {
		if !p.next.IsZero() {
			p.packet.Timestamp += uint32(late/media.FrameTime) * media.FrameStep // time has gone on, RFC 3550, 5.1
		}
		p.packet.Marker, p.next = true, now
	}
	switch {
	case waiting <= jitter:
		p.hurry = 0
		p.next = p.next.Add(media.FrameTime)
	case p.hurry > 0:
		p.hurry--
		p.next = p.next.Add(hurry)
	default:
		p.next = p.next.Add(faster)
	}
	p.packet.Sequence++
	p.packet.Timestamp += media.FrameStep
	p.packet.Payload = frame
	err := dst.WriteAudio(&p.packet)
	p.packet.Marker = false
	switch {
	case errors.Is(err, media.ErrClosed):
		flow.Errors.Add(1)
		return fmt.Errorf("write: %w", media.ErrClosed)
	case err != nil:
		flow.Errors.Add(1)
	default:
		flow.Count(p.last, now)
		p.last = now
	}
	return nil
}
