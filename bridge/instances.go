package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"voicebridge/persistence"
)

// What instances ask each other for.
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
}

// reply is what comes back. Failures that a client is told of are part of it.
type reply struct {
	Answer  string               `json:"answer,omitempty"`
	Stopped bool                 `json:"stopped,omitempty"`
	Message *persistence.Message `json:"message,omitempty"`
	Missing bool                 `json:"missing,omitempty"` // persistence.ErrNotFound
	Error   *Error               `json:"error,omitempty"`
}

var errUnreachable = &Error{Code: CodeUnreachable, Message: "Another process of this server has the call and does not answer. Try again."}

// HandleCommand carries out what another instance asks for of a call that this one
// has. It is for persistence.Store.HandleCommands.
func (c *Calls) HandleCommand(ctx context.Context, command persistence.Command) (json.RawMessage, error) {
	var q question
	if err := json.Unmarshal(command.Body, &q); err != nil {
		return nil, fmt.Errorf("decode command: %w", err)
	}
	var r reply
	err := c.carryOut(ctx, command, q, &r)
	if e, ok := errors.AsType[*Error](err); ok {
		told := *e
		told.Err = nil
		r.Error, err = &told, nil
	} else if errors.Is(err, persistence.ErrNotFound) {
		r.Missing, err = true, nil
	}
	if err != nil {
		return nil, err
	}
	return json.Marshal(r)
}

func (c *Calls) carryOut(ctx context.Context, command persistence.Command, q question, r *reply) (err error) {
	key := command.Key
	switch command.Kind {
	case commandHangup:
		return c.endHere(ctx, key.Owner, q.CallID, EndHangup)
	case commandTakeOver:
		return c.endHere(ctx, key.Owner, q.CallID, EndTakenOver)
	case commandFree:
		return c.freeHere(ctx, key)
	case commandReconnect:
		r.Answer, err = c.reconnectHere(ctx, key.Owner, q.CallID, q.Offer)
		return err
	case commandInterrupt:
		r.Stopped, err = c.interruptHere(ctx, key)
		return err
	case commandForget:
		c.forgetHere(key)
		return nil
	case commandSay:
		m, err := c.sayHere(ctx, key, textOf(q.Text))
		r.Message = &m
		return err
	default:
		return fmt.Errorf("command %q is not known", command.Kind)
	}
}

// elsewhere finds the thread's call that another instance has.
func (c *Calls) elsewhere(ctx context.Context, key persistence.Key) (rec persistence.CallRecord, ok bool, err error) {
	rec, err = c.cfg.Store.LiveCall(ctx, key)
	return c.ofOthers(rec, err)
}

// elsewhereByID is elsewhere for a call of the owner's.
func (c *Calls) elsewhereByID(ctx context.Context, owner, id string) (rec persistence.CallRecord, ok bool, err error) {
	rec, err = c.cfg.Store.Call(ctx, owner, id)
	return c.ofOthers(rec, err)
}

func (c *Calls) ofOthers(rec persistence.CallRecord, err error) (persistence.CallRecord, bool, error) {
	if errors.Is(err, persistence.ErrNotFound) {
		return rec, false, nil
	}
	return rec, err == nil && rec.EndedAt == nil && rec.Instance != "" && rec.Instance != c.cfg.Store.Instance(), err
}

// ask has the instance of a call do something with it.
func (c *Calls) ask(ctx context.Context, rec persistence.CallRecord, kind string, q question) (reply, error) {
	q.CallID = rec.ID
	body, err := json.Marshal(q)
	if err != nil {
		return reply{}, fmt.Errorf("encode command: %w", err)
	}
	answer, err := c.cfg.Store.Ask(ctx, persistence.Command{
		Instance: rec.Instance, Key: persistence.Key{Owner: rec.Owner, Thread: rec.ThreadID}, Kind: kind, Body: body,
	})
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return reply{}, errUnreachable
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

// clear frees the thread of a call that another instance has: for a takeover, or
// because the call waits for its browser.
func (c *Calls) clear(ctx context.Context, key persistence.Key, takeover bool) error {
	rec, ok, err := c.elsewhere(ctx, key)
	if err != nil || !ok {
		return err
	}
	kind := commandFree
	if takeover {
		kind = commandTakeOver
	}
	if _, err := c.ask(ctx, rec, kind, question{}); err != nil && !errors.Is(err, persistence.ErrNotFound) {
		return err
	}
	return nil
}
