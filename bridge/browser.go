package bridge

import (
	"context"
	"errors"
	"fmt"

	"voicebridge/bridge/internal/session"
	"voicebridge/persistence"
	"voicebridge/realtime/rtc"
)

// browserLeg is one connection of a call's browser, with its goroutines.
type browserLeg struct {
	gen    int
	leg    browserPeer
	out    *outbox
	cancel context.CancelFunc
	told   <-chan struct{} // closed when the outbox has ended
	pumped <-chan struct{} // closed when the pump has ended
}

// browserPeer is a leg whose ICE can be restarted; *rtc.Peer is one.
type browserPeer interface {
	leg
	Restart(ctx context.Context, offer string) (answer string, err error)
}

func (c *call) newBrowser(gen int, peer browserPeer, onDrop func(int)) *browserLeg {
	b := &browserLeg{gen: gen, leg: peer, out: newOutbox("browser", c.log, onDrop)}
	if peer.MaxMessageSize() == 0 {
		b.out.close() // it has no data channel and hears only
	}
	return b
}

// startBrowser makes b the call's browser and runs its goroutines.
func (c *call) startBrowser(ctx context.Context, b *browserLeg) {
	ctx, b.cancel = context.WithCancel(ctx)
	c.peer.Store(b)
	c.toUser.Set(b.leg)
	b.told = background(func() { b.out.run(ctx, b.leg) })
	b.pumped = background(func() { c.pump(b.leg.Forward(ctx, &c.toUp, &c.fromUser), "browser") })
}

// endBrowser closes a browser's connection once its events have been sent.
func (c *call) endBrowser(b *browserLeg) {
	b.out.close()
	await(b.told, outboxTimeout)
	b.cancel()
	c.report("browser", b.leg.Close())
	<-b.told
	<-b.pumped
}

// join lets another connection take the browser's place. The one before is told.
func (w *worker) join(b *browserLeg) session.Input {
	old := w.peer.Load()
	old.out.push(session.EndedEvent(EndTakenOver), false)
	w.startBrowser(w.legs.ctx, b)
	w.leaving.Go(func() { w.endBrowser(old) })
	return session.BrowserJoined{Gen: b.gen, Limit: b.leg.MaxMessageSize()}
}

// Reconnect gives a live call its browser back and returns our SDP. An offer of the
// browser's peer connection restarts ICE; any other one comes from a page that was
// loaded again, or from another device of the same owner, and takes its place. The
// upstream, tools that run and the thread go on. A call that is not there, or is a
// stranger's, is persistence.ErrNotFound. Errors: also *Error for the offer.
func (c *Calls) Reconnect(ctx context.Context, owner, callID, offer string) (answer string, err error) {
	if err := rtc.CheckOffer(offer); err != nil {
		return "", offerError(err)
	}
	if c.ofOwner(owner, callID) == nil {
		if rec, ok, err := c.others().elsewhereByID(ctx, owner, callID); err != nil {
			return "", err
		} else if ok {
			r, err := c.others().ask(ctx, rec, commandReconnect, question{Offer: offer})
			return r.Answer, err
		}
	}
	return c.reconnectHere(ctx, owner, callID, offer)
}

// reconnectHere is Reconnect for a call of this process.
func (c *Calls) reconnectHere(ctx context.Context, owner, callID, offer string) (answer string, err error) {
	live := c.ofOwner(owner, callID)
	if live == nil || live.ends.Load() {
		return "", fmt.Errorf("reconnect call: %w", persistence.ErrNotFound)
	}
	live.joining.Lock() // one after the other
	defer live.joining.Unlock()
	peer := live.peer.Load()
	answer, err = peer.leg.Restart(ctx, offer)
	switch {
	case err == nil:
		return answer, nil
	case errors.Is(err, rtc.ErrOtherPeer), errors.Is(err, rtc.ErrClosed):
		return c.replaceBrowser(ctx, live, offer)
	case errors.Is(err, rtc.ErrBadSDP), errors.Is(err, rtc.ErrNoOpus):
		return "", offerError(err)
	default:
		return "", fmt.Errorf("reconnect call: %w", err)
	}
}

// replaceBrowser makes another connection the browser's.
func (c *Calls) replaceBrowser(ctx context.Context, live *call, offer string) (string, error) {
	live.browserGen++
	gen := live.browserGen
	peer, answer, err := c.cfg.Browser.Answer(ctx, offer, live.browserHandlers(gen))
	if err != nil {
		if errors.Is(err, rtc.ErrBadSDP) || errors.Is(err, rtc.ErrNoOpus) {
			return "", offerError(err)
		}
		return "", fmt.Errorf("answer browser: %w", err)
	}
	b := live.newBrowser(gen, peer, c.cfg.OnDraftsDropped)
	select {
	case live.joined <- b:
		return answer, nil
	case <-live.quit:
		err = fmt.Errorf("reconnect call: %w", persistence.ErrNotFound)
	case <-ctx.Done():
		err = fmt.Errorf("reconnect call: %w", context.Cause(ctx))
	}
	return "", errors.Join(err, peer.Close())
}

// ofOwner finds a call of the owner's, nil when there is none.
func (c *Calls) ofOwner(owner, callID string) *call {
	c.mu.Lock()
	defer c.mu.Unlock()
	live := c.byID[callID]
	if live == nil || live.key.Owner != owner {
		return nil
	}
	return live
}

// Free ends the thread's call when that waits for its browser: it does not hold the
// thread. It returns when the thread is free, or is held by a call that does not wait.
func (c *Calls) Free(ctx context.Context, key persistence.Key) error {
	if c.find(key) == nil {
		return c.others().clear(ctx, key, false)
	}
	return c.freeHere(ctx, key)
}

// freeHere is Free for a call of this process.
func (c *Calls) freeHere(ctx context.Context, key persistence.Key) error {
	live := c.find(key)
	if live == nil || !live.waiting.Load() {
		return nil
	}
	live.stop(EndTakenOver)
	select {
	case <-live.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("end waiting call: %w", context.Cause(ctx))
	}
}

// Waiting says that the thread's call waits for its browser.
func (c *Calls) Waiting(key persistence.Key) bool {
	live := c.find(key)
	return live != nil && live.waiting.Load()
}
