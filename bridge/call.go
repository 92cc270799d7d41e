package bridge

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"voicebridge/persistence"
	"voicebridge/realtime/rtc"
	"voicebridge/toolkit"
	"voicebridge/toolkit/clienttool"
)

// Times and limits of a call's goroutines.
const (
	maxInbox      = 256             // inputs that wait for the loop; more make the legs wait
	hangUpTimeout = 5 * time.Second // for the upstream to end the call
	senderTimeout = 500 * time.Millisecond
)

// call is one live call: its legs, its goroutines and the loop that owns the
// state.
type call struct {
	id  string
	key persistence.Key
	log *slog.Logger

	inbox chan input
	ends  atomic.Bool   // it will end soon, whatever comes
	quit  chan struct{} // closed when the loop has ended: inputs are thrown away
	done  chan struct{} // closed when the call has ended and everything is joined

	upstream Upstream
	browser  leg
	up       UpstreamLeg
	toUp     rtc.Switch
	fromUser rtc.Flow // the gate of the caller's audio
	fromAI   rtc.Flow

	toBrowser *outbox
	toModel   *outbox
	journal   *journal
	kept      kept
	thread    telling
	router    *toolkit.Router
	client    *clienttool.Toolkit

	tools   sync.WaitGroup
	waiters waiters
	onTurn  func(persistence.Key)
	// talking is set while an answer is made.
	talking atomic.Bool
}

// telling passes events on to the watchers of a thread; *persistence.Store is one.
type telling interface {
	Publish(ctx context.Context, key persistence.Key, e persistence.Event)
}

func newCall(id string, key persistence.Key, log *slog.Logger) *call {
	return &call{
		id: id, key: key, log: log.With("call_id", id, "thread_id", key.Thread),
		inbox: make(chan input, maxInbox), quit: make(chan struct{}), done: make(chan struct{}),
		onTurn: func(persistence.Key) {},
	}
}

// post hands an input to the loop. It waits while the loop is behind, which makes
// the remote wait, and gives up when the loop has ended.
func (c *call) post(in input) {
	select {
	case c.inbox <- in:
	case <-c.quit:
	}
}

// offer hands an input to the loop unless it is behind.
func (c *call) offer(in input) {
	if len(c.inbox) > maxInbox/2 {
		return
	}
	c.post(in)
}

// stop asks the call to end; done tells when it has.
func (c *call) stop(reason EndReason) { c.post(stop{reason}) }

// browserHandlers and upstreamHandlers hop from the legs' goroutines to the loop.
func (c *call) browserHandlers() rtc.Handlers {
	return rtc.Handlers{
		Message:  func(data []byte) { c.post(browserEvent{data}) },
		TooLarge: func(size int) { c.post(browserTooLarge{size}) },
		State:    func(state rtc.State) { c.post(browserState{state}) },
	}
}

func (c *call) upstreamHandlers() rtc.Handlers {
	return rtc.Handlers{
		Message: func(data []byte) { c.post(upstreamEvent{data}) },
		State:   func(state rtc.State) { c.post(upstreamState{state}) },
	}
}

// run is the call's life after both legs are there. It blocks, joins everything
// it has started, and returns why the call ended. Only the journal may go on, when
// the database is away: settle joins it.
func (c *call) run(s *state) EndReason {
	// A call ends by its own rules and not with a context: what was said is saved
	// first.
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	c.toUp.Set(c.up)
	c.fromAI.Open()
	var pumps sync.WaitGroup
	pumps.Go(func() { c.pump(c.browser.Forward(ctx, &c.toUp, &c.fromUser), "browser") })
	pumps.Go(func() { c.pump(c.up.Forward(ctx, c.browser, &c.fromAI), "upstream") })
	sent := background(func() { c.toModel.run(ctx, c.up) })
	told := background(func() { c.toBrowser.run(ctx, c.browser) })
	c.kept = c.journal.keep()

	reason := c.loop(ctx, s)
	close(c.quit)
	c.toModel.close()
	await(sent, senderTimeout)
	c.hangUp()
	c.report("upstream", c.up.Close())
	c.journal.close()
	await(c.kept.done, journalTimeout)
	c.toBrowser.close()
	await(told, outboxTimeout)
	cancel()
	c.report("browser", c.browser.Close())
	<-sent
	<-told
	pumps.Wait()
	c.tools.Wait()
	c.log.Info("call ended", "reason", reason, "turns", s.record.Turns, "gated", c.fromUser.Gated.Load(),
		"packets_up", c.fromUser.Packets.Load(), "packets_down", c.fromAI.Packets.Load())
	return reason
}

// settle returns when all that the call has said is saved, or soon after ending
// is closed.
func (c *call) settle(ending <-chan struct{}) {
	c.kept.settle(ending)
	c.waiters.giveUp()
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

// pump logs why audio of a leg is not passed on any more, unless the leg ended.
func (c *call) pump(err error, from string) {
	if err != nil && !errors.Is(err, rtc.ErrClosed) && !errors.Is(err, context.Canceled) {
		c.log.Error("audio is not passed on", "leg", from, "error", err)
	}
}

func (c *call) report(leg string, err error) {
	if err != nil {
		c.log.Warn("leg not closed in time", "leg", leg, "error", err)
	}
}

// hangUp ends the call upstream, whatever state the connection is in: it would
// bill on.
func (c *call) hangUp() {
	ctx, cancel := context.WithTimeout(context.Background(), hangUpTimeout)
	defer cancel()
	if err := c.upstream.HangUp(ctx, c.up.ID()); err != nil {
		c.log.Warn("upstream call not hung up", "upstream_call_id", c.up.ID(), "error", err)
	}
}

// saved hears of each message that is in the thread now.
func (c *call) saved(m persistence.Message) {
	c.waiters.tell(m)
	event := encode(messageEvent{Type: "bridge.message", Message: m})
	if !c.toBrowser.push(event, m.Metadata.Status == persistence.StatusInProgress) {
		c.stop(EndBrowserStalled)
	}
}

// loop owns the state until the call ends.
func (c *call) loop(ctx context.Context, s *state) EndReason {
	w := worker{call: c, state: s, cancels: make(map[string]context.CancelFunc)}
	w.toolCtx, w.cancelTools = context.WithCancel(ctx)
	defer w.cancelTools()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		timer.Reset(w.untilDeadline())
		var in input
		select {
		case in = <-c.inbox:
		case <-timer.C:
			in = tick{}
		}
		if reason, over := w.step(in); over {
			return reason
		}
	}
}

