package ws

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/coder/websocket"

	"voicebridge/realtime"
	"voicebridge/realtime/media"
)

// handOn gives events and states to the handlers.
func (c *Conn) handOn() {
	reported := media.StateNew
	state := func(s media.State) {
		if reported != s && c.h.State != nil {
			c.h.State(s)
		}
		reported = s
	}
	state(media.StateConnected)
	if c.h.Open != nil {
		c.h.Open()
	}
	done := c.done
	for {
		events, last := c.inbox.pop()
		for _, data := range events {
			if c.h.Message != nil {
				c.h.Message(data)
			}
		}
		switch {
		case len(events) > 0:
			continue
		case last:
			state(media.StateClosed)
			return
		case done == nil: // everything that came before the end was handed on
			state(c.final)
		}
		select {
		case <-c.inbox.wake:
		case <-done:
			done = nil
		}
	}
}

// read takes what the upstream sends until the connection ends.
func (c *Conn) read() {
	for {
		data, err := c.socket.Read(c.ctx)
		if err != nil {
			c.over(err)
			return
		}
		c.progress.Add(2)
		ev, err := realtime.Decode(data)
		if err != nil {
			c.log.Warn("upstream event dropped", "error", err, "bytes", len(data))
			continue
		}
		c.take(ev)
		if !c.room(func() bool { return !c.inbox.full() }, c.inbox.taken) {
			return
		}
	}
}

// over takes the end of the connection.
func (c *Conn) over(err error) {
	state := media.StateFailed
	goodbye, polite := errors.AsType[websocket.CloseError](err)
	polite = polite && goodbye.Code != websocket.StatusMessageTooBig
	if polite || errors.Is(err, io.EOF) {
		state = media.StateClosed
	}
	select {
	case <-c.done:
	default:
		c.log.Info("upstream connection ended", "error", realtime.MaskKeys(err.Error()))
	}
	c.end(state)
}

// take takes one event of the upstream.
func (c *Conn) take(ev realtime.Event) {
	for _, ev := range c.profile.received(ev) {
		if c.event(&ev) {
			c.inbox.push(ev.Raw)
		}
		switch ev.Type {
		case realtime.TypeInputSpeechStarted:
			c.in.speaks(true)
			signal(c.out.wake) // silence may have to be sent
			c.interrupted()
		case realtime.TypeInputSpeechStopped, realtime.TypeInputCommitted:
			c.in.speaks(false)
		case realtime.TypeOutputAudioDone:
			c.tell(c.play.complete(ev.ResponseID, ev.ItemID))
		case realtime.TypeResponseDone:
			c.tell(c.play.complete(c.finished(ev), ""))
		}
	}
}

// finished returns the response that is complete.
func (c *Conn) finished(ev realtime.Event) string {
	id := text(realtime.Member(ev.Response, "id"))
	c.mu.Lock()
	defer c.mu.Unlock()
	if id == "" {
		id = c.making
	}
	if c.making == id {
		c.making = ""
	}
	return id
}

// event applies an event, and reports whether the client gets it.
func (c *Conn) event(ev *realtime.Event) bool {
	switch ev.Type {
	case "ping":
		return false
	case realtime.TypeOutputAudioDelta:
		c.hear(ev)
		return false
	case realtime.TypeSessionCreated, realtime.TypeSessionUpdated:
		c.session(ev)
	case realtime.TypeResponseCreated:
		c.mu.Lock()
		c.making = text(realtime.Member(ev.Response, "id"))
		c.mu.Unlock()
	case realtime.TypeError:
		return !c.ownError(ev)
	}
	return true
}

// hear plays sound, once there is room for it.
func (c *Conn) hear(ev *realtime.Event) {
	data, err := sound(ev)
	if err != nil {
		c.log.Warn("upstream sound dropped", "error", err)
		return
	}
	c.room(func() bool { return c.play.add(ev, data) }, c.play.consumed)
}

// room waits until ok returns true, which it may each time that something was taken out. It returns false if the
// connection ends before. Meanwhile nothing is read, not even a pong.
func (c *Conn) room(ok func() bool, taken <-chan struct{}) bool {
	if ok() {
		return true
	}
	c.progress.Add(1)
	defer c.progress.Add(1)
	for !ok() {
		select {
		case <-taken:
		case <-c.ctx.Done():
			return false
		}
	}
	return true
}

// session reads what the session says about formats and interruptions.
func (c *Conn) session(ev *realtime.Event) {
	if ev.Type == realtime.TypeSessionUpdated { // whatever it was asked for
		c.in.use(formatOf(ev.Session, "input"))
		c.play.use(formatOf(ev.Session, "output"))
	}
	turns := realtime.Member(ev.Session, "audio", "input", "turn_detection")
	c.mu.Lock()
	defer c.mu.Unlock()
	c.configured = c.configured || ev.Type == realtime.TypeSessionUpdated
	if turns != nil {
		c.interrupts = string(turns) != "null" && string(realtime.Member(turns, "interrupt_response")) != "false"
	}
}

