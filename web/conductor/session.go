package conductor

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"voicebridge/chat"
	"voicebridge/thread"
	"voicebridge/web/socket"
)

// KeepSession is how long a turn whose end nobody received waits for the app to come back. Its
// message is saved in any case.
const KeepSession = 10 * time.Minute

const (
	// takeOverWait is how long a connection that is taken over may take to let go, once it began.
	takeOverWait = 2 * time.Second
	// closeWait is how long it may take to notice that the app had closed it.
	closeWait = 100 * time.Millisecond
)

// connection is what a session knows of a connected app.
type connection struct {
	socket *socket.Socket
	end    context.CancelCauseFunc
	// began is closed when the connection before this one has given way, and stopped when nothing
	// more is written here.
	began, stopped chan struct{}
	// more is signalled when the session has another turn.
	more chan struct{}
}

// giveWay waits until nothing more is written on a connection that was taken over. It reports
// whether the app had closed it just before.
func (a *connection) giveWay() (clean bool) {
	<-a.began
	timer := time.AfterFunc(takeOverWait, a.socket.CloseNow)
	defer timer.Stop()
	<-a.stopped
	select {
	case <-a.socket.Unread:
		return a.socket.ClosedByClient()
	case <-time.After(closeWait):
		return false
	}
}

// session is what an app finds again when it reconnects. The mutex of sessions guards it.
type session struct {
	app    *connection // nil for none
	leftAt time.Time
	// turns are those whose end the app may not have received, oldest first.
	turns []*turn
}

// sessions holds the sessions of all apps. It is safe for concurrent use.
type sessions struct {
	now func() time.Time

	mu  sync.Mutex
	all map[thread.Key]*session
}

// acknowledge records that the app has read everything written so far.
func (d *sessions) acknowledge(s *session) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s.dropDelivered()
}

// enter makes a connection its session's current one. It ends and returns the previous one, nil if
// there was none.
func (d *sessions) enter(key thread.Key, a *connection) (s *session, before *connection) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s = d.all[key]
	if s == nil {
		s = &session{}
		d.all[key] = s
	}
	before, s.app = s.app, a
	if before != nil {
		before.end(socket.ErrTaken)
	}
	return s, before
}

// forget drops the sessions whose apps have not come back.
func (d *sessions) forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	maps.DeleteFunc(d.all, func(_ thread.Key, s *session) bool {
		return s.app == nil && d.now().Sub(s.leftAt) > KeepSession && !slices.ContainsFunc(s.turns, (*turn).running)
	})
}

func (d *sessions) leave(key thread.Key, s *session, a *connection) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if s.app != a {
		return
	}
	s.app, s.leftAt = nil, d.now()
	// An app that closed properly has read everything before; one that vanished may not have.
	if a.socket.ClosedByClient() {
		s.dropDelivered()
	}
	if len(s.turns) == 0 {
		delete(d.all, key)
	}
}

// dropDelivered drops the turns that were delivered to their end.
func (s *session) dropDelivered() {
	s.turns = slices.DeleteFunc(s.turns, func(t *turn) bool { return t.delivered })
}

// undelivered counts the turns whose end was not delivered yet.
func (s *session) undelivered() (n int) {
	for _, t := range s.turns {
		if !t.delivered {
			n++
		}
	}
	return n
}

// undelivered is that of a session.
func (d *sessions) undelivered(s *session) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return s.undelivered()
}

// count returns how many sessions are kept.
func (d *sessions) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.all)
}

// state is [Conductors.Session].
func (d *sessions) state(key thread.Key) (connected bool, undelivered int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if s := d.all[key]; s != nil {
		return s.app != nil, s.undelivered()
	}
	return false, 0
}

// add gives a session another turn, to be delivered after those before it. An app that begins one
// has received the end of the one before.
func (d *sessions) add(s *session, t *turn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s.dropDelivered()
	s.turns = append(s.turns, t)
	if s.app != nil {
		select {
		case s.app.more <- struct{}{}:
		default:
		}
	}
}

// next returns the oldest turn that is not delivered to its end; nil if there is none.
func (d *sessions) next(s *session) *turn {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, t := range s.turns {
		if !t.delivered {
			return t
		}
	}
	return nil
}

// resume causes ends that the app may not have received to be delivered once more.
func (d *sessions) resume(s *session) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, t := range s.turns {
		t.again()
	}
}

// finish records that a turn was delivered to its end.
func (d *sessions) finish(t *turn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	t.delivered = true
}

// confirm forgets a turn: the app has its end.
func (d *sessions) confirm(s *session, t *turn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s.turns = slices.DeleteFunc(s.turns, func(other *turn) bool { return other == t && t.delivered })
}

// deliver passes a result to the turn that asked for it.
func (d *sessions) deliver(s *session, r chat.ToolResult) error {
	d.mu.Lock()
	turns := slices.Clone(s.turns)
	d.mu.Unlock()
	for _, t := range slices.Backward(turns) {
		if err := t.turn.Deliver(r); !errors.Is(err, chat.ErrUnknownCall) {
			return err
		}
	}
	return &chat.CallError{CallID: r.CallID, Err: chat.ErrUnknownCall}
}
