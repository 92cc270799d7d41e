package bridge

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"voicebridge/bridge/internal/leg"
	"voicebridge/bridge/internal/session"
	"voicebridge/bridge/internal/task"
	"voicebridge/persistence"
	"voicebridge/persistence/records"
	"voicebridge/realtime/media"
	"voicebridge/toolkit"
)

// saveTimeout is how long an ended call keeps its thread while the last changes are saved.
const saveTimeout = 10 * time.Second

// worker is the loop of a call: it owns the state and carries out its effects.
type worker struct {
	*call
	ctx        context.Context //nolint:containedctx // it ends with the call
	state      *session.State
	toUp       media.Switch   // the caller's audio
	toUser     leg.Tone       // the model's audio
	fromCaller media.Sink     // takes the caller's audio: toUp, with a recording before it
	leaving    sync.WaitGroup // browser legs that are ending
	over       EndReason      // why the loop ends; EndNone while it runs
	full       session.Input  // the next input, because a queue is full
}

// run runs the call once both legs exist. It blocks, joins everything that it started, and returns
// why the call ended, and whether what was said is saved. Only that may go on, while the database is unavailable.
func (c *call) run(s *session.State) (reason EndReason, saved bool) {
	// A call ends by its own rules and not with a context: what was said is saved first.
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	following := task.Go(func() { c.follow.run(ctx, c.post) })
	c.tools.begin(ctx)

	w := &worker{call: c, ctx: ctx, state: s}
	w.fromUser.KeepEarly()
	w.fromCaller = &w.toUp
	var toCaller media.Sink = &w.toUser
	if r := c.recording; r != nil {
		w.fromCaller, toCaller = r.User(&w.toUp), r.Assistant(&w.toUser)
		defer r.End()
	}
	defer w.toUser.Sound(false)
	w.startBrowser(c.newest)
	w.up = leg.NewSessions(ctx, leg.Wiring{
		FromUser: &w.toUp, ToUser: toCaller, History: c.images.replayed,
		Created: func(ctx context.Context, rec records.Leg) error {
			return c.writer.Save(ctx, c.key, persistence.PutLeg{Leg: rec})
		},
		Ended: func(rec records.Leg) { c.writer.PushLast(c.key, persistence.PutLeg{Leg: rec}) },
	}, c.dialer)
	var over bool
	first, dialing := c.first, c.dialing
	c.first, c.dialing = nil, nil // they may end long before the call
	if first != nil {
		w.up.Begin(first)
		reason, over = w.step(session.Begun{})
	} else {
		w.up.Await(dialing)
	}
	if !over {
		reason = w.loop()
	}
	if c.recording != nil {
		c.recording.Stop() // before all that the end of a call waits for
	}
	w.setUpDone()
	close(c.quit)
	w.asides.endAll()
	w.up.EndAll(reason)
	saved = c.saveAll(saveTimeout)
	if s.Record().ReadyAt == nil && unusable[reason] {
		c.browser.Load().EndJoined()
	} else {
		c.browser.Load().End()
	}
	w.leaving.Wait()
	w.asides.leaving.Wait()
	cancel()
	<-following
	c.tools.running.Wait()
	c.log.Info("call ended", "reason", reason, "turns", s.Turns(), "gated", c.fromUser.Gated.Load(),
		"packets_up", c.fromUser.Packets.Load(), "packets_down", w.up.Packets())
	return reason, saved
}

// saveAll returns when what was said is saved, or after a while. It reports whether it is.
func (c *call) saveAll(patience time.Duration) (saved bool) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return c.writer.Await(ctx, c.key) == nil
}

// startBrowser makes b the call's browser and runs its goroutines.
func (w *worker) startBrowser(b *leg.Browser) {
	w.browser.Store(b)
	w.toUser.Set(b.Peer)
	b.Start(w.ctx, w.fromCaller, &w.fromUser)
}

