package persistence

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"iter"

	"voicebridge/thread"
)

// The kinds of events that an owner's watchers get, besides those of calls and turns.
const (
	EventThreadCreated EventType = "thread_created"
	EventThreadUpdated EventType = "thread_updated"
	EventThreadDeleted EventType = "thread_deleted"
)

// aboutThread are the events that say that a thread has changed. They are published with its id alone, and
// each watcher reads the thread: so the last of them has what was saved last, whoever was slow to publish.
var aboutThread = map[EventType]bool{EventThreadCreated: true, EventThreadUpdated: true, EventThreadDeleted: true}

var (
	// ErrMissed ends a watch that may have missed events, because they could not be saved, this process could not read
	// them for minutes, or the database did not say what they are about.
	ErrMissed = errors.New("events may be lost")
)

// WatchOwner starts watching all threads of an owner. A caller that never uses Events must call
// Close.
func (s *Store) WatchOwner(owner string) *OwnerWatch {
	key := ownerKey(owner)
	return &OwnerWatch{s: s, key: key, w: s.hub.add(key)}
}

// OwnerWatch watches all threads of an owner. It has no goroutine of its own.
type OwnerWatch struct {
	s   *Store
	key thread.Key
	w   *watcher
}

// Close ends the watch. So does the end of Events.
func (o *OwnerWatch) Close() { o.s.hub.remove(o.key, o.w) }

// Events yields what has happened since [Store.WatchOwner]: threads are created, changed, used and
// deleted, calls and turns start and end. The sequence ends with ErrMissed, after which the reader must list the threads
// again, with the error of ctx, or with ErrClosed. It can be used once.
func (o *OwnerWatch) Events(ctx context.Context) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		defer o.Close()
		for {
			select {
			case <-ctx.Done():
				yield(Event{}, ctx.Err())
				return
			case <-o.s.closed:
				yield(Event{}, ErrClosed)
				return
			case <-o.w.wake:
			}
			items, _, lost := o.w.take()
			var events []Event
			for _, i := range items {
				events = append(events, i.event)
			}
			missed, err := o.s.missed(ctx, o.key, o.w)
			if lost || err != nil {
				yield(Event{}, cmp.Or(err, ErrMissed))
				return
			}
			for _, e := range append(events, missed...) {
				e, tell, err := o.current(ctx, e)
				if err != nil {
					yield(Event{}, err)
					return
				}
				if tell && !yield(e, nil) {
					return
				}
			}
		}
	}
}

// current returns an event as it is told now, and whether it still is to be told.
func (o *OwnerWatch) current(ctx context.Context, e Event) (now Event, tell bool, err error) {
	if !aboutThread[e.Type] {
		return e, true, nil
	}
	var about threadGone
	if err := json.Unmarshal(e.Data, &about); err != nil {
		return e, false, err
	}
	thread, err := o.s.Thread(ctx, thread.Key{Owner: o.key.Owner, Thread: about.ThreadID})
	switch {
	case errors.Is(err, ErrNotFound):
		return e, e.Type == EventThreadDeleted, nil
	case errors.Is(err, ErrUnavailable):
		return e, false, ErrMissed
	case err != nil:
		return e, false, err
	}
	e.Data, err = json.Marshal(threadState{thread.ID, thread})
	return e, e.Type != EventThreadDeleted, err // one that was deleted may have been made again
}

type threadGone struct {
	ThreadID string `json:"thread_id"`
}

type threadState struct {
	ThreadID string `json:"thread_id"`
	Thread   Thread `json:"thread"`
}

// tellOwner notifies the owner's watchers that a thread has changed.
func (s *Store) tellOwner(ctx context.Context, kind EventType, key thread.Key) {
	encoded, _ := json.Marshal(threadGone{key.Thread}) // a string
	s.Publish(ctx, ownerKey(key.Owner), Event{Type: kind, Data: encoded})
}
