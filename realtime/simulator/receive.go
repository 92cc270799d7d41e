package simulator

import (
	"errors"
	"strings"

	"voicebridge/realtime"
)

// clientSchema is the members of each client event beside type and event_id.
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
		"metadata": isMetadata, "prompt": isAny,
	}))},
	realtime.TypeResponseCancel:    {"response_id": isString},
	realtime.TypeOutputBufferClear: {},
	realtime.TypeInputAppend:       {"audio": isString},
	realtime.TypeInputCommit:       {},
	realtime.TypeInputClear:        {},
}

func isMetadata(param string, v any) *realtime.Error {
	if v == nil {
		return nil
	}
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

// receive handles one client event: exactly one reply, or an error.
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
	s.fail(refusal)
}

func (s *Session) fail(e *realtime.Error) {
	s.log.Debug("event refused", "code", e.Code, "param", e.Param)
	s.emit(object{"type": realtime.TypeError, "error": *e})
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
		return refuse("invalid_value", "type", "Invalid value: '%s'. Supported values are: '%s'.", e.Type, strings.Join(clientTypes(), "', '"))
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

func clientTypes() []string {
	return []string{
		realtime.TypeSessionUpdate, realtime.TypeInputAppend, realtime.TypeInputCommit, realtime.TypeInputClear,
		realtime.TypeItemCreate, realtime.TypeItemRetrieve, realtime.TypeItemTruncate, realtime.TypeItemDelete,
		realtime.TypeResponseCreate, realtime.TypeResponseCancel, realtime.TypeOutputBufferClear,
	}
}

func (s *Session) act(e realtime.Event, o object) *realtime.Error {
	switch e.Type {
	case realtime.TypeSessionUpdate:
		return s.updateSession(o)
	case realtime.TypeItemCreate:
		return s.createItem(e, o)
	case realtime.TypeItemRetrieve:
		return s.retrieveItem(e.ItemID)
	case realtime.TypeItemDelete:
		return s.deleteItem(e.ItemID)
	case realtime.TypeItemTruncate:
		return s.truncateItem(e)
	case realtime.TypeResponseCreate:
		params, _ := o["response"].(object)
		return s.requestResponse(params)
	case realtime.TypeResponseCancel:
		if s.resp == nil || (e.ResponseID != "" && e.ResponseID != s.resp.id) {
			return refuse("response_cancel_not_active", "", "Cancellation failed: no active response found")
		}
		s.cancelResponse("client_cancelled")
	case realtime.TypeOutputBufferClear:
		s.clearOutput()
	case realtime.TypeInputAppend:
		return refuse("invalid_value", "type", "Audio comes by RTP on a WebRTC connection, not by '%s'.", e.Type)
	case realtime.TypeInputCommit:
		return s.commitInput()
	case realtime.TypeInputClear:
		s.ear.clear()
		s.speaking = false
		s.emit(object{"type": realtime.TypeInputCleared})
	}
	return nil
}

func (s *Session) updateSession(o object) *realtime.Error {
	patch, ok := o["session"].(object)
	if !ok {
		return refuse("missing_required_parameter", "session", "Missing required parameter: 'session'.")
	}
	if s.updateRefused < s.faults.RejectSessionUpdate {
		s.updateRefused++
		return refuse("invalid_value", "session", "The update was refused on purpose.")
	}
	_, changesTurns := lookup(patch, "audio", "input", "turn_detection")
	if err := s.set.update(patch, true, s.spoken); err != nil {
		return err
	}
	if !s.updated {
		s.updated = true
		s.early.Store(s.ear.packets.Load())
	}
	if changesTurns {
		s.speaking = false
		s.ear.configure(s.set.turns)
	}
	if s.faults.MuteUpdates {
		return nil
	}
	s.emit(object{"type": realtime.TypeSessionUpdated, "session": s.set.shown})
	return nil
}

// lookup follows a path of objects.
func lookup(o object, path ...string) (any, bool) {
	for _, name := range path[:len(path)-1] {
		next, ok := o[name].(object)
		if !ok {
			return nil, false
		}
		o = next
	}
	v, ok := o[path[len(path)-1]]
	return v, ok
}

func (s *Session) createItem(e realtime.Event, o object) *realtime.Error {
	raw, ok := o["item"].(object)
	if !ok {
		return refuse("missing_required_parameter", "item", "Missing required parameter: 'item'.")
	}
	if s.itemsRefused < s.faults.RejectItems {
		s.itemsRefused++
		return refuse("invalid_value", "item", "The item was refused on purpose.")
	}
	it, err := s.conv.newItem(raw)
	if err != nil {
		return err
	}
	if err := s.conv.insert(it, e.PreviousItemID); err != nil {
		return err
	}
	s.emitItem(realtime.TypeItemAdded, it)
	s.emitItem(realtime.TypeItemDone, it)
	return nil
}

// emitItem announces an item with its actual predecessor.
func (s *Session) emitItem(kind string, it *item) {
	s.emit(object{"type": kind, "previous_item_id": s.conv.previous(it.id), "item": it.shown()})
}

func (s *Session) retrieveItem(id string) *realtime.Error {
	it := s.conv.find(id)
	if it == nil {
		return refuse("item_retrieve_invalid_item_id", "item_id", "Error retrieving item: the item with id '%s' does not exist.", id)
	}
	s.emit(object{"type": realtime.TypeItemRetrieved, "item": it.shown()})
	return nil
}

func (s *Session) deleteItem(id string) *realtime.Error {
	if !s.conv.remove(id) {
		return refuse("item_delete_invalid_item_id", "item_id", "Error deleting item: the item with id '%s' does not exist.", id)
	}
	s.emit(object{"type": realtime.TypeItemDeleted, "item_id": id})
	return nil
}

// truncateItem is for clients that play by themselves; on WebRTC the server
// truncates, so that this is a race at best. Only assistant audio can be cut.
func (s *Session) truncateItem(e realtime.Event) *realtime.Error {
	it := s.conv.find(e.ItemID)
	if it == nil || it.role != "assistant" || len(it.content) == 0 || it.content[0]["type"] != realtime.ContentOutputAudio {
		return refuse("item_truncate_invalid_item_id", "item_id", "Error truncating item: only assistant audio can be truncated.")
	}
	if e.AudioEndMS > it.audioMS {
		return refuse("item_truncate_invalid_audio_end_ms", "audio_end_ms",
			"Audio content of %dms is already shorter than %dms", it.audioMS, e.AudioEndMS)
	}
	s.truncated(it, e.AudioEndMS)
	return nil
}

// truncated cuts an item's audio and deletes its transcript, as the API does.
func (s *Session) truncated(it *item, audioEndMS int64) {
	it.audioMS = audioEndMS
	if len(it.content) > 0 {
		it.content = []object{{"type": realtime.ContentOutputAudio}}
	}
	s.emit(object{
		"type": realtime.TypeItemTruncated, "item_id": it.id, "content_index": 0, "audio_end_ms": audioEndMS,
	})
}
