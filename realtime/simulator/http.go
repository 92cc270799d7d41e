package simulator

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"mime/multipart"
	"net/http"
	"strings"
	"time"

	"voicebridge/realtime"
	"voicebridge/realtime/rtc"
)

const (
	maxBody         = 1 << 20 // bytes of a request
	maxSecrets      = 1000
	defaultModel    = "gpt-realtime-2.1"
	secretLifetime  = 600 // seconds
	answerTypeOfSDP = "application/sdp"
)

func (s *Server) routes() {
	s.mux = http.NewServeMux()
	s.mux.HandleFunc("POST /v1/realtime/calls", s.createCall)
	s.mux.HandleFunc("POST /v1/realtime/calls/{id}/hangup", s.hangup)
	s.mux.HandleFunc("POST /v1/realtime/client_secrets", s.createSecret)
	if s.cfg.Control {
		s.mux.Handle("/simulator/", s.controlRoutes())
	}
	s.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		writeError(w, http.StatusNotFound, refuse("", "", "Invalid URL (%s %s)", r.Method, r.URL.Path))
	})
}

// ServeHTTP serves POST /v1/realtime/calls (multipart or raw SDP),
// /v1/realtime/calls/{id}/hangup and /v1/realtime/client_secrets, and below
// /simulator what Config.Control allows.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

func writeError(w http.ResponseWriter, status int, e *realtime.Error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	body := object{"error": object{"message": e.Message, "type": e.Type, "param": orNull(e.Param), "code": orNull(e.Code)}}
	if err := json.NewEncoder(w).Encode(body); err != nil {
		return // the client is gone
	}
}

func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// authorize accepts the configured key or an ephemeral one, whose session it returns.
func (s *Server) authorize(w http.ResponseWriter, r *http.Request) (session object, ok bool) {
	token, found := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	s.mu.Lock()
	sec, ephemeral := s.secrets[token]
	s.mu.Unlock()
	switch {
	case ephemeral && time.Now().Before(sec.expires):
		return sec.session, true
	case s.cfg.APIKey == "" && !strings.HasPrefix(token, "ek_"):
		return nil, true
	case found && token == s.cfg.APIKey:
		return nil, true
	case !found:
		writeError(w, http.StatusUnauthorized, refuse("", "", "Missing bearer authentication in header"))
	default:
		writeError(w, http.StatusUnauthorized, refuse("invalid_api_key", "", "Incorrect API key provided."))
	}
	return nil, false
}

func (s *Server) createCall(w http.ResponseWriter, r *http.Request) {
	select {
	case <-s.running:
	case <-r.Context().Done():
		return
	}
	faults := s.nextFaults()
	if s.refuse(w, r, faults) {
		return
	}
	session, ok := s.authorize(w, r)
	if !ok {
		return
	}
	select {
	case <-time.After(faults.AnswerDelay):
	case <-r.Context().Done():
		return
	case <-s.ctx.Done():
		return
	}
	offer, posted, err := readCall(http.MaxBytesReader(w, r.Body, maxBody), r.Header.Get("Content-Type"))
	if err != nil {
		writeError(w, http.StatusBadRequest, refuse("invalid_request", "", "%s", err.Error()))
		return
	}
	if posted != nil {
		session = posted
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
	w.Header().Set("Content-Type", answerTypeOfSDP)
	w.WriteHeader(http.StatusCreated)
	if _, err := io.WriteString(w, answer); err != nil {
		ses.mail.post(func() { ses.end(ErrHungUp) })
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
		writeError(w, http.StatusServiceUnavailable, &realtime.Error{Type: "server_error", Message: "The simulator cannot take the call."})
	}
}

// refuse applies the faults of creation.
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

// readCall reads both forms of the body: multipart with sdp and session, or the SDP alone, without
// a session.
func readCall(body io.Reader, contentType string) (offer string, session object, err error) {
	kind, params, err := mime.ParseMediaType(contentType)
	if err != nil {
		return "", nil, fmt.Errorf("unsupported content type %q", contentType)
	}
	switch kind {
	case answerTypeOfSDP:
		b, err := io.ReadAll(body)
		return string(b), nil, err
	case "multipart/form-data":
		return readForm(multipart.NewReader(body, params["boundary"]))
	}
	return "", nil, fmt.Errorf("unsupported content type %q", kind)
}

func readForm(form *multipart.Reader) (offer string, session object, err error) {
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
			if session, err = readObject(b); err != nil {
				return "", nil, errors.New("the part 'session' is not a JSON object")
			}
		default:
			return "", nil, fmt.Errorf("unknown form field %q", part.FormName())
		}
	}
	if offer == "" {
		return "", nil, errors.New("missing form field 'sdp'")
	}
	return offer, session, nil
}

