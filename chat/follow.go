package chat

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"voicebridge/persistence"
	"voicebridge/thread"
)

// Reply is a turn, or what is saved of one, as those see it who wait for its end or follow it.
type Reply interface {
	ID() string
	MessageID() string
	Events(ctx context.Context, from int) iter.Seq2[Event, error]
	Wait(ctx context.Context) (Result, error)
}

// Answer finds what answers a user's message of the thread: a turn of this process, as long as it is kept, or else what
// is saved of it. It is nil if nothing answers it, or the turn has failed or was lost in a crash: then the message may
// be answered again. ErrBusy means that another process is answering it.
func (c *Coordinator) Answer(ctx context.Context, key thread.Key, asked thread.Message) (Reply, error) {
	messages, err := c.cfg.Store.Messages(ctx, key, asked.Seq-1, maxReplay)
	if err != nil {
		return nil, fmt.Errorf("find answer: %w", err)
	}
	answers := slices.DeleteFunc(answersTo(messages, asked.ID), func(m thread.Message) bool { return m.IsDiscarded() })
	if len(answers) == 0 {
		return nil, nil
	}
	answer := answers[len(answers)-1]
	if answer.Metadata.Status == thread.StatusFailed ||
		answer.Metadata.Status == thread.StatusInterrupted && answer.Metadata.Extra[extraFinish] == nil {
		return nil, nil
	}
	// A turn whose end was announced without being saved does not learn when it is.
	if t := c.Running(key); t != nil && t.events.message() == answer.ID &&
		(!t.Ended() || t.result.Message.Parts != nil) {
		return t, nil
	}
	if answer.Metadata.Status == thread.StatusInProgress {
		return nil, ErrBusy
	}
	return savedReply{answer}, nil
}

// made finds what is saved of the turn that has made a message of the assistant; ErrIdle means that there is no such
// message, or that another process makes it.
func (c *Coordinator) made(ctx context.Context, key thread.Key, messageID string) (Reply, error) {
	m, err := c.cfg.Store.Message(ctx, key, messageID)
	if errors.Is(err, persistence.ErrNotFound) ||
		err == nil && (m.Role != thread.RoleAssistant || m.Metadata.Status == thread.StatusInProgress) {
		return nil, ErrIdle
	}
	if err != nil {
		return nil, fmt.Errorf("find turn: %w", err)
	}
	return savedReply{m}, nil
}
