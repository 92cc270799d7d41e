package bridge

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"voicebridge/bridge/internal/session"
	"voicebridge/persistence"
	"voicebridge/realtime/rtc"
	"voicebridge/toolkit"
	"voicebridge/toolkit/clienttool"
)

// maxInbox is how many inputs wait for the loop; more make the legs wait.
const maxInbox = 256

// call is one live call: its legs, its goroutines and the loop that owns the
// state.
type call struct {
	id  string
	key persistence.Key
	log *slog.Logger

	inbox  chan session.Input
	dialed chan dialResult
	ends   atomic.Bool   // it will end soon, whatever comes
	quit   chan struct{} // closed when the loop has ended: inputs are thrown away
	done   chan struct{} // closed when the call has ended and everything is joined

	upstream   Upstream
	creation   []byte // the session object that upstream sessions are created with
	itemPrefix string
	first      *upLeg
	ending     sync.WaitGroup // upstream legs that end, and dials
	leaving    sync.WaitGroup // browser legs that end
	toUp       rtc.Switch
	saveLeg    func(ctx context.Context, rec persistence.UpstreamLeg) error
	down       atomic.Uint64 // packets of the models

	browser  *browserLeg // the first one
	joined   chan *browserLeg
	peer     atomic.Pointer[browserLeg] // the newest one
	toUser   rtc.Switch
	fromUser rtc.Flow    // the gate of the caller's audio
	waiting  atomic.Bool // it waits for its browser
	// joining is held while a browser comes back; it guards browserGen, the newest
	// generation.
	joining    sync.Mutex
	browserGen int

	writer  *writer
	writing running
	thread  publisher
	follow  *follower // nil: a call that is told nothing of its thread
	router  *toolkit.Router
	client  *clienttool.Toolkit
	tools   sync.WaitGroup
	waiters waiters
	// approvals has the saved questions; nil for a call whose thread is elsewhere.
	approvals approvals
	asking    sync.Map // chan struct{} by tool call: look at its question now
	onTurn    func(persistence.Key)
	onCount   func(session.Counter)
	// farewell is sent to the watchers when the thread is free.
	farewell *persistence.Event
	// talking is set while an answer is being made.
	talking atomic.Bool
}

// publisher passes events on to the watchers of a thread; *persistence.Store is one.
type publisher interface {
	Publish(ctx context.Context, key persistence.Key, e persistence.Event)
}

func newCall(id string, key persistence.Key, log *slog.Logger) *call {
	return &call{
		id: id, key: key, log: log.With("call_id", id, "thread_id", key.Thread),
		inbox: make(chan session.Input, maxInbox), browserGen: 1, dialed: make(chan dialResult), joined: make(chan *browserLeg), quit: make(chan struct{}), done: make(chan struct{}),
		onTurn: func(persistence.Key) {}, onCount: func(session.Counter) {},
		saveLeg: func(context.Context, persistence.UpstreamLeg) error { return nil },
	}
}

// post hands an input to the loop. It waits while the loop is behind, which makes
// the remote wait, and gives up when the loop has ended.
func (c *call) post(in session.Input) {
	select {
	case c.inbox <- in:
	case <-c.quit:
	}
}

// offer hands an input to the loop unless it is behind.
func (c *call) offer(in session.Input) {
	if len(c.inbox) > maxInbox/2 {
		return
	}
	c.post(in)
}

// stop asks the call to end; done tells when it has.
func (c *call) stop(reason EndReason) { c.post(session.Stop{Reason: reason}) }

// browserHandlers and upstreamHandlers pass events from the legs' goroutines to the loop.
func (c *call) browserHandlers(gen int) rtc.Handlers {
	return rtc.Handlers{
		Message:  func(data []byte) { c.post(session.BrowserEvent{Gen: gen, Data: data}) },
		TooLarge: func(size int) { c.post(session.BrowserTooLarge{Gen: gen, Size: size}) },
		State: func(state rtc.State) {
			if s := connection(state); s != 0 {
				c.post(session.BrowserState{Gen: gen, State: s})
			}
		},
	}
}

func (c *call) upstreamHandlers(gen int) rtc.Handlers {
	return rtc.Handlers{
		Message: func(data []byte) { c.post(session.UpstreamEvent{Gen: gen, Data: data}) },
		State: func(state rtc.State) {
			if s := connection(state); s != 0 {
				c.post(session.UpstreamState{Gen: gen, State: s})
			}
		},
	}
}

// connection translates a leg's state for the call; 0 is one that the call ignores.
func connection(state rtc.State) session.Connection {
	switch state {
	case rtc.StateConnected:
		return session.Connected
	case rtc.StateDisconnected:
		return session.Disconnected
	case rtc.StateFailed:
		return session.Failed
	case rtc.StateClosed:
		return session.Closed
	default:
		return 0
	}
}

// run is the call's life after both legs are there. It blocks, joins everything
// it has started, and returns why the call ended. Only the writer may go on, when
// the database is away: settle joins it.
func (c *call) run(s *session.State) EndReason {
	// A call ends by its own rules and not with a context: what was said is saved
	// first.
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	c.toUp.Set(c.first.leg)
	c.startBrowser(ctx, c.browser)
	c.writing = c.writer.start()
	following := background(func() { c.follow.run(ctx, c.post) })

	w := newWorker(ctx, c, s)
	reason := w.loop()
	close(c.quit)
	w.legs.endAll(reason)
	c.writer.close()
	await(c.writing.done, saveTimeout)
	c.endBrowser(c.peer.Load())
	c.leaving.Wait()
	cancel()
	<-following
	c.tools.Wait()
	c.log.Info("call ended", "reason", reason, "turns", s.Turns(), "gated", c.fromUser.Gated.Load(),
		"packets_up", c.fromUser.Packets.Load(), "packets_down", c.down.Load())
	return reason
}

// settle returns when all that the call has said is saved, or soon after ending
// is closed, and how many changes were not saved.
func (c *call) settle(ending <-chan struct{}) (lost int64) {
	defer c.waiters.giveUp()
	return c.writing.settle(ending)
}

// background runs f and closes the channel when it has returned.
func background(f func()) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	return done
}

func await(done <-chan struct{}, limit time.Duration) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
}

// saved is called with each message once it is in the thread.
func (c *call) saved(m persistence.Message) {
	c.waiters.tell(m)
	peer := c.peer.Load()
	if peer == nil {
		return // still being set up: it reads the thread by itself
	}
	if !peer.out.push(session.MessageEvent(m), m.Metadata.Status == persistence.StatusInProgress) {
		c.stop(EndBrowserStalled)
	}
}
