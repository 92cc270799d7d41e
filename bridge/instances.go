package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"voicebridge/bridge/internal/session"
	"voicebridge/persistence"
	"voicebridge/persistence/cluster"
	"voicebridge/persistence/records"
	"voicebridge/thread"
)

// The kinds of commands between instances.
const (
	commandHangup    = "call.hangup"
	commandTakeOver  = "call.take_over"
	commandFree      = "call.free"
	commandReconnect = "call.reconnect"
	commandInterrupt = "call.interrupt"
	commandForget    = "call.forget"
	commandSay       = "call.say"
	commandAdmit     = "call.admit"
	commandRecord    = "call.record"
)

// question is the body of a command.
type question struct {
	CallID string `json:"call_id,omitempty"`
	Offer  string `json:"offer,omitempty"`
	Text   string `json:"text,omitempty"`
	// MessageID is the id for the message with the text; empty for a new one.
	MessageID string `json:"message_id,omitempty"`
	// ImageIDs are the images that go with the text.
	ImageIDs []string `json:"image_ids,omitempty"`
}

// codeCall is the code of a failed command whose message is an [Error].
const codeCall = "call"

// reply is the answer to a command.
type reply struct {
	Answer  string          `json:"answer,omitempty"`
	Stopped bool            `json:"stopped,omitempty"`
	Message *thread.Message `json:"message,omitempty"`
	// Where a socket for the call may connect, by which ticket, and whose call it is.
	cluster.Address

	Ticket   string `json:"ticket,omitempty"`
	Instance string `json:"instance,omitempty"`
}

var errUnreachable = &Error{
	Code: CodeUnreachable, Message: "Another process of this server has the call and does not answer. Try again.",
}

// command has another instance carry out a command about a call: the thread's or, if q names one, the owner's with that
// id. elsewhere is false if no other instance has it.
func (c *Calls) command(
	ctx context.Context, key thread.Key, kind string, q question,
) (r reply, elsewhere bool, err error) {
	store := c.cfg.Store
	var rec records.Call
	switch {
	case q.CallID == "" && c.find(key) == nil:
		rec, err = store.Records.LiveCall(ctx, key)
	case q.CallID != "" && c.ofOwner(key.Owner, q.CallID) == nil:
		rec, err = store.Records.Call(ctx, key.Owner, q.CallID)
	default:
		return reply{}, false, nil
	}
	switch {
	case errors.Is(err, persistence.ErrNotFound):
		return reply{}, false, nil
	case err != nil, rec.EndedAt != nil, rec.Instance == "", rec.Instance == store.Instance():
		return reply{}, false, err
	}
	q.CallID = rec.ID
	body, err := json.Marshal(q)
	if err != nil {
		return reply{}, true, fmt.Errorf("encode command: %w", err)
	}
	answer, err := store.Cluster.Ask(ctx, cluster.Command{
		Instance: rec.Instance, Key: thread.Key{Owner: rec.Owner, Thread: rec.ThreadID}, Kind: kind, Body: body,
	})
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return reply{}, true, errUnreachable
	}
	if errors.Is(err, persistence.ErrGone) {
		if _, err := store.Recover(ctx); err != nil { // this ends the call
			return reply{}, true, err
		}
		err = errors.Join(err, persistence.ErrNotFound)
	}
	if failed, ok := errors.AsType[*cluster.CommandError](err); ok && failed.Code == codeCall {
		refused := new(Error)
		if err := json.Unmarshal([]byte(failed.Message), refused); err != nil {
			return reply{}, true, fmt.Errorf("decode answer of another instance: %w", err)
		}
		return reply{}, true, refused
	}
	if err != nil {
		return reply{}, true, err
	}
	if err := json.Unmarshal(answer, &r); err != nil {
		return reply{}, true, fmt.Errorf("decode answer of another instance: %w", err)
	}
	return r, true, nil
}

// clear frees the thread of a call on another instance, for a takeover or because the call is
// waiting for its browser.
func (c *Calls) clear(ctx context.Context, key thread.Key, takeover bool) error {
	kind := commandFree
	if takeover {
		kind = commandTakeOver
	}
	if _, _, err := c.command(ctx, key, kind, question{}); err != nil && !errors.Is(err, persistence.ErrNotFound) {
		return err
	}
	return nil
}