// newSettings checks the session of a creation.
func (s *Server) newSettings(session object) (*settings, *realtime.Error) {
	model := defaultModel
	if session != nil {
		if name, ok := session["model"].(string); ok {
			model = name
		} else if session["model"] == nil {
			return nil, refuse("missing_required_parameter", "session.model", "You must provide a model parameter.")
		}
	}
	if !s.cfg.knowsModel(model) {
		return nil, refuse("model_not_found", "session.model", "The model '%s' does not exist or you do not have access to it.", model)
	}
	set := newSettings(model)
	if session == nil {
		return set, nil
	}
	return set, set.update(session, false, false)
}

func (s *Server) hangup(w http.ResponseWriter, r *http.Request) {
	if _, ok := s.authorize(w, r); !ok {
		return
	}
	ses := s.find(r.PathValue("id"))
	if ses == nil || ses.Err() != nil {
		writeError(w, http.StatusNotFound, refuse("call_id_not_found", "call_id", "No call with this id is active."))
		return
	}
	ses.mail.post(func() { ses.end(ErrHungUp) })
	w.WriteHeader(http.StatusOK)
}

func (s *Server) createSecret(w http.ResponseWriter, r *http.Request) {
	if _, ok := s.authorize(w, r); !ok {
		return
	}
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		writeError(w, http.StatusBadRequest, refuse("invalid_request", "", "The body is too large."))
		return
	}
	body, err := readObject(raw)
	if err != nil && len(raw) > 0 {
		writeError(w, http.StatusBadRequest, refuse("invalid_json", "", "The body is not a JSON object."))
		return
	}
	session, _ := body["session"].(object)
	set, refusal := s.newSettings(session)
	if refusal == nil {
		refusal = fields{
			"session": isAny,
			"expires_after": isObject(fields{
				"anchor": isOneOf("created_at"), "seconds": isNumber(10, 7200),
			}),
		}.of("", body)
	}
	if refusal != nil {
		writeError(w, http.StatusBadRequest, refusal)
		return
	}
	seconds := int64(secretLifetime)
	if n, ok := lookup(body, "expires_after", "seconds"); ok {
		if v, err := n.(json.Number).Int64(); err == nil {
			seconds = v
		}
	}
	value := newID("ek_")
	expires := time.Now().Add(time.Duration(seconds) * time.Second)
	if !s.keepSecret(value, secret{expires: expires, session: session}) {
		writeError(w, http.StatusTooManyRequests, refuse("rate_limit_exceeded", "", "Too many client secrets are open."))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(object{"value": value, "expires_at": expires.Unix(), "session": set.shown}); err != nil {
		return // the client is gone
	}
}

// keepSecret stores a secret and drops expired ones.
func (s *Server) keepSecret(value string, sec secret) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for v, old := range s.secrets {
		if time.Now().After(old.expires) {
			delete(s.secrets, v)
		}
	}
	if len(s.secrets) >= maxSecrets {
		return false
	}
	s.secrets[value] = sec
	return true
}
