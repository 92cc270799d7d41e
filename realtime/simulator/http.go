package simulator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"mime/multipart"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/coder/websocket"

	"voicebridge/realtime"
	"voicebridge/realtime/media"
	"voicebridge/realtime/rtc"
	"voicebridge/realtime/served"
)

const sdpType = "application/sdp"

// New makes a Server. Its errors are about the Config, or from the peer API.
func New(cfg Config) (*Server, error) {
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("check simulator config: %w", err)
	}
	cfg.defaults()
	s := &Server{
		cfg: cfg, log: cfg.Logger, voice: loadVoice(), api: cfg.API,
		running: make(chan struct{}),
	}
	if s.api == nil && cfg.Answer == nil {
		var err error
		if s.api, err = rtc.New(rtc.Config{Loopback: true, Logger: cfg.Logger}); err != nil {
			return nil, fmt.Errorf("make peer API: %w", err)
		}
		s.ownAPI = true
	}
	if cfg.Answer == nil {
		s.cfg.Answer = func(ctx context.Context, offer string, h media.Handlers) (Connection, string, error) {
			return s.api.Answer(ctx, offer, h)
		}
	}
	s.routes()
	return s, nil
}

func (s *Server) routes() {
	s.mux = http.NewServeMux()
	s.mux.HandleFunc("GET /v1/realtime", s.createSocket)
	s.mux.HandleFunc("POST /v1/realtime/calls", s.createCall)
	s.mux.HandleFunc("POST /v1/realtime/calls/{id}/hangup", s.hangup)
	s.mux.HandleFunc("OPTIONS /v1/realtime/", func(w http.ResponseWriter, r *http.Request) {
		// A wildcard would not cover Authorization.
		w.Header().Set("Access-Control-Allow-Headers", r.Header.Get("Access-Control-Request-Headers"))
		w.WriteHeader(http.StatusNoContent)
	})
	s.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		writeError(w, http.StatusNotFound, refuse("", "", "Invalid URL (%s %s)", r.Method, r.URL.Path))
	})
}

// ServeHTTP serves GET /v1/realtime (a WebSocket), POST /v1/realtime/calls (multipart or raw SDP) and
// /v1/realtime/calls/{id}/hangup, to pages of any origin as OpenAI does.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Access-Control-Allow-Origin", "*")
	w.Header().Set("Access-Control-Expose-Headers", "Location, Retry-After")
	s.mux.ServeHTTP(w, r)
}

// admit lets a client begin a session, as far as the faults do.
func (s *Server) admit(w http.ResponseWriter, r *http.Request) (faults Faults, ok bool) {
	select {
	case <-s.running:
	case <-r.Context().Done():
		return faults, false
	}
	faults = s.nextFaults()
	if s.refuse(w, r, faults) || !s.authorize(w, r) {
		return faults, false
	}
	select {
	case <-time.After(time.Duration(faults.AnswerDelay)):
		return faults, true
	case <-r.Context().Done():
	case <-s.ctx.Done():
	}
	return faults, false
}

func (s *Server) createCall(w http.ResponseWriter, r *http.Request) {
	faults, ok := s.admit(w, r)
	if !ok {
		return
	}
	offer, session, err := readCall(http.MaxBytesReader(w, r.Body, maxBody), r.Header.Get("Content-Type"))
	if err == nil {
		offer, err = realtime.WithChannel(offer, r.URL.Query().Get("dcid"))
	}
	if err != nil {
		writeError(w, http.StatusBadRequest, refuse("invalid_request", "", "%s", err.Error()))
		return
	}
	set, refusal := s.newSettings(session)
	if refusal != nil {
		writeError(w, http.StatusBadRequest, refusal)
		return
	}
	ses, answer, err := s.start(r.Context(), offer, set, faults)
	if err != nil {
		s.startFailed(w, err)
		return
	}
	if !faults.NoLocation {
		w.Header().Set("Location", "/v1/realtime/calls/"+ses.id)
	}
	if faults.BadAnswer {
		answer = answer[:len(answer)/2]
	}
	w.Header().Set("Content-Type", sdpType)
	w.WriteHeader(http.StatusCreated)
	if _, err := io.WriteString(w, answer); err != nil {
		ses.End(ErrHungUp)
	}
}

func (s *Server) startFailed(w http.ResponseWriter, err error) {
	switch {
	case errors.Is(err, rtc.ErrNoOpus):
		writeError(w, http.StatusBadRequest, refuse("invalid_offer", "sdp", "The SDP offer has no Opus audio."))
	case errors.Is(err, rtc.ErrBadSDP):
		writeError(w, http.StatusBadRequest, refuse("invalid_offer", "sdp", "The SDP offer could not be parsed."))
	case errors.Is(err, errFull):
		w.Header().Set("Retry-After", "5")
		e := refuse("rate_limit_exceeded", "", "Too many sessions are open.")
		e.Type = "rate_limit_error"
		writeError(w, http.StatusTooManyRequests, e)
	default:
		s.log.Warn("call not created", "error", err)
		writeError(w, http.StatusServiceUnavailable,
			&realtime.Error{Type: "server_error", Message: "The simulator cannot take the call."})
	}
}

