package bridge

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"voicebridge/assistant"
	"voicebridge/bridge/internal/session"
	"voicebridge/persistence"
	"voicebridge/realtime"
	"voicebridge/realtime/rtc"
	"voicebridge/thread"
)

// maxTakeovers is how often Start takes a thread over from processes that begin a call meanwhile.
const maxTakeovers = 10

// Started is the result of a start.
type Started struct {
	CallID   string
	ThreadID string
	// Answer is the SDP answer.
	Answer string
	// MaskKeys means that nobody but the model is to learn which keys of a telephone were pressed, nor to hear them.
	MaskKeys bool
}

// Start sets up a call and returns once the upstream has accepted it: then the browser can connect.
// Errors: *Error, or persistence.ErrNotFound if the thread does not exist or belongs to another
// owner.
func (c *Calls) Start(ctx context.Context, start Start) (Started, error) {
	done := make(chan struct{})
	defer close(done)
	select {
	case c.admit <- func() { <-done }: // Run waits for it: what a set-up leaves has to be saved and hung up
	case <-c.ending:
		return Started{}, errShuttingDown
	case <-ctx.Done():
		return Started{}, fmt.Errorf("start call: %w", context.Cause(ctx))
	}
	if c.cfg.Writer.Full() {
		return Started{}, errStorageFull
	}
	patch, err := c.check(start)
	if err != nil {
		return Started{}, err
	}
	key, created, err := c.thread(ctx, start)
	if err != nil {
		return Started{}, err
	}
	id := persistence.NewID()
	if start.Phone != nil {
		id = cmp.Or(start.Phone.CallID, id)
	}
	incoming := newCall(id, key, c.log)
	answer, err := c.connect(ctx, incoming, start, patch)
	for tries := 1; start.Takeover && errors.Is(err, errCallActive) && tries < maxTakeovers; tries++ {
		// Another process has just begun a call, which was not there to be ended.
		incoming = newCall(persistence.NewID(), key, c.log)
		answer, err = c.connect(ctx, incoming, start, patch)
	}
	if start.Takeover && errors.Is(err, errCallActive) {
		err = errNotTakenOver
	}
	if err != nil && created {
		// Nobody has seen it: an empty thread would only be in the way.
		err = errors.Join(err, c.cfg.Store.DeleteThread(context.WithoutCancel(ctx), key))
	}
	if err != nil {
		return Started{}, err
	}
	return Started{
		CallID: incoming.id, ThreadID: key.Thread, Answer: answer, MaskKeys: incoming.assistant.MaskKeys,
	}, nil
}

// check rejects a request that cannot become a call, before anything is made for it.
func (c *Calls) check(start Start) (session.Patch, error) {
	if start.Socket == nil {
		if err := rtc.CheckOffer(start.Offer); err != nil {
			return session.Patch{}, offerError(err)
		}
	}
	if _, ok := c.cfg.route(start.Upstream); !ok {
		return session.Patch{}, &Error{
			Code: CodeNoUpstream, Message: fmt.Sprintf("There is no upstream %q.", start.Upstream), Param: "upstream",
		}
	}
	if start.Session == nil {
		return session.Patch{}, nil
	}
	return c.readSession(start.Session, start.Fixed)
}

// ReadSession returns what a call takes of a client's session object, or of one that an application's server fixes. Its
// error is an *Error, as Start's.
func (c *Calls) ReadSession(object json.RawMessage, fixed bool) (realtime.Settings, error) {
	patch, err := c.readSession(object, fixed)
	return patch.Settings(), err
}

func (c *Calls) readSession(object json.RawMessage, fixed bool) (session.Patch, error) {
	patch, refused := c.cfg.Session.Read(object, fixed)
	if refused != nil {
		return session.Patch{}, &Error{
			Code: CodeBadSession, Message: refused.Message, Param: refused.Param, Err: refused,
		}
	}
	return patch, nil
}

// thread finds the thread of the call, or creates one.
func (c *Calls) thread(ctx context.Context, start Start) (key thread.Key, created bool, err error) {
	key = thread.Key{Owner: start.Owner, Thread: start.ThreadID}
	var t persistence.Thread
	if start.ThreadID != "" {
		t, err = c.cfg.Store.Thread(ctx, key)
	} else {
		t, err = c.cfg.Store.CreateThread(ctx, start.Owner, "")
		created = err == nil
	}
	key.Thread = t.ID
	had := assistant.Ref{Owner: t.AssistantOwner, ID: t.AssistantID}
	chosen := start.Assistant
	if chosen.ID == "" {
		chosen = had
	}
	values := start.Variables
	if p := start.Phone; p != nil {
		values = maps.Clone(t.Variables)
		if values == nil {
			values = map[string]string{}
		}
		maps.Copy(values, start.Variables)
		values["caller"], values["called"] = p.Caller, p.Called
	}
	if err == nil && (chosen != had || values != nil) {
		_, err = c.cfg.Store.SetAssistant(ctx, key, chosen, values)
	}
	return key, created, err
}

