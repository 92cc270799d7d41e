package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

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
	Address

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
