package persistence

import (
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

// toOwner are the events of a thread that its owner's watchers also get.
var toOwner = map[EventType]bool{"call_started": true, EventCallEnded: true, "turn_started": true, EventTurnFinished: true}

var (
	// ErrSlow ends a watch that was too slow to receive everything.
	ErrSlow = errors.New("watcher is too slow")
	// ErrMissed ends a watch that may have missed events, because they did not get here from another
	// process or the database did not say what they are about.
	ErrMissed = errors.New("events of other processes may be lost")
)

// ownerKey is the key of an owner's watchers; no thread has such a key.
func ownerKey(owner string) thread.Key { return thread.Key{Owner: owner} }

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
// deleted, calls and turns start and end. Nothing is replayed, so a reader that falls behind gets
// ErrSlow, and one that may have missed events of other processes ErrMissed: it must list the
// threads again. The sequence ends with one of these, with the error of ctx, or with ErrClosed. It
// can be used once.
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
			items, behind, _, lost := o.w.take()
			for _, i := range items {
				e, tell, err := o.current(ctx, i.draft)
				if err != nil {
					yield(Event{}, err)
					return
				}
				if tell && !yield(e, nil) {
					return
				}
			}
			switch {
			case lost:
				yield(Event{}, ErrSlow)
				return
			case behind:
				yield(Event{}, ErrMissed)
				return
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

// passOn sends the owner's watchers an event of a thread if they get events of that type.
func (s *Store) passOn(ctx context.Context, key thread.Key, e Event) {
	if key.Thread == "" || !toOwner[e.Type] {
		return
	}
	var data map[string]json.RawMessage
	if json.Unmarshal(e.Data, &data) != nil || data == nil {
		return
	}
	data["thread_id"], _ = json.Marshal(key.Thread) // a string
	e.Data, _ = json.Marshal(data)
	s.Publish(ctx, ownerKey(key.Owner), e)
}
