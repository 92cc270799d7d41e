package simulator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"voicebridge/realtime"
	"voicebridge/realtime/media"
	"voicebridge/realtime/rtc"
	"voicebridge/realtime/served"
)

const (
	// maxEnded is how many sessions beyond Config.MaxSessions are kept before ended ones are dropped.
	maxEnded     = 256
	maxBody      = 1 << 20 // bytes of a request
	defaultModel = "gpt-realtime-2.1"
)

// Server is the simulated Realtime API, an http.Handler. Its Run owns the sessions.
type Server struct {
	cfg    Config
	log    *slog.Logger
	voice  *voice
	api    *rtc.API
	ownAPI bool
	mux    *http.ServeMux

	running chan struct{} // closed by Run
	wg      sync.WaitGroup

	mu       sync.Mutex
	ctx      context.Context // set by Run; nil before
	stopped  bool
	sessions []*Session
	adopted  int // sessions so far, with those that were dropped
	creates  int
	changed  chan struct{}
}

// Run accepts calls until ctx ends, then ends all sessions and joins them. It must be called once;
// earlier requests wait.
func (s *Server) Run(ctx context.Context) error {
	s.mu.Lock()
	if s.ctx != nil {
		s.mu.Unlock()
		return errors.New("run simulator: already run")
	}
	inner, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	s.ctx = inner
	s.mu.Unlock()
	close(s.running)

	<-ctx.Done()
	s.mu.Lock()
	s.stopped = true
	s.mu.Unlock()
	cancel(ErrStopped)
	s.wg.Wait()
	if s.ownAPI {
		if err := s.api.Close(); err != nil {
			return fmt.Errorf("close peer API: %w", err)
		}
	}
	return nil
}

// Sessions returns the sessions so far, oldest first. Of the ended ones, the oldest may have been dropped.
func (s *Server) Sessions() []*Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.sessions)
}

// WaitSession waits for the n-th session, from 1, and returns it. The error is ctx's cause, or says that the session
// has been dropped; see Sessions.
func (s *Server) WaitSession(ctx context.Context, n int) (*Session, error) {
	for {
		s.mu.Lock()
		if s.adopted >= n {
			at := slices.IndexFunc(s.sessions, func(ses *Session) bool { return ses.number == n })
			if at < 0 {
				s.mu.Unlock()
				return nil, fmt.Errorf("session %d is not kept", n)
			}
			found := s.sessions[at]
			s.mu.Unlock()
			return found, nil
		}
		if s.changed == nil {
			s.changed = make(chan struct{})
		}
		changed := s.changed
		s.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// nextFaults returns the faults for the next creation.
func (s *Server) nextFaults() Faults {
	s.mu.Lock()
	s.creates++
	n := s.creates
	s.mu.Unlock()
	switch {
	case s.cfg.FaultsFor != nil:
		return s.cfg.FaultsFor(n)
	case s.cfg.FaultyCalls == 0 || n <= s.cfg.FaultyCalls:
		return s.cfg.Faults
	}
	return Faults{}
}

// open returns how many sessions have not ended. s.mu is held.
func (s *Server) open() int {
	n := 0
	for _, other := range s.sessions {
		if other.Err() == nil {
			n++
		}
	}
	return n
}

var errFull = errors.New("too many sessions")

// prepare makes a session, if there is room for one more. The connection is still missing.
func (s *Server) prepare(set *served.Settings, faults Faults, inEvents bool) (*Session, error) {
	s.mu.Lock()
	full := s.open() >= s.cfg.MaxSessions
	s.mu.Unlock()
	if full {
		return nil, errFull
	}
	set.Show("expires_at", time.Now().Add(s.cfg.MaxDuration).Unix())
	return newSession(&s.cfg, s.voice, set, faults, inEvents)
}

// begin runs a session. With an error it is over; the connection is the caller's.
func (s *Server) begin(ses *Session, c Connection) error {
	ses.peer.Store(&c)
	if s.cfg.Drive != nil {
		ses.sound = s.cfg.Drive(ses)
	}
	err := s.adopt(ses)
	if err != nil {
		ses.err = err
		close(ses.done)
	}
	return err
}

// start makes the peer and runs the session. It returns the SDP answer.
func (s *Server) start(
	ctx context.Context, offer string, set *served.Settings, faults Faults,
) (*Session, string, error) {
	ses, err := s.prepare(set, faults, false)
	if err != nil {
		return nil, "", err
	}
	peer, answer, err := s.cfg.Answer(ctx, offer, media.Handlers{
		Message: ses.Message,
		Open:    ses.open,
		State: func(state media.State) {
			if state == media.StateFailed {
				ses.End(media.ErrClosed)
			}
		},
	})
	if err != nil {
		return nil, "", err
	}
	if err := s.begin(ses, peer); err != nil {
		return nil, "", errors.Join(err, peer.Close())
	}
	return ses, answer, nil
}

// adopt makes Run responsible for the session.
func (s *Server) adopt(ses *Session) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return ErrStopped
	}
	if s.open() >= s.cfg.MaxSessions {
		return errFull
	}
	s.add(ses)
	s.wg.Go(func() { ses.run(s.ctx) })
	s.log.Info("session created", "call_id", ses.id)
	return nil
}

