package ws

import (
	"context"
	"encoding/base64"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"voicebridge/realtime"
	"voicebridge/realtime/media"
)

// Times of a connection.
const (
	pingEvery, pongWithin = 20 * time.Second, 20 * time.Second
	// flushFor is how long Close waits until what was sent has left, and goodbye how long for the upstream's close.
	flushFor, goodbye = 500 * time.Millisecond, time.Second
	// clientsWord is how long the upstream is not told what was played while the client may say that itself.
	clientsWord = time.Second
)

// socket is a WebSocket that carries text.
type socket interface {
	Read(ctx context.Context) ([]byte, error)
	Write(ctx context.Context, data []byte) error
	Ping(ctx context.Context) error
	// Close says goodbye, CloseNow does not.
	Close() error
	CloseNow() error
}

// Conn is the connection to one session of an upstream. Its methods are safe for concurrent use.
type Conn struct {
	profile Profile
	model   string
	socket  socket
	log     *slog.Logger
	h       media.Handlers
	id      string
	source  uint32

	ctx    context.Context //nolint:containedctx // the connection's own, which ends its goroutines
	cancel context.CancelFunc
	done   chan struct{} // closed when the connection has ended
	once   sync.Once
	final  media.State

	out     *queue
	in      input
	play    *playout
	inbox   inbox
	writer  <-chan struct{} // closed when everything was sent
	all     sync.WaitGroup
	closing sync.Once
	// progress counts events by two, and one when reading stops because there is no room, and when it goes on: it is
	// odd in between.
	progress atomic.Int64
	closed   chan struct{}

	mu         sync.Mutex
	started    bool
	configured bool   // a session.update was accepted
	interrupts bool   // the caller's speech stops an answer
	making     string // the response that is being made
	more       string // words at the end of the instructions
	// plays reports whether the client says itself what was heard of an answer; pendingCuts are those of which it has
	// not said it yet.
	plays       func() bool
	pendingCuts map[string]cut
}

func newConn(s socket, p Profile, model string, common *shared, log *slog.Logger) *Conn {
	ctx, cancel := context.WithCancel(context.Background())
	in, out := media.Format{Rate: p.RateIn}, media.Format{Rate: p.RateOut}
	c := &Conn{
		profile: p, model: model, socket: s, log: log, source: media.NewSource(),
		ctx: ctx, cancel: cancel, done: make(chan struct{}), closed: make(chan struct{}),
		out: newQueue(in), play: newPlayout(out, common), inbox: newInbox(), interrupts: true,
		plays: func() bool { return false }, pendingCuts: make(map[string]cut),
	}
	c.in = input{out: c.out}
	c.in.use(in)
	return c
}

// Profile is the upstream's, for the model of this session.
func (c *Conn) Profile() Profile { return c.profile }

// ID is the upstream's id of the session.
func (c *Conn) ID() string { return c.id }

// MaxMessageSize returns the largest event in bytes that the upstream takes.
func (c *Conn) MaxMessageSize() int { return c.profile.MaxEvent }

// Instruct adds words to the end of the instructions, whatever a session.update says.
func (c *Conn) Instruct(more string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.more = more
}

// ClientSounds says which format a client's sound has, both ways: a telephone's goes on unchanged if the upstream takes
// it. It must be called before Start.
func (c *Conn) ClientSounds(f media.Format) {
	if c.profile.Laws && f.Rate == 8000 {
		c.profile.law = f
		c.in.use(f)
		c.play.use(f)
	}
}

// ClientPlays makes the upstream wait for conversation.item.truncate from a client that plays answers by its own
// clock, for a second: then it is told what was played here. It must be called before Start.
func (c *Conn) ClientPlays(plays func() bool) { c.plays = plays }

// Send sends an event after those sent before. It waits while 1 MiB of events waits for the upstream. Errors:
// media.ErrTooLarge, media.ErrClosed, or ctx's cause.
func (c *Conn) Send(ctx context.Context, data []byte) error {
	return media.SendWaiting(ctx, data, c.profile.MaxEvent, c.TrySend, c.out.room, c.done)
}

