package persistence

import (
	"slices"
	"sync"
	"sync/atomic"

	"voicebridge/thread"
)

const (
	// maxQueued and maxQueuedBytes limit what waits for one slow watcher.
	maxQueued      = 256
	maxQueuedBytes = 1 << 20
)

// hub knows the watchers of this process. They get text that is being added to messages, which a slow watcher loses and
// reads from the table; commits, which one whose queue is full reads from the table; and events, which such a one reads
// from the log.
type hub struct {
	dropped atomic.Int64

	// grown holds one signal: that another instance has written into the log.
	grown chan struct{}

	mu       sync.Mutex
	watchers map[thread.Key]map[*watcher]struct{}
}

func newHub() *hub {
	return &hub{grown: make(chan struct{}, 1), watchers: map[thread.Key]map[*watcher]struct{}{}}
}

// signal never blocks.
func signal(to chan struct{}) {
	select {
	case to <- struct{}{}:
	default:
	}
}

// all calls do for all watchers; it must not block.
func (h *hub) all(do func(*watcher)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, watchers := range h.watchers {
		for w := range watchers {
			do(w)
		}
	}
}

// hintAll says that the messages of all threads may have changed.
func (h *hub) hintAll() { h.all(func(w *watcher) { w.set(&w.behind) }) }

// logged says that what watchers have missed may be in the log now.
func (h *hub) logged() {
	h.all(func(w *watcher) {
		if w.misses() {
			signal(w.wake)
		}
	})
}

// lose says that an event will never be in the log, and loseAll that events may be gone from it.
func (h *hub) lose(key thread.Key) {
	h.dropped.Add(1)
	h.each(key, func(w *watcher) { w.set(&w.lost) })
}

func (h *hub) loseAll() { h.all(func(w *watcher) { w.set(&w.lost) }) }

// commit is what a transaction changed: the events of all changes after prev, up to next.
type commit struct {
	prev, next int64
	events     []Event
	messages   []thread.Message // of the events
}

// item is a commit or, if commit is nil, an event.
type item struct {
	event  Event
	mark   string // by which the event is found in the log; text has none
	commit *commit
}

func (i item) size() int {
	if i.commit == nil {
		return len(i.event.Data)
	}
	n := 0
	for _, e := range i.commit.events {
		n += len(e.Data)
	}
	return n
}

// isDelta reports whether the item adds text to a message.
func (i item) isDelta() bool { return i.commit == nil && i.mark == "" }

// watcher is the buffer of one watch.
type watcher struct {
	wake   chan struct{} // holds one signal: there is something to take
	readTo int64         // the last row of the log in which the watch has looked for what it missed

	mu     sync.Mutex
	queue  []item
	bytes  int
	behind bool                // the table has something that is not in the queue
	lost   bool                // an event was lost for good
	missed map[string]struct{} // the marks of events that found the queue full, and those since then
}

func (h *hub) add(key thread.Key) *watcher {
	w := &watcher{wake: make(chan struct{}, 1), missed: map[string]struct{}{}}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.watchers[key] == nil {
		h.watchers[key] = map[*watcher]struct{}{}
	}
	h.watchers[key][w] = struct{}{}
	return w
}

func (h *hub) remove(key thread.Key, w *watcher) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.watchers[key], w)
	if len(h.watchers[key]) == 0 {
		delete(h.watchers, key)
	}
}

// watched reports whether anybody watches the thread.
func (h *hub) watched(key thread.Key) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.watchers[key]) > 0
}

// each calls do for the thread's watchers; it must not block.
func (h *hub) each(key thread.Key, do func(*watcher)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for w := range h.watchers[key] {
		do(w)
	}
}

// delta passes on text that is added to a message.
func (h *hub) delta(key thread.Key, e Event) {
	h.each(key, func(w *watcher) {
		if !w.put(item{event: e}, &h.dropped) {
			h.dropped.Add(1)
		}
	})
}

// event passes on an event, and reports whether a watcher has to read it from the log. Watchers of an owner read all
// from there, for its number.
func (h *hub) event(e entry) (missed bool) {
	if e.key.Thread == "" {
		return false
	}
	h.each(e.key, func(w *watcher) { missed = !w.put(item{event: e.event, mark: e.mark}, &h.dropped) || missed })
	return missed
}

// commit passes on what was saved.
func (h *hub) commit(key thread.Key, c commit) {
	h.each(key, func(w *watcher) {
		if !w.put(item{commit: &c}, &h.dropped) {
			w.set(&w.behind)
		}
	})
}

// hint says that the tables have something new.
func (h *hub) hint(key thread.Key) { h.each(key, func(w *watcher) { w.set(&w.behind) }) }

// put adds to the queue unless it is full. An empty queue accepts anything, and deltas, which are counted
// then, give way to all else.
func (w *watcher) put(i item, dropped *atomic.Int64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.full(i) && !i.isDelta() {
		dropped.Add(w.dropDeltas())
	}
	if w.full(i) {
		if i.mark != "" {
			w.missed[i.mark] = struct{}{}
		}
		return false
	}
	w.queue = append(w.queue, i)
	w.bytes += i.size()
	w.signal()
	return true
}

// full reports whether there is no room for the item. An event does not overtake those that were missed.
func (w *watcher) full(i item) bool {
	return i.mark != "" && len(w.missed) > 0 ||
		len(w.queue) > 0 && (len(w.queue) >= maxQueued || w.bytes+i.size() > maxQueuedBytes)
}

func (w *watcher) dropDeltas() (dropped int64) {
	w.queue = slices.DeleteFunc(w.queue, func(i item) bool {
		if i.isDelta() {
			w.bytes -= i.size()
			dropped++
		}
		return i.isDelta()
	})
	return dropped
}

func (w *watcher) set(flag *bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	*flag = true
	w.signal()
}

func (w *watcher) signal() { signal(w.wake) }

// misses reports whether events must be read from the log.
func (w *watcher) misses() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.missed) > 0
}

// found reports whether an event of the log was missed, which it is no longer.
func (w *watcher) found(mark string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, missed := w.missed[mark]
	delete(w.missed, mark)
	return missed
}

// take empties the queue.
func (w *watcher) take() (items []item, behind, lost bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	items, behind = w.queue, w.behind
	lost = w.lost
	w.queue, w.bytes = nil, 0
	w.behind = false
	return items, behind, lost
}
