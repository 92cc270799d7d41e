package chat

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"

	"voicebridge/persistence"
)

// lookAgain is how often words whose place is not known are looked for in the table.
const lookAgain = 200 * time.Millisecond

// Follow finds the turn that runs on a thread in another process, so that it can be
// followed here. ErrIdle says that none runs.
func (c *Coordinator) Follow(ctx context.Context, key persistence.Key) (*Followed, error) {
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
	return &Followed{store: c.cfg.Store, key: key, id: turn.ID, message: m.ID}, nil
}

// Followed is a turn of another process, as the database and the notes to the thread's
// watchers show it.
type Followed struct {
	store   *persistence.Store
	key     persistence.Key
	id      string
	message string // the id of the assistant's
}

// ID is the turn's id.
func (f *Followed) ID() string { return f.id }

// Events yields what happens in the turn, like [Turn.Events], but always from its
// beginning: words that came one by one there may come together here, so the events
// have other numbers. The error is that of ctx, or the store's.
func (f *Followed) Events(ctx context.Context, _ int) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		next, left := 0, false
		mirror := newMirror(f.id, f.message, func(e Event) {
			e.Index = next
			next++
			left = left || !yield(e, nil)
		})
		if err := f.follow(ctx, mirror, &left); err != nil && !left {
			yield(Event{}, fmt.Errorf("follow turn: %w", err))
		}
	}
}

// follow tells the mirror of the message until it is finished, or the reader has left.
func (f *Followed) follow(ctx context.Context, to *mirror, left *bool) error {
	watch := f.store.Watch(f.key)
	defer watch.Close()
	m, err := f.store.Message(ctx, f.key, f.message)
	if err != nil {
		return err
	}
	to.emit(Event{Type: EventStart})
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
			if e.Delta.ID != f.message || to.grow(*e.Delta) || time.Since(looked) < lookAgain {
				continue
			}
			looked = time.Now()
			if m, err := f.store.Message(ctx, f.key, f.message); err == nil {
				to.take(m)
			}
		case e.Type != persistence.EventMessageDelta:
			to.hear(e)
		}
		if to.ended || *left {
			return nil
		}
	}
	return nil
}

// changed takes a message of the thread that was saved.
func (f *Followed) changed(e persistence.Event, to *mirror) {
	var data struct {
		Message persistence.Message `json:"message"`
	}
	if json.Unmarshal(e.Data, &data) == nil && data.Message.ID == f.message {
		to.take(data.Message)
	}
}
