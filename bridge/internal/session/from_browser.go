package session

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"voicebridge/realtime"
	"voicebridge/thread"
)

// browser takes one event of the browser or a sideband. Nothing in it reaches the upstream unless a case lets it
// through, and then in a new event.
func (s *State) browser(in BrowserEvent) {
	if s.phase >= draining {
		return
	}
	s.told(in.Side).Sent = in.Sent
	nameless := asker(in.Side, "")
	ev, err := realtime.Decode(in.Data)
	if errors.Is(err, realtime.ErrNoType) {
		s.refuse(asker(in.Side, eventIDOf(in.Data)), codeNotAllowed, "The event has no type.", "type")
		return
	}
	if err != nil {
		s.refuse(nameless, "invalid_event", "The event cannot be read: "+err.Error()+".", "")
		return
	}
	if utf8.RuneCountInString(ev.EventID) > realtime.MaxEventID {
		s.refuse(nameless, "invalid_value", fmt.Sprintf("event_id is longer than %d characters.", realtime.MaxEventID),
			"event_id")
		return
	}
	ev.EventID = asker(in.Side, ev.EventID)
	limit := MaxInputText
	if in.Server {
		limit = maxResponse
	}
	if n := max(len(ev.Response), len(ev.ResponseID)); n > limit {
		s.refuse(ev.EventID, "event_too_large", fmt.Sprintf("The response has %d bytes; the limit is %d.", n, limit),
			"response")
		return
	}
	if ev.Malformed != nil {
		s.refuse(ev.EventID, "invalid_event", "The event cannot be read: "+ev.Malformed.Error()+".", "")
		return
	}
	switch ev.Type {
	case realtime.TypeSessionUpdate:
		s.settings.request(ev.EventID, ev.Session, s.playback.started)
	case realtime.TypeItemRetrieve:
		s.view.retrieve(ev)
	default:
		switch {
		case s.phase == live && s.up.gone &&
			(ev.Type == realtime.TypeResponseCancel || ev.Type == realtime.TypeOutputBufferClear):
			s.answers.notAgain() // the answer is over already
		case s.mustWait(ev) && !s.isForTool(ev):
			s.texts.postpone(ev, in)
		default:
			s.allow(ev, in)
		}
	}
}

// eventIDOf reads the event_id of an object that is not a valid event.
func eventIDOf(data []byte) string {
	var o struct {
		EventID string `json:"event_id"`
	}
	if json.Unmarshal(data, &o) != nil || utf8.RuneCountInString(o.EventID) > realtime.MaxEventID {
		return ""
	}
	return o.EventID
}

// mustWait reports whether an event has to wait for the session: a commit also for what the caller has said in push to
// talk while there was none, and what follows the commit with it.
func (s *State) mustWait(ev realtime.Event) bool {
	return !s.listening() ||
		s.renewal.releasing && (ev.Type == realtime.TypeInputCommit || len(s.texts.backlog.events) > 0)
}

// isForTool reports whether an event is about a tool call, which goes on while the upstream is
// replaced.
func (s *State) isForTool(ev realtime.Event) bool {
	if s.phase != live {
		return false
	}
	if ev.Type == realtime.TypeItemCreate {
		item, err := realtime.DecodeItem(ev.Item)
		return err == nil && item.Type == realtime.ItemFunctionCallOutput
	}
	return strings.HasPrefix(ev.Type, "bridge.tool.")
}

// allow lists what a browser may do once the session is ready.
func (s *State) allow(ev realtime.Event, in BrowserEvent) {
	switch ev.Type {
	case realtime.TypeItemCreate:
		s.createItem(ev, in)
	case realtime.TypeResponseCreate:
		who := realtime.ByClient
		if in.Server {
			who = realtime.ByApp
		}
		fields, refused := readResponse(ev.Response, who)
		if refused != "" {
			s.refuse(ev.EventID, codeNotAllowed,
				"In response only "+strings.Join(responseFields(who), ", ")+" are allowed.", refused)
			return
		}
		if list, ok := fields[setTools]; ok {
			fields[setTools] = s.settings.toolsOfResponse(ev.EventID, list)
		}
		s.settings.keepFixed(fields)
		batch, onItsWay := s.tools.onItsWay()
		s.answers.clientWantsAnswer(ev.EventID, fields, batch, onItsWay)
	case realtime.TypeResponseCancel:
		s.cancelAnswer(ev, s.told(in.Side))
	case realtime.TypeOutputBufferClear:
		if s.up.can.OutputBuffer {
			s.up.send(realtime.OutputAudioBufferClear(s.forClient(ev)))
		} else {
			s.playback.audioCleared("")
		}
	case realtime.TypeInputCommit:
		s.asksAnew()
		s.speech.heldTill = s.now.Add(createTimeout)
		s.up.send(realtime.InputAudioBufferCommit(s.forClient(ev)))
	case realtime.TypeInputClear:
		s.speech.heldFrom, s.speech.heldTill = s.now, s.now.Add(speechTimeout)
		if !s.renewal.releasing { // a new session has nothing but what the caller says now
			s.up.send(realtime.InputAudioBufferClear(s.forClient(ev)))
		}
	case "bridge.tool.approve":
		s.tools.decide(ev, true)
	case "bridge.tool.deny":
		s.tools.decide(ev, false)
	case "bridge.tool.cancel":
		s.tools.cancel(ev)
	case realtime.TypeItemDelete:
		if !in.Server {
			s.refuseType(ev)
			return
		}
		s.deleteItem(ev, in)
	default:
		if s.BrowserPlays && in.Side == 0 && ev.Type == realtime.TypeItemTruncate {
			s.truncate(ev)
			return
		}
		s.refuseType(ev)
	}
}

