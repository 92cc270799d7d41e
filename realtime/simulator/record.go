package simulator

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"voicebridge/realtime"
)

// maxRecorded is how many events of each direction a session keeps; the oldest are dropped.
const maxRecorded = 4096

// ErrSessionEnded means that a session ended before what was waited for.
var ErrSessionEnded = errors.New("session has ended")

// Record is one event with its time.
type Record struct {
	At    time.Time
	Event realtime.Event
	// Refused is the code of the error that answered a received event, empty if it was accepted.
	Refused string
}

// record keeps events and wakes those who wait for one.
type record struct {
	mu      sync.Mutex
	list    []Record
	total   int // of all events, including dropped ones
	ended   bool
	changed chan struct{}
}

func (r *record) add(e realtime.Event) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.list) >= maxRecorded {
		r.list = slices.Delete(r.list, 0, maxRecorded/2)
	}
	r.list = append(r.list, Record{At: time.Now(), Event: e})
	r.total++
	r.wake()
	return r.total
}

// refuse records the error that answered event number.
func (r *record) refuse(number int, code string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if i := len(r.list) - 1 - (r.total - number); i >= 0 && i < len(r.list) {
		r.list[i].Refused = code
	}
}

func (r *record) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
	r.wake()
}

func (r *record) wake() {
	if r.changed != nil {
		close(r.changed)
		r.changed = nil
	}
}

func (r *record) all() []Record {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.list)
}

// wait returns the first event, past or future, that matches.
func (r *record) wait(ctx context.Context, match func(realtime.Event) bool) (realtime.Event, error) {
	seen := 0
	for {
		r.mu.Lock()
		from := max(0, len(r.list)-(r.total-seen))
		fresh := slices.Clone(r.list[from:])
		seen = r.total
		ended := r.ended
		if r.changed == nil {
			r.changed = make(chan struct{})
		}
		changed := r.changed
		r.mu.Unlock()
		for _, e := range fresh {
			if match(e.Event) {
				return e.Event, nil
			}
		}
		if ended {
			return realtime.Event{}, ErrSessionEnded
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return realtime.Event{}, context.Cause(ctx)
		}
	}
}
