package leg

import (
	"context"
	"sync"
	"sync/atomic"

	"voicebridge/bridge/internal/session"
	"voicebridge/bridge/internal/task"
	"voicebridge/persistence"
	"voicebridge/realtime"
	"voicebridge/realtime/rtc"
)

// Wiring is what the upstream sessions of a call are connected to.
type Wiring struct {
	// FromUser carries what the caller says, and ToUser takes what the model says.
	FromUser *rtc.Switch
	ToUser   rtc.AudioSink
	// History makes messages ready to be told: it reads what they show.
	History func(ctx context.Context, messages []persistence.Message) []persistence.Message
	// Created saves the record of a session before media flows, Ended that of one that
	// has ended.
	Created func(ctx context.Context, rec persistence.UpstreamLeg) error
	Ended   func(rec persistence.UpstreamLeg)
}

// Sessions are the upstream sessions of a call: the one that is heard, those that are
// made, and those that end. They belong to the call's loop.
type Sessions struct {
	// Dialed has the results of Dial, for Add.
	Dialed <-chan Dialed

	ctx    context.Context //nolint:containedctx // it ends with the loop that owns the sessions
	dialer *Dialer
	wiring Wiring
	dialed chan Dialed
	over   chan struct{} // closed when the loop has ended: results of dials are thrown away
	ending sync.WaitGroup

	byGen map[int]*Session
	dials map[int]context.CancelFunc
	early map[int][]session.Input // of a session whose dial has not returned

	heard   int           // the generation that is heard
	silent  bool          // nothing is to be heard
	release func()        // ends the passing on of held sound
	down    atomic.Uint64 // packets of the sessions that have ended
}

// Dialed is the end of a dial.
type Dialed struct {
	gen     int
	session *Session
	err     error
}

// NewSessions starts the first session, which is heard at once. ctx ends with the loop.
func NewSessions(ctx context.Context, wiring Wiring, first *Session) *Sessions {
	dialed := make(chan Dialed)
	s := &Sessions{
		Dialed: dialed, ctx: ctx, dialer: first.dialer, wiring: wiring, dialed: dialed, over: make(chan struct{}),
		byGen: map[int]*Session{first.Gen: first}, dials: make(map[int]context.CancelFunc), early: make(map[int][]session.Input),
		heard: first.Gen,
	}
	wiring.FromUser.Set(first.Leg)
	first.start(ctx, wiring.ToUser)
	first.flow.Open()
	return s
}

// Dial makes the next session beside the loop. Its result comes by Dialed, or is thrown
// away with the loop.
func (s *Sessions) Dial(d session.Dial) {
	ctx, cancel := context.WithTimeoutCause(s.ctx, DialTimeout, ErrDialTimeout)
	s.dials[d.Gen] = cancel
	s.ending.Go(func() {
		defer cancel()
		history := func(ctx context.Context) ([]persistence.Message, error) { return s.wiring.History(ctx, d.History), nil }
		l, err := s.dialer.Dial(ctx, d.Gen, history, func(rec persistence.UpstreamLeg) error { return s.wiring.Created(ctx, rec) })
		select {
		case s.dialed <- Dialed{d.Gen, l, err}:
		case <-s.over:
			s.discard(l)
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

// finish ends a session and saves that.
func (s *Sessions) finish(l *Session, reason session.EndReason) {
	l.end(reason, s.wiring.Ended)
	s.down.Add(l.flow.Packets.Load())
}

// Add takes the result of a dial. It returns the inputs that follow from it.
func (s *Sessions) Add(r Dialed) []session.Input {
	early := s.early[r.gen]
	delete(s.early, r.gen)
	if s.dials[r.gen] == nil {
		s.ending.Go(func() { s.discard(r.session) })
		return nil
	}
	delete(s.dials, r.gen)
	if r.err != nil {
		return []session.Input{session.UpstreamDialFailed{Gen: r.gen, Fatal: isFatal(r.err), Err: r.err}}
	}
	s.byGen[r.gen] = r.session
	r.session.start(s.ctx, s.wiring.ToUser)
	dialed := session.UpstreamDialed{Gen: r.gen, ID: r.session.Leg.ID(), Limit: r.session.Leg.MaxMessageSize()}
	return append([]session.Input{dialed}, early...)
}

// KeepEarly keeps an input of a session whose dial has not returned, and says whether
// it is one.
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

// Send sends events to a session, if it is there. It reports false when so much waits
// for it that it must be given up; so do the next two.
func (s *Sessions) Send(gen int, events ...[]byte) bool {
	l := s.byGen[gen]
	for _, data := range events {
		if l != nil && !l.out.push(data, false) {
			s.dialer.Log.Warn("upstream takes no more events", "generation", gen)
			return false
		}
	}
	return true
}

// Replay tells a session the history that its dial was given.
func (s *Sessions) Replay(gen int) bool {
	l := s.byGen[gen]
	return l == nil || s.Send(gen, l.Leg.Opening()...)
}

// Append tells a session what was said meanwhile.
func (s *Sessions) Append(gen int, messages []persistence.Message) bool {
	l := s.byGen[gen]
	return l == nil || s.Send(gen, l.Leg.Append(messages)...)
}

// AwaitSound posts SoundSent when the caller was sent the sound of a response.
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

// Order is the [session.Order] of the drivers.
func (s *Sessions) Order(gen int, ev realtime.Event) (before string, known bool) {
	if l := s.byGen[gen]; l != nil {
		return l.Leg.Order(ev)
	}
	return "", false
}

// Switch lets the caller talk to a session and hear it.
func (s *Sessions) Switch(gen int) {
	for _, l := range s.byGen {
		l.flow.Shut()
	}
	s.heard = gen
	l := s.byGen[gen]
	if l == nil {
		return
	}
	if !s.silent {
		l.flow.Open()
	}
	s.stopRelease()
	ctx, cancel := context.WithCancel(s.ctx)
	done := task.Go(func() {
		held, err := s.wiring.FromUser.Release(ctx, l.Leg)
		if held != (rtc.Held{}) {
			s.dialer.Log.Info("held sound passed on", "packets", held.Sent, "dropped", held.Dropped, "error", err)
		}
	})
	s.release = func() { cancel(); <-done }
}

// hold keeps what the caller says until the next switch.
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

// End ends a session, or the dial that would make it.
func (s *Sessions) End(h session.HangUp) {
	if h.Hold {
		s.hold()
	}
	if cancel := s.dials[h.Gen]; cancel != nil {
		cancel()
		delete(s.dials, h.Gen) // what comes of it is thrown away
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

// Gate lets the sound of the session through that is heard, or ends that of all.
func (s *Sessions) Gate(open bool) {
	s.silent = !open
	for gen, l := range s.byGen {
		switch {
		case !open:
			l.flow.Shut()
		case gen == s.heard:
			l.flow.Open()
		}
	}
}

// Packets is how many packets of sound the sessions have sent that have ended.
func (s *Sessions) Packets() uint64 { return s.down.Load() }
