package simulator

import (
	"container/heap"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"voicebridge/realtime"
	"voicebridge/realtime/rtc"
)

const (
	// sendTimeout is how long a client may leave its data channel unread.
	sendTimeout = 10 * time.Second
	// openTimeout is how long a call may take to connect.
	openTimeout = 20 * time.Second
)

// Why a session ended, as Session.Err tells it.
var (
	ErrExpired  = errors.New("session expired")
	ErrDropped  = errors.New("connection dropped on purpose")
	ErrHungUp   = errors.New("call hung up")
	ErrOverload = errors.New("client sent faster than the session works")
	ErrUnopened = errors.New("data channel did not open")
	ErrStopped  = errors.New("simulator stopped")
)

// Session is one call. Its exported methods may be called concurrently.
type Session struct {
	id       string
	began    time.Time
	log      *slog.Logger
	cfg      *Config
	faults   Faults
	voice    *voice
	peer     *rtc.Peer
	mail     *mailbox
	ear      *ear
	received record
	sent     record
	done     chan struct{}
	err      error // valid when done is closed
	early    atomic.Int64
	played   atomic.Int64 // RTP packets sent

	// What follows belongs to the goroutine of run.
	ctx      context.Context
	end      context.CancelCauseFunc
	opened   bool
	silent   bool     // nothing is sent any more
	pending  [][]byte // came before the channel was open
	timers   timers
	timerSeq int

	set      *settings
	updated  bool // a session.update was accepted
	spoken   bool // audio has been produced: the voice is locked
	conv     conversation
	convID   string
	resp     *response // generating
	play     player
	follow   map[string]*Reply // by call id
	turnNo   int               // in the rotation of spoken turns
	userItem string            // the future item of the speech that goes on
	speaking bool              // the user speaks
	idle     int               // generation of the idle timer
	heldBack []func()          // transcripts that wait for a second one

	failed, updateRefused, itemsRefused int
}

// ID is the call's id as in Location.
func (s *Session) ID() string { return s.id }

// Done is closed when the session has ended and all its goroutines are joined.
func (s *Session) Done() <-chan struct{} { return s.done }

// Err says why the session ended, nil while it runs.
func (s *Session) Err() error {
	select {
	case <-s.done:
		return s.err
	default:
		return nil
	}
}

// Received is every client event in order, with its time and the code of the
// error that answered it. The oldest of more than 4096 are forgotten.
func (s *Session) Received() []Record { return s.received.all() }

// Sent is every event that was sent, as Received.
func (s *Session) Sent() []Record { return s.sent.all() }

// WaitFor waits for a client event that match accepts, one that came already or
// one to come. Errors: the context's, ErrSessionEnded.
func (s *Session) WaitFor(ctx context.Context, match func(realtime.Event) bool) (realtime.Event, error) {
	return s.received.wait(ctx, match)
}

// WaitForSent is WaitFor for the events that the session sends.
func (s *Session) WaitForSent(ctx context.Context, match func(realtime.Event) bool) (realtime.Event, error) {
	return s.sent.wait(ctx, match)
}

// AudioPackets is how many RTP packets came from the caller.
func (s *Session) AudioPackets() int64 { return s.ear.packets.Load() }

// PacketsBeforeUpdate is how many of them had come when the first session.update
// was accepted, all of them while there was none.
func (s *Session) PacketsBeforeUpdate() int64 {
	if n := s.early.Load(); n >= 0 {
		return n
	}
	return s.AudioPackets()
}

// PacketsPlayed is how many RTP packets were sent to the caller.
func (s *Session) PacketsPlayed() int64 { return s.played.Load() }

// Expire ends the session as the end of its 60 minutes does.
func (s *Session) Expire() { s.mail.post(s.expire) }

// Drop ends the session without an event.
func (s *Session) Drop() { s.mail.post(func() { s.end(ErrDropped) }) }

// Silence sends neither events nor sound from now on; the connection stays.
func (s *Session) Silence() { s.mail.post(func() { s.silent = true }) }

// Inject sends bytes as if they were an event, whatever they are.
func (s *Session) Inject(raw []byte) { s.mail.post(func() { s.sendRaw(raw) }) }

// Hear makes the session behave as if the user had spoken and stopped: tests that
// are not about audio need no audio.
func (s *Session) Hear() {
	s.mail.post(func() {
		at := s.ear.position()
		s.speechStarted(at)
		s.speechStopped(at + 1000)
	})
}

// run owns the session until it ends, and joins what it started.
func (s *Session) run(parent context.Context) {
	defer close(s.done)
	s.ctx, s.end = context.WithCancelCause(parent)
	var wg sync.WaitGroup
	var flow rtc.Flow
	flow.Open()
	wg.Go(func() {
		if err := s.peer.Forward(s.ctx, s.ear, &flow); err != nil {
			s.log.Debug("caller's audio ended", "error", err)
		}
	})
	s.after(openTimeout, func() {
		if !s.opened {
			s.end(ErrUnopened)
		}
	})
	s.err = s.loop()
	s.end(s.err)
	if err := s.peer.Close(); err != nil {
		s.log.Warn("peer did not close", "error", err)
	}
	wg.Wait()
	s.received.end()
	s.sent.end()
	s.log.Info("session ended", "reason", s.err)
}