func (s *State) refuseType(ev realtime.Event) {
	s.refuse(ev.EventID, codeNotAllowed, fmt.Sprintf("The event type %q is not allowed.", clip(ev.Type)), "type")
}

// deleteItem takes conversation.item.delete: the model forgets the item, and no session is told of its message again,
// which stays in the thread.
func (s *State) deleteItem(ev realtime.Event, in BrowserEvent) {
	it := s.transcript.items[ev.ItemID]
	if it == nil || it.seeded || it.raw.Type == "" || s.tools.hides(&it.raw, in.Side) {
		s.refuse(ev.EventID, "item_delete_invalid_item_id",
			fmt.Sprintf("There is no item %q in this call.", clip(ev.ItemID)), "item_id")
		return
	}
	s.stopHeard(it, in.Side)
	if m := it.message; m != nil && m.item == it {
		m.note(thread.MetadataDeleted, true)
	}
	switch {
	case it.gen == s.up.gen && s.up.can.Deletion:
		id := s.up.eventID(sentEvent{kind: sentDelete, clientID: ev.EventID, forClient: true})
		s.up.send(realtime.ItemDelete(id, s.up.names.theirs(it.id)))
		return
	case it.gen == s.up.gen && s.listening() && s.renewal.reason == EndNone:
		s.renewal.begin(RenewPlanned) // the next session is not told of it
	}
	s.notify(map[string]any{"type": realtime.TypeItemDeleted, "event_id": s.ownEventID(), "item_id": it.id})
	s.view.deleted(it.id)
}

// TonePrefix begins the ids under which a client that plays answers itself gets the tone of a tool that takes long.
const TonePrefix = "tone_"

// truncate takes conversation.item.truncate of a client that plays answers itself. Where the upstream does not take it,
// or has cut the answer shorter on its own, the answer is ours.
func (s *State) truncate(ev realtime.Event) {
	if strings.HasPrefix(ev.ItemID, TonePrefix) {
		return
	}
	it := s.transcript.items[ev.ItemID]
	if it == nil || it.seeded || it.message == nil || it.message.role != thread.RoleAssistant || it.message.silent {
		s.refuse(ev.EventID, "item_truncate_invalid_item_id",
			fmt.Sprintf("There is no spoken answer %q in this call.", clip(ev.ItemID)), "item_id")
		return
	}
	if ev.AudioEndMS < 0 {
		s.refuse(ev.EventID, "invalid_value", "The answer cannot have been heard for less than 0 ms.", "audio_end_ms")
		return
	}
	m, heard := it.message, ev.AudioEndMS
	s.stopHeard(it, 0)
	// A client that counts on by its clock, beyond the end, cuts nothing off, which upstreams call an error.
	if all := m.sound.Milliseconds(); m.meta.Status == thread.StatusCompleted && all > 0 && heard > all {
		s.tellTruncated(it, all)
		return
	}
	shorter := m.exact && m.meta.AudioEndMS != nil && *m.meta.AudioEndMS <= heard
	if !shorter && s.up.can.Duplex { // it knows what it has said, and not how late the client plays that
		_ = s.playback.truncated(&event{Event: ev}, it)
	}
	if !shorter && s.up.can.Truncation && s.listening() {
		id := s.up.eventID(sentEvent{kind: sentTruncate, clientID: ev.EventID, forClient: true, itemID: ev.ItemID})
		s.up.send(realtime.ItemTruncate(id, s.up.names.theirs(ev.ItemID), heard))
		return
	}
	if !shorter {
		_ = s.playback.truncated(&event{Event: ev}, it)
	}
	s.tellTruncated(it, heard)
}

