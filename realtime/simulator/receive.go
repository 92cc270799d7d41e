package simulator

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"voicebridge/realtime"
)

// clientSchema holds the members of each client event besides type and event_id.
var clientSchema = map[string]fields{
	realtime.TypeSessionUpdate: {"session": isAny},
	realtime.TypeItemCreate:    {"item": isAny, "previous_item_id": nullable(isString)},
	realtime.TypeItemRetrieve:  {"item_id": isString},
	realtime.TypeItemDelete:    {"item_id": isString},
	realtime.TypeItemTruncate:  {"item_id": isString, "content_index": isNumber(0, 100), "audio_end_ms": isNumber(0, 1e9)},
	realtime.TypeResponseCreate: {"response": nullable(isObject(fields{
		"instructions": isString, "output_modalities": isModalities,
		"audio":       isObject(fields{"output": isObject(fields{"voice": isVoice, "format": isFormat})}),
		"tools":       isTools,
		"tool_choice": isToolChoice, "parallel_tool_calls": isBool,
		"reasoning":         isAny,
		"max_output_tokens": isMaxTokens, "conversation": isOneOf("auto", "none"), "input": isAny,
		"metadata": nullable(isMetadata), "prompt": isAny,
	}))},
	realtime.TypeResponseCancel:    {"response_id": isString},
	realtime.TypeOutputBufferClear: {},
	realtime.TypeInputAppend:       {"audio": isString},
	realtime.TypeInputCommit:       {},
	realtime.TypeInputClear:        {},
}

func isMetadata(param string, v any) *realtime.Error {
	o, ok := v.(object)
	if !ok {
		return wrongType(param, "an object", v)
	}
	if len(o) > 16 {
		return refuse("invalid_value", param, "Invalid '%s': at most 16 pairs are allowed.", param)
	}
	for name, v := range o {
		if err := isString(param+"."+name, v); err != nil {
			return err
		}
	}
	return nil
}

func isEventID(param string, v any) *realtime.Error {
	id, ok := v.(string)
	if !ok {
		return wrongType(param, "a string", v)
	}
	if len(id) > maxEventID {
		return refuse("string_above_max_length", param,
			"Invalid '%s': string too long. Expected a string with maximum length %d.", param, maxEventID)
	}
	return nil
}

// receive handles one client event, and answers one that is refused with an error.
func (s *Session) receive(raw []byte) {
	e, err := realtime.Decode(raw)
	if err != nil {
		e = realtime.Event{Raw: raw}
	}
	number := s.received.add(e)
	refusal := s.handle(e, err)
	if refusal == nil {
		return
	}
	refusal.EventID = e.EventID
	s.received.refuse(number, refusal.Code)
	s.wire.refuse(refusal)
}

func (s *Session) handle(e realtime.Event, decodeErr error) *realtime.Error {
	switch {
	case errors.Is(decodeErr, realtime.ErrNoType):
		return refuse("missing_required_parameter", "type", "Missing required parameter: 'type'.")
	case decodeErr != nil:
		return refuse("invalid_event", "", "The event could not be parsed: %v.", decodeErr)
	}
	schema, ok := clientSchema[e.Type]
	if !ok {
		return refuse("invalid_value", "type", "Invalid value: '%s'. Supported values are: '%s'.", e.Type, strings.Join(slices.Sorted(maps.Keys(clientSchema)), "', '"))
	}
	o, err := readObject(e.Raw)
	if err != nil {
		return refuse("invalid_event", "", "The event could not be parsed.")
	}
	if id, ok := o["event_id"]; ok && id != nil {
		if refusal := isEventID("event_id", id); refusal != nil {
			return refusal
		}
	}
	delete(o, "type")
	delete(o, "event_id")
	if refusal := schema.of("", o); refusal != nil {
		return refusal
	}
	return s.act(e, o)
}

func (s *Session) act(e realtime.Event, o object) *realtime.Error {
	switch e.Type {
	case realtime.TypeSessionUpdate:
		return s.updateSession(o)
	case realtime.TypeItemCreate:
		return s.items.create(e, o)
	case realtime.TypeItemRetrieve:
		return s.items.retrieve(e.ItemID)
	case realtime.TypeItemDelete:
		return s.items.delete(e.ItemID)
	case realtime.TypeItemTruncate:
		return s.items.truncate(e)
	case realtime.TypeResponseCreate:
		if s.items.model != nil && s.items.model.Respond() {
			return nil
		}
		params, _ := o["response"].(object)
		return s.responder.request(params)
	case realtime.TypeResponseCancel:
		return s.responder.cancelByClient(e.ResponseID)
	case realtime.TypeOutputBufferClear:
		s.player.clear()
	case realtime.TypeInputAppend:
		return refuse("invalid_value", "type", "Audio comes by RTP on a WebRTC connection, not by '%s'.", e.Type)
	case realtime.TypeInputCommit:
		return s.listener.commitInput()
	case realtime.TypeInputClear:
		s.listener.clear()
	}
	return nil
}

func (s *Session) updateSession(o object) *realtime.Error {
	patch, ok := o["session"].(object)
	if !ok {
		return refuse("missing_required_parameter", "session", "Missing required parameter: 'session'.")
	}
	if s.refused < s.faults.RejectSessionUpdate {
		s.refused++
		return refuse("invalid_value", "session", "The update was refused on purpose.")
	}
	_, changesTurns := lookup(patch, "audio", "input", "turn_detection")
	if err := s.set.update(patch, true, s.player.spoken); err != nil {
		return err
	}
	if !s.updated {
		s.updated = true
		s.early.Store(s.AudioPackets())
	}
	if changesTurns {
		s.listener.configure()
	}
	if s.faults.MuteUpdates {
		return nil
	}
	s.wire.emit(object{"type": realtime.TypeSessionUpdated, "session": s.set.shown})
	return nil
}

// open starts the session when it is connected.
func (s *Session) open() {
	s.opened = true
	if s.player.continuous {
		s.player.resume(time.Now())
	}
	s.wire.emit(object{"type": realtime.TypeSessionCreated, "session": s.set.shown})
	if s.faults.ConversationEvent {
		s.wire.emit(object{"type": realtime.TypeConversationCreated, "conversation": object{"id": s.responder.conversationID, "object": "realtime.conversation"}})
	}
	s.clock.after(s.maxDuration, s.expire)
	if d := s.faults.ExpireAfter; d > 0 {
		s.clock.after(d, s.expire)
	}
	if d := s.faults.DropAfter; d > 0 {
		s.clock.after(d, func() { s.end(ErrDropped) })
	}
	if d := s.faults.SilenceAfter; d > 0 {
		s.clock.after(d, func() { s.wire.silent = true })
	}
	for _, raw := range s.pending {
		s.receive(raw)
	}
	s.pending = nil
}

func (s *Session) message(raw []byte) {
	if !s.opened {
		s.pending = append(s.pending, raw)
		return
	}
	s.receive(raw)
}
