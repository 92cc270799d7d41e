package bridge

import (
	"context"
	"errors"
	"time"

	"voicebridge/bridge/internal/session"
	"voicebridge/persistence"
	"voicebridge/realtime"
	"voicebridge/realtime/rtc"
)

// Times of an upstream leg.
const (
	hangUpTimeout = 5 * time.Second // for the upstream to end the session
	senderTimeout = 500 * time.Millisecond
)

// upLeg is one upstream session of a call, with its goroutines.
type upLeg struct {
	gen    int
	leg    UpstreamLeg
	record persistence.UpstreamLeg
	out    *outbox
	flow   rtc.Flow // of what the model says
	cancel context.CancelFunc
	sent   <-chan struct{} // closed when the outbox has ended
	pumped <-chan struct{} // closed when the pump has ended
}

// start runs the leg's goroutines. Its sound is not let through yet.
func (c *call) startLeg(ctx context.Context, l *upLeg) {
	ctx, l.cancel = context.WithCancel(ctx)
	l.sent = background(func() { l.out.run(ctx, l.leg) })
	l.pumped = background(func() { c.pump(l.leg.Forward(ctx, &c.toUser, &l.flow), "upstream") })
}

// endLeg ends an upstream session and joins what belongs to it: first the session
// itself, whatever state the connection is in, since it costs money.
func (c *call) endLeg(l *upLeg, reason EndReason) {
	l.flow.Shut()
	l.out.close()
	await(l.sent, senderTimeout)
	l.record.EndedAt, l.record.Reason = new(time.Now()), string(reason)
	if c.hangUp(l.leg.ID()) {
		l.record.HungUpAt = new(time.Now())
	}
	c.writer.pushLast(saveLeg{l.record})
	c.report("upstream", l.leg.Close())
	l.cancel()
	<-l.sent
	<-l.pumped
	c.down.Add(l.flow.Packets.Load())
}

// hangUp ends a session at the upstream.
func (c *call) hangUp(id string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), hangUpTimeout)
	defer cancel()
	if err := c.upstream.HangUp(ctx, id); err != nil {
		c.log.Warn("upstream session not hung up", "upstream_call_id", id, "error", err)
		return false
	}
	return true
}

func (c *call) report(leg string, err error) {
	if err != nil {
		c.log.Warn("leg not closed in time", "leg", leg, "error", err)
	}
}

// pump logs why audio of a leg is not passed on any more, unless the leg ended.
func (c *call) pump(err error, from string) {
	if err != nil && !errors.Is(err, rtc.ErrClosed) && !errors.Is(err, context.Canceled) {
		c.log.Error("audio is not passed on", "leg", from, "error", err)
	}
}

// dialResult is the end of a dial.
type dialResult struct {
	gen int
	leg *upLeg
	err error
}

// dialLeg makes an upstream session. created is told its record before media flows.
func (c *call) dialLeg(ctx context.Context, gen int, history []persistence.Message, created func(persistence.UpstreamLeg) error) (*upLeg, error) {
	l := &upLeg{gen: gen, out: newOutbox("upstream", c.log, func(int) {}), record: persistence.UpstreamLeg{
		CallID: c.id, Generation: int64(gen), Upstream: c.upstream.Name(), StartedAt: time.Now(),
	}}
	leg, err := c.upstream.Dial(ctx, Dial{
		Session: c.creation, Handlers: c.upstreamHandlers(gen), History: history,
		ItemPrefix: session.Config{ItemPrefix: c.itemPrefix}.SeedPrefix(gen),
		Created: func(id string) error {
			l.record.UpstreamID = id
			return created(l.record)
		},
	})
	if err != nil {
		return nil, errors.Join(err, context.Cause(ctx))
	}
	l.leg = leg
	return l, nil
}

// legs are the upstream sessions of a call. They belong to its loop.
type legs struct {
	*call
	ctx   context.Context //nolint:containedctx // it ends with the loop that owns the legs
	byGen map[int]*upLeg
	dials map[int]context.CancelFunc
	early map[int][]session.Input // of a session whose dial has not returned

	heard   int    // the generation that is heard
	silent  bool   // nothing is to be heard
	release func() // ends the passing on of held sound
}

// of returns the leg of that generation; nil when it is gone.
func (w *legs) of(gen int) *upLeg { return w.byGen[gen] }

