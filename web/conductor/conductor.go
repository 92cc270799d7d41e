package conductor

import (
	"context"
	"io"
	"time"

	"voicebridge/thread"
	"voicebridge/web/socket"

	"github.com/coder/websocket"
)

// Conductors holds the sessions of all apps. It is safe for concurrent use.
type Conductors struct {
	cfg      Config
	sessions sessions
}

// New returns an empty set of sessions.
func New(cfg Config) *Conductors {
	return &Conductors{cfg: cfg, sessions: sessions{now: cfg.Now, all: make(map[thread.Key]*session)}}
}

// forgetEvery is how often sessions whose apps have not come back are looked for.
const forgetEvery = time.Minute

// Run forgets the sessions whose apps have not come back, until ctx ends.
func (d *Conductors) Run(ctx context.Context) {
	ticker := time.Tick(forgetEvery)
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker:
			d.Forget()
		}
	}
}

// Forget drops the sessions whose apps have been away for [KeepSession], unless a turn is running.
func (d *Conductors) Forget() { d.sessions.forget() }

// Serve runs an app's connection until it ends and returns why it ended. name is what the app calls its session.
func (d *Conductors) Serve(
	ctx context.Context, key thread.Key, name, user string, tools Tools, k *socket.Socket,
) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	a := d.app(key, name, tools, connection{
		socket: k, end: end, began: make(chan struct{}), stopped: make(chan struct{}), more: make(chan struct{}, 1),
	})
	var before *connection
	a.user = user
	a.session, before = d.sessions.enter(key, &a.connection)
	k.Limit = -1 // take refuses what is too large and goes on
	k.Take = func(kind websocket.MessageType, r io.Reader) error { return a.receive(ctx, kind, r) }
	cause := k.Run(ctx, func(ctx context.Context) error {
		defer close(a.stopped)
		if before != nil && before.giveWay() {
			d.sessions.acknowledge(a.session)
		}
		close(a.began)
		return a.deliver(ctx)
	})
	d.sessions.leave(key, a.session, &a.connection)
	return cause
}

func (d *Conductors) app(key thread.Key, name string, tools Tools, c connection) *app {
	return &app{
		envelopes: envelopes{name, d.cfg.Now}, connection: c,
		key: key, tools: tools, cfg: &d.cfg, sessions: &d.sessions,
	}
}

// Count returns how many sessions there are.
func (d *Conductors) Count() int { return d.sessions.count() }

// Session reports whether an app is connected to a thread's session, and how many of its turns are
// not yet delivered to their end.
func (d *Conductors) Session(key thread.Key) (connected bool, undelivered int) {
	return d.sessions.state(key)
}
