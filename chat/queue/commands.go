package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"voicebridge/persistence"
	"voicebridge/persistence/cluster"
	"voicebridge/thread"
	"voicebridge/toolkit"
)

// commands is the prefix of the kinds of this package's commands.
const commands = "queue."

// commandSend asks the instance that has the thread's call to send a message now.
const commandSend = commands + "send"

// ErrUnreachable means that another instance has the thread's call but does not answer.
var ErrUnreachable = errors.New("the process that has the call does not answer")

// codeClosed is the code of ErrClosed.
const codeClosed = "queue_closed"

// sendQuestion is the body of a command.
type sendQuestion struct {
	ID string `json:"id"`
}

// IsCommand reports whether HandleCommand is for the command.
func IsCommand(c cluster.Command) bool { return strings.HasPrefix(c.Kind, commands) }

// Send sends a waiting message at once, ahead of others and even if the queue is paused. If the
// call is on another instance, that one sends it. The errors are persistence.ErrNotFound,
// persistence.ErrBusy, persistence.ErrInvalid for a text that the call cannot accept, ErrClosed and ErrUnreachable.
func (q *Queue) Send(ctx context.Context, key thread.Key, id string) error {
	if _, err := q.Get(ctx, key, id); err != nil {
		return err
	}
	if there, err := q.sendThere(ctx, key, id); there || err != nil {
		return err
	}
	return q.sendHere(ctx, key, id)
}

// HandleCommand carries out another instance's command. It is for cluster.Cluster.HandleCommands.
func (q *Queue) HandleCommand(ctx context.Context, c cluster.Command) (json.RawMessage, error) {
	if c.Kind != commandSend {
		return nil, fmt.Errorf("unknown command %.50q", c.Kind)
	}
	var question sendQuestion
	if err := json.Unmarshal(c.Body, &question); err != nil {
		return nil, fmt.Errorf("decode command: %w", err)
	}
	_, err := q.Get(ctx, c.Key, question.ID)
	if err == nil {
		err = q.sendHere(ctx, c.Key, question.ID)
	}
	if errors.Is(err, ErrClosed) {
		err = &cluster.CommandError{Code: codeClosed, Message: err.Error()}
	}
	return nil, err
}

// sendThere has the instance that has the thread's call send the message. It returns false if no
// other instance has one.
func (q *Queue) sendThere(ctx context.Context, key thread.Key, id string) (there bool, err error) {
	call, err := q.store.Records.LiveCall(ctx, key)
	if errors.Is(err, persistence.ErrNotFound) ||
		err == nil && (call.Instance == "" || call.Instance == q.store.Instance()) {
		return false, nil
	}
	if err != nil {
		return true, err
	}
	_, err = q.store.Cluster.Ask(ctx, cluster.Command{
		Instance: call.Instance, Key: key, Kind: commandSend, Body: toolkit.Encode(sendQuestion{ID: id}),
	})
	failed, _ := errors.AsType[*cluster.CommandError](err)
	switch {
	case errors.Is(err, persistence.ErrGone):
		_, err := q.store.Recover(ctx)
		return err != nil, err
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
		return true, ErrUnreachable
	case failed != nil && failed.Code == codeClosed:
		return true, ErrClosed
	}
	return true, err
}
