package bridge

import (
	"sync"

	"voicebridge/persistence"
)

// unsaved knows the calls of this process that have ended and whose last changes wait
// in the spool. The database takes them for live; a new call on their thread need not
// wait until it is told better.
type unsaved struct {
	pending func() int // changes that wait; nil: none ever do

	mu    sync.Mutex
	byKey map[persistence.Key]unsavedEnd
}

// unsavedEnd is the end of a thread that the database does not have yet.
type unsavedEnd struct {
	calls []persistence.CallRecord // that have ended
	// history are the thread's last messages as a model is told them, and last is the
	// newest; where known is not set the database has them.
	known   bool
	history []persistence.Message
	last    string
}

// keep notes the end of a call that has spoken.
func (u *unsaved) keep(key persistence.Key, rec persistence.CallRecord, history []persistence.Message, last string) {
	u.change(key, func(unsavedEnd) unsavedEnd {
		return unsavedEnd{calls: []persistence.CallRecord{rec}, known: true, history: history, last: last}
	})
}

// keepEnd notes the end of a call that came to nothing.
func (u *unsaved) keepEnd(key persistence.Key, rec persistence.CallRecord) {
	u.change(key, func(end unsavedEnd) unsavedEnd {
		end.calls = append(end.calls[:len(end.calls):len(end.calls)], rec)
		return end
	})
}

func (u *unsaved) change(key persistence.Key, f func(unsavedEnd) unsavedEnd) {
	if u.pending == nil {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.byKey == nil {
		u.byKey = make(map[persistence.Key]unsavedEnd)
	}
	u.byKey[key] = f(u.byKey[key])
	if u.pending() == 0 { // asked last: saved is told after the last change was saved
		delete(u.byKey, key)
	}
}

// of is the end of a thread, of which ok says that it is not saved.
func (u *unsaved) of(key persistence.Key) (end unsavedEnd, ok bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	end, ok = u.byKey[key]
	return end, ok
}

// saved forgets everything: the database has it.
func (u *unsaved) saved() {
	u.mu.Lock()
	defer u.mu.Unlock()
	clear(u.byKey)
}
