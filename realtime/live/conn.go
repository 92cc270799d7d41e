package live

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
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
	// frozen is how long the seconds that a session counts may stand still.
	frozen = 10 * time.Second
)

// Limits of what waits.
const (
	maxEvent  = 64 << 10 // bytes of an event to the session: what Pion sends where the answer names no limit
	maxOut    = 512      // events for the client, before the session must wait
	maxSent   = 1024     // commands whose errors can still be attributed
	maxWaits  = 4096     // commands that wait to be sent
	ownPrefix = "vb_l"   // of the ids of commands
)

// Peer is the connection that carries a session.
type Peer interface {
	media.Sink
	Send(ctx context.Context, data []byte) error
	Forward(ctx context.Context, dst media.Sink, flow *media.Flow) error
	Accept(ctx context.Context, answer string) error
	Close() error
}

// sentKind is what a command is for.
type sentKind int

const (
	sentOther sentKind = iota
	sentOutput
	sentText
	sentCreate
	sentAppend
	sentShort
)

// command is what is remembered of a command, for its error.
type command struct {
	kind   sentKind
	client string // the event_id of the client's event that has caused it
	call   *call
	bytes  int // as the backend counts them
	create int
	text   string
}

// core is what the parts of a session share.
type core struct {
	now      time.Time
	sound    *sound
	out      [][]byte // events for the client
	commands [][]byte
	sent     map[string]command
	order    []string
	counter  int
}

// emit tells the client of something.
func (c *core) emit(e tree) {
	e["event_id"] = newID("event_")
	c.out = append(c.out, encode(e))
}

// command tells the session something.
func (c *core) command(what command, e tree) {
	c.counter++
	id := fmt.Sprintf("%s%d", ownPrefix, c.counter)
	e["event_id"] = id
	c.sent[id] = what
	if c.order = append(c.order, id); len(c.order) > maxSent {
		delete(c.sent, c.order[0])
		c.order = c.order[1:]
	}
	c.commands = append(c.commands, encode(e))
}

// refuse answers an event of the client.
func (c *core) refuse(eventID string, e realtime.Error) {
	e.EventID = eventID
	c.out = append(c.out, realtime.ErrorEvent(newID("event_"), e))
}

// Usage is how long a session is billed.
type Usage struct {
	Length time.Duration
	// Told means that the session has said so itself, at its end.
	Told bool
}

// Conn is the connection to one session. Its methods are safe for concurrent use.
type Conn struct {
	client  *Client
	log     *slog.Logger
	h       media.Handlers
	peer    Peer
	id      string
	created time.Time

	ctx    context.Context //nolint:containedctx // the connection's own, which ends its goroutines
	cancel context.CancelFunc
	all    sync.WaitGroup
	wake   chan struct{} // holds a token when there is something to hand on, or another deadline
	write  chan struct{} // holds a token when there are commands
	taken  chan struct{} // holds a token when there is room again
	begun  chan struct{} // closed when the session has started, or cannot
	ended  chan struct{} // closed when the session has ended, or its connection
	closed sync.Once

	sound sound

	mu       sync.Mutex
	core     core
	captions captions
	lines    lines
	work     work
	config   config
	started  bool
	failed   error // why it has not started
	closing  bool  // session.close was sent
	told     bool  // session.closed came
	final    media.State
	reason   string
	seconds  float64
	advanced time.Time // when that grew last
	seen     map[string]bool
	typed    bool // a text of the user waits for response.create
}

