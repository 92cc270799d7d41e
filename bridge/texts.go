package bridge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"voicebridge/bridge/internal/session"
	"voicebridge/persistence"
	"voicebridge/thread"
)

// Say puts a text of the user, with images of the thread, into the thread's call in this process, which answers by
// voice, and returns the saved message. Its id is m's, or a new one if that is empty; a text whose id the call knows is
// not said again. Errors: *Error with CodeNoCall, which is a persistence.ErrNotFound, or CodeBadText, the store's, and
// ctx's cause.
//
// With queued, the id of the queue's message that m is, the same transaction saves m and marks the queue's message as
// sent. A text that no call accepts is then a persistence.ErrInvalid, and while the call's changes wait for the
// database the error is persistence.ErrBusy: another process may take the message then.
func (c *Calls) Say(ctx context.Context, key thread.Key, m thread.Message, queued string) (thread.Message, error) {
	in := session.ServerText{
		MessageID: cmp.Or(m.ID, persistence.NewID()), Text: m.Text(), Source: m.Metadata.Source, Extra: m.Metadata.Extra,
		Queued: queued,
	}
	var imageIDs []string
	for _, p := range m.Parts {
		if id, ok := p.ImageID(key.Thread); ok {
			imageIDs = append(imageIDs, id)
		}
	}
	if queued != "" && c.delayed.Load() {
		return thread.Message{}, fmt.Errorf("say in call: %w", persistence.ErrBusy)
	}
	said, err := c.say(ctx, key, in, imageIDs)
	if e, ok := errors.AsType[*Error](err); ok && queued != "" && e.Code != CodeNoCall {
		err = fmt.Errorf("%w: %w", persistence.Invalid("text: a call accepts 1 to %d bytes", session.MaxInputText), err)
	}
	return said, err
}

// Call returns the id of the thread's call, empty if nothing can be said in it now, and whether to
// leave the thread alone: its call is making an answer, being set up or ending, or its changes wait
// for the database.
func (c *Calls) Call(key thread.Key) (id string, busy bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch live := c.live[key]; {
	case live == nil:
		return "", false
	case c.byID[live.id] == nil:
		return "", true
	default:
		return live.id, live.talking.Load() || live.ends.Load() || live.waiting.Load() || c.delayed.Load()
	}
}

// say puts a text into the thread's call.
func (c *Calls) say(
	ctx context.Context, key thread.Key, in session.ServerText, imageIDs []string,
) (thread.Message, error) {
	text := in.Text
	switch {
	case strings.TrimSpace(text) == "" && len(imageIDs) == 0:
		return thread.Message{}, &Error{Code: CodeBadText, Message: "The text is empty.", Param: "content"}
	case len(text) > session.MaxInputText:
		return thread.Message{}, &Error{Code: CodeBadText, Param: "content",
			Message: fmt.Sprintf("The text has %d bytes; the limit is %d.", len(text), session.MaxInputText)}
	}
	noCall := &Error{Code: CodeNoCall, Message: "There is no live call on this thread."}
	if err := c.freeHere(ctx, key); err != nil {
		return thread.Message{}, err
	}
	live := c.find(key)
	if live == nil {
		return thread.Message{}, noCall
	}
	var err error
	if in.Images, err = live.images.named(ctx, imageIDs[:min(len(imageIDs), maxImages)],
		live.images.room(maxShownBytes, len(text))); err != nil {
		return thread.Message{}, err
	}
	saved := live.acks.await(in.MessageID)
	live.post(in)
	select {
	case m, ok := <-saved:
		if ok {
			return m, nil
		}
	case <-ctx.Done():
		return thread.Message{}, fmt.Errorf("say in call: %w", context.Cause(ctx))
	}
	// The call is over. What it said last may still wait for the database: who is told that there is no call says it
	// again.
	if err := c.unsaved.await(ctx, key, endPatience); err != nil {
		return thread.Message{}, err
	}
	m, err := c.cfg.Store.Message(ctx, key, in.MessageID)
	if errors.Is(err, persistence.ErrNotFound) {
		err = noCall
	}
	return m, err
}

// Interrupt stops what the thread's call in this process is doing: its answer, its audio, and its tools. stopped is
// false if there was nothing to stop.
func (c *Calls) Interrupt(ctx context.Context, key thread.Key) (stopped bool, err error) {
	live := c.find(key)
	if live == nil {
		return false, nil
	}
	reply := make(chan bool, 1)
	live.post(session.Interrupt{Stopped: reply})
	select {
	case stopped = <-reply:
		return stopped, nil
	case <-live.quit:
		return false, nil
	case <-ctx.Done():
		return false, fmt.Errorf("interrupt call: %w", context.Cause(ctx))
	}
}

// Forget makes the model in the thread's call in this process, if there is one, forget what was said so far.
func (c *Calls) Forget(key thread.Key) {
	if live := c.find(key); live != nil {
		live.post(session.ContextReset{})
	}
}
