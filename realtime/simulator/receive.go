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
var clientSchema = map[string]check{
	realtime.TypeSessionUpdate: fields{"session": isMap}.with("session"),
	realtime.TypeItemCreate:    fields{"item": isMap, "previous_item_id": nullable(isString)}.with("item"),
	realtime.TypeItemRetrieve:  fields{"item_id": isString}.with("item_id"),
	realtime.TypeItemDelete:    fields{"item_id": isString}.with("item_id"),
	realtime.TypeItemTruncate: fields{
		"item_id": isString, "content_index": isInteger(0, 100), "audio_end_ms": isInteger(0, 1e9),
	}.with("item_id", "content_index", "audio_end_ms"),
	realtime.TypeResponseCreate: isObject(fields{"response": nullable(isObject(fields{
		"instructions": isString, "output_modalities": isModalities,
		"audio":       isObject(fields{"output": isObject(fields{"voice": isVoice, "format": isFormat})}),
		"tools":       isTools,
		"tool_choice": isToolChoice, "parallel_tool_calls": isBool,
		"reasoning":         nullable(isReasoning),
		"max_output_tokens": isMaxTokens, "conversation": isOneOf("auto", "none"), "input": isList(isMap),
		"metadata": nullable(isMetadata), "prompt": nullable(isPrompt),
	}))}),
	realtime.TypeResponseCancel:    isObject(fields{"response_id": isString}),
	realtime.TypeOutputBufferClear: isObject(nil),
	realtime.TypeInputAppend:       isObject(fields{"audio": isString}),
	realtime.TypeInputCommit:       isObject(nil),
	realtime.TypeInputClear:        isObject(nil),
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
		if refusal := isUpTo(maxEventID)("event_id", id); refusal != nil {
			return refusal
		}
	}
	delete(o, "type")
	delete(o, "event_id")
	if refusal := schema("", o); refusal != nil {
		return refusal
	}
	return s.act(e, o)
}

func (s *Session) act(e realtime.Event, o object) *realtime.Error {
	switch e.Type {
	case realtime.TypeSessionUpdate:
		return s.updateSession(o["session"].(object))
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

func (s *Session) createResponse(params object) *realtime.Error {
	if err := s.set.checkResponse(params, s.player.spoken); err != nil {
		return err
	}
	context, err := s.items.context(params)
	if err != nil {
		return err
	}
	return s.responder.request(params, context)
}

func (s *Session) updateSession(patch object) *realtime.Error {
	if s.refused < s.faults.RejectSessionUpdate {
		s.refused++
		return refuse("invalid_value", "session", "The update was refused on purpose.")
	}
	_, changesTurns := lookup(patch, "audio", "input", "turn_detection")
	if err := s.set.update(patch, progress{created: true, spoken: s.player.spoken, answering: s.responder.active != nil}); err != nil {
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
