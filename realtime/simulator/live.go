package simulator

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/coder/websocket"

	"voicebridge/realtime"
	"voicebridge/realtime/media"
)

// fieldsOf are what an object of GPT-Live may have, each with what is below it; nil means anything.
type fieldsOf map[string]fieldsOf

// liveFields are those of a session. Source: "Create a session" of OpenAI's API reference about Live.
var liveFields = fieldsOf{
	"model": nil, "instructions": nil, "input": nil, "store": nil, "audio": {"output": {"voice": nil}}, "safety_identifier": nil,
	"delegation": {"type": nil, "acknowledgement_delay_ms": nil, "responses": {
		"model": nil, "instructions": nil, "tools": nil, "tool_choice": nil, "parallel_tool_calls": nil, "reasoning": {"effort": nil, "summary": nil},
		"text": {"verbosity": nil}, "max_output_tokens": nil, "service_tier": nil,
	}},
	"client": {"data_channel": nil},
}

// check names the first field that an object may not have.
func (f fieldsOf) check(path string, o object) *realtime.Error {
	for _, name := range slices.Sorted(maps.Keys(o)) {
		below, known := f[name]
		if !known {
			return refuse("unknown_parameter", path+"."+name, "Unknown parameter: '%s.%s'.", path, name)
		}
		if inner, ok := o[name].(object); ok && below != nil {
			if e := below.check(path+"."+name, inner); e != nil {
				return e
			}
		}
	}
	return nil
}

// Limits of a session's history, instructions and appends, in messages and tokens.
const (
	liveInput, liveInputTokens = 128, 8192
	liveInstructions           = 16_384
	liveAppend                 = 500
)

// liveTokens estimates how many tokens a text has, as they are few.
func liveTokens(text string) int { return len(text) / 4 }

// checkLive checks the session of a creation.
func checkLive(o object, knows func(string) bool) *realtime.Error {
	if e := liveFields.check("session", o); e != nil {
		return e
	}
	model, _ := o["model"].(string)
	if !knows(model) {
		return refuse("model_not_found", "session.model", "The model '%s' does not exist or you do not have access to it.", model)
	}
	if text, _ := o["instructions"].(string); liveTokens(text) > liveInstructions {
		return refuse("invalid_value", "session.instructions", "The instructions have more than %d tokens.", liveInstructions)
	}
	input, _ := o["input"].([]any)
	if len(input) > liveInput {
		return refuse("invalid_value", "session.input", "array too long. Expected an array with maximum length %d", liveInput)
	}
	total := 0
	for i, m := range input {
		message, _ := m.(object)
		role, _ := message["role"].(string)
		content, _ := message["content"].([]any)
		if message["type"] != "message" || !slices.Contains([]string{"user", "assistant", "developer"}, role) || len(content) != 1 {
			return refuse("invalid_value", fmt.Sprintf("session.input[%d]", i), "It is not a message with one text.")
		}
		part, _ := content[0].(object)
		text, _ := part["text"].(string)
		if want := map[bool]string{true: "output_text", false: "input_text"}[role == "assistant"]; part["type"] != want || text == "" {
			return refuse("invalid_value", fmt.Sprintf("session.input[%d].content", i), "It must be an %s.", want)
		}
		total += liveTokens(text)
	}
	if total > liveInputTokens {
		return refuse("invalid_value", "session.input", "The input has more than %d tokens.", liveInputTokens)
	}
	return nil
}

// createLive answers POST /v1/live/sessions.
func (s *Server) createLive(w http.ResponseWriter, r *http.Request) {
	faults, _, ok := s.admit(w, r)
	if !ok {
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		writeError(w, http.StatusBadRequest, refuse("invalid_request", "", "%s", err.Error()))
		return
	}
	o, err := read[object](body)
	if err != nil {
		writeError(w, http.StatusBadRequest, refuse("invalid_request", "", "The body is not a JSON object."))
		return
	}
	refusal := (fieldsOf{"session": nil, "transport": {"type": nil, "sdp": nil}}).check("body", o)
	session, _ := o["session"].(object)
	if refusal == nil {
		refusal = checkLive(session, func(name string) bool { return strings.HasPrefix(name, "gpt-live") || s.cfg.knowsModel(name) })
	}
	offer, _ := lookup(o, "transport", "sdp")
	sdp, _ := offer.(string)
	switch kind, _ := lookup(o, "transport", "type"); {
	case refusal != nil:
	case kind != "webrtc":
		refusal = refuse("invalid_value", "transport.type", "Only the webrtc transport is supported.")
	case sdp == "":
		refusal = refuse("invalid_value", "transport.sdp", "An SDP offer is required.")
	}
	if refusal != nil {
		writeError(w, http.StatusBadRequest, refusal)
		return
	}
	ses, answer, err := s.startLive(r.Context(), sdp, session, faults)
	if err != nil {
		s.startFailed(w, err)
		return
	}
	if faults.BadAnswer {
		answer = answer[:len(answer)/2]
	}
	w.WriteHeader(http.StatusCreated)
	writeJSON(w, object{"session": object{"id": ses.id}, "transport": object{"type": "webrtc", "sdp": answer}})
}