// worker does what the state wants done. It belongs to the loop.
type worker struct {
	*call
	state       *state
	toolCtx     context.Context //nolint:containedctx // it ends with the loop that owns the worker
	cancelTools context.CancelFunc
	cancels     map[string]context.CancelFunc // of the tools that run
	over        EndReason
	failed      EndReason // the next input
}

func (w *worker) untilDeadline() time.Duration {
	at := w.state.deadline()
	if at.IsZero() {
		return time.Hour
	}
	return time.Until(at)
}

// step applies one input. A defect of the state ends this call and no other.
func (w *worker) step(in input) (reason EndReason, over bool) {
	defer func() {
		if p := recover(); p != nil {
			w.log.Error("call broken", "panic", p, "stack", string(debug.Stack()))
			w.abort()
			reason, over = EndInternal, true
		}
	}()
	for in != nil {
		w.performAll(w.state.reduce(time.Now(), in))
		if end, ok := in.(toolEnd); ok {
			delete(w.cancels, end.callID)
		}
		w.ends.Store(w.state.phase >= draining)
		in = nil
		if w.failed != endNone {
			in, w.failed = stop{w.failed}, endNone
		}
	}
	return w.over, w.over != endNone
}

// abort saves what it can of a call whose state is broken.
func (w *worker) abort() {
	defer func() {
		if p := recover(); p != nil {
			w.log.Error("broken call not closed", "panic", p)
		}
	}()
	w.openGate(false)
	w.state.effects, w.state.reason = nil, EndInternal
	w.state.finish()
	w.performAll(w.state.effects)
}

// performAll does what one input has led to. What it changes in the thread is
// saved together: a tool call is never shown without its record.
func (w *worker) performAll(effects []effect) {
	var ops []op
	for _, e := range effects {
		if change, ok := e.(write); ok {
			ops = append(ops, change.op)
			continue
		}
		w.perform(e)
	}
	if len(ops) > 0 {
		w.check(w.journal.push(ops...), EndStorageFailed)
	}
}

func (w *worker) perform(e effect) {
	switch e := e.(type) {
	case toUpstream:
		w.check(w.toModel.push(e.data, false), EndUpstreamLost)
	case toBrowser:
		w.check(w.toBrowser.push(e.data, e.draft), EndBrowserStalled)
	case publish:
		w.thread.Publish(w.toolCtx, w.key, persistence.Event{Type: e.kind, Data: encode(e.data)})
		switch e.kind {
		case turnStarted:
			w.talking.Store(true)
		case turnFinished:
			w.talking.Store(false)
			w.onTurn(w.key)
		}
	case expectTool:
		if err := w.client.Expect(e.callID); err != nil {
			w.log.Warn("client tool not opened", "tool_call_id", e.callID, "error", err)
		}
	case startTool:
		w.startTool(e.call)
	case deliverTool:
		if err := w.client.Deliver(e.callID, e.output); err != nil {
			w.log.Info("client's tool output refused", "tool_call_id", e.callID, "error", err)
		}
	case cancelTool:
		if cancel := w.cancels[e.callID]; cancel != nil {
			cancel()
		}
	case cancelTools:
		w.cancelTools()
	case gate:
		w.openGate(e.open)
	case answer:
		e.to <- e.yes
	case report:
		w.log.Log(w.toolCtx, e.level, e.message, e.attrs...) //nolint:sloglint // the state's messages are constants
	case finish:
		w.over = e.reason
	default:
		panic(fmt.Sprintf("bridge: unknown effect %T", e))
	}
}

// check ends the call when a queue is full.
func (w *worker) check(ok bool, reason EndReason) {
	if !ok && w.failed == endNone {
		w.failed = reason
	}
}

// openGate lets the caller be heard, or ends all audio.
func (w *worker) openGate(open bool) {
	if open {
		w.fromUser.Open()
		return
	}
	w.fromUser.Shut()
	w.fromAI.Shut()
}

// startTool runs a tool beside the loop.
func (w *worker) startTool(tc toolkit.Call) {
	c := w.call
	ctx, cancel := context.WithCancel(w.toolCtx)
	w.cancels[tc.ID] = cancel
	c.tools.Go(func() {
		defer cancel()
		result := toolkit.Drain(c.router.Call(ctx, tc), func(chunk toolkit.Chunk) {
			if chunk.MessageID != "" {
				c.post(toolProgress{callID: tc.ID, chunk: chunk}) // a fact
				return
			}
			c.offer(toolProgress{callID: tc.ID, chunk: chunk})
		})
		c.client.Forget(tc.ID)
		// What is kept and shown is without secrets; the model gets all.
		if !result.Failed() {
			result.Model = result.ForModel()
		}
		result.Output = toolkit.Mask(result.Output)
		c.post(toolEnd{callID: tc.ID, result: result})
	})
}
