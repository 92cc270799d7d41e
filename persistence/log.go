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

// Publish passes an event that no change causes to the watchers of the thread, on all instances. It never blocks. Those
// of this instance get it at once, others from the log, but text that is added to a message from the drafts. A slow
// watcher may lose such text for a while, and nothing else.
func (s *Store) Publish(_ context.Context, key thread.Key, e Event) {
	e, err := checkEvent(e)
	switch {
	case err != nil:
		s.hub.dropped.Add(1)
		s.log.Error("event is not JSON", "type", e.Type, "thread_id", key.Thread)
	case e.Type == EventMessageDelta:
		s.hub.delta(key, e)
	default:
		s.outbox.publish(s.hub, s.outbox.entry(key, e), s.shared || key.Thread == "")
	}
}

func checkEvent(e Event) (Event, error) {
	e.Seq = 0
	if len(e.Data) == 0 {
		e.Data = json.RawMessage("{}")
	}
	if !json.Valid(e.Data) {
		return e, Invalid("event %.100q is not JSON", e.Type)
	}
	e.Data = bytes.ToValidUTF8(e.Data, []byte("\ufffd"))
	return e, nil
}

// transactionEvents are the events that a transaction causes. They are rows of the log with it, so none is lost with
// the process.
type transactionEvents struct {
	s       *Store
	entries []entry
}

// tell adds an event of a thread, and of its owner if such are told.
func (t *transactionEvents) tell(key thread.Key, e Event) {
	t.entries = append(t.entries, t.s.outbox.entry(key, e))
	var data map[string]json.RawMessage
	if toOwner[e.Type] && json.Unmarshal(e.Data, &data) == nil && data != nil {
		data["thread_id"], _ = json.Marshal(key.Thread) // a string
		e.Data, _ = json.Marshal(data)
		t.entries = append(t.entries, t.s.outbox.entry(ownerKey(key.Owner), e))
	}
}

// tellOwner adds the event that a thread has changed.
func (t *transactionEvents) tellOwner(kind EventType, key thread.Key) {
	data, _ := json.Marshal(threadGone{key.Thread}) // a string
	t.entries = append(t.entries, t.s.outbox.entry(ownerKey(key.Owner), Event{Type: kind, Data: data}))
}

// threadGone is the data of an event about a thread that is no longer there.
type threadGone struct {
	ThreadID string `json:"thread_id"`
}

// log writes the events in their transaction. Those of threads are read by other processes only.
func (t *transactionEvents) log(ctx context.Context, q queries) error {
	for _, e := range t.entries {
		if !t.s.shared && e.key.Thread != "" {
			continue
		}
		if err := logEvent(ctx, q, e, t.s.now()); err != nil {
			return err
		}
	}
	return nil
}

// committed passes the events on after their transaction.
func (t *transactionEvents) committed() {
	for _, e := range t.entries {
		switch {
		case t.s.shared:
			t.s.hub.event(e)
			t.s.outbox.tell(wake{Owner: e.key.Owner, Log: true})
		case e.key.Thread != "":
			t.s.outbox.publish(t.s.hub, e, false)
		default:
			t.s.hub.hint(e.key)
		}
	}
}

// writeEvents is write for a transaction that causes events.
func (s *Store) writeEvents(ctx context.Context, fn func(queries, *transactionEvents) error) error {
	var t transactionEvents
	err := s.write(ctx, func(q queries) error {
		t = transactionEvents{s: s}
		if err := fn(q, &t); err != nil {
			return err
		}
		return t.log(ctx, q)
	})
	if err == nil {
		t.committed()
	}
	return err
}

// eventLog is the log of events as this process writes and reads it.
type eventLog struct{ s *Store }

// keepSending sends what is in the outbox until that ends.
func (l eventLog) keepSending(ctx context.Context, eng engine) {
	o := l.s.outbox
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
			if err := l.send(ctx, eng, events, wakes); err != nil {
				l.s.log.Warn("other instances not notified", "events", len(events), "error", err)
				again = time.After(sendAgain)
			}
		}
	}
}

