package persistence

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
)

// The kinds of events that an owner's watchers get, besides those of calls and turns.
const (
	EventThreadCreated EventType = "thread_created"
	EventThreadUpdated EventType = "thread_updated"
	EventThreadDeleted EventType = "thread_deleted"
)

// toOwner are the events of a thread that its owner's watchers also get.
var toOwner = map[EventType]bool{"call_started": true, EventCallEnded: true, "turn_started": true, EventTurnFinished: true}

var (
	// ErrSlow ends a watch that was too slow to receive everything.
	ErrSlow = errors.New("watcher is too slow")
	// ErrMissed ends a watch that may have missed events, because they did not get here from another
	// process.
	ErrMissed = errors.New("events of other processes may be lost")
)

// ownerKey is the key of an owner's watchers; no thread has such a key.
func ownerKey(owner string) Key { return Key{Owner: owner} }

// WatchOwner starts watching all threads of an owner. A caller that never uses Events must call
// Close.
func (s *Store) WatchOwner(owner string) *OwnerWatch {
	key := ownerKey(owner)
	return &OwnerWatch{s: s, key: key, w: s.hub.add(key)}
}

// OwnerWatch watches all threads of an owner. It has no goroutine of its own.
type OwnerWatch struct {
	s   *Store
	key Key
	w   *watcher
}

// Close ends the watch. So does the end of Events.
func (o *OwnerWatch) Close() { o.s.hub.remove(o.key, o.w) }

// Events yields what has happened since [Store.WatchOwner]: threads are created, changed and
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
				if !yield(i.draft, nil) {
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

// tellOwner notifies an owner's watchers of an event of a thread.
func (s *Store) tellOwner(ctx context.Context, kind EventType, key Key, data any) {
	encoded, err := json.Marshal(data)
	if err != nil { // only plain structs
		s.log.Error("event not encoded", "type", kind, "error", err)
		return
	}
	s.Publish(ctx, ownerKey(key.Owner), Event{Type: kind, Data: encoded})
}

type threadGone struct {
	ThreadID string `json:"thread_id"`
}

type threadState struct {
	ThreadID string `json:"thread_id"`
	Thread   Thread `json:"thread"`
}

// threadChanged sends the owner's watchers the current state of a thread.
func (s *Store) threadChanged(ctx context.Context, kind EventType, key Key) {
	if thread, err := s.Thread(context.WithoutCancel(ctx), key); err == nil {
		s.tellOwner(ctx, kind, key, threadState{key.Thread, thread})
	}
}

// passOn sends the owner's watchers an event of a thread if they get events of that type.
func (s *Store) passOn(ctx context.Context, key Key, e Event) {
	if key.Thread == "" || !toOwner[e.Type] {
		return
	}
	var data map[string]json.RawMessage
	if json.Unmarshal(e.Data, &data) != nil || data == nil {
		return
	}
	data["thread_id"], _ = json.Marshal(key.Thread) // a string
	s.tellOwner(ctx, e.Type, key, data)
}