// dial makes the next session beside the loop. Its result comes to the loop, or is
// thrown away with it.
func (w *legs) dial(d session.Dial) {
	ctx, cancel := context.WithTimeoutCause(w.ctx, dialTimeout, errDialTimeout)
	w.dials[d.Gen] = cancel
	c := w.call
	c.ending.Go(func() {
		defer cancel()
		l, err := c.dialLeg(ctx, d.Gen, d.History, func(rec persistence.UpstreamLeg) error { return c.saveLeg(ctx, rec) })
		select {
		case c.dialed <- dialResult{d.Gen, l, err}:
		case <-c.quit:
			c.discard(l)
		}
	})
}

// discard ends a session that came too late.
func (c *call) discard(l *upLeg) {
	if l == nil {
		return
	}
	c.startLeg(context.Background(), l)
	c.endLeg(l, EndUpstreamSetup)
}

// add takes the result of a dial. It returns the inputs that follow from it.
func (w *legs) add(r dialResult) []session.Input {
	early := w.early[r.gen]
	delete(w.early, r.gen)
	if w.dials[r.gen] == nil {
		w.ending.Go(func() { w.discard(r.leg) })
		return nil
	}
	delete(w.dials, r.gen)
	if r.err != nil {
		return []session.Input{session.UpstreamDialFailed{Gen: r.gen, Fatal: isFatal(r.err), Err: r.err}}
	}
	w.byGen[r.gen] = r.leg
	w.startLeg(w.ctx, r.leg)
	dialed := session.UpstreamDialed{Gen: r.gen, ID: r.leg.leg.ID(), Limit: r.leg.leg.MaxMessageSize()}
	return append([]session.Input{dialed}, early...)
}

// isFatal says that the upstream will refuse every further session, too.
func isFatal(err error) bool {
	e, ok := errors.AsType[*realtime.APIError](err)
	if !ok {
		return false
	}
	refusal := realtime.Error{Type: e.Type, Code: e.Code}
	return refusal.Fatal() || e.Status >= 400 && e.Status < 500 && e.Status != 408 && e.Status != 409 && e.Status != 429
}

// isEarly keeps an input of a session whose dial has not returned.
func (w *legs) isEarly(in session.Input) bool {
	gen := 0
	switch in := in.(type) {
	case session.UpstreamEvent:
		gen = in.Gen
	case session.UpstreamState:
		gen = in.Gen
	}
	if w.dials[gen] == nil {
		return false
	}
	w.early[gen] = append(w.early[gen], in)
	return true
}

// switchTo lets the caller talk to a session and hear it.
func (w *legs) switchTo(gen int) {
	for _, l := range w.byGen {
		l.flow.Shut()
	}
	w.heard = gen
	l := w.of(gen)
	if l == nil {
		return
	}
	if !w.silent {
		l.flow.Open()
	}
	w.stopRelease()
	ctx, cancel := context.WithCancel(w.ctx)
	done := background(func() {
		held, err := w.toUp.Release(ctx, l.leg)
		if held != (rtc.Held{}) {
			w.log.Info("held sound passed on", "packets", held.Sent, "dropped", held.Dropped, "error", err)
		}
	})
	w.release = func() { cancel(); <-done }
}

// hold keeps what the caller says until the next switch.
func (w *legs) hold() {
	w.stopRelease()
	w.toUp.Hold()
}

func (w *legs) stopRelease() {
	if w.release != nil {
		w.release()
		w.release = nil
	}
}

// end ends a session, or the dial that would make it.
func (w *legs) end(h session.HangUp) {
	if h.Hold {
		w.hold()
	}
	if cancel := w.dials[h.Gen]; cancel != nil {
		cancel()
		delete(w.dials, h.Gen) // what comes of it is thrown away
		delete(w.early, h.Gen)
	}
	if l := w.byGen[h.Gen]; l != nil {
		delete(w.byGen, h.Gen)
		w.ending.Go(func() { w.endLeg(l, h.Reason) })
	}
}

// endAll ends what is left when the call ends.
func (w *legs) endAll(reason EndReason) {
	w.stopRelease()
	for _, cancel := range w.dials {
		cancel()
	}
	for _, l := range w.byGen {
		w.ending.Go(func() { w.endLeg(l, reason) })
	}
	w.ending.Wait()
}

// open lets the sound of the call's session through.
func (w *legs) open() {
	if l := w.of(w.heard); l != nil {
		l.flow.Open()
	}
}

// shut ends the sound of all sessions.
func (w *legs) shut() {
	for _, l := range w.byGen {
		l.flow.Shut()
	}
}