// Hangup ends a call, on any instance, and returns when everything in it is saved; while the
// database is unavailable it waits up to 10 s for that. persistence.ErrNotFound means that the call
// does not exist or belongs to another owner.
func (c *Calls) Hangup(ctx context.Context, owner, callID string) error {
	if _, elsewhere, err := c.command(ctx, thread.Key{Owner: owner}, commandHangup,
		question{CallID: callID}); elsewhere || err != nil {
		if errors.Is(err, persistence.ErrGone) {
			return nil // this has ended it
		}
		return err
	}
	return endHere(ctx, c.ofOwner(owner, callID), EndHangup)
}

// endHere ends a call of this process; nil means that there is none.
func endHere(ctx context.Context, live *call, reason EndReason) error {
	if live == nil {
		return fmt.Errorf("hang up call: %w", persistence.ErrNotFound)
	}
	live.stop(reason)
	select {
	case <-live.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("hang up call: %w", context.Cause(ctx))
	}
}

// Way is how a socket for a call gets to the process that has the call.
type Way struct {
	cluster.Address

	// Ticket lets one socket in there, soon and once: see [Calls.Redeem].
	Ticket string
	// Gone reports whether that process is known to be dead.
	Gone func() bool
}

// Elsewhere returns the way to a call of the owner that another process has. elsewhere is false if none has it; an
// *Error with CodeUnreachable says that it cannot be reached.
func (c *Calls) Elsewhere(ctx context.Context, owner, callID string) (way Way, elsewhere bool, err error) {
	r, elsewhere, err := c.command(ctx, thread.Key{Owner: owner}, commandAdmit, question{CallID: callID})
	if !elsewhere || err != nil {
		return Way{}, elsewhere, err
	}
	return Way{
		r.Address, r.Ticket, func() bool { _, dead := c.cfg.Store.Cluster.Dead(r.Instance); return dead },
	}, true, nil
}

// admitHere lets another process bring a socket for a call of this one.
func (c *Calls) admitHere(owner, callID string, r *reply) error {
	if live := c.ofOwner(owner, callID); live == nil || live.ends.Load() {
		return fmt.Errorf("admit socket: %w", persistence.ErrNotFound)
	}
	if c.cfg.Address != nil {
		r.Address = c.cfg.Address()
	}
	if r.URL == "" {
		return errUnreachable
	}
	r.Instance, r.Ticket = c.cfg.Store.Instance(), c.tickets.issue(owner, callID, time.Now())
	return nil
}

// Redeem returns for which call of which owner a ticket is, which is then used up.
func (c *Calls) Redeem(ticket string) (owner, callID string, ok bool) {
	return c.tickets.redeem(ticket, time.Now())
}

// RecordingState is whether a call is being recorded.
type RecordingState = session.RecordingState

// The states in which a client may put a recording.
const (
	RecordingOn     = session.RecordingOn
	RecordingPaused = session.RecordingPaused
)

// SetRecording pauses the recording of a live call, or goes on with it, on any instance. persistence.ErrNotFound means
// that the call does not exist or belongs to another owner, and CodeNotRecorded that it is not recorded.
func (c *Calls) SetRecording(ctx context.Context, owner, callID string, state RecordingState) error {
	if _, elsewhere, err := c.command(ctx, thread.Key{Owner: owner}, commandRecord,
		question{CallID: callID, Text: string(state)}); elsewhere || err != nil {
		return err
	}
	return c.setRecordingHere(ctx, owner, callID, state)
}

// setRecordingHere is SetRecording for a call of this process.
func (c *Calls) setRecordingHere(ctx context.Context, owner, callID string, state RecordingState) error {
	live := c.ofOwner(owner, callID)
	if live == nil {
		return fmt.Errorf("set recording: %w", persistence.ErrNotFound)
	}
	recorded := make(chan bool, 1)
	live.post(session.SetRecording{State: state, Recorded: recorded})
	select {
	case yes := <-recorded:
		if !yes {
			return &Error{Code: CodeNotRecorded, Message: "The call is not being recorded."}
		}
		return nil
	case <-live.quit:
		return fmt.Errorf("set recording: %w", persistence.ErrNotFound)
	case <-ctx.Done():
		return fmt.Errorf("set recording: %w", context.Cause(ctx))
	}
}
