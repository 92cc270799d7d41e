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

	"voicebridge/realtime/rtc"
)

// maxEnded is how many ended sessions are kept for Sessions.
const maxEnded = 256

// Server is the simulated Realtime API: an http.Handler, and Run, which owns the
// sessions.
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
	secrets  map[string]secret
	creates  int
	faults   Faults // of future calls
	faulty   int    // how many of them, if limited
	limited  bool
	changed  chan struct{}
}

// secret is an ephemeral key with its session.
type secret struct {
	expires time.Time
	session object
}

// New makes a Server. Its errors are about the Config, or from the peer API.
func New(cfg Config) (*Server, error) {
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("check simulator config: %w", err)
	}
	cfg.defaults()
	v, err := loadVoice()
	if err != nil {
		return nil, fmt.Errorf("load voice: %w", err)
	}
	s := &Server{
		cfg: cfg, log: cfg.Logger, voice: v, api: cfg.API,
		running: make(chan struct{}), secrets: make(map[string]secret),
	}
	if s.api == nil {
		if s.api, err = rtc.New(rtc.Config{Loopback: true, Logger: cfg.Logger}); err != nil {
			return nil, fmt.Errorf("make peer API: %w", err)
		}
		s.ownAPI = true
	}
	s.setFaults(cfg.Faults, cfg.FaultyCalls)
	s.routes()
	return s, nil
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

// Sessions returns the sessions so far, oldest first, including up to 256 ended ones.
func (s *Server) Sessions() []*Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.sessions)
}

// WaitSession waits for the n-th session, from 1.
func (s *Server) WaitSession(ctx context.Context, n int) (*Session, error) {
	for {
		s.mu.Lock()
		if len(s.sessions) >= n {
			found := s.sessions[n-1]
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
	n, faults := s.creates, s.faults
	switch {
	case !s.limited:
	case s.faulty > 0:
		s.faulty--
	default:
		faults = Faults{}
	}
	s.mu.Unlock()
	if s.cfg.FaultsFor != nil {
		return s.cfg.FaultsFor(n)
	}
	return faults
}

// live returns how many sessions have not ended.
func (s *Server) live() int {
	n := 0
	for _, other := range s.sessions {
		select {
		case <-other.done:
		default:
			n++
		}
	}
	return n
}

var errFull = errors.New("too many sessions")

// start makes the peer and runs the session. It returns the SDP answer.
func (s *Server) start(ctx context.Context, offer string, set *settings, faults Faults) (*Session, string, error) {
	set.shown["expires_at"] = json.Number(fmt.Sprint(time.Now().Add(s.cfg.MaxDuration).Unix()))
	ses, err := newSession(&s.cfg, s.voice, set, faults)
	if err != nil {
		return nil, "", err
	}
	peer, answer, err := s.api.Answer(ctx, offer, rtc.Handlers{
		Message: func(data []byte) { ses.mail.post(func() { ses.message(data) }) },
		Open:    func() { ses.mail.post(ses.open) },
		State: func(state rtc.State) {
			if state == rtc.StateFailed {
				ses.mail.post(func() { ses.end(rtc.ErrClosed) })
			}
		},
	})
	if err != nil {
		return nil, "", err
	}
	ses.wire.peer = peer
	if s.cfg.Drive != nil {
		sound, model := s.cfg.Drive(ses)
		if sound != nil {
			ses.sound = sound
		}
		ses.items.model = model
	}
	if err := s.adopt(ses); err != nil {
		ses.err = err
		close(ses.done)
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
	if s.live() >= s.cfg.MaxSessions {
		return errFull
	}
	if len(s.sessions) >= maxEnded+s.cfg.MaxSessions {
		s.forget()
	}
	s.sessions = append(s.sessions, ses)
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
	s.wg.Go(func() { ses.run(s.ctx) })
	s.log.Info("session created", "call_id", ses.id)
	return nil
}

// forget drops the oldest ended sessions beyond maxEnded.
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

func (s *Server) find(id string) *Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, ses := range s.sessions {
		if ses.id == id {
			return ses
		}
	}
	return nil
}
