package persistence

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
)

// The kinds of events that an owner's watchers see, beside those of calls and turns.
const (
	EventThreadCreated EventType = "thread_created"
	EventThreadUpdated EventType = "thread_updated"
	EventThreadDeleted EventType = "thread_deleted"
)

// toOwner are the events of a thread that the watchers of its owner see, too.
var toOwner = map[EventType]bool{"call_started": true, "call_ended": true, "turn_started": true, "turn_finished": true}

// ErrSlow ends a watch that was too slow to be told everything.
var ErrSlow = errors.New("watcher is too slow")

// ownerKey is under which an owner's watchers listen; no thread has such a key.
func ownerKey(owner string) Key { return Key{Owner: owner} }

// WatchOwner begins to listen to what happens to all threads of an owner. Who does
// not come to Events must call Close.
func (s *Store) WatchOwner(owner string) *OwnerWatch {
	key := ownerKey(owner)
	return &OwnerWatch{s: s, key: key, w: s.hub.add(key)}
}

// OwnerWatch listens to what happens to all threads of an owner. It keeps no
// goroutine of its own.
type OwnerWatch struct {
	s   *Store
	key Key
	w   *watcher
}

// Close ends the listening. The end of Events does so, too.
func (o *OwnerWatch) Close() { o.s.hub.remove(o.key, o.w) }

// Events gives what happens from [Store.WatchOwner] on: threads that are made,
// changed and deleted, calls and turns that start and end. Nothing is replayed, so
// who falls behind gets ErrSlow and reads the threads again. The sequence ends with
// an error: that, that of ctx, or ErrClosed. It may be used once.
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
			items, _, _ := o.w.take()
			for _, i := range items {
				if !yield(i.draft, nil) {
					return
				}
			}
			if len(items) >= maxQueued {
				yield(Event{}, ErrSlow)
				return
			}
		}
	}
}

// tellOwner tells an owner's watchers what happened to a thread.
func (s *Store) tellOwner(ctx context.Context, kind EventType, key Key, data any) {
	encoded, err := json.Marshal(data)
	if err != nil { // of plain structs
		s.log.Error("event not encoded", "type", kind, "error", err)
		return
	}
	s.Publish(ctx, ownerKey(key.Owner), Event{Type: kind, Data: encoded})
}

type threadGone struct {
	ThreadID string `json:"thread_id"`
}

type threadNews struct {
	ThreadID string `json:"thread_id"`
	Thread   Thread `json:"thread"`
}

// threadChanged tells the owner's watchers of a thread as it is now.
func (s *Store) threadChanged(ctx context.Context, kind EventType, key Key) {
	if thread, err := s.Thread(context.WithoutCancel(ctx), key); err == nil {
		s.tellOwner(ctx, kind, key, threadNews{key.Thread, thread})
	}
}

// passOn tells the owner's watchers an event of one of its threads.
func (s *Store) passOn(ctx context.Context, key Key, e Event) {
	if key.Thread == "" || !toOwner[e.Type] {
		return
	}
	var data map[string]json.RawMessage
	if json.Unmarshal(e.Data, &data) != nil || data == nil {
		return
	}
	data["thread_id"], _ = json.Marshal(key.Thread) // a text
	s.tellOwner(ctx, e.Type, key, data)
}
