// Package livetest simulates GPT-Live for tests: as strict as the service, with its clock by the caller's sound, and
// delegations before the end of their sentence.
package livetest

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/coder/websocket"

	"voicebridge/realtime"
	"voicebridge/realtime/media"
	"voicebridge/realtime/served"
	"voicebridge/realtime/simulator"
)

// maxBody limits a request, in bytes.
const maxBody = 1 << 20

// Server is the simulated API, an http.Handler. It must be closed.
type Server struct {
	cfg simulator.Config
	mux http.ServeMux
	wg  sync.WaitGroup
	ctx context.Context // of the sessions
	end context.CancelFunc

	mu       sync.Mutex
	sessions []*Session
}

// New makes a Server. Of the Config it uses API and Answer, one of which it needs, Script, MaxDuration and Logger.
func New(cfg simulator.Config) *Server {
	cfg.Script = cmp.Or(cfg.Script, simulator.DefaultScript())
	cfg.MaxDuration = cmp.Or(cfg.MaxDuration, time.Hour)
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	if cfg.Answer == nil {
		cfg.Answer = func(ctx context.Context, offer string, h media.Handlers) (simulator.Connection, string, error) {
			return cfg.API.Answer(ctx, offer, h)
		}
	}
	s := &Server{cfg: cfg}
	s.ctx, s.end = context.WithCancel(context.Background())
	s.mux.HandleFunc("POST /v1/live/sessions", s.create)
	s.mux.HandleFunc("GET /v1/live/sessions/{id}/attach", s.attach)
	return s
}

// Close ends all sessions and joins them. Nothing may be asked afterwards.
func (s *Server) Close() {
	s.end()
	s.wg.Wait()
}

// ServeHTTP serves POST /v1/live/sessions and GET /v1/live/sessions/{id}/attach.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// Sessions returns the sessions so far, oldest first.
func (s *Server) Sessions() []*Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.sessions)
}

func (s *Server) create(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	o, invalid := served.Read[object](body)
	if err = cmp.Or(err, invalid); err != nil {
		writeError(w, http.StatusBadRequest, realtime.Refuse("invalid_request", "", "%s", err.Error()))
		return
	}
	session, _ := o["session"].(object)
	offer, _ := served.Lookup(o, "transport", "sdp")
	sdp, _ := offer.(string)
	refusal := cmp.Or((fieldsOf{"session": nil, "transport": {"type": nil, "sdp": nil}}).check("body", o), checkSession(session))
	switch kind, _ := served.Lookup(o, "transport", "type"); {
	case refusal != nil:
	case kind != "webrtc":
		refusal = realtime.Refuse("invalid_value", "transport.type", "Only the webrtc transport is supported.")
	case sdp == "":
		refusal = realtime.Refuse("invalid_value", "transport.sdp", "An SDP offer is required.")
	}
	if refusal != nil {
		writeError(w, http.StatusBadRequest, refusal)
		return
	}
	ses, answer, err := s.start(r.Context(), sdp, session)
	if err != nil {
		writeError(w, http.StatusServiceUnavailable, realtime.Refuse("unavailable", "", "%s", err.Error()))
		return
	}
	w.WriteHeader(http.StatusCreated)
	writeJSON(w, object{"session": object{"id": ses.id}, "transport": object{"type": "webrtc", "sdp": answer}})
}

// start makes the peer and runs the session.
func (s *Server) start(ctx context.Context, offer string, session object) (*Session, string, error) {
	ses, err := newSession(&s.cfg, session)
	if err != nil {
		return nil, "", err
	}
	peer, answer, err := s.cfg.Answer(ctx, offer, media.Handlers{
		Message: func(data []byte) { ses.Do(func() { ses.message(data) }) },
		Open:    func() { ses.Do(ses.open) },
		State: func(state media.State) {
			if state == media.StateFailed || state == media.StateClosed {
				ses.Do(func() { ses.end("connection_lost") })
			}
		},
	})
	if err != nil {
		return nil, "", err
	}
	ses.peer = peer
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sessions = append(s.sessions, ses)
	s.wg.Go(func() { ses.run(s.ctx) })
	return ses, answer, nil
}

// attach opens a channel beside that of the session.
func (s *Server) attach(w http.ResponseWriter, r *http.Request) {
	sessions := s.Sessions()
	at := slices.IndexFunc(sessions, func(ses *Session) bool { return ses.id == r.PathValue("id") && !ses.Over() })
	if at < 0 {
		writeError(w, http.StatusNotFound,
			realtime.Refuse("session_id_not_found", "", "No session found for the provided session_id"))
		return
	}
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{CompressionMode: websocket.CompressionDisabled})
	if err != nil {
		return // it was answered
	}
	ses := sessions[at]
	ses.Do(func() { ses.attach(conn) })
	s.wg.Go(func() {
		<-ses.done
		_ = conn.CloseNow() // as the service does
	})
	for {
		_, data, err := conn.Read(context.Background())
		if err != nil {
			return
		}
		ses.Do(func() { ses.message(data) })
	}
}

func writeError(w http.ResponseWriter, status int, e *realtime.Error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	writeJSON(w, object{"error": object{
		"type": cmp.Or(e.Type, "invalid_request_error"), "code": e.Code, "message": e.Message, "param": e.Param,
	}})
}

func writeJSON(w http.ResponseWriter, v any) {
	_ = json.NewEncoder(w).Encode(v) // the client may be gone
}