// add makes room for the session, and tells those who wait for it. s.mu is held.
func (s *Server) add(ses *Session) {
	if len(s.sessions) >= maxEnded+s.cfg.MaxSessions {
		s.forget()
	}
	s.adopted++
	ses.number = s.adopted
	s.sessions = append(s.sessions, ses)
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

// forget drops the oldest ended sessions, so that maxEnded sessions are left if possible. s.mu is held.
func (s *Server) forget() {
	spare := len(s.sessions) - maxEnded
	s.sessions = slices.DeleteFunc(s.sessions, func(ses *Session) bool {
		if spare <= 0 || ses.Err() == nil {
			return false
		}
		spare--
		return true
	})
}

// newSession puts the parts together. The peer is still missing.
func newSession(cfg *Config, v *voice, set *served.Settings, faults Faults, inEvents bool) (*Session, error) {
	s := &Session{id: newID("rtc_"), faults: faults, done: make(chan struct{})}
	s.log = cfg.Logger.With("call_id", s.id)
	s.early.Store(-1)
	played := play(cfg, v, faults)
	played.Settings, played.Oddities, played.InEvents, played.Logger = set, s.handle, inEvents, s.log
	var err error
	s.Session, err = served.New(played)
	return s, err
}

// Play returns what makes a session whose mind, ear and mouth are those of the Script, without settings and faults.
func Play(cfg Config) served.Config {
	cfg.defaults()
	return play(&cfg, loadVoice(), Faults{})
}

func play(cfg *Config, v *voice, faults Faults) served.Config {
	a := &actor{
		voice: v, script: cfg.Script, pace: cfg.Pace, faults: faults,
		heard: make(map[string]*Reply), follow: make(map[string]*Reply), says: make(map[string]string),
	}
	return served.Config{
		Mind: a, Ear: a, Mouth: a, Logprobs: logprobs, MaxDuration: cfg.MaxDuration,
		Continuous: cfg.Continuous, Deaf: cfg.Deaf, Logger: cfg.Logger,
	}
}

// newSettings checks the session of a creation; without one, it has the defaults.
func (s *Server) newSettings(session json.RawMessage) (*served.Settings, *realtime.Error) {
	model := defaultModel
	if session != nil {
		o, err := served.Read[object](session)
		if err != nil {
			return nil, refuse("invalid_type", "session", "The session is not a JSON object.")
		}
		model, _ = o["model"].(string)
		switch refusal := realtime.SessionFields.Check("session", o, model); {
		case o["model"] == nil:
			return nil, refuse("missing_required_parameter", "session.model", "You must provide a model parameter.")
		case refusal != nil:
			return nil, refusal
		}
	}
	if !s.cfg.knowsModel(model) {
		return nil, refuse("model_not_found", "session.model",
			"The model '%s' does not exist or you do not have access to it.", model)
	}
	set := served.NewSettings(model)
	set.Show("instructions", "You are a simulator. Answer with prepared sentences.")
	if session == nil {
		return set, nil
	}
	return set, set.Update(session)
}
