package chat

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"voicebridge/persistence"
	"voicebridge/thread"
)

const (
	// lookAgain is the least time between two readings of the message when text is added to it.
	lookAgain = 200 * time.Millisecond
	// awayPause is the time between two attempts to follow a turn while the database is unavailable.
	awayPause = time.Second
)

// Follow finds the turn that is running on a thread in another process. ErrIdle means that there is none.
func (c *Coordinator) Follow(ctx context.Context, key thread.Key) (*Followed, error) {
	turn, err := c.cfg.Store.RunningTurn(ctx, key)
	if errors.Is(err, persistence.ErrNotFound) {
		return nil, ErrIdle
	}
	if err != nil {
		return nil, fmt.Errorf("follow turn: %w", err)
	}
	m, err := c.cfg.Store.Answering(ctx, key)
	if errors.Is(err, persistence.ErrNotFound) {
		return nil, ErrIdle // it has just ended
	}
	if err != nil {
		return nil, fmt.Errorf("follow turn: %w", err)
	}
	return &Followed{store: c.cfg.Store, key: key, id: turn.ID, message: m.ID, ending: c.ending}, nil
}

// Made finds the turn that has made a message of the assistant; ErrIdle means that there is no such message.
func (c *Coordinator) Made(ctx context.Context, key thread.Key, messageID string) (*Followed, error) {
	m, err := c.cfg.Store.Message(ctx, key, messageID)
	if errors.Is(err, persistence.ErrNotFound) || err == nil && m.Role != thread.RoleAssistant {
		return nil, ErrIdle
	}
	if err != nil {
		return nil, fmt.Errorf("follow turn: %w", err)
	}
	return &Followed{store: c.cfg.Store, key: key, message: m.ID, ending: c.ending}, nil
}

// Reply is a turn, of this process or of another one, as those see it who wait for its end or follow it.
type Reply interface {
	ID() string
	MessageID() string
	Events(ctx context.Context, from int) iter.Seq2[Event, error]
	Wait(ctx context.Context) (Result, error)
}

// Answer finds what answers a user's message of the thread: a turn of this process, as long as it is kept, or else what
// the database has of it, with the id of the turn only while that runs. It is nil if nothing answers it, or the turn
// has failed or was lost in a crash: then the message may be answered again.
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
	found := &Followed{store: c.cfg.Store, key: key, message: answer.ID, ending: c.ending}
	if turn, err := c.cfg.Store.RunningTurn(ctx, key); err == nil && answer.Metadata.Status == thread.StatusInProgress {
		found.id = turn.ID
	}
	return found, nil
}

// Followed is a turn of another process, as seen in the database and in what the thread's watchers
// receive.
type Followed struct {
	store   *persistence.Store
	key     thread.Key
	id      string
	message string          // the id of the assistant's
	ending  context.Context //nolint:containedctx // of the coordinator: done when this process stops
}

// ID is the turn's id.
func (f *Followed) ID() string { return f.id }

// MessageID is the id of the assistant's message.
func (f *Followed) MessageID() string { return f.message }

// Events yields the events of the turn, like [Turn.Events], but always from the beginning: deltas
// may be merged here, so the events have other numbers than in their own process. While the database is unavailable,
// they wait for it, as the turn does. The error is that of ctx, the store's, or ErrClosed: a process that stops does
// not wait for the turns of others.
func (f *Followed) Events(ctx context.Context, _ int) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		defer context.AfterFunc(f.ending, func() { cancel(ErrClosed) })()
		next, left := 0, false
		mirror := newMirror(f.id, f.message, func(e Event) {
			e.Index = next
			next++
			left = left || !yield(e, nil)
		})
		err := f.follow(ctx, mirror, &left)
		for ; errors.Is(err, persistence.ErrUnavailable) && ctx.Err() == nil &&
			!left; err = f.follow(ctx, mirror, &left) {
			select {
			case <-time.After(awayPause):
			case <-ctx.Done():
			}
		}
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		if err != nil && !left {
			yield(Event{}, fmt.Errorf("follow turn: %w", err))
		}
	}
}

// Wait waits for the end of the turn. The errors are those of Events, and ErrClosed.
func (f *Followed) Wait(ctx context.Context) (Result, error) {
	for e, err := range f.Events(ctx, 0) {
		if err != nil {
			return Result{}, err
		}
		if e.Result != nil {
			return *e.Result, nil
		}
	}
	return Result{}, fmt.Errorf("follow turn: %w", ErrClosed)
}

// follow passes the message to the mirror until it is finished, or the reader has left.
func (f *Followed) follow(ctx context.Context, to *mirror, left *bool) error {
	watch := f.store.Watch(f.key)
	defer watch.Close()
	m, err := f.store.Message(ctx, f.key, f.message)
	if err != nil {
		return err
	}
	to.take(m)
	if to.ended || *left {
		return nil
	}
	var looked time.Time
	for e, err := range watch.Events(ctx, m.Revision) {
		if err != nil {
			return err
		}
		switch {
		case e.Type == persistence.EventMessage:
			f.changed(e, to)
		case e.Delta != nil:
			if e.Delta.ID != f.message || time.Since(looked) < lookAgain {
				continue
			}
			looked = time.Now()
			if m, err := f.store.Message(ctx, f.key, f.message); err == nil {
				to.take(m)
			}
		case e.Type != persistence.EventMessageDelta:
			to.takeCallEvent(e)
		}
		if to.ended || *left {
			return nil
		}
	}
	return nil
}

// changed takes a saved message of the thread.
func (f *Followed) changed(e persistence.Event, to *mirror) {
	var data struct {
		Message thread.Message `json:"message"`
	}
	if json.Unmarshal(e.Data, &data) == nil && data.Message.ID == f.message {
		to.take(data.Message)
	}
}
