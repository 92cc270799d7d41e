package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"voicebridge/bridge/internal/session"
	"voicebridge/persistence/cluster"
	"voicebridge/realtime/rtc"
	"voicebridge/toolkit"
)

// HandleCommand carries out another instance's command about a call of this one. It is for
// cluster.Cluster.HandleCommands.
func (c *Calls) HandleCommand(ctx context.Context, command cluster.Command) (json.RawMessage, error) {
	var q question
	if err := json.Unmarshal(command.Body, &q); err != nil {
		return nil, fmt.Errorf("decode command: %w", err)
	}
	var r reply
	err := c.carryOut(ctx, command, q, &r)
	if err != nil && ctx.Err() != nil { // this process is shutting down, or nobody waits for the answer
		err = errUnreachable
	}
	if e, ok := errors.AsType[*Error](err); ok {
		sent := *e
		sent.Err = nil
		err = &cluster.CommandError{Code: codeCall, Message: string(toolkit.Encode(sent))}
	}
	if err != nil {
		return nil, err
	}
	return json.Marshal(r)
}

func (c *Calls) carryOut(ctx context.Context, command cluster.Command, q question, r *reply) (err error) {
	key := command.Key
	switch command.Kind {
	case commandHangup:
		return endHere(ctx, c.ofOwner(key.Owner, q.CallID), EndHangup)
	case commandTakeOver:
		return endHere(ctx, c.holder(key, q.CallID), EndTakenOver)
	case commandFree:
		return c.freeAndSave(ctx, key)
	case commandReconnect:
		if err := rtc.CheckOffer(q.Offer); err != nil {
			return offerError(err)
		}
		r.Answer, err = c.reconnectHere(ctx, key.Owner, q.CallID, q.Offer)
		return err
	case commandAdmit:
		return c.admitHere(key.Owner, q.CallID, r)
	case commandRecord:
		return c.setRecordingHere(ctx, key.Owner, q.CallID, RecordingState(q.Text))
	case commandInterrupt:
		r.Stopped, err = c.interruptHere(ctx, key)
		return err
	case commandForget:
		c.forgetHere(key)
		return nil
	case commandSay:
		m, err := c.sayHere(ctx, key, session.ServerText{MessageID: q.MessageID, Text: q.Text}, q.ImageIDs)
		r.Message = &m
		return err
	default:
		return fmt.Errorf("unknown command %q", command.Kind)
	}
}