// screened is for calls out, which may be answered by what screens them.
const screened = "You have made this telephone call. If a machine or an assistant asks who is calling, or why, " +
	"say that it is %s, and why."

// assistantOf returns the thread's assistant with its texts filled in, and what a call has with it.
func (c *Calls) assistantOf(
	ctx context.Context, key thread.Key, start Start,
) (assistant.Assistant, *Config, error) {
	a, err := c.cfg.Store.Assistants.Of(ctx, key)
	if err != nil {
		return a, nil, err
	}
	a.Instructions = cmp.Or(a.Instructions, c.cfg.Session.Instructions)
	if p := start.Phone; p != nil && p.CallID != "" {
		a.Instructions = strings.TrimSpace(a.Instructions + "\n\n" + fmt.Sprintf(screened, p.Line))
	}
	a = a.Filled(time.Now(), start.User)
	return a, c.cfg.with(a), nil
}

// connect reserves the thread, sets up the call and hands it over to Run.
func (c *Calls) connect(
	ctx context.Context, incoming *call, start Start, patch session.Patch,
) (answer string, err error) {
	if err := c.reserve(ctx, incoming, start); err != nil {
		return "", err
	}
	incoming.observer = c.cfg.Observe(ctx, incoming.key, incoming.id)
	defer func() {
		if err != nil {
			c.release(incoming)
			incoming.observer.Ended(EndNone)
		}
	}()
	if start.ThreadID != "" {
		if err := c.clear(ctx, incoming.key, start.Takeover); err != nil {
			return "", err
		}
	}
	a, cfg, err := c.assistantOf(ctx, incoming.key, start)
	if err != nil {
		return "", err
	}
	incoming.assistant = a
	route, _ := cfg.route(start.Upstream) // it was checked
	if start.Upstream == "" && a.Voice.Upstream != "" {
		if named, ok := cfg.route(a.Voice.Upstream); ok { // else it is gone from the settings
			route = named
		}
	}
	set := setup{calls: c, call: incoming, start: start, patch: patch, cfg: cfg, route: route}
	s, answer, err := set.run(ctx)
	if err != nil {
		return "", err
	}
	c.mu.Lock()
	c.byID[incoming.id] = incoming
	c.mu.Unlock()
	select {
	case c.admit <- func() { c.runOne(incoming, s) }:
		return answer, nil
	case <-c.ending:
		set.undo()
		return "", errShuttingDown
	case <-ctx.Done():
		set.undo()
		return "", fmt.Errorf("start call: %w", context.Cause(ctx))
	}
}

// goodbyeTime is how long after a request for a call that its client has left the call before may come.
const goodbyeTime = 200 * time.Millisecond

// room returns why there is none for one more call; c.mu is held. Of the owner's calls in other processes the database
// knows.
func (c *Calls) room(start Start) error {
	own := 0
	for key := range c.live {
		if key.Owner == start.Owner {
			own++
		}
	}
	switch {
	case start.Calls > 0 && len(c.live) >= start.Calls:
		return errAllCalls
	case start.OwnerCalls > 0 && own >= start.OwnerCalls:
		return errOwnersCalls
	}
	return nil
}

// reserve claims the thread for a new call. It waits for a call that is ending, or is about to, and on takeover it
// ends one that is not: their places are the new one's.
func (c *Calls) reserve(ctx context.Context, incoming *call, start Start) error {
	moves := false
	var goodbye <-chan time.Time
	late := false
	for {
		c.mu.Lock()
		old := c.live[incoming.key]
		if old == nil {
			defer c.mu.Unlock()
			if err := c.room(start); err != nil && !moves {
				return err
			}
			c.live[incoming.key] = incoming
			return nil
		}
		moves = true
		c.mu.Unlock()
		switch {
		case old.ends.Load():
			// After hanging up, a user may call again at once.
		case !start.Takeover && !old.waiting.Load():
			if late {
				return errCallActive
			}
			goodbye = time.After(goodbyeTime)
		default:
			old.stop(EndTakenOver)
		}
		select {
		case <-old.done:
		case <-goodbye:
			late, goodbye = true, nil
		case <-ctx.Done():
			return fmt.Errorf("take over call: %w", context.Cause(ctx))
		}
	}
}
