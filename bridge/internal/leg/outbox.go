package leg

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"voicebridge/realtime/media"
)

// Limits of an outbox.
const (
	maxDrafts = 256 << 10 // waiting bytes above which drafts are dropped
	maxFacts  = 8 << 20   // waiting bytes above which the leg counts as stalled
)

// sender sends an event; legs implement it.
type sender interface {
	Send(ctx context.Context, data []byte) error
	// TrySend sends if it can do so without waiting, and returns false otherwise.
	TrySend(data []byte) bool
}

// outbox sends events to one leg, in order, without ever making the loop wait. If the leg is slow,
// drafts are dropped and counted; facts never are.
type outbox struct {
	leg string // for the log
	log *slog.Logger

	mu     sync.Mutex
	queue  [][]byte
	bytes  int
	closed bool
	wake   chan struct{}
	// direct is the leg while run has nothing to send: an event that need not wait is sent at once,
	// which saves switching to run's goroutine.
	direct sender

	dropped int // drafts since the last line in the log
	onDrop  func(n int)
}

func newOutbox(leg string, log *slog.Logger, onDrop func(n int)) *outbox {
	return &outbox{leg: leg, log: log, wake: make(chan struct{}, 1), onDrop: onDrop}
}

// push adds an event. It returns false if so much is waiting that the leg must be given up.
func (o *outbox) push(data []byte, draft bool) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.closed:
		return true
	case draft && o.bytes > maxDrafts:
		o.dropped++
		return true
	case o.bytes+len(data) > maxFacts:
		return false
	case o.direct != nil && o.direct.TrySend(data):
		return true
	}
	o.direct = nil
	o.queue = append(o.queue, data)
	o.bytes += len(data)
	o.signal()
	return true
}

// close accepts no more events; run ends once the waiting ones are sent.
func (o *outbox) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	o.countDropped()
	o.signal()
}

func (o *outbox) signal() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// next removes the first event. If there is none now, ok is false, and later ones may go to the leg directly; last
// means that none will come.
func (o *outbox) next(to sender) (data []byte, ok, last bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.queue) == 0 {
		o.direct = to
		return nil, false, o.closed
	}
	data = o.queue[0]
	o.queue[0] = nil
	o.queue = o.queue[1:]
	o.bytes -= len(data)
	if o.bytes <= maxDrafts {
		o.countDropped()
	}
	return data, true, false
}

// indirect stops sending to the leg directly.
func (o *outbox) indirect() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.direct = nil
}

// countDropped logs how many drafts a slow leg has missed. o.mu is held.
func (o *outbox) countDropped() {
	if o.dropped == 0 {
		return
	}
	o.log.Warn("drafts dropped: the leg is slow", "leg", o.leg, "dropped", o.dropped)
	o.onDrop(o.dropped)
	o.dropped = 0
}

// run sends what is pushed until the outbox is closed and empty, the leg is closed, or ctx ends.
func (o *outbox) run(ctx context.Context, to sender) {
	defer o.indirect()
	for {
		data, ok, last := o.next(to)
		if last {
			return
		}
		if !ok {
			select {
			case <-o.wake:
			case <-ctx.Done():
				return
			}
			continue
		}
		switch err := to.Send(ctx, data); {
		case err == nil:
		case errors.Is(err, media.ErrTooLarge):
			o.log.Warn("event held back: larger than the leg accepts", "leg", o.leg, "bytes", len(data))
		default:
			return
		}
	}
}