// join makes another connection the browser's and notifies the previous one. Nothing reaches the
// new one before its session, not even a message that is saved at this moment.
func (w *worker) join(b *leg.Browser) (reason EndReason, over bool) {
	w.handOver.Lock()
	defer w.handOver.Unlock()
	old := w.browser.Load()
	old.Push(session.EndedEvent(EndTakenOver), false)
	w.startBrowser(b)
	w.leaving.Go(old.End)
	return w.step(session.BrowserJoined{Gen: b.Gen, Limit: b.Peer.MaxMessageSize(), Plays: w.clientPlays()})
}

// loop owns the state until the call ends.
func (w *worker) loop() EndReason {
	defer w.tools.endAll(toolkit.ErrCallEnded)
	var armed time.Time
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	one := make([]session.Input, 1)
	for {
		one[0] = nil // it may hold a large event
		// Most events leave the deadline where it is.
		if at := w.state.Deadline(); !at.Equal(armed) {
			timer.Reset(untilDeadline(at))
			armed = at
		}
		var inputs []session.Input
		select {
		case in := <-w.inbox:
			if w.up.KeepEarly(in) {
				continue
			}
			w.browserEnds(in)
			one[0], inputs = in, one
		case b := <-w.joined:
			if reason, over := w.join(b); over {
				return reason
			}
		case a := <-w.joinAside:
			id, ok := w.asides.take(w.ctx, a, w.postSocket(a.conn, a.server))
			if !ok {
				continue
			}
			one[0], inputs = session.SidebandJoined{ID: id}, one
		case r := <-w.up.Dialed:
			inputs = w.up.Add(r)
		case <-timer.C:
			armed = time.Time{}
			inputs = []session.Input{session.Tick{}}
		}
		for _, in := range inputs {
			if reason, over := w.step(in); over {
				return reason
			}
		}
	}
}

// browserEnds stops queueing events for a browser that has closed its connection.
func (w *worker) browserEnds(in session.Input) {
	s, ok := in.(session.BrowserState)
	if b := w.browser.Load(); ok && s.State == session.Closed && s.Gen == b.Gen {
		b.Shut()
	}
}

func untilDeadline(at time.Time) time.Duration {
	if at.IsZero() {
		return time.Hour
	}
	return time.Until(at)
}

// step applies one input, and reports whether the call is over. A panic in the state ends this call and no other.
func (w *worker) step(in session.Input) (reason EndReason, over bool) {
	defer func() {
		if p := recover(); p != nil {
			w.log.Error("call broken", "panic", p, "stack", string(debug.Stack()))
			w.abort()
			reason, over = EndInternal, true
		}
	}()
	for in != nil {
		in = w.up.Time(in)
		if w.trail.open {
			w.trail.input(in)
		}
		effects := w.state.Reduce(time.Now(), in)
		if w.trail.open {
			w.trail.effects(effects)
		}
		w.ends.Store(w.state.Ending()) // before anybody is told
		w.waiting.Store(w.state.Waiting())
		w.performAll(effects)
		if w.trail.open && w.trail.complete(w.fromUser.Begun(), w.up.Begun()) {
			w.setUpDone()
		}
		switch in := in.(type) {
		case session.ToolEnd:
			w.tools.ended(in.CallID)
		case session.BrowserEvent:
			if in.Taken != nil {
				close(in.Taken)
			}
		}
		in, w.full = w.full, nil
	}
	return w.over, w.over != session.EndNone
}

// setUpDone reports how the call was set up, once.
func (w *worker) setUpDone() {
	if w.trail.open {
		s := SetUp{Began: w.trail.began, Steps: w.trail.end(w.fromUser.Begun(), w.up.Begun())}
		w.observer.SetUp(s)
		w.log.Info("call set up", s.attrs()...)
	}
}

