package live

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"time"

	"voicebridge/realtime"
	"voicebridge/realtime/media"
)

// frozen is how long the seconds that a session counts may stand still.
const frozen = 10 * time.Second

// ErrEnded means that a session, or its connection, has ended by itself.
var ErrEnded = errors.New("the session has ended")

// session is what is known of a session, and its rules: they send nothing and start nothing.
type session struct {
	id       string
	log      *slog.Logger
	core     core
	captions captions
	lines    lines
	work     work
	config   config
	started  bool
	failed   error // why it has not started
	closing  bool  // session.close was sent
	reported bool  // session.closed came, with the length
	over     bool
	final    media.State // of the connection, once it is over
	reason   string
	seconds  float64
	advanced time.Time // when that grew last
	seen     seen
	typed    bool // a text of the user waits for response.create
}

// init makes the parts. sound is that of the connection.
func (s *session) init(rounds int, cfg config, log *slog.Logger, sound *sound) {
	s.config = cfg
	s.final, s.seen = media.StateClosed, make(seen)
	s.log = log

	k := &s.core
	k.sound, k.sent = sound, make(map[string]string)
	s.captions = captions{core: k, heard: make(map[fragmentKey]time.Time)}
	s.lines = lines{core: k, captions: &s.captions}
	s.work = work{
		core: k, captions: &s.captions, lines: &s.lines, seen: make(seen), outside: make(seen), maxRounds: rounds,
	}
	s.captions.unheard = len(cfg.history) > 0
	s.captions.delegates = s.work.isAnswering
}

// end ends the session; the first reason wins.
func (s *session) end(why media.State, reason string) {
	if s.over {
		return
	}
	s.over = true
	s.final, s.reason = why, reason
	if !s.started && s.failed == nil {
		s.failed = fmt.Errorf("start session: %w: %s", ErrEnded, reason)
	}
}

// close asks the upstream to end the session.
func (s *session) close() {
	if !s.closing {
		s.closing, s.core.commands = true, nil
		s.core.command("", tree{"type": typeClose})
	}
}

// speaks takes that the caller's sound is loud.
func (s *session) speaks() {
	if s.captions.speaking() && s.captions.noisy != s.captions.open[voice] {
		s.captions.overlaps(s.core.sound.position())
	}
}

// tick does what is due.
func (s *session) tick() {
	if !s.started || s.closing {
		return
	}
	s.captions.tick()
	s.work.tick()
	s.lines.next()
	if s.lines.mute() {
		s.lines.firstBy = time.Time{}
		s.end(media.StateFailed, "silent")
	}
}

// take takes an event, once.
func (s *session) take(ev *event) {
	if ev.EventID != "" && !s.seen.first(ev.EventID) {
		return
	}
	switch ev.Type {
	case typeStarted:
		s.start(ev)
	case typeUserDelta:
		s.captions.take(user, ev.fragment())
		s.work.turn()
	case typeVoiceDelta:
		s.captions.take(voice, ev.fragment())
		s.work.heard()
	case typeDelegation:
		if u := s.captions.open[user]; u != nil && s.core.now.Sub(u.touched) >= userQuiet {
			s.captions.commit(u)
		}
		s.work.delegated(ev)
	case typeUsage:
		s.used(ev.Usage.Seconds)
	case typeClosed:
		s.used(ev.Usage.Seconds)
		s.reported = true
		s.closed(ev.Reason)
	case typeError:
		if ev.Error.Command == "" {
			ev.Error.Command = ev.ClientEventID
		}
		s.fault(&ev.Error)
	}
}

func (ev *event) fragment() fragment {
	return fragment{ev.Delta, time.Duration(ev.Start) * time.Millisecond, time.Duration(ev.End) * time.Millisecond}
}

// start takes session.started.
func (s *session) start(ev *event) {
	if s.started || s.failed != nil {
		return
	}
	s.started, s.advanced = true, s.core.now
	shown := s.config.shown(s.id)
	if ev.Session.ExpiresAt > 0 {
		shown["expires_at"] = int64(ev.Session.ExpiresAt)
	}
	s.core.emit(tree{"type": realtime.TypeSessionCreated, "session": shown})
}

// used takes how long the session has been billed: the most that was said counts. A count that stands still is that
// of a session that hears nothing.
func (s *session) used(seconds float64) {
	switch {
	case seconds > s.seconds && seconds < 1e7:
		s.seconds, s.advanced = seconds, s.core.now
		s.core.emit(tree{"type": realtime.TypeSessionUsage, "usage": tree{"type": "duration", "seconds": seconds}})
	case s.started && !s.closing && s.core.now.Sub(s.advanced) >= frozen:
		s.end(media.StateFailed, "stalled")
	}
}

// wanted are the reasons of an end that somebody wanted, for which no new session is to be made.
var wanted = map[string]string{
	"content": "because of what was said", "close_requested": "somebody asked for it", "remote_hangup": "it has hung up",
}

