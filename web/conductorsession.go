package web

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/coder/websocket"

	"voicebridge/chat"
	"voicebridge/persistence"
)

const (
	// keepSession is how long a turn that nobody heard the end of waits for the app
	// to come back. Its message is saved in any case.
	keepSession = 10 * time.Minute
	// takeOverWait is how long a connection that is taken over may need to let go.
	takeOverWait = 2 * time.Second
	// goodbyeWait is how long it may take to see that the app had closed it.
	goodbyeWait = 100 * time.Millisecond
)

// conductors are the sessions of all apps. Safe for concurrent use.
type conductors struct {
	now func() time.Time

	mu       sync.Mutex
	sessions map[persistence.Key]*conductorSession
}

// conductorSession is what an app finds again when it comes back. It is guarded
// by the mutex of the conductors.
type conductorSession struct {
	app    *app // connected; nil for none
	leftAt time.Time
	// turns are those whose end the app has not surely heard of, oldest first.
	turns []*conductorTurn
}

func newConductors(now func() time.Time) *conductors {
	return &conductors{now: now, sessions: make(map[persistence.Key]*conductorSession)}
}

// serve runs an app's connection until it ends and returns why it did.
func (d *conductors) serve(ctx context.Context, a *app) error {
	ctx, a.end = context.WithCancelCause(ctx)
	defer a.end(nil)
	a.told, a.more = make(chan struct{}), make(chan struct{}, 1)
	before := d.enter(a)
	a.socket.limit = -1 // take refuses what is too large and goes on
	a.socket.take = func(kind websocket.MessageType, r io.Reader) error { return a.take(ctx, kind, r) }
	cause := a.socket.run(ctx, func(ctx context.Context) error {
		defer close(a.told)
		if before != nil && before.giveWay() {
			d.goodbye(a.session)
		}
		return a.tell(ctx)
	})
	d.leave(a)
	return cause
}

// giveWay waits until nothing more is told on a connection that was taken over.
// It reports whether the app had closed it just before.
func (a *app) giveWay() (goodbye bool) {
	timer := time.AfterFunc(takeOverWait, func() { _ = a.socket.conn.CloseNow() })
	defer timer.Stop()
	<-a.told
	select {
	case <-a.socket.unread:
		return a.socket.saidGoodbye()
	case <-time.After(goodbyeWait):
		return false
	}
}

// goodbye notes that the app has read all that was told.
func (d *conductors) goodbye(s *conductorSession) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s.heard()
}

// enter makes an app the one of its session. It returns the one before, which is
// told to go.
func (d *conductors) enter(a *app) (before *app) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.forget()
	s := d.sessions[a.key]
	if s == nil {
		s = &conductorSession{}
		d.sessions[a.key] = s
	}
	before, s.app, a.session = s.app, a, s
	if before != nil {
		before.end(errSocketTaken)
	}
	return before
}

// forget drops the sessions to which no app came back.
func (d *conductors) forget() {
	for key, s := range d.sessions {
		if s.app == nil && d.now().Sub(s.leftAt) > keepSession && !slices.ContainsFunc(s.turns, (*conductorTurn).running) {
			delete(d.sessions, key)
		}
	}
}

func (d *conductors) leave(a *app) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := a.session
	if s.app != a {
		return
	}
	s.app, s.leftAt = nil, d.now()
	// Who says goodbye has read all that came before it; who vanishes may not.
	if a.socket.saidGoodbye() {
		s.heard()
	}
	if len(s.turns) == 0 {
		delete(d.sessions, a.key)
	}
}

// heard drops the turns that were told to their end.
func (s *conductorSession) heard() {
	s.turns = slices.DeleteFunc(s.turns, func(t *conductorTurn) bool { return t.told })
}

// untold counts the turns whose end was not told yet.
func (d *conductors) untold(s *conductorSession) (n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, t := range s.turns {
		if !t.told {
			n++
		}
	}
	return n
}

// add gives a session another turn, to be told when those before it are. An app
// that begins one has heard the end of the one before.
func (d *conductors) add(s *conductorSession, t *conductorTurn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s.heard()
	s.turns = append(s.turns, t)
	if s.app != nil {
		select {
		case s.app.more <- struct{}{}:
		default:
		}
	}
}

// next gives the oldest turn that is not told to its end; nil for none.
func (d *conductors) next(s *conductorSession) *conductorTurn {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, t := range s.turns {
		if !t.told {
			return t
		}
	}
	return nil
}

// resume makes the ends that the app may not have heard be told once more.
func (d *conductors) resume(s *conductorSession) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, t := range s.turns {
		t.again()
	}
}

// finish notes that a turn was told to its end.
func (d *conductors) finish(t *conductorTurn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	t.told = true
}

// confirm forgets a turn: the app has its end.
func (d *conductors) confirm(s *conductorSession, t *conductorTurn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s.turns = slices.DeleteFunc(s.turns, func(other *conductorTurn) bool { return other == t && t.told })
}

// deliver hands a result to the turn that asked for it.
func (d *conductors) deliver(s *conductorSession, r chat.ToolResult) error {
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
