package bridge

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"voicebridge/persistence/records"
	"voicebridge/thread"
)

// acks notifies those who wait for a message to be saved.
type acks struct {
	mu     sync.Mutex
	byID   map[string][]chan thread.Message
	closed bool
}

// await returns a channel that gets the message, or is closed if it will not be saved.
func (a *acks) await(id string) <-chan thread.Message {
	a.mu.Lock()
	defer a.mu.Unlock()
	ch := make(chan thread.Message, 1)
	if a.closed {
		close(ch)
		return ch
	}
	if a.byID == nil {
		a.byID = make(map[string][]chan thread.Message)
	}
	a.byID[id] = append(a.byID[id], ch)
	return ch
}

func (a *acks) saved(m thread.Message) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, ch := range a.byID[m.ID] {
		ch <- m
	}
	delete(a.byID, m.ID)
}

// close says that no more messages will be saved.
func (a *acks) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	for _, all := range a.byID {
		for _, ch := range all {
			close(ch)
		}
	}
	a.byID = nil
}

// unsaved holds this process's ended calls whose last changes wait in the spool. The database still
// considers them live, but a new call on their thread need not wait.
type unsaved struct {
	pending func() int // number of waiting changes; nil if none ever wait

	mu    sync.Mutex
	byKey map[thread.Key]unsavedEnd
	// fewer is closed when some of them have been saved; nil while nobody waits.
	fewer chan struct{}
}

// unsavedEnd is the end of a thread that the database does not have yet.
type unsavedEnd struct {
	calls []records.Call // that have ended
	// history are the thread's last messages for a model, and last is the id of the newest. They are valid if known is
	// set; otherwise the database has them.
	known   bool
	history []thread.Message
	last    string
}

// since returns those of a thread's last messages that came after the end.
func (e *unsavedEnd) since(saved []thread.Message) []thread.Message {
	for i, m := range slices.Backward(saved) {
		isKnown := slices.ContainsFunc(e.history, func(h thread.Message) bool { return h.ID == m.ID }) ||
			slices.ContainsFunc(e.calls, func(c records.Call) bool { return c.ID == m.Metadata.CallID })
		if isKnown || m.ID == e.last || m.Metadata.CreatedAt.Before(e.calls[0].StartedAt) {
			return saved[i+1:]
		}
	}
	return saved
}

// keep records the end of a call in which something was said.
func (u *unsaved) keep(key thread.Key, rec records.Call, history []thread.Message, last string) {
	u.change(key, func(unsavedEnd) unsavedEnd {
		return unsavedEnd{calls: []records.Call{rec}, known: true, history: history, last: last}
	})
}

// keepEnd records the end of a call without content.
func (u *unsaved) keepEnd(key thread.Key, rec records.Call) {
	u.change(key, func(end unsavedEnd) unsavedEnd {
		end.calls = append(end.calls[:len(end.calls):len(end.calls)], rec)
		return end
	})
}

func (u *unsaved) change(key thread.Key, f func(unsavedEnd) unsavedEnd) {
	if u.pending == nil {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.byKey == nil {
		u.byKey = make(map[thread.Key]unsavedEnd)
	}
	u.byKey[key] = f(u.byKey[key])
	if u.pending() == 0 { // checked last: saved is called after the last change was saved
		delete(u.byKey, key)
		u.signal()
	}
}

// signal wakes those who wait; the caller holds mu.
func (u *unsaved) signal() {
	if u.fewer != nil {
		close(u.fewer)
		u.fewer = nil
	}
}

// await returns when the end of a thread is saved. After patience the error is errUnsaved.
func (u *unsaved) await(ctx context.Context, key thread.Key, patience time.Duration) error {
	timer := time.After(patience)
	for {
		u.mu.Lock()
		if u.fewer == nil {
			u.fewer = make(chan struct{})
		}
		_, waits := u.byKey[key]
		fewer := u.fewer
		u.mu.Unlock()
		if !waits {
			return nil
		}
		select {
		case <-fewer:
		case <-timer:
			return errUnsaved
		case <-ctx.Done():
			return fmt.Errorf("wait for the end of a call: %w", context.Cause(ctx))
		}
	}
}

// of returns the unsaved end of a thread; ok reports whether there is one.
func (u *unsaved) of(key thread.Key) (end unsavedEnd, ok bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	end, ok = u.byKey[key]
	return end, ok
}

// callsOf returns the ids of an owner's ended calls, which the database still counts as live.
func (u *unsaved) callsOf(owner string) (ids []string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for key, end := range u.byKey {
		for _, call := range end.calls {
			if key.Owner == owner {
				ids = append(ids, call.ID)
			}
		}
	}
	return ids
}

// saved forgets everything: the database has it.
func (u *unsaved) saved() {
	u.mu.Lock()
	defer u.mu.Unlock()
	clear(u.byKey)
	u.signal()
}