// abort saves what it can of a call whose state is broken.
func (w *worker) abort() {
	defer func() {
		if p := recover(); p != nil {
			w.log.Error("broken call not closed", "panic", p)
		}
	}()
	w.openGate(false)
	w.performAll(w.state.Abort(time.Now()))
}

// performAll carries out the effects of one input. Its changes of the thread are saved together: a
// tool call is never shown without its record.
func (w *worker) performAll(effects []session.Effect) {
	var changes []persistence.Change
	for _, e := range effects {
		switch e := e.(type) {
		case session.Write:
			changes = append(changes, e.Change)
		case session.Tell:
			changes = append(changes,
				persistence.PutEvent{ID: persistence.NewID(), Type: e.Kind, Data: toolkit.Encode(e.Data)})
			w.turn(e.Kind)
		default:
			w.perform(e)
		}
	}
	switch {
	case len(changes) == 0:
	case w.state.Ending():
		w.writer.PushLast(w.key, changes...)
	default:
		w.check(w.writer.Push(w.key, changes...), session.Stop{Reason: EndStorageFailed})
	}
}

func (w *worker) perform(e session.Effect) {
	switch e := e.(type) {
	case session.ToUpstream:
		w.check(w.up.Send(e.Gen, e.Data), session.UpstreamState{Gen: e.Gen, State: session.Failed})
	case session.Replay:
		w.check(w.up.Replay(e.Gen), session.UpstreamState{Gen: e.Gen, State: session.Failed})
	case session.Append:
		w.check(w.up.Append(e.Gen, e.Messages), session.UpstreamState{Gen: e.Gen, State: session.Failed})
	case session.Dial:
		w.up.Dial(e)
	case session.Switch:
		w.up.Switch(e.Gen)
		w.images.limit.Store(int64(w.up.Limit(e.Gen)))
	case session.AwaitSound:
		w.up.AwaitSound(e)
	case session.HangUp:
		w.up.End(e)
	case session.ToBrowser:
		w.check(w.browser.Load().Push(e.Data, e.Draft), session.Stop{Reason: EndBrowserStalled})
	case session.ToSideband:
		w.check(w.asides.send(e), session.SidebandGone{ID: e.ID})
	case session.EndSideband:
		w.asides.end(e.ID)
	case session.Record:
		w.recording.Run(e.On)
	case session.Tone:
		w.toUser.Sound(e.On)
	case session.Gate:
		w.openGate(e.Open)
	case session.Publish:
		w.publish(e)
	case session.Answer:
		e.To <- e.Yes
	case session.TurnOver:
		w.observer.TurnOver(e.Turn)
	case session.Count:
		w.onCount(e.What)
	case session.Log:
		w.log.Log(w.ctx, e.Level, e.Message, e.Attrs...) //nolint:sloglint // the state's messages are constants
	case session.Finish:
		w.over = e.Reason
	default:
		if !w.tools.perform(e) {
			panic(fmt.Sprintf("bridge: unknown effect %T", e))
		}
	}
}

func (w *worker) publish(e session.Publish) {
	if e.Kind == persistence.EventMessageDelta && !w.thread.Watched(w.key) {
		return // whoever begins to watch reads the message first
	}
	w.thread.Publish(w.ctx, w.key, persistence.Event{Type: e.Kind, Data: toolkit.Encode(e.Data)})
}

func (w *worker) turn(event persistence.EventType) {
	switch event {
	case session.TurnStarted:
		w.talking.Store(true)
	case session.TurnFinished:
		w.talking.Store(false)
		w.onTurn(w.key)
	}
}

// check has the call go on with next when a queue is full.
func (w *worker) check(ok bool, next session.Input) {
	if !ok && w.full == nil {
		w.full = next
	}
}

// openGate lets the caller's audio through, or stops all audio.
func (w *worker) openGate(open bool) {
	w.up.Gate(open)
	if open {
		w.fromUser.Open()
	} else {
		w.fromUser.Shut()
	}
}