// tellTruncated tells the client how much was heard of an answer: as much as it says, unless more is known.
func (s *State) tellTruncated(it *item, heard int64) {
	if end := it.message.meta.AudioEndMS; end != nil {
		heard = *end
	}
	s.notify(truncatedEvent{
		Type: realtime.TypeItemTruncated, EventID: s.ownEventID(), ItemID: it.id, AudioEndMS: heard,
	})
}

// cancelAnswer takes response.cancel. The answers that a client hears, or has not been told the end of, end for it even
// if they are complete; an answer that it was not told of is not meant. One that has ended while the client's event was
// on its way is as the client wants it, so no error says that there is none: the upstream and a client stop for the same
// speech.
func (s *State) cancelAnswer(ev realtime.Event, t *told) {
	meant := slices.DeleteFunc(slices.Clone(t.Pending),
		func(id string) bool { return ev.ResponseID != "" && ev.ResponseID != id })
	switch {
	case len(meant) > 0:
	case s.answers.justEnded(t):
		s.up.cancel(ev.ResponseID)
		return
	default:
		id := s.up.eventID(sentEvent{kind: sentCancel, clientID: ev.EventID, forClient: true})
		s.up.send(realtime.ResponseCancel(id, s.up.names.theirs(ev.ResponseID)))
		return
	}
	for _, id := range meant {
		if s.answers.active == id {
			s.up.cancel(id) // it may be complete just now, which is not the client's concern
		}
		s.silence(id, realtime.TypeResponseCancel)
	}
}

// stopHeard ends the answer of an item, if that client hears it or is to hear it.
func (s *State) stopHeard(it *item, side int) {
	if r := it.message.of(); r != nil && slices.Contains(s.told(side).Pending, r.id) {
		s.silence(r.id, realtime.TypeOutputBufferClear)
	}
}

// silence ends an answer that is heard, for a client that plays by its own clock: at once there, as why says, and with
// the upstream, unless the next answer would be lost with it.
func (s *State) silence(id, why string) {
	s.sendTo(0, encode(map[string]any{"type": why, "response_id": id}), false)
	isNext := func(r *response) bool { return r.id != id && len(r.messages) > 0 }
	if s.answers.active != "" && s.answers.active != id || slices.ContainsFunc(s.playback.queued(), isNext) {
		s.playback.cutOff(id)
	} else {
		s.playback.clear()
	}
}

// forClient returns the id of the event by which one of the browser's is passed on.
func (s *State) forClient(ev realtime.Event) string {
	return s.up.eventID(sentEvent{kind: sentOther, clientID: ev.EventID, forClient: true})
}

// responseFields are what a client may set in the response that it asks for.
func responseFields(who realtime.Who) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(realtime.ResponseFields.Fields)), func(name string) bool {
		return realtime.ResponseFields.Fields[name].Who < who
	})
}

// readResponse reads the response object of a response.create. refused names what is not allowed in
// it.
func readResponse(raw json.RawMessage, who realtime.Who) (fields map[string]json.RawMessage, refused string) {
	if len(raw) == 0 {
		return nil, ""
	}
	_ = json.Unmarshal(raw, &fields) // it was decoded before
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if realtime.ResponseFields.Fields[name].Who < who {
			return nil, "response." + clip(name)
		}
	}
	return fields, ""
}

// createItem takes a user's text or the output of a client tool, and of an application's server any text.
func (s *State) createItem(ev realtime.Event, in BrowserEvent) {
	var it clientItem
	if ev.Item == nil || json.Unmarshal(ev.Item, &it) != nil {
		s.refuse(ev.EventID, "invalid_value", "item cannot be read.", "item")
		return
	}
	switch {
	case in.Server && s.tools.handOver(ev, it, in):
	case it.Type == realtime.ItemFunctionCallOutput:
		s.tools.clientOutput(clientAnswer{ev.EventID, it.ID, it.CallID, outputText(it.Output), in.Server})
	case it.Type == realtime.ItemMessage && it.Role == string(thread.RoleUser):
		s.texts.fromBrowser(ev, it, in, s.tools.asksClient(in.Side))
	case it.Type == realtime.ItemMessage && in.Server && slices.Contains(roles, thread.Role(it.Role)):
		s.texts.fromBrowser(ev, it, in, false)
	default:
		s.refuse(ev.EventID, codeNotAllowed, "Only messages of the user and outputs of client tools can be created.",
			"item")
	}
}

// roles are those of whose texts an application's server may create.
var roles = []thread.Role{thread.RoleSystem, thread.RoleAssistant}