// send writes events into the log, gives them and those of transactions their numbers, and wakes other instances. What
// could not be sent and still can be is restored; events that the database refuses are lost.
func (l eventLog) send(ctx context.Context, eng engine, events []entry, wakes map[wake]struct{}) error {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	grown := map[string]struct{}{} // by owner
	for w := range wakes {
		if w.Log {
			grown[w.Owner] = struct{}{}
		}
	}
	for _, e := range events {
		grown[e.key.Owner] = struct{}{}
	}
	if len(grown) > 0 {
		err := l.s.fail("write event log",
			eng.write(ctx, func(q queries) error { return logEvents(ctx, q, events, l.s.now()) }))
		switch {
		case err == nil:
			l.s.hub.logged()
			for owner := range grown {
				l.s.hub.hint(ownerKey(owner))
				wakes[wake{From: l.s.outbox.origin, Owner: owner, Log: true}] = struct{}{}
			}
		case errors.Is(err, ErrUnavailable):
			l.s.outbox.restore(events, wakes)
			return err
		default:
			for _, e := range events {
				l.s.hub.lose(e.key)
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
		l.s.outbox.restore(nil, wakes)
		return err
	}
	return nil
}

func logEvents(ctx context.Context, q queries, events []entry, at time.Time) error {
	for _, e := range events {
		if err := logEvent(ctx, q, e, at); err != nil {
			return err
		}
	}
	_, err := numberEvents(ctx, q)
	return err
}

func logEvent(ctx context.Context, q queries, e entry, at time.Time) error {
	return q.LogEvent(ctx, pgdb.LogEventParams{
		Mark: e.mark, Owner: e.key.Owner, ThreadID: e.key.Thread, Type: string(e.event.Type),
		Data: string(e.event.Data), At: dbtype.At(at),
	})
}

// numberEvents gives numbers to the events of all transactions that have ended, also to those whose process has died
// since.
func numberEvents(ctx context.Context, q queries) (int64, error) {
	if err := q.LockOwner(ctx, "log", ""); err != nil {
		return 0, err
	}
	return q.NumberEvents(ctx)
}

// keepReading passes on the events that other instances have written after the number last, until ctx ends.
func (l eventLog) keepReading(ctx context.Context, last int64) {
	poll := time.Tick(time.Duration(l.s.poll.Load()))
	read, failed := time.Now(), false
	for {
		began := time.Now()
		err := l.readLog(ctx, &last)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && !failed:
			l.s.log.Warn("events of other instances not read", "error", err)
		case err == nil && time.Since(read) > keepLog/2:
			l.s.hub.loseAll() // some may have been removed meanwhile
		}
		if failed = err != nil; !failed {
			read = began
		}
		select {
		case <-ctx.Done():
			return
		case <-l.s.hub.grown:
		case <-poll:
		}
	}
}

func (l eventLog) readLog(ctx context.Context, last *int64) error {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	for {
		rows, err := l.s.eng.read().ListEvents(ctx, *last, logRows)
		if err != nil {
			return err
		}
		for _, r := range rows {
			*last = r.ID
			switch {
			case r.ThreadID == "":
				l.s.hub.hint(ownerKey(r.Owner))
			case !strings.HasPrefix(r.Mark, l.s.outbox.origin):
				l.s.hub.event(entry{r.Mark, thread.Key{Owner: r.Owner, Thread: r.ThreadID}, eventFromRow(r)})
			}
		}
		if len(rows) < logRows {
			return nil
		}
	}
}

// missed returns the events that a watcher's queue had no room for, as far as they are in the log.
func (l eventLog) missed(ctx context.Context, key thread.Key, w *watcher) (events []Event, err error) {
	for w.misses() {
		rows, err := l.s.eng.read().ListEventsOf(ctx, pgdb.ListEventsOfParams{
			Owner: key.Owner, ThreadID: key.Thread, AfterID: w.readTo, MaxRows: logRows,
		})
		if err != nil {
			return nil, l.s.fail("read event log", err)
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

// toOwner are the events of a thread that its owner's watchers also get. PutEvent writes them.
var toOwner = map[EventType]bool{
	EventCallStarted: true, EventCallEnded: true, "turn_started": true, EventTurnFinished: true,
}

// ownerKey is the key of an owner's watchers; no thread has such a key.
func ownerKey(owner string) thread.Key { return thread.Key{Owner: owner} }
