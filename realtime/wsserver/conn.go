package wsserver

import (
	"context"
	"sync"
	"time"

	"voicebridge/realtime"
	"voicebridge/realtime/media"
)

// flushFor is how long Close waits until what was sent has left.
const flushFor = 500 * time.Millisecond

// Conn is the connection to one client. Events can be sent before there is a socket; they wait. Its methods are safe
// for concurrent use.
type Conn struct {
	h      media.Handlers
	slow   func()
	memory Memory
	id     uint32
	silent bool // it carries no sound: events pass as they are

	ctx    context.Context //nolint:containedctx // the connection's own, which ends its goroutines
	cancel context.CancelFunc
	done   chan struct{} // closed when the connection has ended
	once   sync.Once
	final  media.State

	out    *queue
	input  *input
	output output
	// order has the client's events handed on one by one, also those that waited for sound.
	order sync.Mutex

	mu      sync.Mutex
	served  chan struct{} // closed when Serve has returned; nil before it was called
	written <-chan struct{}
	closed  bool
}

// New returns a connection that still needs [Conn.Handle] and a socket.
func New() *Conn {
	ctx, cancel := context.WithCancel(context.Background())
	c := &Conn{
		id: media.NewSource(), ctx: ctx, cancel: cancel, done: make(chan struct{}), out: newQueue(), input: newInput(),
	}
	c.output.init(c.out, c.input.current)
	return c
}

// NewSilent is New for a connection that carries events only: audio is for its handlers an event like any other.
func NewSilent() *Conn {
	c := New()
	c.silent = true
	return c
}

// Silent reports whether it carries events only.
func (c *Conn) Silent() bool { return c.silent }

// Handle sets who takes the client's events and the states of the connection, and who is told, once, that the client
// reads too slowly to go on. It must be called once, before Serve.
func (c *Conn) Handle(h media.Handlers, slow func()) { c.h, c.slow = h, slow }

// Memory is what the large events of one owner may take while they are read; it waits until there is so much.
type Memory func(ctx context.Context, bytes int64) (release func(), err error)

// Within sets whose memory the client's events take; nil means that there is no limit. It must be called before Serve.
func (c *Conn) Within(m Memory) { c.memory = m }

// Succeed makes the connection go on where another one of the same client was: with its formats, and with the answer
// that is being played. It must be called before Serve.
func (c *Conn) Succeed(before *Conn) {
	c.input.succeed(before.input)
	c.output.succeed(&before.output)
}

// Use sets the format of sound both ways, as a session.update does. It must be called before Serve.
func (c *Conn) Use(f media.Format) {
	c.input.use(f)
	c.output.use(f)
	c.output.format = f
}

// Stops has stop called when nothing more of an answer is to be heard, also of what has been sent. It must return at
// once.
func (c *Conn) Stops(stop func(response string)) {
	c.output.mu.Lock()
	defer c.output.mu.Unlock()
	c.output.stops = stop
}

// Format returns the format of the client's sound.
func (c *Conn) Format() media.Format { return c.input.current() }

// Abandon takes that there will be no socket.
func (c *Conn) Abandon() {
	c.end(media.StateFailed)
	c.state(media.StateFailed)
}

func (c *Conn) state(s media.State) {
	if c.h.State != nil {
		c.h.State(s)
	}
}

// end marks the connection as ended; the first reason wins.
func (c *Conn) end(why media.State) {
	c.once.Do(func() {
		c.final = why
		close(c.done)
	})
}

// MaxMessageSize returns the largest event in bytes that can be sent.
func (c *Conn) MaxMessageSize() int { return MaxEvent }

// Send sends an event of the call after those sent before, or changed and later as the sound of its answer demands. It
// waits while 1 MiB of events waits for the client. Errors: media.ErrTooLarge, media.ErrClosed, or ctx's cause.
func (c *Conn) Send(ctx context.Context, data []byte) error {
	return media.SendWaiting(ctx, data, MaxEvent, c.TrySend, c.out.room, c.done)
}

// TrySend sends an event if that takes no waiting.
func (c *Conn) TrySend(data []byte) bool {
	select {
	case <-c.done:
		return false
	default:
	}
	if !c.out.hasRoom(len(data)) {
		return false
	}
	if c.silent {
		c.out.event(data)
	} else {
		c.output.event(data)
	}
	return true
}

// WriteAudio takes the model's sound.
func (c *Conn) WriteAudio(p *media.Packet) error {
	select {
	case <-c.done:
		return media.ErrClosed
	default:
	}
	err := c.output.write(p)
	if c.out.overflows() {
		c.out.giveUp(c.slow)
	}
	return err
}

// Sent returns how far the client was sent the answers until now.
func (c *Conn) Sent() realtime.Sent { return c.output.sent() }

// Ahead implements [media.Ahead]: the client plays answers by its own clock.
func (c *Conn) Ahead() (remote uint32, room bool) {
	if c.silent {
		return 0, false
	}
	return c.id, c.out.waiting() < maxEarlySound && c.output.unnamed() < maxUnnamed
}

// Close sends what waits, for half a second at most, closes the connection and joins its goroutines. It is idempotent,
// and must not be called from a handler.
func (c *Conn) Close() error {
	c.output.close()
	c.out.close()
	c.mu.Lock()
	served, written := c.served, c.written
	first := !c.closed
	c.closed = true
	c.mu.Unlock()
	if served == nil { // Serve will find the connection ended
		c.end(media.StateClosed)
		if first {
			time.AfterFunc(flushFor, c.cancel)
		}
		return nil
	}
	select {
	case <-written:
	case <-c.done:
	case <-time.After(flushFor):
	}
	c.end(media.StateClosed)
	c.cancel()
	<-served
	return nil
}
