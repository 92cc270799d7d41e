package persistence

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"time"

	"voicebridge/thread"
)

const (
	// maxPayload is below the 8,000 bytes at which PostgreSQL refuses a NOTIFY.
	maxPayload = 7900
	// maxNotes limits what waits to be sent.
	maxNotes = 4096
	// notesPerSend is how many notes go into one statement.
	notesPerSend = 256

	sendTimeout = 5 * time.Second
	// sendAgain is the pause after a failure.
	sendAgain = 3 * time.Second

	// The types of notes besides those of events: noteGone means that the thread was deleted,
	// noteShards that the sender listens to other shards now, noteCommand that there is a command
	// for the instance To, noteAnswer that the command To was answered, and noteMissed that an event
	// of the owner was not sent.
	noteGone    = "thread_deleted"
	noteShards  = "shards"
	noteCommand = "command"
	noteAnswer  = "answer"
	noteMissed  = "missed"
)

// note is a message to other instances. With data it is an event. Without, and of no type above but
// noteMissed, it is a hint: the table has something new, up to the number Seq.
type note struct {
	Instance string     `json:"instance"`
	Key      thread.Key `json:"key"`
	Type     string     `json:"type"`
	Seq      int64      `json:"seq,omitempty"`
	To       string     `json:"to,omitempty"`
	// Count makes equal notes different: PostgreSQL would deliver only one.
	Count int64           `json:"count"`
	Data  json.RawMessage `json:"data,omitempty"`
}

// forAll reports whether every instance must get the note: one between instances, or one of an owner,
// whose watchers have no table to read, so nobody may have to find out first that there is one.
func (n note) forAll() bool { return n.Key.Thread == "" }

// letter is an encoded note and the channel that it is sent on.
type letter struct {
	channel, payload string

	key  thread.Key
	kind string
}

// outbox sends notes in order, in the background.
type outbox struct {
	instance string
	log      *slog.Logger
	dropped  func()
	send     func(ctx context.Context, letters []letter) error

	mu    sync.Mutex
	count int64
	queue []letter
	// hints are those that found the queue full, and those about dropped events: the latest for each
	// thread and each owner.
	hints map[thread.Key]note
	wake  chan struct{}

	// ending is closed to send the rest, ended when that is done.
	ending, ended chan struct{}
}

func newOutbox(instance string, log *slog.Logger, dropped func(), send func(context.Context, []letter) error) *outbox {
	return &outbox{
		instance: instance, log: log, dropped: dropped, send: send, hints: map[thread.Key]note{}, wake: make(chan struct{}, 1),
		ending: make(chan struct{}), ended: make(chan struct{}),
	}
}

// put never blocks. An event that does not fit is dropped, a hint is kept.
func (o *outbox) put(n note) {
	o.mu.Lock()
	defer o.mu.Unlock()
	full := len(o.queue) >= maxNotes
	switch {
	case full && n.Data != nil:
		o.drop(n.Key, n.Type)
	case full:
		o.hints[n.Key] = n
	default:
		o.add(n)
	}
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

func (o *outbox) add(n note) {
	o.count++
	n.Instance, n.Count = o.instance, o.count
	payload, err := thread.Encode(n)
	if err != nil || len(payload) > maxPayload {
		o.drop(n.Key, n.Type)
		return
	}
	to := channel
	if !n.forAll() {
		to = shardChannel(shardOf(n.Key.Thread))
	}
	o.queue = append(o.queue, letter{to, string(payload), n.Key, n.Type})
}

// drop counts a note that is not sent. The watchers of a thread poll, which makes up for a lost hint;
// those of an owner get a hint instead of the event, as soon as one can be sent.
func (o *outbox) drop(key thread.Key, kind string) {
	if kind != noteMissed {
		o.dropped()
	}
	if key.Owner != "" && key.Thread == "" {
		o.hints[key] = note{Type: noteMissed, Key: key}
	}
}

// failed keeps letters for the next try, if the database was unavailable and as long as there is room.
// Text that is being added to a message would be late then, and others find it in the table.
func (o *outbox) failed(letters []letter, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	var kept []letter
	for _, l := range letters {
		if !errors.Is(err, ErrUnavailable) || l.kind == string(EventMessageDelta) || len(kept)+len(o.queue) >= maxNotes {
			o.drop(l.key, l.kind)
			continue
		}
		kept = append(kept, l)
	}
	o.queue = append(kept, o.queue...)
}

// take returns the next notes to send.
func (o *outbox) take() []letter {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.queue) == 0 {
		for _, n := range o.hints {
			o.add(n)
		}
		clear(o.hints)
	}
	n := min(len(o.queue), notesPerSend)
	letters := o.queue[:n:n]
	o.queue = o.queue[n:]
	return letters
}

// end sends what is waiting, if that can be done within a time, and stops run.
func (o *outbox) end(within time.Duration) {
	close(o.ending)
	select {
	case <-o.ended:
	case <-time.After(within):
	}
}

// run sends notes until ctx ends, or end is called. Those that can never be sent are dropped.
func (o *outbox) run(ctx context.Context) {
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
		for letters := o.take(); len(letters) > 0; letters = o.take() {
			sendCtx, cancel := context.WithTimeout(ctx, sendTimeout)
			err := o.send(sendCtx, letters)
			cancel()
			if ctx.Err() != nil {
				return
			}
			if err != nil {
				o.log.Warn("other instances not notified", "notes", len(letters), "error", err)
				o.failed(letters, err)
				again = time.After(sendAgain)
				break
			}
		}
	}
}
