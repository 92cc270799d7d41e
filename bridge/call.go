package bridge

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"

	"voicebridge/assistant"
	"voicebridge/bridge/internal/leg"
	"voicebridge/bridge/internal/session"
	"voicebridge/persistence"
	"voicebridge/persistence/spool"
	"voicebridge/realtime/media"
	"voicebridge/realtime/wsserver"
	"voicebridge/thread"
)

// maxInbox is how many inputs may wait for the loop before the legs must wait.
const maxInbox = 64

// maxWaiting is how many bytes an event of a client may have of which many may wait for the loop.
const maxWaiting = 64 << 10

// call is one live call as others see it: its inbox, its public state, and the parts of its loop.
type call struct {
	id  string
	key thread.Key
	// assistant is the one of the thread when the call began.
	assistant assistant.Assistant
	log       *slog.Logger

	inbox     chan session.Input
	joined    chan *leg.Browser
	joinAside chan *aside
	quit      chan struct{} // closed when the loop has ended: inputs are dropped
	done      chan struct{} // closed when the call has ended and everything is joined
	ends      atomic.Bool   // the call will end soon, whatever happens
	waiting   atomic.Bool   // the call is waiting for its browser
	talking   atomic.Bool   // an answer is being made

	dialer   *leg.Dialer
	first    *leg.Session                // the initial one, or
	dialing  *leg.Dialing                // its dial, if the call does not wait for it
	up       *leg.Sessions               // used by the loop
	browser  atomic.Pointer[leg.Browser] // the one in use
	handOver sync.Mutex                  // held while it is replaced, until it has got its session
	fromUser media.Flow                  // the gate of the caller's audio
	// joining is held while a browser reconnects; it guards newest, the last connection of which the loop was told,
	// and browserGen, the generation of the last one that was tried.
	joining    sync.Mutex
	newest     *leg.Browser
	browserGen int
	asides     asides

	writer *spool.Writer
	acks   acks
	images images
	thread publisher
	follow *follower // nil if the call need not follow its thread
	tools  toolRunner
	// recording is nil if the call is not recorded.
	recording Recording
	trail     *trail // how it was set up
	observer  Observer
	onTurn    func(thread.Key)
	onCount   func(session.Counter)
}

// clientPlays reports whether the client plays answers by its own clock, and says what was heard of them.
func (c *call) clientPlays() bool {
	b := c.browser.Load()
	if b == nil {
		return false
	}
	_, plays := b.Peer.(*wsserver.Conn)
	return plays
}

// publisher passes events to the watchers of a thread; *persistence.Store implements it.
type publisher interface {
	Publish(ctx context.Context, key thread.Key, e persistence.Event)
	// Watched reports whether anybody is watching.
	Watched(key thread.Key) bool
}

func newCall(id string, key thread.Key, log *slog.Logger) *call {
	c := &call{
		id: id, key: key, log: log.With("call_id", id, "thread_id", key.Thread),
		inbox: make(chan session.Input, maxInbox), browserGen: 1, joined: make(chan *leg.Browser),
		joinAside: make(chan *aside), quit: make(chan struct{}), done: make(chan struct{}), onTurn: func(thread.Key) {},
		onCount: func(session.Counter) {}, observer: unobserved{}, trail: newTrail(),
	}
	c.images = images{key: key, limit: new(atomic.Int64), log: c.log}
	c.tools = toolRunner{key: key, log: c.log, post: c.post, offer: c.offer, images: &c.images}
	return c
}

// post passes an input to the loop. While the loop is behind, post waits, which makes the remote wait; it gives up when
// the loop has ended.
func (c *call) post(in session.Input) {
	select {
	case c.inbox <- in:
	case <-c.quit:
	}
}

// postBrowser is post for events of a browser. It first saves their images. Large events do not wait beside others.
func (c *call) postBrowser(in session.Input) {
	if e, ok := in.(session.BrowserEvent); ok && hasImage(e.Data) && !c.ends.Load() {
		in = c.images.keep(e)
	}
	e, ok := in.(session.BrowserEvent)
	if !ok || len(e.Data) <= maxWaiting {
		c.post(in)
		return
	}
	taken := make(chan struct{})
	e.Taken = taken
	c.post(e)
	select {
	case <-taken:
	case <-c.quit:
	}
}

// postSocket is postBrowser for events of a client's socket, with how far the client was sent the answers. server means
// that the client is an application's server.
func (c *call) postSocket(socket *wsserver.Conn, server bool) leg.Post {
	return func(in session.Input) {
		if e, ok := in.(session.BrowserEvent); ok {
			e.Sent, e.Server = socket.Sent(), server
			in = e
		}
		c.postBrowser(in)
	}
}

// offer passes an input to the loop unless the loop is behind.
func (c *call) offer(in session.Input) {
	if len(c.inbox) > maxInbox/2 {
		return
	}
	c.post(in)
}

// stop asks the call to end; done tells when it has.
func (c *call) stop(reason EndReason) { c.post(session.Stop{Reason: reason}) }

// saved is called with each message once it is in the thread.
func (c *call) saved(m thread.Message) {
	c.acks.saved(m)
	if !c.show(m) {
		c.stop(EndBrowserStalled)
	}
}

// show sends a saved message to the browser and the sidebands. It returns false if the browser must be given up.
func (c *call) show(m thread.Message) bool {
	event, draft := session.MessageEvent(m), m.Metadata.Status == thread.StatusInProgress
	for _, id := range c.asides.push(event, draft) {
		c.post(session.SidebandGone{ID: id})
	}
	c.handOver.Lock()
	defer c.handOver.Unlock()
	browser := c.browser.Load()
	if browser == nil {
		return true // still being set up: it will read the thread itself
	}
	return browser.Push(event, draft)
}
