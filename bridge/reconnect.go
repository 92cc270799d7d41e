package bridge

import (
	"context"
	"errors"
	"fmt"
	"time"

	"voicebridge/bridge/internal/leg"
	"voicebridge/bridge/internal/session"
	"voicebridge/persistence"
	"voicebridge/realtime/media"
	"voicebridge/realtime/rtc"
	"voicebridge/realtime/wsserver"
	"voicebridge/thread"
)

// answer makes a browser's connection. Its error says what is wrong with the offer.
func (c *Calls) answer(ctx context.Context, offer string, h media.Handlers) (leg.Peer, string, error) {
	peer, answer, err := c.answering(ctx, offer, h)
	switch {
	case err == nil:
		return peer, answer, nil
	case errors.Is(err, rtc.ErrBadSDP), errors.Is(err, rtc.ErrNoOpus):
		return nil, "", offerError(err)
	case errors.Is(err, media.ErrClosed):
		return nil, "", &Error{Code: CodeShuttingDown, Message: "The server is shutting down.", Err: err}
	default:
		return nil, "", fmt.Errorf("answer browser: %w", err)
	}
}

// Reconnect connects a browser to a call of this process again and returns the SDP answer. An offer of the same peer
// connection restarts ICE; any other comes from a reloaded page, or from another device of the same owner, and replaces
// the connection. The upstream, running tools and the thread go on. persistence.ErrNotFound means that the call does
// not exist, is ending or belongs to another owner; *Error is about the offer.
func (c *Calls) Reconnect(ctx context.Context, owner, callID, offer string) (answer string, err error) {
	live := c.ofOwner(owner, callID)
	if live == nil || live.ends.Load() {
		return "", fmt.Errorf("reconnect call: %w", persistence.ErrNotFound)
	}
	live.joining.Lock() // one at a time
	defer live.joining.Unlock()
	answer, err = "", rtc.ErrOtherPeer
	if peer, ok := live.newest.Peer.(answerer); ok {
		answer, err = peer.Restart(ctx, offer)
	}
	switch {
	case err == nil:
		live.post(session.BrowserRestarted{Gen: live.newest.Gen})
		return answer, nil
	case errors.Is(err, rtc.ErrOtherPeer), errors.Is(err, media.ErrClosed):
		return c.replaceBrowser(ctx, live, offer)
	case errors.Is(err, rtc.ErrBadSDP), errors.Is(err, rtc.ErrNoOpus):
		return "", offerError(err)
	default:
		return "", fmt.Errorf("reconnect call: %w", err)
	}
}

// ReconnectSocket is Reconnect for a client's connection over WebSocket, which is served, or abandoned, afterwards. The
// formats of an earlier connection of that kind stay. server is
// Start.Server.
func (c *Calls) ReconnectSocket(ctx context.Context, owner, callID string, socket *wsserver.Conn, server bool) error {
	live := c.ofOwner(owner, callID)
	if live == nil || live.ends.Load() {
		return fmt.Errorf("reconnect call: %w", persistence.ErrNotFound)
	}
	live.joining.Lock() // one at a time
	defer live.joining.Unlock()
	live.browserGen++
	socket.Handle(leg.BrowserHandlers(live.browserGen, live.postSocket(socket, server)),
		func() { live.stop(EndBrowserStalled) })
	if before, ok := live.newest.Peer.(*wsserver.Conn); ok {
		socket.Succeed(before)
	}
	return c.join(ctx, live, leg.NewBrowser(live.browserGen, socket, live.log, c.cfg.OnDraftsDropped))
}

// join makes a connection the browser's. It closes one that comes too late.
func (c *Calls) join(ctx context.Context, live *call, b *leg.Browser) (err error) {
	select {
	case live.joined <- b:
		live.newest = b
		return nil
	case <-live.quit:
		err = fmt.Errorf("reconnect call: %w", persistence.ErrNotFound)
	case <-ctx.Done():
		err = fmt.Errorf("reconnect call: %w", context.Cause(ctx))
	}
	return errors.Join(err, b.Peer.Close())
}

// replaceBrowser makes another connection the browser's.
func (c *Calls) replaceBrowser(ctx context.Context, live *call, offer string) (string, error) {
	live.browserGen++
	gen := live.browserGen
	peer, answer, err := c.answer(ctx, offer, leg.BrowserHandlers(gen, live.postBrowser))
	if err != nil {
		return "", err
	}
	return answer, c.join(ctx, live, leg.NewBrowser(gen, peer, live.log, c.cfg.OnDraftsDropped))
}

// Free ends the thread's call if it is waiting for its browser, because then it does not hold the thread. It returns
// when the thread is free, or held by a call that goes on: who has been told that a call has ended does not find it
// there. If the end of a call waits for the database, Free waits up to 30 s for that, since a text turn takes its
// history from the database; then the error is an *Error with CodeStorageFull.
func (c *Calls) Free(ctx context.Context, key thread.Key) error {
	if err := c.clear(ctx, key, false); err != nil {
		return err
	}
	return c.freeAndSave(ctx, key)
}

// clear frees the thread of a call on another instance, for a takeover or because the call is waiting for its browser.
func (c *Calls) clear(ctx context.Context, key thread.Key, takeover bool) error {
	if c.find(key) != nil {
		return nil
	}
	rec, err := c.cfg.Store.Records.LiveCall(ctx, key)
	if err == nil && rec.Instance != "" && rec.Instance != c.cfg.Store.Instance() {
		err = c.cfg.GiveUp(ctx, rec, takeover)
	}
	if errors.Is(err, persistence.ErrGone) {
		_, err = c.cfg.Store.Recover(ctx) // this ends the call
	}
	if errors.Is(err, persistence.ErrNotFound) {
		return nil
	}
	return err
}

// endPatience is how long Free waits until the end of a call is saved: less than proxies and clients usually wait for
// an answer.
const endPatience = 30 * time.Second

// freeAndSave is Free for a call of this process.
func (c *Calls) freeAndSave(ctx context.Context, key thread.Key) error {
	if err := c.freeHere(ctx, key); err != nil || c.find(key) != nil {
		return err
	}
	return c.unsaved.await(ctx, key, endPatience)
}

// freeHere ends a call of this process that is waiting for its browser, and returns when one that is ending has ended.
func (c *Calls) freeHere(ctx context.Context, key thread.Key) error {
	live := c.find(key)
	switch {
	case live == nil, !live.waiting.Load() && !live.ends.Load():
		return nil
	case live.waiting.Load():
		live.stop(EndTakenOver)
	}
	select {
	case <-live.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("end waiting call: %w", context.Cause(ctx))
	}
}

// Waiting reports whether the thread's call is waiting for its browser.
func (c *Calls) Waiting(key thread.Key) bool {
	live := c.find(key)
	return live != nil && live.waiting.Load()
}
