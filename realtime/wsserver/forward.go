package wsserver

import (
	"context"
	"fmt"
	"time"

	"voicebridge/realtime/media"
)

// hurry is how fast delayed sound is sent, as a [media.Switch] sends what it holds, unless a [media.Faster] gets it as
// it comes.
const hurry = media.FrameTime / 4

// Forward passes the client's sound to dst, in packets of 20 ms and in real time, while flow's gate is open. What waits
// for the gate, or was held up on its way, is sent faster. It runs until the connection ends (media.ErrClosed), dst has
// closed (also media.ErrClosed) or ctx ends (its cause). The packet passed to dst is reused. Only one Forward at a time
// can run.
func (c *Conn) Forward(ctx context.Context, dst media.Sink, flow *media.Flow) error {
	if err := c.forward(ctx, dst, flow); err != nil {
		return fmt.Errorf("forward audio: %w", err)
	}
	return nil
}

func (c *Conn) forward(ctx context.Context, dst media.Sink, flow *media.Flow) error {
	if c.silent {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-c.done:
			return media.ErrClosed
		}
	}
	c.input.mu.Lock()
	c.input.flow = flow
	c.input.mu.Unlock()
	clock := media.Clock{Packet: media.Packet{Source: media.NewSource()}}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		wait, wake := time.Until(clock.Next), chan struct{}(nil)
		faster := media.TakesFaster(dst)
		if faster || wait <= 0 {
			wake = c.input.wake
			frame, waiting, came := c.input.frame(clock.Packet.Payload)
			delayed := !came.IsZero()
			if frame.sound != nil {
				clock.Packet.Format, clock.Packet.Came = frame.format, came
				clock.Tick(pace(faster, delayed), waiting)
				if err := clock.Send(frame.sound, dst, flow); err != nil {
					return err
				}
				if delayed {
					c.release()
				}
				continue
			}
			if wait = time.Hour; waiting >= media.FrameTime { // for the gate
				wait = media.FrameTime
			}
		} else if wait > media.FrameTime { // what was sent as it came was ahead
			wait, clock.Next = 0, time.Now()
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

// pace returns how much later the next packet is due.
func pace(faster, delayed bool) time.Duration {
	if delayed && !faster {
		return hurry
	}
	return media.FrameTime // by the stream's clock, though it may be sent earlier
}
