package persistence

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"time"

	"voicebridge/persistence/internal/pgdb"
	"voicebridge/thread"
)

// aboutThread are the events that say that a thread has changed. They are logged with its id alone, and
// each watcher reads the thread: so the last of them has what was saved last.
var aboutThread = map[EventType]bool{EventThreadCreated: true, EventThreadUpdated: true, EventThreadDeleted: true}

var (
	// ErrMissed ends a watch that may have missed events, because they could not be saved, or this process could not
	// read them for minutes.
	ErrMissed = errors.New("events may be lost")
)

// WatchOwner starts watching all threads of an owner: what happens after the event with the number after or, if that is
// negative, from now on. A caller that never uses Events must call Close.
func (s *Store) WatchOwner(ctx context.Context, owner string, after int64) (*OwnerWatch, error) {
	key := ownerKey(owner)
	o := &OwnerWatch{s: s, key: key, w: s.hub.add(key)}
	log, err := s.eng.read().EventNumbers(ctx)
	if err != nil {
		o.Close()
		return nil, s.fail("watch owner", err)
	}
	o.Last, o.after = log.Newest, log.Newest
	if after >= 0 {
		o.Missed = after < log.Oldest-1 || after > log.Newest
		if !o.Missed {
			o.after = after
		}
	}
	return o, nil
}

// OwnerWatch watches all threads of an owner. It has no goroutine of its own.
type OwnerWatch struct {
	// Last is the number of the last event when the watch began. Those of other owners count, too.
	Last int64
	// Missed is set if not all events after the number are kept any longer: the watch begins after Last, and the reader
	// must list the threads again.
	Missed bool

	s     *Store
	key   thread.Key
	w     *watcher // signals that there is something to read
	after int64    // the number of the last event that was read
}

// Close ends the watch. So does the end of Events.
func (o *OwnerWatch) Close() { o.s.hub.remove(o.key, o.w) }

// Events yields what happens: threads are created, changed, used and deleted, calls and turns start and end. Seq is an
// event's number. The sequence ends with ErrMissed, after which the reader must list the threads again, with the error
// of ctx, or with ErrClosed. It can be used once.
func (o *OwnerWatch) Events(ctx context.Context) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		defer o.Close()
		for {
			var again <-chan time.Time
			more, err := o.read(ctx, yield)
			switch {
			case errors.Is(err, ErrUnavailable):
				again = time.After(sendAgain)
			case err != nil:
				yield(Event{}, err)
				return
			case !more:
				return
			}
			select {
			case <-again:
			case <-ctx.Done():
				yield(Event{}, ctx.Err())
				return
			case <-o.s.closed:
				yield(Event{}, ErrClosed)
				return
			case <-o.w.wake:
			}
		}
	}
}

// read yields what is new in the log. It returns false if yield does.
func (o *OwnerWatch) read(ctx context.Context, yield func(Event, error) bool) (more bool, err error) {
	for {
		if _, _, lost := o.w.take(); lost {
			return false, ErrMissed
		}
		rows, err := o.s.eng.read().ListEventsOf(ctx,
			pgdb.ListEventsOfParams{Owner: o.key.Owner, AfterID: o.after, MaxRows: logRows})
		if err != nil {
			return false, cmp.Or(ctx.Err(), o.s.fail("read event log", err))
		}
		for _, r := range rows {
			e, tell, err := o.current(ctx, eventFromRow(r))
			if err != nil {
				return false, err
			}
			e.Seq, o.after = r.ID, r.ID
			if tell && !yield(e, nil) {
				return false, nil
			}
		}
		if len(rows) < logRows {
			return true, nil
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
	case err != nil:
		return e, false, err
	}
	e.Data, err = json.Marshal(threadState{thread.ID, thread})
	return e, e.Type != EventThreadDeleted, err // one that was deleted may have been made again
}

type threadState struct {
	ThreadID string `json:"thread_id"`
	Thread   Thread `json:"thread"`
}