// closed takes the end of the session.
func (s *session) closed(reason string) {
	switch {
	case s.closing:
	case reason == "expired":
		s.core.refuse("", realtime.Error{
			Type: "invalid_request_error", Code: "session_expired", Message: "The session has expired.",
		})
	case wanted[reason] != "":
		s.core.refuse("", realtime.Error{
			Type: "invalid_request_error", Code: "session_closed",
			Message: "The upstream has ended the session: " + wanted[reason] + ".",
		})
	}
	s.end(media.StateClosed, reason)
}

// fault takes an error.
func (s *session) fault(e *failure) {
	text := s.core.sent[e.Command]
	delete(s.core.sent, e.Command)
	e.Message = realtime.MaskKeys(e.Message)
	switch {
	case !s.started && s.failed == nil:
		s.failed = &realtime.APIError{Status: 400, Type: e.Type, Code: e.Code, Message: e.Message, Param: e.Param}
	case e.Code == "context_injection_incomplete" && s.closing:
	case e.Fatal():
		s.core.refuse("", e.Error)
	default:
		s.log.Warn("upstream complains", "code", e.Code, "param", e.Param, "error", e.Message)
		if strings.Contains(e.Message, "token") {
			s.lines.refused(typeThinking, text, "")
		}
	}
}

// asked carries out an event of the client.
func (s *session) asked(ev *realtime.Event) {
	switch ev.Type {
	case realtime.TypeSessionUpdate:
		s.configure(ev)
	case realtime.TypeItemCreate:
		s.createItem(ev)
	case realtime.TypeResponseCreate:
		s.create(ev)
	case realtime.TypeResponseCancel:
		if !s.cancel() {
			s.core.refuse(ev.EventID, realtime.Error{
				Code: "response_cancel_not_active", Message: "There is no answer to cancel.",
			})
		}
	case realtime.TypeOutputBufferClear:
		if !s.cancel() {
			s.core.emit(tree{"type": realtime.TypeOutputBufferCleared})
		}
	case realtime.TypeInputCommit, realtime.TypeInputClear, realtime.TypeItemTruncate, realtime.TypeItemDelete:
		s.core.refuse(ev.EventID, notSupported(ev.Type))
	}
}

// cancel silences the model, as far as it is speaking, and tells it to stop: otherwise it goes on unheard.
func (s *session) cancel() bool {
	speaks := s.captions.cancel()
	if speaks {
		s.lines.append(typeInstruction, stopLine, "")
	}
	return speaks
}

// createItem takes an item.
func (s *session) createItem(ev *realtime.Event) {
	item, err := realtime.DecodeItem(ev.Item)
	if err != nil {
		return
	}
	var shown tree
	_ = json.Unmarshal(ev.Item, &shown) // it was read
	shown["status"], shown["object"] = "completed", "realtime.item"
	switch {
	case item.Type == realtime.ItemFunctionCall:
		s.work.lent(item)
	case item.Type == realtime.ItemFunctionCallOutput:
		s.captions.appendWhole(shown)
		s.work.output(item.CallID, item.Output)
	case item.Type == realtime.ItemMessage && item.Role == "user":
		s.captions.appendWhole(shown)
		s.work.text(item.Text())
		s.typed = true
	case item.Type == realtime.ItemMessage:
		s.captions.appendWhole(shown)
		s.lines.know(item.Text(), "")
	}
}

// create takes response.create.
func (s *session) create(ev *realtime.Event) {
	var fields struct {
		Instructions string `json:"instructions"`
	}
	_ = json.Unmarshal(ev.Response, &fields) // what is of another form is none
	typed := s.typed
	s.typed = false
	if fields.Instructions != "" && !typed {
		s.lines.say(fields.Instructions, "", true)
		return
	}
	if fields.Instructions != "" {
		s.lines.append(typeInstruction, fields.Instructions, "")
	}
	if !s.work.create(typed) {
		s.core.refuse(ev.EventID, notSupported("a request to speak without a question"))
	}
}

// configure takes session.update: instructions can be added to. The rest is left out.
func (s *session) configure(ev *realtime.Event) {
	var change map[string]json.RawMessage
	_ = json.Unmarshal(ev.Session, &change) // what is of another form changes nothing
	cfg := &s.config
	instructed := cfg.instruct
	delete(change, "audio") // it is fixed
	maps.Copy(cfg.session, change)
	_ = json.Unmarshal(cfg.session["instructions"], &cfg.instruct)
	if cfg.instruct != instructed {
		s.instruct()
	}
	s.core.emit(tree{"type": realtime.TypeSessionUpdated, "session": cfg.shown(s.id)})
}

// maxNews is how long new instructions are that a session is told, in bytes; longer ones are for the next session.
const maxNews = 3 * maxAppend

// instruct tells a session its new instructions.
func (s *session) instruct() {
	if text := s.config.instruct; len(text) <= maxNews {
		s.lines.append(typeInstruction, "From now on: "+text, "")
		return
	}
	s.core.emit(tree{"type": realtime.TypeSessionExpiring})
}