// refuse applies the faults of creation. It reports whether the request is done with.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, f Faults) bool {
	switch {
	case f.HangCreation:
		// The body is read first: only then does the server notice that the client has gone.
		_, _ = io.Copy(io.Discard, http.MaxBytesReader(w, r.Body, maxBody))
		select {
		case <-r.Context().Done():
		case <-s.ctx.Done():
		}
		return true
	case f.RefuseStatus == 0:
		return false
	}
	maps.Copy(w.Header(), f.RefuseHeader)
	if f.RefuseBody == "" {
		writeError(w, f.RefuseStatus, &realtime.Error{
			Type: "server_error", Code: "refused_on_purpose", Message: "The simulator rejects the call on purpose.",
		})
		return true
	}
	w.WriteHeader(f.RefuseStatus)
	_, _ = io.WriteString(w, f.RefuseBody) // a client that is gone needs no refusal
	return true
}

// readCall reads both forms of the body: multipart with sdp and session, or the SDP alone, without a session.
func readCall(body io.Reader, contentType string) (offer string, session json.RawMessage, err error) {
	kind, params, err := mime.ParseMediaType(contentType)
	if err != nil {
		return "", nil, fmt.Errorf("unsupported content type %q", contentType)
	}
	switch kind {
	case sdpType:
		b, err := io.ReadAll(body)
		return string(b), nil, err
	case "multipart/form-data":
		return readForm(multipart.NewReader(body, params["boundary"]))
	}
	return "", nil, fmt.Errorf("unsupported content type %q", kind)
}

func readForm(form *multipart.Reader) (offer string, session json.RawMessage, err error) {
	for {
		part, err := form.NextPart()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return "", nil, fmt.Errorf("read form: %w", err)
		}
		b, err := io.ReadAll(part)
		if err != nil {
			return "", nil, fmt.Errorf("read form: %w", err)
		}
		switch part.FormName() {
		case "sdp":
			offer = string(b)
		case "session":
			if _, err = served.Read[object](b); err != nil {
				return "", nil, errors.New("the part 'session' is not a JSON object")
			}
			session = b
		default:
			return "", nil, fmt.Errorf("unknown form field %q", part.FormName())
		}
	}
	if offer == "" {
		return "", nil, errors.New("missing form field 'sdp'")
	}
	return offer, session, nil
}

func (s *Server) hangup(w http.ResponseWriter, r *http.Request) {
	if !s.authorize(w, r) {
		return
	}
	for _, ses := range s.Sessions() {
		if ses.id == r.PathValue("id") && ses.Err() == nil {
			ses.End(ErrHungUp)
			return
		}
	}
	writeError(w, http.StatusNotFound, refuse("call_id_not_found", "call_id", "No call with this id is active."))
}

// createSocket answers GET /v1/realtime.
func (s *Server) createSocket(w http.ResponseWriter, r *http.Request) {
	faults, ok := s.admit(w, r)
	if !ok {
		return
	}
	o := object{"type": "realtime"}
	if name := r.URL.Query().Get("model"); name != "" {
		o["model"] = name
	}
	session, _ := json.Marshal(o) // strings
	set, refusal := s.newSettings(session)
	if refusal != nil {
		writeError(w, http.StatusBadRequest, refusal)
		return
	}
	ses, err := s.prepare(set, faults, true)
	if err != nil {
		s.startFailed(w, err)
		return
	}
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{
		Subprotocols: []string{"realtime"}, InsecureSkipVerify: true, CompressionMode: websocket.CompressionDisabled,
	})
	if err != nil {
		return // it was answered
	}
	conn.SetReadLimit(maxText)
	k := &socket{conn: conn, done: make(chan struct{})}
	if err := s.begin(ses, k); err != nil {
		_ = conn.Close(websocket.StatusTryAgainLater, err.Error())
		return
	}
	s.wg.Go(func() { k.read(ses.Message, ses.log) })
	ses.open()
}

// authorize accepts the configured key; without one, all clients.
func (s *Server) authorize(w http.ResponseWriter, r *http.Request) bool {
	token, found := keyOf(r)
	switch {
	case s.cfg.APIKey == "", found && token == s.cfg.APIKey:
		return true
	case !found:
		writeError(w, http.StatusUnauthorized, refuse("", "", "Missing bearer authentication in header"))
	default:
		writeError(w, http.StatusUnauthorized, refuse("invalid_api_key", "", "Incorrect API key provided."))
	}
	return false
}

// keyProtocol begins the subprotocol by which browsers, which can set no headers, send their key.
const keyProtocol = "openai-insecure-api-key."

// keyOf returns the key of a request, from its header or from a subprotocol.
func keyOf(r *http.Request) (key string, found bool) {
	if key, found = strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); found {
		return key, true
	}
	for list := range slices.Values(r.Header.Values("Sec-WebSocket-Protocol")) {
		for name := range strings.SplitSeq(list, ",") {
			if key, found = strings.CutPrefix(strings.TrimSpace(name), keyProtocol); found {
				return key, true
			}
		}
	}
	return "", false
}
