package leg

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"voicebridge/bridge/internal/session"
	"voicebridge/bridge/internal/task"
	"voicebridge/persistence/records"
	"voicebridge/realtime"
	"voicebridge/realtime/media"
	"voicebridge/thread"
)

// Wiring connects the upstream sessions of a call.
type Wiring struct {
	// FromUser carries the caller's audio, and ToUser takes the model's.
	FromUser *media.Switch
	ToUser   media.Sink
	// History prepares messages for a session: it reads their images.
	History func(ctx context.Context, messages []thread.Message) []thread.Message
	// Created saves a session's record before media flows, Ended that of an ended one.
	Created func(ctx context.Context, rec records.Leg) error
	Ended   func(rec records.Leg)
}

// Sessions are the upstream sessions of a call: the active one, those being dialled, and those that
// are ending. They belong to the call's loop.
type Sessions struct {
	// Dialed has the results of Dial, for Add.
	Dialed <-chan Dialed

	ctx    context.Context //nolint:containedctx // it ends with the loop that owns the sessions
	dialer *Dialer
	wiring Wiring
	dialed chan Dialed
	over   chan struct{} // closed when the loop has ended: results of dials are dropped
	ending sync.WaitGroup

	byGen map[int]*Session
	dials map[int]context.CancelFunc
	early map[int][]session.Input // from sessions whose dial has not returned

	audible int           // the generation of the active session
	muted   bool          // no session may be heard
	release func()        // stops releasing held audio
	down    atomic.Uint64 // audio packets of the ended sessions
}

// NewSessions returns sessions without an active one: Begin or Await must follow. ctx ends with the loop.
func NewSessions(ctx context.Context, wiring Wiring, dialer *Dialer) *Sessions {
	dialed := make(chan Dialed)
	return &Sessions{
		Dialed: dialed, ctx: ctx, dialer: dialer, wiring: wiring, dialed: dialed, over: make(chan struct{}),
		byGen: make(map[int]*Session), dials: make(map[int]context.CancelFunc), early: make(map[int][]session.Input),
	}
}

// Begin starts the first session, which is active at once.
func (s *Sessions) Begin(first *Session) {
	s.byGen[first.Gen], s.audible = first, first.Gen
	s.wiring.FromUser.Set(first.Leg)
	first.start(s.ctx, s.wiring.ToUser)
	first.flow.Open()
}

// overlap is how much of what the caller says before a session is replaced the next one hears, too: the upstream says
// that somebody speaks only after a while. It must be shorter than the time from the end of an utterance to the first
// moment at which a session is replaced, which comes after the silence that ends it and its transcription.
const overlap = 400 * time.Millisecond

// Dial dials the next session in the background. Its result comes through Dialed, or is dropped
// when the loop ends.
func (s *Sessions) Dial(d session.Dial) {
	s.wiring.FromUser.Remember(overlap)
	history := func(ctx context.Context) ([]thread.Message, error) { return s.wiring.History(ctx, d.History), nil }
	whole := func(context.Context) (session.Whole, error) { return d.Whole, nil }
	s.Await(s.dialer.Begin(s.ctx, d.Gen, whole, history, d.Refused, s.wiring.Created, s.wiring.Ended))
}

// Await takes over a dial that was begun before.
func (s *Sessions) Await(d *Dialing) {
	s.dials[d.gen] = d.cancel
	s.ending.Go(func() {
		r := <-d.result
		select {
		case s.dialed <- r:
		case <-s.over:
			s.discard(r.session)
		}
	})
}

// discard ends a session that came too late.
func (s *Sessions) discard(l *Session) {
	if l == nil {
		return
	}
	l.start(context.Background(), s.wiring.ToUser)
	s.finish(l, session.EndUpstreamSetup)
}

// finish ends a session and saves its record.
func (s *Sessions) finish(l *Session, reason session.EndReason) {
	l.end(reason, s.wiring.Ended)
	s.down.Add(l.flow.Packets.Load())
}

// Add takes the result of a dial. It returns the resulting inputs.
func (s *Sessions) Add(r Dialed) []session.Input {
	early := s.early[r.gen]
	delete(s.early, r.gen)
	if s.dials[r.gen] == nil {
		s.ending.Go(func() { s.discard(r.session) })
		return nil
	}
	delete(s.dials, r.gen)
	if r.err != nil {
		return []session.Input{s.dialer.failed(r.gen, r.err)}
	}
	s.byGen[r.gen] = r.session
	r.session.start(s.ctx, s.wiring.ToUser)
	dialed := session.UpstreamDialed{
		Gen: r.gen, ID: r.session.Leg.ID(), Limit: r.session.Leg.MaxMessageSize(), Can: r.session.Leg.Can(),
		Route: r.session.Route,
	}
	return append([]session.Input{dialed}, early...)
}

// KeepEarly keeps an input of a session whose dial has not returned, and reports whether it did.
func (s *Sessions) KeepEarly(in session.Input) bool {
	gen := 0
	switch in := in.(type) {
	case session.UpstreamEvent:
		gen = in.Gen
	case session.UpstreamState:
		gen = in.Gen
	}
	if s.dials[gen] == nil {
		return false
	}
	s.early[gen] = append(s.early[gen], in)
	return true
}

