package wsserver

import (
	"context"
	"fmt"
	"time"

	"voicebridge/realtime/media"
)

const (
	// jitter is how much sound waits without being a delay. What is more is sent a little faster than it was spoken, as
	// clients' clocks are not ours.
	jitter, faster = 60 * time.Millisecond, 19 * time.Millisecond
	// What waited for the gate is sent four times as fast as it was spoken, as a [media.Switch] sends what it holds,
	// but no more than 5 s.
	hurried, hurry = 5 * time.Second, media.FrameTime / 4
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
	hurrying := 0 // packets that are sent faster than they were spoken
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		wait, wake := time.Until(clock.Next), chan struct{}(nil)
		if wait <= 0 {
			wake = c.input.wake
			frame, waiting, freed := c.input.frame(clock.Packet.Payload)
			switch {
			case frame.sound != nil:
				clock.Packet.Format = frame.format
				clock.Tick(after(waiting, &hurrying), waiting)
				if err := clock.Send(frame.sound, dst, flow); err != nil {
					return err
				}
				if freed {
					c.release()
				}
				continue
			case waiting >= media.FrameTime: // for the gate
				hurrying = int(hurried / media.FrameTime)
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

// after returns when the next packet follows one behind which so much sound waits.
func after(waiting time.Duration, hurrying *int) time.Duration {
	switch {
	case waiting <= jitter:
		*hurrying = 0
		return media.FrameTime
	case *hurrying > 0:
		*hurrying--
		return hurry
	default:
		return faster
	}
}