// TrySend sends an event if that takes no waiting.
func (c *Conn) TrySend(data []byte) bool {
	select {
	case <-c.done:
		return false
	default:
	}
	ev, err := realtime.Decode(data)
	if err != nil {
		return c.out.push(data) // the upstream will say what is wrong
	}
	switch ev.Type {
	case realtime.TypeOutputBufferClear: // what is not played yet is here
		c.stop(true)
		return true
	case realtime.TypeInputCommit, realtime.TypeInputClear:
		c.in.flush()
	case realtime.TypeItemTruncate:
		all, found := c.play.truncate(ev.ItemID)
		c.mu.Lock()
		if stopped, waits := c.pendingCuts[ev.ItemID]; waits {
			all, found = stopped.all, true
			delete(c.pendingCuts, ev.ItemID)
		}
		c.mu.Unlock()
		if c.profile.KeepsAudio {
			heard := time.Duration(ev.AudioEndMS) * time.Millisecond
			if found {
				heard = min(heard, all) // another upstream refuses more
			}
			c.truncated(cut{item: ev.ItemID, content: ev.ContentIndex, played: heard})
			return true
		}
	}
	c.mu.Lock()
	first, more := !c.configured, c.more
	c.mu.Unlock()
	return c.out.push(c.profile.sent(ev, first, more, c.model))
}

// WriteAudio takes the caller's sound.
func (c *Conn) WriteAudio(p *media.Packet) error {
	select {
	case <-c.done:
		return media.ErrClosed
	default:
		return c.in.write(p)
	}
}

// Faster implements [media.Faster]: the upstream counts what it was sent.
func (c *Conn) Faster() bool { return c.out.takesFaster() }

// stop stops what is being played, and tells both sides.
func (c *Conn) stop(asked bool) {
	cuts, events := c.play.stop(asked)
	c.tell(events)
	if len(cuts) == 0 || !c.plays() {
		c.cut(cuts)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, cut := range cuts {
		c.pendingCuts[cut.item] = cut
	}
	time.AfterFunc(clientsWord, func() { c.cut(c.takePendingCuts(cuts)) }) // after the end that reaches nobody
}

// takePendingCuts returns those of which the client has not said how much was heard.
func (c *Conn) takePendingCuts(of []cut) (cuts []cut) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, cut := range of {
		if _, waits := c.pendingCuts[cut.item]; waits {
			delete(c.pendingCuts, cut.item)
			cuts = append(cuts, cut)
		}
	}
	return cuts
}

// cut tells both sides how much of answers was played.
func (c *Conn) cut(cuts []cut) {
	for _, cut := range cuts {
		if c.profile.KeepsAudio {
			c.truncated(cut)
			continue
		}
		c.out.insist(realtime.Encode(tree{
			"type": realtime.TypeItemTruncate, "event_id": ownEvent + cut.item,
			"item_id": cut.item, "content_index": cut.content, "audio_end_ms": cut.played.Milliseconds(),
		}))
	}
}

// ownEvent begins the ids of our own events, of which the client need not know.
const ownEvent = "bridge_ws_"

// truncated says what was played in place of an upstream that does not.
func (c *Conn) truncated(of cut) {
	c.tell(again(tree{
		"type": realtime.TypeItemTruncated, "event_id": newID("event_"),
		"item_id": of.item, "content_index": of.content, "audio_end_ms": of.played.Milliseconds(),
	}))
}

func (c *Conn) tell(events []realtime.Event) {
	for _, ev := range events {
		c.inbox.push(ev.Raw)
	}
}

// end marks the connection as ended; the first reason wins.
func (c *Conn) end(why media.State) {
	c.once.Do(func() {
		c.final = why
		close(c.done)
	})
}

// Done is closed when the connection has ended. Close must still be called.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Close sends what waits, for half a second at most, closes the connection and joins its goroutines. It is idempotent,
// and must not be called from a handler.
func (c *Conn) Close() error {
	c.closing.Do(func() {
		defer close(c.closed)
		c.out.close()
		c.mu.Lock()
		started := c.started
		c.mu.Unlock()
		if started {
			select {
			case <-c.writer:
			case <-c.done:
			case <-time.After(flushFor):
			}
		}
		cut := time.AfterFunc(goodbye, func() { _ = c.socket.CloseNow() })
		_ = c.socket.Close() // a remote that is gone answers nothing
		cut.Stop()
		c.end(media.StateClosed)
		c.cancel()
		_ = c.socket.CloseNow()
		c.inbox.close()
		c.all.Wait()
		c.play.close()
	})
	<-c.closed
	return nil
}

// sound decodes the sound of an event.
func sound(ev *realtime.Event) ([]byte, error) { return base64.StdEncoding.DecodeString(ev.Delta) }

// Sound returns how long the sound of an item is, as far as it has come; zero if it has none, or is none of the latest.
func (c *Conn) Sound(itemID string) time.Duration { return c.play.sound(itemID) }

// Said returns when the caller's sound came that has a place in all that the upstream has heard, and how much later
// it was sent; ok is false if nothing that was sent has that place.
func (c *Conn) Said(place time.Duration) (at time.Time, late time.Duration, ok bool) {
	sent, ok := c.out.markOf(place)
	if !ok {
		return time.Time{}, 0, false
	}
	at = c.in.came(sent.at)
	return at, max(sent.sent.Sub(at), 0), true
}