// startLive makes the peer and runs the session.
func (s *Server) startLive(ctx context.Context, offer string, session object, faults Faults) (*LiveSession, string, error) {
	ses, err := newLive(s, session, faults)
	if err != nil {
		return nil, "", err
	}
	peer, answer, err := s.api.Answer(ctx, offer, media.Handlers{
		Message: func(data []byte) { ses.mail.post(func() { ses.message(data) }) },
		Open:    func() { ses.mail.post(ses.open) },
		State: func(state media.State) {
			if state == media.StateFailed || state == media.StateClosed {
				ses.mail.post(func() { ses.end("connection_lost") })
			}
		},
	})
	if err != nil {
		return nil, "", err
	}
	ses.peer = peer
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return nil, "", peer.Close()
	}
	s.live = append(slices.DeleteFunc(s.live, func(old *LiveSession) bool { return len(s.live) > maxEnded && old.Over() }), ses)
	s.wg.Go(func() { ses.run(s.ctx) })
	return ses, answer, nil
}

// LiveSessions returns the sessions of GPT-Live so far, oldest first. Of the ended ones, the oldest may have been dropped.
func (s *Server) LiveSessions() []*LiveSession {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.live)
}

// attachLive answers GET /v1/live/sessions/{id}/attach, for a channel beside that of the session.
func (s *Server) attachLive(w http.ResponseWriter, r *http.Request) {
	if _, ok := s.authorize(w, r); !ok {
		return
	}
	sessions := s.LiveSessions()
	at := slices.IndexFunc(sessions, func(ses *LiveSession) bool { return ses.id == r.PathValue("id") && !ses.Over() })
	if at < 0 {
		writeError(w, http.StatusNotFound, refuse("session_id_not_found", "", "No session found for the provided session_id"))
		return
	}
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{CompressionMode: websocket.CompressionDisabled})
	if err != nil {
		return // it was answered
	}
	ses := sessions[at]
	k := &socket{conn: conn, done: make(chan struct{})}
	s.wg.Go(func() { k.read(func(data []byte) { ses.mail.post(func() { ses.message(data) }) }, s.log) })
	ses.mail.post(func() { ses.attach(k) })
	select {
	case <-ses.done:
		_ = conn.CloseNow() // as the service does
	case <-k.done:
	}
}

// LiveSession is one session of GPT-Live. Its exported methods are safe for concurrent use.
//
// It hears that somebody speaks, as a Session does; the words are those of the script's next utterance, in fragments, of which the last
// comes after the delegation. Its clock is the caller's sound.
type LiveSession struct {
	id      string
	srv     *Server
	peer    connection
	mail    *mailbox
	clock   clock
	ear     *detector
	faults  Faults
	session object
	began   time.Time
	done    chan struct{}
	ctx     context.Context
	cancel  context.CancelFunc
	asides  []*socket

	received, sent record

	opened  bool
	over    bool
	lastIn  time.Time // when sound came last
	packets int64
	voice   liveVoice
	backend liveBackend
	turn    int // of the script's utterances
	told    int64
}

// ID returns the session's id.
func (s *LiveSession) ID() string { return s.id }

// Over reports whether it has ended.
func (s *LiveSession) Over() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// Received returns every command in order, Sent every event.
func (s *LiveSession) Received() []Record { return s.received.all() }

// Sent is described at Received.
func (s *LiveSession) Sent() []Record { return s.sent.all() }

// Session is the session object of the creation.
func (s *LiveSession) Session() json.RawMessage {
	raw, _ := json.Marshal(s.session) // it was JSON
	return raw
}

// Do makes the session's goroutine run f soon. Only such functions may call Emit.
func (s *LiveSession) Do(f func()) { s.mail.post(f) }

// Emit sends an event, to which it adds an id.
func (s *LiveSession) Emit(event map[string]any) { s.emit(event) }

// Now is the time by the session's clock.
func (s *LiveSession) Now() time.Duration { return time.Duration(s.ear.packets.Load()) * frameLength }
