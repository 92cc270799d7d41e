package persistence

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"voicebridge/persistence/internal/dbtype"
	"voicebridge/persistence/internal/pgdb"
	"voicebridge/thread"
)

const (
	// keepLog is how long an event stays in the log.
	keepLog = 10 * time.Minute

	sendTimeout = 5 * time.Second
	// sendAgain is the pause after a failure.
	sendAgain = time.Second
)

// Publish passes an event to the watchers of the thread, on all instances; the start and end of calls and turns also go to
// the owner's watchers. It never blocks. Those of this instance get it at once, others from the log, but text that is added
// to a message from the drafts. A slow watcher may lose such text for a while, and nothing else.
func (s *Store) Publish(ctx context.Context, key thread.Key, e Event) {
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
	if e.Type == EventMessageDelta {
		s.hub.delta(key, e)
		return
	}
	s.outbox.publish(s.hub, key, e, s.shared)
	s.passOn(ctx, key, e)
}

// keepSending sends what is in the outbox until that ends.
func (s *Store) keepSending(ctx context.Context, eng engine) {
	o := s.outbox
	defer close(o.ended)
	var again <-chan time.Time
	for last := false; !last; {
		select {
		case <-ctx.Done():
			return
		case <-o.ending:
			last = true
		case <-o.wake:
		case <-again:
		}
		for again = nil; again == nil; {
			events, wakes := o.take()
			if len(events)+len(wakes) == 0 {
				break
			}
			if err := s.send(ctx, eng, events, wakes); err != nil {
				s.log.Warn("other instances not notified", "events", len(events), "error", err)
				again = time.After(sendAgain)
			}
		}
	}
}

// send writes events into the log and wakes other instances. What could not be sent and still can be is restored; events
// that the database refuses are lost.
func (s *Store) send(ctx context.Context, eng engine, events []unlogged, wakes map[wake]struct{}) error {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	if len(events) > 0 {
		err := s.fail("write event log", eng.write(ctx, func(q queries) error { return s.logEvents(ctx, q, events) }))
		switch {
		case err == nil:
			s.hub.logged()
			wakes[wake{From: s.outbox.origin, Log: true}] = struct{}{}
		case errors.Is(err, ErrUnavailable):
			s.outbox.restore(events, wakes)
			return err
		default:
			for _, e := range events {
				s.hub.lose(e.key)
			}
			return err
		}
	}
	payloads := make([]string, 0, len(wakes))
	for w := range wakes {
		payload, err := thread.Encode(w)
		if err == nil && len(payload) <= maxPayload { // else others find out by polling
			payloads = append(payloads, string(payload))
		}
	}
	if err := eng.wake(ctx, payloads); err != nil {
		s.outbox.restore(nil, wakes)
		return err
	}
	return nil
}

func (s *Store) logEvents(ctx context.Context, q queries, events []unlogged) error {
	// One at a time writes, so that a number becomes visible only after all smaller ones.
	if err := q.LockOwner(ctx, pgdb.LockOwnerParams{What: "log", Owner: ""}); err != nil {
		return err
	}
	for _, e := range events {
		if err := q.LogEvent(ctx, pgdb.LogEventParams{
			Mark: e.mark, Owner: e.key.Owner, ThreadID: e.key.Thread, Type: string(e.event.Type), Data: string(e.event.Data), At: dbtype.At(s.now()),
		}); err != nil {
			return err
		}
	}
	return nil
}

// keepReading passes on the events that other instances have written after the number last, until ctx ends.
func (s *Store) keepReading(ctx context.Context, last int64) {
	poll := time.Tick(time.Duration(s.poll.Load()))
	read, failed := time.Now(), false
	for {
		began := time.Now()
		err := s.readLog(ctx, &last)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && !failed:
			s.log.Warn("events of other instances not read", "error", err)
		case err == nil && time.Since(read) > keepLog/2:
			s.hub.loseAll() // some may have been removed meanwhile
		}
		if failed = err != nil; !failed {
			read = began
		}
		select {
		case <-ctx.Done():
			return
		case <-s.hub.grown:
		case <-poll:
		}
	}
}

func (s *Store) readLog(ctx context.Context, last *int64) error {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	for {
		rows, err := s.eng.read().ListEvents(ctx, pgdb.ListEventsParams{AfterID: *last, MaxRows: logRows})
		if err != nil {
			return err
		}
		for _, r := range rows {
			*last = r.ID
			if !strings.HasPrefix(r.Mark, s.outbox.origin) {
				s.hub.event(thread.Key{Owner: r.Owner, Thread: r.ThreadID}, eventFromRow(r), r.Mark)
			}
		}
		if len(rows) < logRows {
			return nil
		}
	}
}

// missed returns the events that a watcher's queue had no room for, as far as they are in the log.
func (s *Store) missed(ctx context.Context, key thread.Key, w *watcher) (events []Event, err error) {
	for w.misses() {
		rows, err := s.eng.read().ListEventsOf(ctx, pgdb.ListEventsOfParams{
			Owner: key.Owner, ThreadID: key.Thread, AfterID: w.readTo, MaxRows: logRows,
		})
		if err != nil {
			return nil, s.fail("read event log", err)
		}
		for _, r := range rows {
			w.readTo = r.ID
			if w.found(r.Mark) {
				events = append(events, eventFromRow(r))
			}
		}
		if len(rows) < logRows {
			break
		}
	}
	return events, nil
}

func eventFromRow(r pgdb.Event) Event {
	return Event{Type: EventType(r.Type), Data: json.RawMessage(r.Data)}
}

// toOwner are the events of a thread that its owner's watchers also get.
var toOwner = map[EventType]bool{"call_started": true, EventCallEnded: true, "turn_started": true, EventTurnFinished: true}

// ownerKey is the key of an owner's watchers; no thread has such a key.
func ownerKey(owner string) thread.Key { return thread.Key{Owner: owner} }

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
