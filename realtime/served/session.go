package served

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"voicebridge/realtime"
	"voicebridge/realtime/media"
)

const (
	// openTimeout is how long a session may take to connect.
	openTimeout = 20 * time.Second
	// farewell is how long a client may take to read what was said before the end.
	farewell = time.Second
)

// Reasons why a session ends, as returned by Session.Run.
var (
	ErrExpired  = errors.New("session expired")
	ErrUnopened = errors.New("data channel did not open")
)

// Config describes a session.
type Config struct {
	Settings *Settings // which become the session's own

	Mind  Mind
	Ear   Ear
	Mouth Mouth
	Turns Turns // nil means Energy
	// Oddities may be nil.
	Oddities Oddities
	// SpeechModel is that of the Mouth, as records name it.
	SpeechModel string
	// Logprobs makes up those of a transcript, if a session asks for them.
	Logprobs func(text string) []any

	// Turning is how a session takes turns that keeps the caller's sound, for an Ear that needs it and a Mind that needs
	// words. A Mouth is then at most ten seconds ahead of what is heard, and the third failure of Ear or Mouth in a row
	// ends the session. Without it a turn ends by its silence, and is answered at once.
	Turning *Turning
	// MaxDuration ends the session with session_expired; zero means never.
	MaxDuration time.Duration
	// InEvents means that sound comes and goes in events. What goes out is sent as soon as it is made.
	InEvents bool
	// Continuous sends silence while nothing is said, so that there is a packet every 20 ms.
	Continuous bool
	// Deaf counts the caller's packets without decoding them.
	Deaf   bool
	Logger *slog.Logger
}

// Session is the server's side of a Realtime session. Its exported methods are safe for concurrent use, but for Emit
// and After.
//
// It passes what the client sends to its parts: the conversation's items, the responder, which generates answers, the
// player, which plays them, and the listener, which turns speech into items. They send through the wire and wait with
// the loop, and all belong to the goroutine of Run.
type Session struct {
	cfg   Config
	loop  *Loop
	tasks sync.WaitGroup

	wire      wire
	set       *Settings
	items     items
	player    player
	responder responder
	listener  listener

	ctx     context.Context //nolint:containedctx // the session's, which Run sets
	end     context.CancelCauseFunc
	opened  bool
	pending []message // came before the channel was open
}

// New makes a session, which Run runs. Its error is that of the decoder of Opus.
func New(cfg Config) (*Session, error) {
	s := &Session{cfg: cfg, loop: NewLoop(), set: cfg.Settings}
	detector, err := NewDetector(cmp.Or(cfg.Turns, Turns(new(Energy))), cfg.Deaf, func(h Speech) {
		s.Do(func() {
			if s.opened {
				s.listener.speech(h)
			}
		})
	})
	if err != nil {
		return nil, err
	}
	s.wire = wire{end: func(err error) { s.end(err) }, log: cfg.Logger, out: NewLoop()}
	s.items = items{wire: &s.wire}
	s.player = player{
		wire: &s.wire, items: &s.items, more: s.responder.generates, quiet: s.listener.armIdle,
		exact:      cfg.Turning != nil,
		continuous: cfg.Continuous && !cfg.InEvents, ahead: cfg.InEvents,
		format: func() media.Format { return s.set.format("output") },
	}
	s.responder = responder{
		speaker: speaker{&s.wire, s.loop, s.set, &s.items, &s.player, cfg.Mouth, &s.tasks, cfg.SpeechModel},
		mind:    cfg.Mind, conversationID: NewID("conv_"), begins: s.listener.begins, quiet: s.listener.armIdle,
		waits: func() bool { return s.listener.turns != nil && s.listener.awaited > 0 },
	}
	s.listener = listener{
		wire: &s.wire, loop: s.loop, set: s.set, items: &s.items, player: &s.player, responder: &s.responder,
		detector: detector, inEvents: cfg.InEvents,
		scribe: scribe{&s.wire, s.loop, s.set, &s.items, cfg.Ear, &s.tasks, cfg.Logprobs},
	}
	if cfg.Turning != nil {
		s.listener.turns = newTurns(*cfg.Turning)
		detector.keeps, detector.least = true, cfg.Turning.MinSpeech.Milliseconds()
	}
	s.listener.configure()
	return s, nil
}

// Ears take the caller's audio.
func (s *Session) Ears() media.Sink { return s.listener.detector }

// Heard returns how many packets of audio came from the caller.
func (s *Session) Heard() int64 { return s.listener.detector.Packets() }

// Conversation returns the id of the conversation.
func (s *Session) Conversation() string { return s.responder.conversationID }

// Do makes the session's goroutine run f soon, unless the session has ended. Only such functions may call Emit and
// After.
func (s *Session) Do(f func()) { s.loop.Do(f) }

// Emit sends one event, to which it adds an id.
func (s *Session) Emit(event map[string]any) { s.wire.emit(event) }

// After has the session's goroutine run f once d has passed.
func (s *Session) After(d time.Duration, f func()) { s.loop.After(d, f) }

// End ends the session.
func (s *Session) End(why error) { s.Do(func() { s.end(why) }) }

// Expire ends the session as at the end of its time.
func (s *Session) Expire() { s.Do(s.expire) }

func (s *Session) expire() {
	s.wire.emit(object{"type": realtime.TypeError, "error": realtime.Error{
		Type: "invalid_request_error", Code: "session_expired",
		Message: fmt.Sprintf("Your session hit the maximum duration of %d minutes.", int(s.cfg.MaxDuration.Minutes())),
	}})
	s.end(ErrExpired)
}

// SimulateSpeech makes the session behave as if the user had spoken and stopped: tests that are not about audio need no
// audio.
func (s *Session) SimulateSpeech() { s.Do(s.listener.simulateSpeech) }

// Run owns the session until it ends, joins what it started, and returns why it ended. The connection is not closed.
func (s *Session) Run(parent context.Context, conn Connection) error {
	s.ctx, s.end = context.WithCancelCause(parent)
	s.wire.ctx, s.wire.conn = s.ctx, conn
	open, closed := context.WithCancel(context.WithoutCancel(parent))
	s.wire.open = open
	var sending sync.WaitGroup
	sending.Go(func() {
		if err := s.wire.out.Run(open, func() time.Time { return time.Time{} }, nil); errors.Is(err, ErrOverload) {
			s.end(err)
		}
	})
	var flow media.Flow
	flow.Open()
	s.tasks.Go(func() {
		if err := conn.Forward(s.ctx, s.Ears(), &flow); err != nil {
			s.cfg.Logger.Debug("caller's audio ended", "error", err)
		}
	})
	s.tasks.Go(func() {
		select {
		case <-conn.Done():
			s.end(media.ErrClosed)
		case <-s.ctx.Done():
		}
	})
	s.After(openTimeout, func() {
		if !s.opened {
			s.end(ErrUnopened)
		}
	})
	err := s.loop.Run(s.ctx, s.player.due, s.player.frame)
	s.end(err)
	s.tasks.Wait()
	s.wire.out.Do(closed) // when all is sent
	late := time.AfterFunc(farewell, closed)
	sending.Wait()
	late.Stop()
	// An ended session may be kept, but not what takes most of its memory.
	s.wire.conn, s.listener.detector.decoder = nil, nil
	return err
}