// interrupted stops the answer, because the caller speaks.
func (c *Conn) interrupted() {
	c.mu.Lock()
	interrupts, making := c.interrupts, c.making
	c.mu.Unlock()
	if !interrupts {
		return
	}
	c.play.forget(making)
	c.stop(false)
}

// ownError reports whether an error is about one of our own events. A truncation that the upstream refuses has
// happened all the same.
func (c *Conn) ownError(ev *realtime.Event) bool {
	if ev.Error == nil || !strings.HasPrefix(ev.Error.EventID, ownEvent) {
		return false
	}
	c.log.Info("upstream has not truncated an answer", "code", ev.Error.Code, "error", ev.Error.Message)
	return true
}

// write sends what waits.
func (c *Conn) write() {
	timer := time.NewTimer(longestAppend)
	defer timer.Stop()
	for {
		data, ok, last := c.out.next()
		if last {
			return
		}
		if ok {
			if err := c.socket.Write(c.ctx, data); err != nil {
				c.over(fmt.Errorf("send to upstream: %w", err))
				return
			}
			continue
		}
		var due <-chan time.Time
		if fills := c.in.fill(time.Now()); fills || c.out.waits() {
			timer.Reset(longestAppend)
			due = timer.C
		}
		select {
		case <-c.out.wake:
		case <-due:
		case <-c.ctx.Done():
			return
		}
	}
}

// keepAlive notices an upstream that is gone. One that sends events is there, whether it answers a ping or not.
func (c *Conn) keepAlive() {
	tick := time.NewTicker(pingEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-c.done:
			return
		case <-c.ctx.Done():
			return
		}
		progress := c.progress.Load()
		ctx, cancel := context.WithTimeout(c.ctx, pongWithin)
		err := c.socket.Ping(ctx)
		cancel()
		if err != nil && c.ctx.Err() == nil && progress%2 == 0 && progress == c.progress.Load() {
			c.end(media.StateFailed)
			return
		}
	}
}

// Forward plays the model's sound: it passes a packet to dst each 20 ms while flow's gate is open, until the
// connection ends (media.ErrClosed), dst has closed (also media.ErrClosed) or ctx ends (its cause). A [media.Ahead]
// gets it in the pieces in which it comes instead, as soon as there is room. The packet passed to dst is reused. Only
// one Forward at a time can run.
func (c *Conn) Forward(ctx context.Context, dst media.Sink, flow *media.Flow) error {
	if err := c.forward(ctx, dst, flow); err != nil {
		return fmt.Errorf("forward audio: %w", err)
	}
	return nil
}

func (c *Conn) forward(ctx context.Context, dst media.Sink, flow *media.Flow) error {
	clock := media.Clock{Packet: media.Packet{Source: c.source}}
	early := media.Clock{Packet: media.Packet{Source: media.NewSource()}}
	idle := false
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		clock.Packet.Format = c.play.current()
		early.Packet.Format = clock.Packet.Format
		remote, room := media.AheadOf(dst)
		c.play.ahead(remote)
		open, wait := flow.IsOpen(), time.Until(clock.Next)
		due := idle || wait <= 0
		if piece, part := c.play.next(open && room, open && due); part != nil {
			if err := c.handOnSound(&early, piece, part, dst, flow); err != nil {
				return err
			}
			continue
		}
		if due {
			frame, ok, events := c.play.frame(clock.Packet.Payload)
			c.tell(events)
			if ok {
				idle = false
				if err := playFrame(&clock, frame, open, dst, flow); err != nil {
					return err
				}
				continue
			}
			idle = true
		}
		var next <-chan time.Time
		if !due {
			timer.Reset(wait)
			next = timer.C
		}
		wake := c.play.wake
		if !idle && remote == 0 {
			wake = nil
		}
		select {
		case <-next:
		case <-wake:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-c.done:
			return media.ErrClosed
		}
	}
}

// handOnSound passes on a piece of sound before it is heard, or that there is no more of its part.
func (c *Conn) handOnSound(early *media.Clock, piece []byte, part *media.Part, dst media.Sink, flow *media.Flow) error {
	early.Packet.Part = part
	if part.Last {
		early.Packet.Payload = nil
		_ = dst.WriteAudio(&early.Packet) // the next one has the error
		return nil
	}
	err := early.Send(piece, dst, flow)
	early.Packet.Timestamp += uint32(early.Packet.Format.Lasts(len(piece)) * media.ClockRate / time.Second)
	return err
}

// playFrame passes on the frame that is due, unless the gate is shut or a remote has it already.
func playFrame(clock *media.Clock, frame []byte, open bool, dst media.Sink, flow *media.Flow) error {
	clock.Tick(media.FrameTime, 0)
	switch {
	case !open:
		flow.Gated.Add(1)
		return nil
	case frame == nil:
		return nil
	}
	return clock.Send(frame, dst, flow)
}
