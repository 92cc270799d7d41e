package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"voicebridge/persistence"
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

// reply is the answer to a command. It includes failures that the client is told about.
type reply struct {
	Answer  string               `json:"answer,omitempty"`
	Stopped bool                 `json:"stopped,omitempty"`
	Message *persistence.Message `json:"message,omitempty"`
	Missing bool                 `json:"missing,omitempty"` // persistence.ErrNotFound
	Error   *Error               `json:"error,omitempty"`
}

var errUnreachable = &Error{Code: CodeUnreachable, Message: "Another process of this server has the call and does not answer. Try again."}

// instances are the other processes on this database.
type instances struct{ store *persistence.Store }

// elsewhere finds the thread's call on another instance.
func (o instances) elsewhere(ctx context.Context, key persistence.Key) (rec persistence.CallRecord, ok bool, err error) {
	rec, err = o.store.LiveCall(ctx, key)
	return o.ofOthers(rec, err)
}

// elsewhereByID is elsewhere for a call of the owner.
func (o instances) elsewhereByID(ctx context.Context, owner, id string) (rec persistence.CallRecord, ok bool, err error) {
	rec, err = o.store.Call(ctx, owner, id)
	return o.ofOthers(rec, err)
}

func (o instances) ofOthers(rec persistence.CallRecord, err error) (persistence.CallRecord, bool, error) {
	if errors.Is(err, persistence.ErrNotFound) {
		return rec, false, nil
	}
	return rec, err == nil && rec.EndedAt == nil && rec.Instance != "" && rec.Instance != o.store.Instance(), err
}

// ask has the instance of a call carry out a command.
func (o instances) ask(ctx context.Context, rec persistence.CallRecord, kind string, q question) (reply, error) {
	q.CallID = rec.ID
	body, err := json.Marshal(q)
	if err != nil {
		return reply{}, fmt.Errorf("encode command: %w", err)
	}
	answer, err := o.store.Ask(ctx, persistence.Command{
		Instance: rec.Instance, Key: persistence.Key{Owner: rec.Owner, Thread: rec.ThreadID}, Kind: kind, Body: body,
	})
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return reply{}, errUnreachable
	}
	if errors.Is(err, persistence.ErrGone) {
		if _, err := o.store.Recover(ctx); err != nil { // this ends the call
			return reply{}, err
		}
		err = fmt.Errorf("ask for call: %w", persistence.ErrNotFound)
	}
	if err != nil {
		return reply{}, err
	}
	var r reply
	switch err := json.Unmarshal(answer, &r); {
	case err != nil:
		return reply{}, fmt.Errorf("decode answer of another instance: %w", err)
	case r.Missing:
		return reply{}, fmt.Errorf("ask for call: %w", persistence.ErrNotFound)
	case r.Error != nil:
		return reply{}, r.Error
	}
	return r, nil
}

// clear frees the thread of a call on another instance, for a takeover or because the call is
// waiting for its browser.
func (o instances) clear(ctx context.Context, key persistence.Key, takeover bool) error {
	rec, ok, err := o.elsewhere(ctx, key)
	if err != nil || !ok {
		return err
	}
	kind := commandFree
	if takeover {
		kind = commandTakeOver
	}
	if _, err := o.ask(ctx, rec, kind, question{}); err != nil && !errors.Is(err, persistence.ErrNotFound) {
		return err
	}
	return nil
}
