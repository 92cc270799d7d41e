package conductor

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/coder/websocket"

	"voicebridge/chat"
	"voicebridge/persistence"
	"voicebridge/web/problem"
	"voicebridge/web/socket"
)

// KeepSession is how long a turn whose end nobody received waits for the app to come back. Its
// message is saved in any case.
const KeepSession = 10 * time.Minute

const (
	// takeOverWait is how long a connection that is taken over may take to let go.
	takeOverWait = 2 * time.Second
	// closeWait is how long it may take to notice that the app had closed it.
	closeWait = 100 * time.Millisecond
)

// textChat is what the sessions need of text turns; *chat.Coordinator implements it.
type textChat interface {
	Turn(ctx context.Context, req chat.TurnRequest) (*chat.Turn, error)
	Interrupt(ctx context.Context, key persistence.Key) error
}

// Config is what [New] needs; all of it is required.
type Config struct {
	Chat textChat
	// RefuseInCall returns an error if the thread has a live call: its conversation belongs to the
	// call.
	RefuseInCall func(ctx context.Context, key persistence.Key) error
	// Admit counts a turn of the owner until release is called, or returns why it is refused.
	Admit func(ctx context.Context, owner string) (release func(), err error)
	// Explain turns any error into what the app is told.
	Explain func(error) *problem.Error
	Now     func() time.Time
	Logger  *slog.Logger
}

// Conductors are the sessions of all apps. It is safe for concurrent use.
type Conductors struct {
	chat         textChat
	refuseInCall func(ctx context.Context, key persistence.Key) error
	admit        func(ctx context.Context, owner string) (release func(), err error)
	explain      func(error) *problem.Error
	now          func() time.Time
	log          *slog.Logger

	mu       sync.Mutex
	sessions map[persistence.Key]*session
}

// session is what an app finds again when it reconnects. The mutex of the Conductors guards it.
type session struct {
	app    *app // the connected app, or nil
	leftAt time.Time
	// turns are those whose end the app may not have received, oldest first.
	turns []*turn
}

// New returns an empty set of sessions.
func New(cfg Config) *Conductors {
	return &Conductors{
		chat: cfg.Chat, refuseInCall: cfg.RefuseInCall, admit: cfg.Admit, explain: cfg.Explain, now: cfg.Now, log: cfg.Logger,
		sessions: make(map[persistence.Key]*session),
	}
}

// Serve runs an app's connection until it ends and returns why it did.
func (d *Conductors) Serve(ctx context.Context, key persistence.Key, tools Tools, k *socket.Socket) error {
	a := &app{key: key, tools: tools, socket: k, all: d, told: make(chan struct{}), more: make(chan struct{}, 1)}
	ctx, a.end = context.WithCancelCause(ctx)
	defer a.end(nil)
	before := d.enter(a)
	k.Limit = -1 // take rejects what is too large and goes on
	k.Take = func(kind websocket.MessageType, r io.Reader) error { return a.take(ctx, kind, r) }
	cause := k.Run(ctx, func(ctx context.Context) error {
		defer close(a.told)
		if before != nil && before.giveWay() {
			d.acknowledge(a.session)
		}
		return a.tell(ctx)
	})
	d.leave(a)
	return cause
}

// giveWay waits until nothing more is written on a connection that was taken over. It reports
// whether the app had closed it just before.
func (a *app) giveWay() (clean bool) {
	timer := time.AfterFunc(takeOverWait, a.socket.CloseNow)
	defer timer.Stop()
	<-a.told
	select {
	case <-a.socket.Unread:
		return a.socket.SaidGoodbye()
	case <-time.After(closeWait):
		return false
	}
}

// acknowledge records that the app has read everything written so far.
func (d *Conductors) acknowledge(s *session) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s.heard()
}

// enter makes an app the one of its session. It returns the previous one, which must go.
func (d *Conductors) enter(a *app) (before *app) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.forget()
	s := d.sessions[a.key]
	if s == nil {
		s = &session{}
		d.sessions[a.key] = s
	}
	before, s.app, a.session = s.app, a, s
	if before != nil {
		before.end(socket.ErrTaken)
	}
	return before
}

// forget drops the sessions whose apps have not come back.
func (d *Conductors) forget() {
	for key, s := range d.sessions {
		if s.app == nil && d.now().Sub(s.leftAt) > KeepSession && !slices.ContainsFunc(s.turns, (*turn).running) {
			delete(d.sessions, key)
		}
	}
}

func (d *Conductors) leave(a *app) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := a.session
	if s.app != a {
		return
	}
	s.app, s.leftAt = nil, d.now()
	// An app that closed properly has read everything before; one that vanished may not have.
	if a.socket.SaidGoodbye() {
		s.heard()
	}
	if len(s.turns) == 0 {
		delete(d.sessions, a.key)
	}
}

// heard drops the turns that were delivered to their end.
func (s *session) heard() {
	s.turns = slices.DeleteFunc(s.turns, func(t *turn) bool { return t.told })
}

// untold counts the turns whose end was not delivered yet.
func (d *Conductors) untold(s *session) (n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, t := range s.turns {
		if !t.told {
			n++
		}
	}
	return n
}

// Count returns how many sessions there are.
func (d *Conductors) Count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.sessions)
}

// Session reports whether an app is connected to a thread's session, and how many of its turns are
// not yet delivered to their end.
func (d *Conductors) Session(key persistence.Key) (connected bool, untold int) {
	d.mu.Lock()
	s := d.sessions[key]
	d.mu.Unlock()
	if s == nil {
		return false, 0
	}
	untold = d.untold(s)
	d.mu.Lock()
	defer d.mu.Unlock()
	return s.app != nil, untold
}

// add gives a session another turn, to be delivered after those before it. An app that begins one
// has received the end of the one before.
func (d *Conductors) add(s *session, t *turn) {
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

// next returns the oldest turn that is not delivered to its end; nil if none.
func (d *Conductors) next(s *session) *turn {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, t := range s.turns {
		if !t.told {
			return t
		}
	}
	return nil
}

// resume makes ends that the app may not have received be delivered once more.
func (d *Conductors) resume(s *session) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, t := range s.turns {
		t.again()
	}
}

// finish records that a turn was delivered to its end.
func (d *Conductors) finish(t *turn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	t.told = true
}

// confirm forgets a turn: the app has its end.
func (d *Conductors) confirm(s *session, t *turn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s.turns = slices.DeleteFunc(s.turns, func(other *turn) bool { return other == t && t.told })
}

// deliver passes a result to the turn that asked for it.
func (d *Conductors) deliver(s *session, r chat.ToolResult) error {
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
