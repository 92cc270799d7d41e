package persistence

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"time"

	"voicebridge/persistence/internal/pgdb"
	"voicebridge/thread"
)

const (
	// pollEvery is how often a watch looks for changes whose hints from other instances were lost.
	pollEvery = 10 * time.Second
	// pollFast is the same where no hints arrive.
	pollFast = 500 * time.Millisecond
	// changesPerRead is how many messages a watch reads at a time.
	changesPerRead = 100
)

// Watched reports whether anybody watches the thread here now. Text that is added to a message need not be published
// otherwise.
func (s *Store) Watched(key thread.Key) bool { return s.hub.watched(key) }

func messageEvent(m thread.Message) Event {
	data, err := thread.Encode(map[string]thread.Message{"message": m})
	if err != nil { // read from the table, so it is JSON
		panic(fmt.Sprintf("encode message %s: %v", m.ID, err))
	}
	return Event{Type: EventMessage, Data: data, Seq: m.Revision}
}

// Watch starts watching a thread, whether it exists or not: nothing published from now on is
// missed. A caller that never uses Events must call Close.
func (s *Store) Watch(key thread.Key) *Watch { return &Watch{s: s, key: key, w: s.hub.add(key)} }

// Watch watches a thread. It has no goroutine of its own.
type Watch struct {
	s   *Store
	key thread.Key
	w   *watcher
}

// Close ends the watch. So does the end of Events.
func (w *Watch) Close() { w.s.hub.remove(w.key, w.w) }

// Events yields the thread's messages that changed after the number after, as events of type
// message with Data {"message": …} and the number of the change in Seq. Then come the open
// approvals and the messages in progress, and what happens from then on: saved changes, in order and
// without gaps, and published events. after < 0 skips what was saved
// before. A message that changed several times may come once, in its latest form.
//
// The sequence ends with an error: ErrNotFound if the thread does not exist (any longer), ErrMissed if events are lost,
// that of ctx, or ErrClosed. It can be used once.
func (w *Watch) Events(ctx context.Context, after int64) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		defer w.Close()
		// What comes while the table is read is in both, but is sent once.
		v := &view{s: w.s, key: w.key, w: w.w, yield: yield}
		if err := v.run(ctx, after); err != nil && !v.done {
			yield(Event{}, w.s.fail("watch thread", err))
		}
	}
}

// view is one run of Events.
type view struct {
	s     *Store
	key   thread.Key
	w     *watcher
	yield func(Event, error) bool
	// seen is the number up to which every change was sent.
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
	// A number that was not yet given out would hide later changes.
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
		poll = time.Tick(every)
	}
	for !v.done {
		var err error
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-v.s.closed:
			return ErrClosed
		case <-v.w.wake:
			err = v.step(ctx, false)
		case <-poll:
			err = v.look(ctx)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// look finds what nobody has told the watcher: that the thread was deleted, and its changes.
func (v *view) look(ctx context.Context) error {
	thread, err := v.s.thread(ctx, v.key)
	if err != nil {
		return err
	}
	return v.step(ctx, thread.NextSeq-1 > v.seen || len(v.grow.texts) > 0)
}

// ask sends the open approvals. One that is being opened at the same time may come twice.
func (v *view) ask(ctx context.Context) error {
	open, err := v.s.OpenApprovals(ctx, v.key)
	for _, a := range open {
		v.send(approvalEvent(a))
	}
	return err
}

// step sends what came since the last step.
func (v *view) step(ctx context.Context, behind bool) error {
	items, missed, lost := v.w.take()
	if lost {
		return ErrMissed
	}
	for _, i := range items {
		switch {
		case v.done:
			return nil
		case i.isDelta():
			v.sendDelta(ctx, i.event)
		case i.commit == nil:
			if err := v.sendEvent(i.event); err != nil {
				return err
			}
		case i.commit.prev > v.seen:
			// An earlier commit was overtaken: the table has both, in order.
			if err := v.read(ctx); err != nil {
				return err
			}
		default:
			for n, e := range i.commit.events {
				if e.Seq > v.seen {
					v.sendMessage(e, i.commit.messages[n])
				}
			}
			v.seen = max(v.seen, i.commit.next)
		}
	}
	if (behind || missed) && !v.done {
		if err := v.read(ctx); err != nil {
			return err
		}
		if err := v.catchUp(ctx); err != nil {
			return err
		}
	}
	events, err := eventLog{v.s}.missed(ctx, v.key, v.w)
	for _, e := range events {
		err = cmp.Or(err, v.sendEvent(e))
	}
	return err
}

// sendEvent sends an event, or returns ErrNotFound if it says that the thread was deleted.
func (v *view) sendEvent(e Event) error {
	if e.Type == EventThreadDeleted {
		return ErrNotFound
	}
	v.send(e)
	return nil
}

// read sends what the table has after seen.
func (v *view) read(ctx context.Context) error {
	for !v.done {
		rows, err := v.s.eng.read().ListChanges(ctx, pgdb.ListChangesParams{
			ThreadID: v.key.Thread, Owner: v.key.Owner, AfterRevision: v.seen, MaxRows: changesPerRead,
		})
		if err != nil {
			return err
		}
		messages, err := wholes(ctx, v.s.eng.read(), v.key, rows)
		if err != nil {
			return err
		}
		for _, m := range messages {
			if m.Revision > rows[len(rows)-1].Revision {
				continue // it has changed since, and comes again after what changed before it
			}
			v.sendMessage(messageEvent(m), m)
			// A number becomes visible only after all smaller ones.
			v.seen = m.Revision
		}
		if len(rows) < changesPerRead {
			return nil
		}
	}
	return nil
}

func (v *view) send(e Event) {
	if !v.done {
		v.done = !v.yield(e, nil)
	}
}
