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

// hub knows the watchers of this process. They get drafts, which a slow watcher loses, first of all
// text that is being added to messages, and commits, which it never loses: a watcher whose queue is
// full is told to read the table instead.
type hub struct {
	dropped atomic.Int64

	// shards, commands and joined each hold one signal: that a thread of another shard may be
	// watched, that there is a command for this process, and that other instances have joined or
	// listen to something else.
	shards, commands, joined chan struct{}

	mu       sync.Mutex
	watchers map[thread.Key]map[*watcher]struct{}
	// answers has a channel for each command that waits for its answer, by id.
	answers map[string]chan struct{}
}

func newHub() *hub {
	return &hub{
		shards: make(chan struct{}, 1), commands: make(chan struct{}, 1), joined: make(chan struct{}, 1),
		watchers: map[thread.Key]map[*watcher]struct{}{}, answers: map[string]chan struct{}{},
	}
}

// signal never blocks.
func signal(to chan struct{}) {
	select {
	case to <- struct{}{}:
	default:
	}
}

// watchedShards returns the shards of all watched threads.
func (h *hub) watchedShards() (set shardSet) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for key := range h.watchers {
		set = set.with(shardOf(key.Thread))
	}
	return set
}

// hintShards says that any thread of the shards may have changed.
func (h *hub) hintShards(set shardSet) {
	h.hintSome(func(key thread.Key) bool { return key.Thread != "" && set.has(shardOf(key.Thread)) })
}

// hintAll says that anything may have happened.
func (h *hub) hintAll() { h.hintSome(func(thread.Key) bool { return true }) }

func (h *hub) hintSome(concerned func(thread.Key) bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for key, watchers := range h.watchers {
		if concerned(key) {
			for w := range watchers {
				w.set(&w.behind)
			}
		}
	}
}

// await returns a channel that gets a signal when the command is answered.
func (h *hub) await(command string) chan struct{} {
	answered := make(chan struct{}, 1)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.answers[command] = answered
	return answered
}

func (h *hub) forget(command string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.answers, command)
}

func (h *hub) answered(command string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if to := h.answers[command]; to != nil {
		signal(to)
	}
}

// commit is what a transaction changed: the events of all changes after prev, up to next.
type commit struct {
	prev, next int64
	events     []Event
	messages   []thread.Message // of the events
}

// item is a commit or, if commit is nil, a draft.
type item struct {
	draft  Event
	commit *commit
}

func (i item) size() int {
	if i.commit == nil {
		return len(i.draft.Data)
	}
	n := 0
	for _, e := range i.commit.events {
		n += len(e.Data)
	}
	return n
}

// isDelta reports whether the item adds text to a message. Who misses some finds it in the table.
func (i item) isDelta() bool { return i.commit == nil && i.draft.Type == EventMessageDelta }

// watcher is the buffer of one watch.
type watcher struct {
	wake chan struct{} // holds one signal: there is something to take

	mu     sync.Mutex
	queue  []item
	bytes  int
	behind bool // something that is not in the queue has happened: of a thread, the table has it
	gone   bool // the thread was deleted
	lost   bool // a draft did not fit into the queue
}

func (h *hub) add(key thread.Key) *watcher {
	w := &watcher{wake: make(chan struct{}, 1)}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.watchers[key] == nil {
		h.watchers[key] = map[*watcher]struct{}{}
		signal(h.shards)
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

// draft passes on an event that only current watchers get.
func (h *hub) draft(key thread.Key, e Event) {
	h.each(key, func(w *watcher) {
		if !w.put(item{draft: e}, &h.dropped) {
			w.set(&w.lost)
			h.dropped.Add(1)
		}
	})
}

// commit passes on what was saved.
func (h *hub) commit(key thread.Key, c commit) {
	h.each(key, func(w *watcher) {
		if !w.put(item{commit: &c}, &h.dropped) {
			w.set(&w.behind)
		}
	})
}

// hint says that the table has something new or, of an owner, that an event did not arrive.
func (h *hub) hint(key thread.Key) { h.each(key, func(w *watcher) { w.set(&w.behind) }) }

// gone says that the thread was deleted.
func (h *hub) gone(key thread.Key) { h.each(key, func(w *watcher) { w.set(&w.gone) }) }

// put adds to the queue unless it is full. An empty queue accepts anything, and deltas, which are counted
// then, give way to all else.
func (w *watcher) put(i item, dropped *atomic.Int64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.full(i) && !i.isDelta() {
		dropped.Add(w.dropDeltas())
	}
	if w.full(i) {
		return false
	}
	w.queue = append(w.queue, i)
	w.bytes += i.size()
	w.signal()
	return true
}

func (w *watcher) full(i item) bool {
	return len(w.queue) > 0 && (len(w.queue) >= maxQueued || w.bytes+i.size() > maxQueuedBytes)
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

// take empties the queue.
func (w *watcher) take() (items []item, behind, gone, lost bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	items, behind, gone, lost = w.queue, w.behind, w.gone, w.lost
	w.queue, w.bytes, w.behind, w.lost = nil, 0, false, false
	return items, behind, gone, lost
}
