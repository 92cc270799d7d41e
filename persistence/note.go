package persistence

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"time"
)

const (
	// channel is what the instances listen to.
	channel = "voicebridge"
	// maxPayload is below the 8,000 bytes at which PostgreSQL refuses a NOTIFY.
	maxPayload = 7900
	// maxNotes bounds what waits to be sent.
	maxNotes = 4096
	// notesPerSend is how many go in one statement.
	notesPerSend = 256

	sendTimeout = 5 * time.Second

	// noteGone is the type of the note that a thread was deleted.
	noteGone = "thread_deleted"
)

// note is what one instance tells the others. Without data it is a hint that
// the table has something new, up to the number Seq.
type note struct {
	Instance string `json:"instance"`
	Key      Key    `json:"key"`
	Type     string `json:"type"`
	Seq      int64  `json:"seq,omitempty"`
	// Count tells equal notes apart, of which PostgreSQL would deliver one.
	Count int64           `json:"count"`
	Data  json.RawMessage `json:"data,omitempty"`
}

// outbox sends notes in their order, in the background.
type outbox struct {
	instance string
	log      *slog.Logger
	dropped  func()
	send     func(ctx context.Context, payloads []string) error

	mu    sync.Mutex
	count int64
	queue []string
	// hints are those that found the queue full: the last word on each thread.
	hints map[Key]note
	wake  chan struct{}
}

func newOutbox(instance string, log *slog.Logger, dropped func(), send func(context.Context, []string) error) *outbox {
	return &outbox{instance: instance, log: log, dropped: dropped, send: send, hints: map[Key]note{}, wake: make(chan struct{}, 1)}
}

// put never waits. A draft that does not fit is dropped, a hint is kept.
func (o *outbox) put(n note) {
	o.mu.Lock()
	defer o.mu.Unlock()
	full := len(o.queue) >= maxNotes
	switch {
	case full && n.Data != nil:
		o.dropped()
		return
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
	payload, err := encode(n)
	if err != nil || len(payload) > maxPayload {
		o.dropped()
		return
	}
	o.queue = append(o.queue, string(payload))
}

// take gives the next notes to send.
func (o *outbox) take() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.queue) == 0 {
		for _, n := range o.hints {
			o.add(n)
		}
		clear(o.hints)
	}
	n := min(len(o.queue), notesPerSend)
	payloads := o.queue[:n:n]
	o.queue = o.queue[n:]
	return payloads
}

// run sends until ctx ends. What the database does not take is dropped: the
// hints among it are backed up by the watchers' poll.
func (o *outbox) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-o.wake:
		}
		for payloads := o.take(); len(payloads) > 0; payloads = o.take() {
			sendCtx, cancel := context.WithTimeout(ctx, sendTimeout)
			err := o.send(sendCtx, payloads)
			cancel()
			if ctx.Err() != nil {
				return
			}
			if err != nil {
				o.log.Warn("could not tell other instances", "notes", len(payloads), "error", err)
				for range payloads {
					o.dropped()
				}
			}
		}
	}
}
