package simulator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"voicebridge/realtime"
	"voicebridge/realtime/media"
)

// openTimeout is how long a call may take to connect.
const openTimeout = 20 * time.Second

// Reasons why a session ends, as returned by Session.Err.
var (
	ErrExpired  = errors.New("session expired")
	ErrDropped  = errors.New("connection dropped on purpose")
	ErrHungUp   = errors.New("call hung up")
	ErrOverload = errors.New("client sent faster than the session works")
	ErrUnopened = errors.New("data channel did not open")
	ErrStopped  = errors.New("simulator stopped")
)

// Session is one call. Its exported methods are safe for concurrent use.
//
// It passes what the client sends to its parts: the conversation's items, the responder, which generates answers, the
// player, which plays them, and the listener, which turns speech into items. They send through the wire and wait with
// the clock, and all belong to the goroutine of run.
type Session struct {
	id          string
	number      int // among the server's sessions, from 1; the server's mutex guards it
	began       time.Time
	log         *slog.Logger
	maxDuration time.Duration
	faults      Faults
	mail        *mailbox
	received    record
	done        chan struct{}
	err         error        // valid when done is closed
	early       atomic.Int64 // packets before the first session.update; -1 until then

	sound     media.Sink // takes the caller's audio
	wire      wire
	clock     clock
	set       *settings
	items     items
	player    player
	responder responder
	listener  listener

	ctx     context.Context
	end     context.CancelCauseFunc
	opened  bool
	pending [][]byte // came before the channel was open
	updated bool     // a session.update was accepted
	refused int      // session.updates refused on purpose
	// inEvents means that sound comes and goes in events.
	inEvents bool
}

// ID returns the call's id as in Location.
func (s *Session) ID() string { return s.id }

// Done is closed when the session has ended and all its goroutines are joined.
func (s *Session) Done() <-chan struct{} { return s.done }

// Err returns why the session ended, nil while it is running.
func (s *Session) Err() error {
	select {
	case <-s.done:
		return s.err
	default:
		return nil
	}
}

// Received returns every client event in order, with its time and the code of the error that
// answered it. Of more than 4096 events the oldest are dropped.
func (s *Session) Received() []Record { return s.received.all() }

// Sent returns every event that was sent, like Received.
func (s *Session) Sent() []Record { return s.wire.sent.all() }

// WaitFor waits for a client event that match accepts, past or future. Errors: the context's,
// ErrSessionEnded.
func (s *Session) WaitFor(ctx context.Context, match func(realtime.Event) bool) (realtime.Event, error) {
	return s.received.wait(ctx, match)
}

// WaitForSent is WaitFor for the events that the session sends.
func (s *Session) WaitForSent(ctx context.Context, match func(realtime.Event) bool) (realtime.Event, error) {
	return s.wire.sent.wait(ctx, match)
}

// AudioPackets returns how many RTP packets came from the caller.
func (s *Session) AudioPackets() int64 { return s.listener.detector.packets.Load() }

// PacketsBeforeUpdate returns how many RTP packets had come from the caller when the first session.update was accepted;
// if none was, how many have come so far.
func (s *Session) PacketsBeforeUpdate() int64 {
	if n := s.early.Load(); n >= 0 {
		return n
	}
	return s.AudioPackets()
}

// PacketsPlayed returns how many RTP packets were sent to the caller.
func (s *Session) PacketsPlayed() int64 { return s.wire.played.Load() }

// Expire ends the session as at the end of its 60 minutes.
func (s *Session) Expire() { s.mail.post(s.expire) }

// Drop ends the session without an event.
func (s *Session) Drop() { s.mail.post(func() { s.end(ErrDropped) }) }

// silence stops sending events and audio; the connection stays.
func (s *Session) silence() { s.mail.post(func() { s.wire.silent = true }) }

// Inject sends bytes as if they were an event, whatever they are.
func (s *Session) Inject(raw []byte) { s.mail.post(func() { s.wire.raw(raw) }) }

// SimulateSpeech makes the session behave as if the user had spoken and stopped: tests that are not about audio need no
// audio.
func (s *Session) SimulateSpeech() { s.mail.post(s.listener.simulateSpeech) }

// run owns the session until it ends, and joins what it started.
func (s *Session) run(parent context.Context) {
	defer close(s.done)
	s.ctx, s.end = context.WithCancelCause(parent)
	s.wire.ctx = s.ctx
	var wg sync.WaitGroup
	var flow media.Flow
	flow.Open()
	peer := *s.wire.peer.Load()
	wg.Go(func() {
		if err := peer.Forward(s.ctx, s.sound, &flow); err != nil {
			s.log.Debug("caller's audio ended", "error", err)
		}
	})
	s.clock.after(openTimeout, func() {
		if !s.opened {
			s.end(ErrUnopened)
		}
	})
	s.err = s.loop(peer.Done())
	s.end(s.err)
	if k, ok := peer.(*socket); ok {
		k.expired, k.dropped = errors.Is(s.err, ErrExpired), errors.Is(s.err, ErrDropped)
	}
	if err := peer.Close(); err != nil {
		s.log.Warn("peer did not close", "error", err)
	}
	wg.Wait()
	// Ended sessions are kept, but not what takes most of their memory.
	s.wire.peer.Store(nil)
	s.listener.detector.decoder = nil
	s.received.end()
	s.wire.sent.end()
	s.log.Info("session ended", "reason", s.err)
}

// loop handles messages, timers and playback, and returns why it ended. gone is closed when the peer has ended.
func (s *Session) loop(gone <-chan struct{}) error {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		timer.Reset(s.untilNext(time.Now()))
		select {
		case <-s.ctx.Done():
			return context.Cause(s.ctx)
		case <-gone:
			return media.ErrClosed
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

func (s *Session) expire() {
	s.wire.emit(object{"type": realtime.TypeError, "error": realtime.Error{
		Type: "invalid_request_error", Code: "session_expired",
		Message: fmt.Sprintf("Your session hit the maximum duration of %d minutes.", int(s.maxDuration.Minutes())),
	}})
	s.end(ErrExpired)
}

// untilNext returns the time until a timer or a frame is due.
func (s *Session) untilNext(now time.Time) time.Duration {
	next := s.clock.next(now)
	if s.player.ticking() {
		next = min(next, s.player.next.Sub(now))
	}
	return max(0, next)
}

// fire does what is due.
func (s *Session) fire(now time.Time) {
	for s.ctx.Err() == nil && s.clock.fire(now) {
	}
	for s.ctx.Err() == nil && s.player.ticking() && !s.player.next.After(now) {
		s.player.frame()
	}
}

// bySocket makes the session one whose sound comes and goes in events.
func (s *Session) bySocket() {
	s.inEvents = true
	s.player.ahead, s.listener.inEvents = true, true
}

// Do makes the session's goroutine run f soon, unless the session has ended. Only such functions may call Emit.
func (s *Session) Do(f func()) { s.mail.post(f) }

// Emit sends one event, to which it adds an id.
func (s *Session) Emit(event map[string]any) { s.wire.emit(event) }

// WriteAudio implements media.Sink: it sends a packet to the caller, in addition to what the Script says. It may be
// called on any goroutine.
func (s *Session) WriteAudio(packet *media.Packet) error {
	if peer := s.wire.peer.Load(); peer != nil {
		return (*peer).WriteAudio(packet)
	}
	return media.ErrClosed
}