// loop handles mail, timers and playback, and returns why it ended.
func (s *Session) loop() error {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		timer.Reset(s.untilNext(time.Now()))
		select {
		case <-s.ctx.Done():
			return context.Cause(s.ctx)
		case <-s.peer.Done():
			return rtc.ErrClosed
		case <-s.mail.ready:
			work, overflow := s.mail.take()
			for _, f := range work {
				if s.ctx.Err() != nil {
					break
				}
				f()
			}
			if overflow {
				s.end(ErrOverload)
			}
		case <-timer.C:
		}
		s.fire(time.Now())
	}
}

// open is the first thing of a connection.
func (s *Session) open() {
	s.opened = true
	s.emit(object{"type": realtime.TypeSessionCreated, "session": s.set.shown})
	if s.faults.ConversationEvent {
		s.emit(object{"type": realtime.TypeConversationCreated, "conversation": object{"id": s.convID, "object": "realtime.conversation"}})
	}
	s.after(s.cfg.MaxDuration, s.expire)
	if d := s.faults.ExpireAfter; d > 0 {
		s.after(d, s.expire)
	}
	if d := s.faults.DropAfter; d > 0 {
		s.after(d, func() { s.end(ErrDropped) })
	}
	if d := s.faults.SilenceAfter; d > 0 {
		s.after(d, func() { s.silent = true })
	}
	for _, raw := range s.pending {
		s.receive(raw)
	}
	s.pending = nil
}

func (s *Session) message(raw []byte) {
	if !s.opened {
		s.pending = append(s.pending, raw)
		return
	}
	s.receive(raw)
}

func (s *Session) expire() {
	s.emit(object{"type": realtime.TypeError, "error": realtime.Error{
		Type: "invalid_request_error", Code: "session_expired",
		Message: fmt.Sprintf("Your session hit the maximum duration of %d minutes.", int(s.cfg.MaxDuration.Minutes())),
	}})
	s.end(ErrExpired)
}

// emit sends one server event with an id of its own.
func (s *Session) emit(o object) {
	o["event_id"] = newID("event_")
	raw, err := json.Marshal(o)
	if err != nil {
		s.end(fmt.Errorf("encode event: %w", err))
		return
	}
	s.sendRaw(raw)
	if s.faults.DuplicateEvents && duplicated[o["type"].(string)] {
		s.sendRaw(raw)
	}
}

// duplicated are the events that the fault DuplicateEvents sends twice.
var duplicated = map[string]bool{
	realtime.TypeItemAdded: true, realtime.TypeItemDone: true, realtime.TypeInputCommitted: true,
	realtime.TypeOutputItemDone: true, realtime.TypeTranscriptionCompleted: true, realtime.TypeResponseDone: true,
}

func (s *Session) sendRaw(raw []byte) {
	if s.silent {
		return
	}
	ctx, cancel := context.WithTimeout(s.ctx, sendTimeout)
	defer cancel()
	// Recorded first: who waits for an event that was sent may look at once at
	// what the client made of it.
	if e, err := realtime.Decode(raw); err == nil {
		s.sent.add(e)
	} else {
		s.sent.add(realtime.Event{Raw: raw})
	}
	err := s.peer.Send(ctx, raw)
	switch {
	case err == nil || s.ctx.Err() != nil:
	case errors.Is(err, rtc.ErrTooLarge):
		s.log.Warn("event is too large for the client", "bytes", len(raw))
	default:
		s.end(fmt.Errorf("send event: %w", err))
	}
}

// timer is work that is due at a time.
type timer struct {
	at  time.Time
	seq int // equal times fire in the order of their making
	f   func()
}

type timers []timer

func (t timers) Len() int { return len(t) }
func (t timers) Less(i, j int) bool {
	return t[i].at.Before(t[j].at) || (t[i].at.Equal(t[j].at) && t[i].seq < t[j].seq)
}
func (t timers) Swap(i, j int) { t[i], t[j] = t[j], t[i] }

// Push implements heap.Interface.
func (t *timers) Push(x any) { *t = append(*t, x.(timer)) }

// Pop implements heap.Interface.
func (t *timers) Pop() any {
	old := *t
	last := old[len(old)-1]
	old[len(old)-1] = timer{}
	*t = old[:len(old)-1]
	return last
}

// after runs f in the loop when d has passed.
func (s *Session) after(d time.Duration, f func()) {
	s.timerSeq++
	heap.Push(&s.timers, timer{at: time.Now().Add(d), seq: s.timerSeq, f: f})
}

func (s *Session) untilNext(now time.Time) time.Duration {
	next := time.Hour
	if len(s.timers) > 0 {
		next = s.timers[0].at.Sub(now)
	}
	if s.play.active() {
		next = min(next, s.play.next.Sub(now))
	}
	return max(0, next)
}

// fire does what is due.
func (s *Session) fire(now time.Time) {
	for len(s.timers) > 0 && !s.timers[0].at.After(now) && s.ctx.Err() == nil {
		t := heap.Pop(&s.timers).(timer)
		t.f()
	}
	for s.play.active() && !s.play.next.After(now) && s.ctx.Err() == nil {
		s.playFrame()
	}
}
