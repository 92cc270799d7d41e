package live

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"voicebridge/realtime"
	"voicebridge/realtime/media"
)

// Times of a connection.
const (
	// startTimeout is how long a session that was created may take until it can be used.
	startTimeout = 10 * time.Second
	// closeTimeout is how long a session may take to confirm its end.
	closeTimeout = 20 * time.Second
)

// ErrNotStarted means that a session was created but did not start in time.
var ErrNotStarted = errors.New("the session has not started in time")

// Limits of what waits.
const (
	maxOut = 512 // events for the client, before the session must wait
)

// Conn is the connection to one session. Its methods are safe for concurrent use.
type Conn struct {
	log     *slog.Logger
	h       media.Handlers
	peer    Peer
	created time.Time

	ctx    context.Context //nolint:containedctx // the connection's own, which ends its goroutines
	cancel context.CancelFunc
	all    sync.WaitGroup
	wake   chan struct{} // holds a token when there is something to hand on
	write  chan struct{} // holds a token when there are commands
	taken  chan struct{} // holds a token when there is room again
	begun  chan struct{} // closed when the session has started, or cannot
	ended  chan struct{} // closed when the session has ended, or its connection
	closed sync.Once

	sound sound

	mu      sync.Mutex
	session session
	ready   bool // begun is closed
	gone    bool // ended is closed
}

// newConn returns the connection that a peer will carry.
func newConn(rounds int, log *slog.Logger, h media.Handlers, cfg config) *Conn {
	conn := &Conn{
		log: log, h: h, wake: make(chan struct{}, 1), write: make(chan struct{}, 1), taken: make(chan struct{}, 1),
		begun: make(chan struct{}), ended: make(chan struct{}),
	}
	conn.ctx, conn.cancel = context.WithCancel(context.Background())
	conn.session.init(rounds, cfg, log, &conn.sound)
	conn.sound.begins = func() { conn.do(conn.session.speaks) }
	return conn
}

// handlers are those of the peer.
func (c *Conn) handlers() media.Handlers {
	return media.Handlers{Message: c.message, State: c.state, Open: func() { signal(c.write) }, Reached: c.h.Reached}
}

// run begins what a connection does by itself.
func (c *Conn) run() {
	c.all.Go(c.handOn)
	c.all.Go(c.writeAll)
}

// ID is the upstream's id of the session.
func (c *Conn) ID() string { return c.session.id }

// MaxMessageSize returns the largest event in bytes that is taken.
func (c *Conn) MaxMessageSize() int { return 1 << 20 }

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// do changes what is known, and has what follows from it handed on.
func (c *Conn) do(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.session.core.now = time.Now()
	change()
	c.session.lines.next()
	c.follow()
	signal(c.wake)
}

// follow tells the goroutines what has changed. c.mu is held.
func (c *Conn) follow() {
	s := &c.session
	if len(s.core.commands) > 0 {
		signal(c.write)
	}
	if !c.ready && (s.started || s.failed != nil) {
		c.ready = true
		close(c.begun)
	}
	if !c.gone && s.over {
		c.gone = true
		close(c.ended)
	}
}

// state takes the state of the peer.
func (c *Conn) state(s media.State) {
	switch s {
	case media.StateConnected:
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.ctx.Err() == nil && c.sound.filler.Source == 0 {
			c.sound.filler.Source = media.NewSource()
			c.all.Go(func() { c.sound.fill(c.ctx) })
		}
	case media.StateDisconnected:
		if c.h.State != nil {
			c.h.State(s)
		}
	case media.StateFailed, media.StateClosed:
		c.end(media.StateFailed, "connection_lost")
	}
}

// end ends the connection; the first reason wins.
func (c *Conn) end(why media.State, reason string) { c.do(func() { c.session.end(why, reason) }) }

// message takes an event of the session.
func (c *Conn) message(data []byte) {
	var ev event
	if err := readLoosely(data, &ev); err != nil || ev.Type == "" {
		c.log.Warn("upstream event dropped", "error", err, "bytes", len(data))
		return
	}
	c.do(func() { c.session.take(&ev) })
	c.room()
}

// room waits until the client has taken enough of what waits for it.
func (c *Conn) room() {
	for {
		c.mu.Lock()
		full := len(c.session.core.out) > maxOut
		c.mu.Unlock()
		if !full {
			return
		}
		select {
		case <-c.taken:
		case <-c.ctx.Done():
			return
		}
	}
}

// Send takes an event of the Realtime API. Errors: media.ErrClosed.
func (c *Conn) Send(_ context.Context, data []byte) error {
	if !c.TrySend(data) {
		return fmt.Errorf("send event: %w", media.ErrClosed)
	}
	return nil
}