// Send sends events to a session, if it exists. Like Replay and Append, it returns false if so much is waiting that the
// session must be given up.
func (s *Sessions) Send(gen int, events ...[]byte) bool {
	l := s.byGen[gen]
	for _, data := range events {
		if l != nil && !l.out.push(data, false) {
			s.dialer.Log.Warn("upstream accepts no more events", "generation", gen)
			return false
		}
	}
	return true
}

// Replay sends a session the history that its dial was given.
func (s *Sessions) Replay(gen int) bool {
	l := s.byGen[gen]
	return l == nil || s.Send(gen, l.Leg.Opening()...)
}

// Append sends a session what was said meanwhile.
func (s *Sessions) Append(gen int, messages []thread.Message) bool {
	l := s.byGen[gen]
	return l == nil || s.Send(gen, l.Leg.Append(messages)...)
}

// AwaitSound posts a session.SoundSent when audio of a response is first sent to the caller.
func (s *Sessions) AwaitSound(e session.AwaitSound) {
	l := s.byGen[e.Gen]
	if l == nil {
		return
	}
	first := l.flow.First(e.Since)
	s.ending.Go(func() {
		select {
		case at, ok := <-first:
			if ok {
				s.dialer.Post(session.SoundSent{ResponseID: e.ResponseID, At: at})
			}
		case <-s.over:
		}
	})
}

// timed are in the events that say when the caller has begun to speak, and has stopped, and in those that end what the
// model says, or a part of it.
var timed = [][]byte{[]byte(`"input_audio_buffer.speech_st`), []byte(`.done"`), []byte(`"conversation.item.truncated"`)}

// Time adds to an event of an upstream session what its driver says about the sound of its item, and of the speech in
// it.
func (s *Sessions) Time(in session.Input) session.Input {
	e, ok := in.(session.UpstreamEvent)
	if !ok || s.byGen[e.Gen] == nil {
		return in
	}
	timer, times := s.byGen[e.Gen].Leg.(Timer)
	if !times || !slices.ContainsFunc(timed, func(part []byte) bool { return bytes.Contains(e.Data, part) }) {
		return in
	}
	ev, err := realtime.Decode(e.Data)
	if err != nil {
		return in
	}
	e.Sound = timer.Sound(ev.ItemID)
	if at, late, ok := timer.Said(time.Duration(max(ev.AudioStartMS, ev.AudioEndMS)) * time.Millisecond); ok {
		e.Said = &session.Said{At: at, Late: late}
	}
	return e
}

// Limit returns the size in bytes of the largest event that a session accepts; zero if there is no such session.
func (s *Sessions) Limit(gen int) int {
	if l := s.byGen[gen]; l != nil {
		return l.Leg.MaxMessageSize()
	}
	return 0
}

// Begun returns when the active session's first packet was let through; it is zero before that.
func (s *Sessions) Begun() time.Time {
	if l := s.byGen[s.audible]; l != nil {
		return l.flow.Begun()
	}
	return time.Time{}
}

// Switch connects the caller's audio, both ways, to a session.
func (s *Sessions) Switch(gen int) {
	for _, l := range s.byGen {
		l.flow.Shut()
	}
	s.audible = gen
	l := s.byGen[gen]
	if l == nil {
		return
	}
	if !s.muted {
		l.flow.Open()
	}
	s.stopRelease()
	ctx, cancel := context.WithCancel(s.ctx)
	done := task.Go(func() {
		held, err := s.wiring.FromUser.Release(ctx, l.Leg)
		if held != (media.Held{}) {
			s.dialer.Log.Info("held audio forwarded", "packets", held.Sent, "dropped", held.Dropped, "error", err)
		}
	})
	s.release = func() { cancel(); <-done }
	s.ending.Go(func() {
		<-done
		s.dialer.Post(session.HeldSent{Gen: gen})
	})
}

// hold keeps the caller's audio until the next switch.
func (s *Sessions) hold() {
	s.stopRelease()
	s.wiring.FromUser.Hold()
}

func (s *Sessions) stopRelease() {
	if s.release != nil {
		s.release()
		s.release = nil
	}
}

// End ends a session, or cancels its dial.
func (s *Sessions) End(h session.HangUp) {
	switch {
	case h.Hold:
		s.hold()
	case h.Gen > s.audible: // it will never be active: what Dial had remembered for it is not needed
		s.wiring.FromUser.Forget()
	}
	if cancel := s.dials[h.Gen]; cancel != nil {
		cancel()
		delete(s.dials, h.Gen) // its result is dropped
		delete(s.early, h.Gen)
	}
	if l := s.byGen[h.Gen]; l != nil {
		delete(s.byGen, h.Gen)
		s.ending.Go(func() { s.finish(l, h.Reason) })
	}
}

// EndAll ends what is left when the loop has ended, and joins it.
func (s *Sessions) EndAll(reason session.EndReason) {
	close(s.over)
	s.stopRelease()
	for _, cancel := range s.dials {
		cancel()
	}
	for _, l := range s.byGen {
		s.ending.Go(func() { s.finish(l, reason) })
	}
	s.ending.Wait()
}

// Gate lets the active session's audio through, or stops all audio.
func (s *Sessions) Gate(open bool) {
	s.muted = !open
	for gen, l := range s.byGen {
		switch {
		case !open:
			l.flow.Shut()
		case gen == s.audible:
			l.flow.Open()
		}
	}
}

// Packets returns how many audio packets of the ended sessions were sent to the caller.
func (s *Sessions) Packets() uint64 { return s.down.Load() }
