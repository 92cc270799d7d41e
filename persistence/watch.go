package persistence

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"time"

	"voicebridge/persistence/internal/pgdb"
)

const (
	// pollEvery backs up the hints of other instances.
	pollEvery = 10 * time.Second
	// pollFast is instead of them.
	pollFast = 500 * time.Millisecond
	// changesPerRead is how many messages a watch reads at once.
	changesPerRead = 100
)

// Publish passes an event on to the present watchers of the thread, on all
// instances that serve it; that a call or a turn starts or ends is also told to the
// watchers of the owner. It is not saved, never waits, and a slow watcher
// loses it (see Dropped). On its way to another instance an event of more than
// some 7,000 bytes is lost too.
func (s *Store) Publish(ctx context.Context, key Key, e Event) {
	e.Seq = 0
	if len(e.Data) == 0 {
		e.Data = json.RawMessage("{}")
	}
	if !json.Valid(e.Data) {
		s.hub.dropped.Add(1)
		s.log.Error("event is not JSON", "type", e.Type, "thread_id", key.Thread)
		return
	}
	e.Data = bytes.ToValidUTF8(e.Data, []byte("\ufffd"))
	s.hub.draft(key, e)
	s.eng.tell(note{Type: string(e.Type), Key: key, Data: e.Data})
	s.passOn(ctx, key, e)
}

// announce tells the watchers what a transaction changed.
func (s *Store) announce(key Key, n changeSet) {
	if !n.drew {
		return
	}
	if s.hub.watched(key) {
		changed := make([]Message, 0, len(n.messages))
		for _, m := range n.messages {
			changed = append(changed, m)
		}
		byRevision(changed)
		c := commit{prev: n.prev, next: n.next, messages: changed}
		for _, m := range changed {
			c.events = append(c.events, messageEvent(m))
		}
		s.hub.commit(key, c)
	}
	s.eng.tell(note{Type: string(EventMessage), Key: key, Seq: n.next})
}

func messageEvent(m Message) Event {
	data, err := encode(map[string]Message{"message": m})
	if err != nil { // it was read from the table: it is JSON
		panic(fmt.Sprintf("encode message %s: %v", m.ID, err))
	}
	return Event{Type: EventMessage, Data: data, Seq: m.Revision}
}

// Watch begins to listen to a thread, whether it is there or not: nothing that is
// published from now on is missed. Events tells it; who does not come to that must
// call Close.
func (s *Store) Watch(key Key) *Watch { return &Watch{s: s, key: key, w: s.hub.add(key)} }

// Watch listens to a thread. It keeps no goroutine of its own.
type Watch struct {
	s   *Store
	key Key
	w   *watcher
}

// Close ends the listening. The end of Events does so, too.
func (w *Watch) Close() { w.s.hub.remove(w.key, w.w) }

// Events gives the thread's messages that changed after the number after, as
// events of the type message with Data {"message": …} and the number of the
// change in Seq, and then follows: what is saved, in order and without a gap,
// and what is published while the watcher keeps up. after < 0 gives only what is
// saved from now on. A message that changed several times may come once, in its last form.
// Before what comes, each question that waits for the user is told again.
//
// The sequence ends with an error: ErrNotFound when there is no such
// thread, or no longer, that of ctx, or ErrClosed. It may be used once.
func (w *Watch) Events(ctx context.Context, after int64) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		defer w.Close()
		// What comes while the table is read is in both, and told once.
		v := &view{s: w.s, key: w.key, w: w.w, yield: yield}
		if err := v.run(ctx, after); err != nil {
			yield(Event{}, w.s.fail("watch thread", err))
		}
	}
}

// view is one run of Events.
type view struct {
	s     *Store
	key   Key
	w     *watcher
	yield func(Event, error) bool
	// seen: every change up to this number was told.
	seen int64
	done bool // the caller has enough
	grow growth
}

func (v *view) run(ctx context.Context, after int64) error {
	thread, err := v.s.thread(ctx, v.key)
	if err != nil {
		return err
	}
	v.seen = thread.NextSeq - 1
	v.grow.texts = map[string][]byte{}
	// A number that was not given out yet would hide what comes.
	if after >= 0 && after < v.seen {
		v.seen = after
		if err := v.read(ctx); err != nil || v.done {
			return err
		}
	}
	if err := v.ask(ctx); err != nil {
		return err
	}
	if err := v.catchUp(ctx); err != nil {
		return err
	}
	var poll <-chan time.Time
	if every := time.Duration(v.s.poll.Load()); every > 0 {
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		poll = ticker.C
	}
	for !v.done {
		behind := false
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-v.s.closed:
			return ErrClosed
		case <-v.w.wake:
		case <-poll:
			behind = true
		}
		if err := v.step(ctx, behind); err != nil {
			return err
		}
	}
	return nil
}

// ask tells the questions that are open. One that comes just now may be told twice.
func (v *view) ask(ctx context.Context) error {
	open, err := v.s.OpenApprovals(ctx, v.key)
	if err != nil {
		return err
	}
	for _, a := range open {
		v.tell(a.Event())
	}
	return nil
}

// step tells what came since the last one.
func (v *view) step(ctx context.Context, behind bool) error {
	items, missed, gone := v.w.take()
	if gone {
		return ErrNotFound
	}
	behind = behind || missed
	for _, i := range items {
		switch {
		case v.done:
			return nil
		case i.commit == nil && i.draft.Type == EventMessageDelta:
			v.tellDelta(ctx, i.draft)
		case i.commit == nil:
			v.tell(i.draft)
		case i.commit.prev > v.seen:
			// An earlier commit was overtaken: the table has both, in order.
			if err := v.read(ctx); err != nil {
				return err
			}
		default:
			for n, e := range i.commit.events {
				if e.Seq > v.seen {
					v.tellMessage(e, i.commit.messages[n])
				}
			}
			v.seen = max(v.seen, i.commit.next)
		}
	}
	if behind && !v.done {
		return v.read(ctx)
	}
	return nil
}

// read tells what the table has after seen.
func (v *view) read(ctx context.Context) error {
	for !v.done {
		rows, err := v.s.eng.read().ListChanges(ctx, pgdb.ListChangesParams{
			ThreadID: v.key.Thread, Owner: v.key.Owner, AfterRevision: v.seen, MaxRows: changesPerRead,
		})
		if err != nil {
			return err
		}
		messages, err := v.s.wholes(ctx, v.key, rows)
		if err != nil {
			return err
		}
		for _, m := range messages {
			v.tellMessage(messageEvent(m), m)
			// A number becomes visible only after all smaller ones.
			v.seen = m.Revision
		}
		if len(rows) < changesPerRead {
			return nil
		}
	}
	return nil
}

func (v *view) tell(e Event) {
	if !v.done {
		v.done = !v.yield(e, nil)
	}
}