// TrySend is Send, which never waits.
func (c *Conn) TrySend(data []byte) bool {
	select {
	case <-c.ended:
		return false
	default:
	}
	ev, err := realtime.Decode(data)
	if err != nil {
		return true
	}
	c.do(func() { c.session.asked(&ev) })
	return true
}

// Tell has the session know what was said elsewhere; spoken means that the user should hear it.
func (c *Conn) Tell(text string, spoken bool) {
	c.do(func() {
		if spoken {
			c.session.lines.say(text, "", true)
		} else {
			c.session.lines.know(text, "")
		}
	})
}

// handOn gives events and states to the handlers, and does what is due.
func (c *Conn) handOn() {
	if c.h.State != nil {
		c.h.State(media.StateConnected)
	}
	if c.h.Open != nil {
		c.h.Open()
	}
	tick := time.NewTicker(media.FrameTime)
	defer tick.Stop()
	ended := c.ended
	for {
		events := c.due()
		for _, data := range events {
			if c.h.Message != nil {
				c.h.Message(data)
			}
		}
		if len(events) > 0 {
			continue
		}
		if ended == nil {
			c.mu.Lock()
			final := c.session.final
			c.mu.Unlock()
			if c.h.State != nil {
				c.h.State(final)
			}
			return
		}
		select {
		case <-c.wake:
		case <-tick.C:
		case <-ended:
			ended = nil
		case <-c.ctx.Done():
			ended = nil
		}
	}
}

// due does what is due, and returns the events that wait.
func (c *Conn) due() (events [][]byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := &c.session.core
	k.now = time.Now()
	c.session.tick()
	c.follow()
	events, k.out = k.out, nil
	signal(c.taken)
	return events
}

// writeAll sends what waits, once the session has started.
func (c *Conn) writeAll() {
	select {
	case <-c.begun:
	case <-c.ctx.Done():
		return
	}
	for {
		c.mu.Lock()
		var next []byte
		if k := &c.session.core; c.session.started && len(k.commands) > 0 {
			next = k.commands[0]
			k.commands = k.commands[1:]
		}
		c.mu.Unlock()
		if next != nil {
			if err := c.peer.Send(c.ctx, next); err != nil && !errors.Is(err, media.ErrTooLarge) {
				return
			}
			continue
		}
		select {
		case <-c.write:
		case <-c.ctx.Done():
			return
		}
	}
}

// WriteAudio takes the caller's sound.
func (c *Conn) WriteAudio(p *media.Packet) error {
	select {
	case <-c.ended:
		return media.ErrClosed
	default:
		return c.sound.write(p)
	}
}

// Forward passes the model's sound to dst, as a peer does, but for what is held back. Only one Forward at a time can
// run.
func (c *Conn) Forward(ctx context.Context, dst media.Sink, flow *media.Flow) error {
	return c.peer.Forward(ctx, relay{&c.sound, dst}, flow)
}

// relay is the way of the model's sound.
type relay struct {
	sound *sound
	to    media.Sink
}

// WriteAudio implements media.Sink.
func (r relay) WriteAudio(p *media.Packet) error { return r.sound.play(p, r.to) }

// Said returns when the caller's sound came that has a place in what the session has heard: its clock runs with that.
func (c *Conn) Said(place time.Duration) (at time.Time, late time.Duration, ok bool) {
	gone := c.sound.position() - place
	return time.Now().Add(-gone), 0, gone >= 0
}

// Sound returns how long an item is spoken, as far as it has come.
func (c *Conn) Sound(itemID string) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.session.captions.segments {
		if s.id == itemID && s.side == voice {
			return s.end - s.start
		}
	}
	return 0
}

// finish asks the session to end if its channel is usable, and returns when it has confirmed that, with how long it
// is billed. If it does not before ctx ends, or the connection is lost, the length is an estimate, and the error says
// why.
func (c *Conn) finish(ctx context.Context, usable bool) (Usage, error) {
	var err error
	if usable {
		c.do(c.session.close)
		select {
		case <-c.ended:
		case <-ctx.Done():
			err = fmt.Errorf("end session: %w", context.Cause(ctx))
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s := &c.session
	u := Usage{Length: time.Duration(s.seconds * float64(time.Second)), Reported: s.reported}
	if !s.reported {
		u.Length = max(u.Length, time.Since(c.created))
		err = cmp.Or(err, fmt.Errorf("end session: %w: %s", ErrEnded, s.reason))
	}
	return u, err
}

// shut closes the connection and joins its goroutines.
func (c *Conn) shut() error {
	var err error
	c.closed.Do(func() {
		c.end(media.StateClosed, "closed")
		err = c.peer.Close()
		c.cancel()
		c.all.Wait()
	})
	return err
}