// newConn returns the connection that a peer will carry.
func (c *Client) newConn(h media.Handlers, cfg config) *Conn {
	conn := &Conn{
		client: c, log: c.log(), h: h, config: cfg, final: media.StateClosed,
		wake: make(chan struct{}, 1), write: make(chan struct{}, 1), taken: make(chan struct{}, 1),
		begun: make(chan struct{}), ended: make(chan struct{}), seen: make(map[string]bool),
	}
	conn.ctx, conn.cancel = context.WithCancel(context.Background())
	k := &conn.core
	k.sound, k.sent = &conn.sound, make(map[string]command)
	conn.captions = captions{core: k, heard: make(map[fragmentKey]bool)}
	conn.lines = lines{core: k, captions: &conn.captions}
	conn.work = work{core: k, captions: &conn.captions, lines: &conn.lines, chat: c.Delegate == DelegateChat, known: make(map[string]bool), maxRounds: c.ToolRounds}
	conn.work.most.items, conn.work.most.bytes = maxItems, maxBytes
	conn.captions.delegates = func() bool { return conn.work.pending != nil || conn.work.running != nil }
	conn.sound.begins = func() {
		conn.do(func() {
			if conn.captions.speaking() {
				conn.captions.overlaps(conn.sound.position())
			}
		})
	}
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
func (c *Conn) ID() string { return c.id }

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
	c.core.now = time.Now()
	change()
	c.lines.next()
	signal(c.wake)
	if len(c.core.commands) > 0 {
		signal(c.write)
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
func (c *Conn) end(why media.State, reason string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.endNow(why, reason)
}

// endNow is end for those who hold c.mu.
func (c *Conn) endNow(why media.State, reason string) {
	select {
	case <-c.ended:
		return
	default:
	}
	c.final, c.reason = why, reason
	if !c.started && c.failed == nil {
		c.failed = fmt.Errorf("start session: %w: %s", ErrEnded, reason)
		close(c.begun)
	}
	close(c.ended)
}

// message takes an event of the session.
func (c *Conn) message(data []byte) {
	var ev event
	if err := readLoosely(data, &ev); err != nil || ev.Type == "" {
		c.log.Warn("upstream event dropped", "error", err, "bytes", len(data))
		return
	}
	c.do(func() {
		if ev.EventID != "" && c.seen[ev.EventID] {
			return
		}
		if len(c.seen) > maxKnown {
			clear(c.seen)
		}
		c.seen[ev.EventID] = ev.EventID != ""
		c.take(&ev)
	})
	c.room()
}

// room waits until the client has taken enough of what waits for it.
func (c *Conn) room() {
	for {
		c.mu.Lock()
		full := len(c.core.out) > maxOut
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

func (c *Conn) take(ev *event) {
	switch ev.Type {
	case typeStarted:
		c.start(ev)
	case typeUserDelta:
		c.captions.take(user, ev.fragment())
		c.work.turn()
	case typeVoiceDelta:
		c.captions.take(voice, ev.fragment())
		c.work.heard()
	case typeDelegation:
		if u := c.captions.open[user]; u != nil && c.core.now.Sub(u.touched) >= userQuiet {
			c.captions.commit(u)
		}
		c.work.delegated(ev)
		c.work.askNext()
	case typeBackend:
		c.work.backend(ev)
	case typeUsage:
		c.used(ev.Usage.Seconds)
	case typeClosed:
		c.used(ev.Usage.Seconds)
		c.told = true
		c.over(ev.Reason)
	case typeError:
		if ev.Error.Command == "" {
			ev.Error.Command = ev.ClientEventID
		}
		c.fault(&ev.Error)
	}
}

func (ev *event) fragment() fragment {
	return fragment{ev.Delta, time.Duration(ev.Start) * time.Millisecond, time.Duration(ev.End) * time.Millisecond}
}

// start takes session.started.
func (c *Conn) start(ev *event) {
	if c.started || c.failed != nil {
		return
	}
	c.started, c.advanced = true, c.core.now
	session := c.config.shown(c.id)
	if ev.Session.ExpiresAt > 0 {
		session["expires_at"] = int64(ev.Session.ExpiresAt)
	}
	c.core.emit(tree{"type": realtime.TypeSessionCreated, "session": session})
	close(c.begun)
}

// used takes how long the session has been billed: the most that was said counts. A count that stands still is that of a session
// that hears nothing.
func (c *Conn) used(seconds float64) {
	switch {
	case seconds > c.seconds && seconds < 1e7:
		c.seconds, c.advanced = seconds, c.core.now
		c.core.emit(tree{"type": TypeUsage, "usage": tree{"type": "duration", "seconds": seconds}})
	case c.started && !c.closing && c.core.now.Sub(c.advanced) >= frozen:
		c.endNow(media.StateFailed, "stalled")
	}
}

// over takes the end of the session.
func (c *Conn) over(reason string) {
	switch {
	case c.closing:
	case reason == "expired":
		c.core.refuse("", realtime.Error{Type: "invalid_request_error", Code: "session_expired", Message: "The session has expired."})
	case reason == "content":
		c.core.refuse("", realtime.Error{Type: "invalid_request_error", Code: "content_filter", Message: "The upstream has ended the session because of what was said."})
	}
	c.endNow(media.StateClosed, reason)
}

// fault takes an error.
func (c *Conn) fault(e *failure) {
	what, own := c.core.sent[e.Command]
	delete(c.core.sent, e.Command)
	told := e.Error
	told.EventID = what.client
	switch {
	case !c.started && c.failed == nil:
		c.failed = &realtime.APIError{Status: 400, Type: e.Type, Code: e.Code, Message: realtime.MaskKeys(e.Message), Param: e.Param}
		close(c.begun)
	case e.Code == "context_injection_incomplete" && c.closing:
	case told.Fatal():
		c.core.refuse(what.client, told)
	case what.kind == sentAppend:
		c.log.Warn("upstream has refused what it was told", "code", e.Code, "error", e.Message)
		if strings.Contains(e.Message, "token") {
			c.lines.refused(typeThinking, what.text, "")
		}
	case own && what.kind != sentOther && what.kind != sentShort:
		c.log.Warn("upstream has refused an item", "code", e.Code, "error", e.Message)
		c.work.refused(what, &e.Error)
		if what.kind == sentText || what.kind == sentCreate && what.client != "" && e.Code != "function_call_outputs_required" {
			c.core.refuse(what.client, told)
		}
	default:
		c.log.Warn("upstream complains", "code", e.Code, "param", e.Param, "error", realtime.MaskKeys(e.Message))
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
	c.do(func() { c.asked(&ev) })
	return true
}

// asked carries out an event of the client.
func (c *Conn) asked(ev *realtime.Event) {
	switch ev.Type {
	case realtime.TypeSessionUpdate:
		c.configure(ev)
	case realtime.TypeItemCreate:
		c.createItem(ev)
	case realtime.TypeResponseCreate:
		c.create(ev)
	case realtime.TypeResponseCancel:
		if !c.captions.cancel() {
			c.core.refuse(ev.EventID, realtime.Error{Code: "response_cancel_not_active", Message: "There is no answer to cancel."})
		}
	case realtime.TypeOutputBufferClear:
		if !c.captions.cancel() {
			c.core.emit(tree{"type": realtime.TypeOutputBufferCleared})
		}
	case realtime.TypeInputCommit, realtime.TypeInputClear, realtime.TypeItemTruncate, realtime.TypeItemDelete:
		c.core.refuse(ev.EventID, notSupported(ev.Type))
	}
}

// createItem takes an item.
func (c *Conn) createItem(ev *realtime.Event) {
	item, err := realtime.DecodeItem(ev.Item)
	if err != nil {
		return
	}
	var shown tree
	_ = json.Unmarshal(ev.Item, &shown) // it was read
	shown["status"], shown["object"] = "completed", "realtime.item"
	switch {
	case item.Type == realtime.ItemFunctionCallOutput:
		c.captions.append(shown)
		c.work.output(item.CallID, item.Output, ev.EventID)
	case item.Type == realtime.ItemMessage && item.Role == "user":
		c.captions.append(shown)
		c.work.text(item.Text(), ev.EventID)
		c.typed = true
	case item.Type == realtime.ItemMessage:
		c.captions.append(shown)
		c.lines.know(item.Text(), "")
	}
}

// create takes response.create.
func (c *Conn) create(ev *realtime.Event) {
	var fields struct {
		Instructions string `json:"instructions"`
	}
	_ = json.Unmarshal(ev.Response, &fields) // what is of another form is none
	typed := c.typed
	c.typed = false
	if fields.Instructions != "" && !typed {
		c.lines.say(fields.Instructions, "", true)
		return
	}
	if fields.Instructions != "" {
		c.lines.append(typeInstruction, fields.Instructions, "")
	}
	if !c.work.create(ev.EventID, typed) {
		c.core.refuse(ev.EventID, notSupported("a request to speak without a question"))
	}
}

// Tell has the session know what was said elsewhere; spoken means that the user should hear it.
func (c *Conn) Tell(text string, spoken bool) {
	c.do(func() {
		if spoken {
			c.lines.say(text, "", true)
		} else {
			c.lines.know(text, "")
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
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	ended := c.ended
	for {
		events, next := c.due()
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
			final := c.final
			c.mu.Unlock()
			if c.h.State != nil {
				c.h.State(final)
			}
			return
		}
		timer.Reset(next)
		select {
		case <-c.wake:
		case <-timer.C:
		case <-ended:
			ended = nil
		case <-c.ctx.Done():
			ended = nil
		}
	}
}

// due does what is due, and returns the events that wait and how long nothing will be due.
func (c *Conn) due() (events [][]byte, next time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.core.now = time.Now()
	if c.started && !c.closing {
		c.captions.tick()
		c.work.tick()
		c.lines.next()
		if c.lines.mute() {
			c.lines.firstBy = time.Time{}
			c.endNow(media.StateFailed, "silent")
		}
	}
	events, c.core.out = c.core.out, nil
	signal(c.taken)
	if len(c.core.commands) > 0 {
		signal(c.write)
	}
	at := sooner(c.captions.deadline(), sooner(c.work.deadline(), c.lines.deadline()))
	if at.IsZero() || !c.started || c.closing {
		return events, time.Hour
	}
	return events, max(at.Sub(c.core.now), time.Millisecond)
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
		if c.started && len(c.core.commands) > 0 {
			next = c.core.commands[0]
			c.core.commands = c.core.commands[1:]
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

// Forward passes the model's sound to dst, as a peer does, but for what is held back. Only one Forward at a time can run.
func (c *Conn) Forward(ctx context.Context, dst media.Sink, flow *media.Flow) error {
	return c.peer.Forward(ctx, relay{&c.sound, dst}, flow)
}

// relay is the way of the model's sound.
type relay struct {
	sound *sound
	to    media.Sink
}

// WriteAudio implements media.Sink.
func (r relay) WriteAudio(p *media.Packet) error {
	if r.sound.holds() {
		return nil
	}
	return r.to.WriteAudio(p)
}

// Said returns when the caller's sound came that has a place in what the session has heard: its clock runs with that.
func (c *Conn) Said(place time.Duration) (at time.Time, late time.Duration, ok bool) {
	gone := c.sound.position() - place
	return time.Now().Add(-gone), 0, gone >= 0
}

// finish asks the session to end if its channel is usable, and returns when it has confirmed that, with how long it is billed. If it
// does not before ctx ends, or the connection is lost, the length is an estimate, and the error says why.
func (c *Conn) finish(ctx context.Context, usable bool) (Usage, error) {
	var err error
	if usable {
		c.do(func() {
			if !c.closing {
				c.closing, c.core.commands = true, nil
				c.core.command(command{}, tree{"type": typeClose})
			}
		})
		select {
		case <-c.ended:
		case <-ctx.Done():
			err = fmt.Errorf("end session: %w", context.Cause(ctx))
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	u := Usage{Length: max(time.Duration(c.seconds*float64(time.Second)), 0), Told: c.told}
	if !c.told {
		u.Length = max(u.Length, time.Since(c.created))
		err = cmp.Or(err, fmt.Errorf("end session: %w: %s", ErrEnded, c.reason))
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
