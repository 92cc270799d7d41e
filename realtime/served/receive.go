package served

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"time"

	"voicebridge/realtime"
)

// receive handles one client event, and answers one that is refused with an error.
func (s *Session) receive(e message) {
	handle := func() *realtime.Error { return s.handle(e) }
	var refusal *realtime.Error
	if s.cfg.Oddities != nil {
		refusal = s.cfg.Oddities(e.Event, handle)
	} else {
		refusal = handle()
	}
	if refusal != nil {
		refusal.EventID = e.EventID
		s.wire.refuse(refusal)
	}
}

func (s *Session) handle(m message) *realtime.Error {
	if m.err != nil && !errors.Is(m.err, realtime.ErrNoType) {
		return refuse("invalid_event", "", "The event could not be parsed: %v.", m.err)
	}
	checked := m.object
	if s.cfg.Turning != nil { // whose voices and transcription are not the API's
		checked = without(checked, "session", "audio", "output", "voice")
		checked = without(checked, "session", "audio", "input", "transcription")
		checked = without(checked, "response", "audio", "output", "voice")
	}
	if refusal := realtime.ClientEvents.Check("", checked, s.set.model()); refusal != nil {
		return refusal
	}
	return s.act(m.Event, m.object)
}

// without returns an object without what is at a path of objects.
func without(o object, path ...string) object {
	v, ok := o[path[0]]
	if !ok {
		return o
	}
	o = maps.Clone(o)
	if len(path) == 1 {
		delete(o, path[0])
	} else if inner, ok := v.(object); ok {
		o[path[0]] = without(inner, path[1:]...)
	}
	return o
}

func (s *Session) act(e realtime.Event, o object) *realtime.Error {
	switch e.Type {
	case realtime.TypeSessionUpdate:
		return s.updateSession(e.Session)
	case realtime.TypeItemCreate:
		return s.items.create(e, o)
	case realtime.TypeItemRetrieve:
		return s.items.retrieve(e.ItemID)
	case realtime.TypeItemDelete:
		return s.items.delete(e.ItemID)
	case realtime.TypeItemTruncate:
		return s.items.truncate(e)
	case realtime.TypeResponseCreate:
		params, _ := o["response"].(object)
		return s.createResponse(params)
	case realtime.TypeResponseCancel:
		return s.responder.cancelByClient(e.ResponseID)
	case realtime.TypeOutputBufferClear:
		if s.cfg.InEvents {
			return refuse("invalid_value", "type", "The event '%s' is for WebRTC and SIP connections only.", e.Type)
		}
		s.player.clear()
	case realtime.TypeInputAppend:
		if s.cfg.InEvents {
			return s.append(o["audio"])
		}
		return refuse("invalid_value", "type", "Audio comes by RTP on a WebRTC connection, not by '%s'.", e.Type)
	case realtime.TypeInputCommit:
		return s.listener.commitInput()
	case realtime.TypeInputClear:
		s.listener.clear()
	}
	return nil
}

func (s *Session) createResponse(params object) *realtime.Error {
	if err := s.set.checkVoice(params, s.player.spoken); err != nil {
		return err
	}
	context, err := s.items.context(params)
	if err != nil {
		return err
	}
	return s.responder.request(params, context)
}

func (s *Session) updateSession(session json.RawMessage) *realtime.Error {
	if err := s.set.Update(session, s.locks()...); err != nil {
		return err
	}
	s.responder.discard() // it was to other settings
	if realtime.Member(session, "audio", "input", "turn_detection") != nil {
		s.listener.configure()
	}
	s.wire.emit(object{"type": realtime.TypeSessionUpdated, "session": maps.Clone(s.set.shown)})
	return nil
}

// locks are those in force, besides those of fields that are set.
func (s *Session) locks() []realtime.Lock {
	locks := []realtime.Lock{realtime.AtCreation}
	if s.player.spoken {
		locks = append(locks, realtime.OnceSpoken)
	}
	if s.responder.active != nil {
		locks = append(locks, realtime.WhileAnswered)
	}
	return locks
}

// Open starts the session when it is connected.
func (s *Session) Open() { s.Do(s.open) }

func (s *Session) open() {
	s.opened = true
	if s.player.continuous {
		s.player.resume(time.Now())
	}
	s.wire.emit(object{"type": realtime.TypeSessionCreated, "session": maps.Clone(s.set.shown)})
	if s.cfg.MaxDuration > 0 {
		s.After(s.cfg.MaxDuration, s.expire)
	}
	for _, m := range s.pending {
		s.receive(m)
	}
	s.pending = nil
}

// Message takes an event of the client, and keeps it.
func (s *Session) Message(raw []byte) {
	m := decode(raw)
	s.Do(func() {
		if s.opened {
			s.receive(m)
		} else {
			s.pending = append(s.pending, m)
		}
	})
}

// maxAppend is how much base64 an append may have, in bytes.
const maxAppend = 15 << 20

// append answers input_audio_buffer.append.
func (s *Session) append(audio any) *realtime.Error {
	text, _ := audio.(string)
	if len(text) > maxAppend {
		return refuse("invalid_value", "audio", "The audio has more than %d bytes.", maxAppend)
	}
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(data) == 0 {
		return refuse("invalid_value", "audio",
			"Invalid 'audio'. Expected base64-encoded audio bytes, but got an invalid value.")
	}
	s.listener.detector.hear(data, s.set.format("input"))
	return nil
}
