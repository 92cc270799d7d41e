package session

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"voicebridge/persistence"
	"voicebridge/realtime"
	"voicebridge/thread"
)

// browser takes one event of the browser. Nothing in it reaches the upstream unless a case lets it through, and then in
// a new event.
func (s *State) browser(in BrowserEvent) {
	if s.phase >= draining {
		return
	}
	ev, err := realtime.Decode(in.Data)
	if errors.Is(err, realtime.ErrNoType) {
		s.refuse(eventIDOf(in.Data), codeNotAllowed, "The event has no type.", "type")
		return
	}
	if err != nil {
		s.refuse("", "invalid_event", "The event cannot be read: "+err.Error()+".", "")
		return
	}
	if utf8.RuneCountInString(ev.EventID) > realtime.MaxEventID {
		s.refuse("", "invalid_value", fmt.Sprintf("event_id is longer than %d characters.", realtime.MaxEventID), "event_id")
		return
	}
	if n := max(len(ev.Response), len(ev.ResponseID)); n > MaxInputText {
		s.refuse(ev.EventID, "event_too_large", fmt.Sprintf("The response has %d bytes; the limit is %d.", n, MaxInputText), "response")
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
		s.retrieve(ev)
	default:
		switch {
		case s.phase == live && s.up.gone && (ev.Type == realtime.TypeResponseCancel || ev.Type == realtime.TypeOutputBufferClear):
			s.answers.notAgain() // the answer is over already
		case s.mustWait(ev) && !s.isForTool(ev):
			s.postpone(ev, in)
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

// mustWait reports whether an event has to wait for the session: a commit also for what the caller has said in push to talk
// while there was none, and what follows the commit with it.
func (s *State) mustWait(ev realtime.Event) bool {
	return !s.listening() || s.releasing && (ev.Type == realtime.TypeInputCommit || len(s.backlog.events) > 0)
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

// postpone keeps an event until the session is ready.
func (s *State) postpone(ev realtime.Event, in BrowserEvent) {
	if ev.Type == realtime.TypeItemCreate && in.MessageID == "" {
		in.MessageID = s.saveWaiting(ev, in)
	}
	if !s.backlog.add(in) {
		s.refuse(ev.EventID, "too_many_events", "The session is not ready yet, and no more events can be held for it.", "")
	}
}

// saveWaiting saves the user's text in an event that has to wait, and returns the id of its message; empty if there is none.
// A session may be long in coming, and this process may end before.
func (s *State) saveWaiting(ev realtime.Event, in BrowserEvent) string {
	var it clientItem
	if s.backlog.full(in) || json.Unmarshal(ev.Item, &it) != nil || it.Type != realtime.ItemMessage || it.Role != string(thread.RoleUser) || s.refusal(ev, it, in) != nil {
		return ""
	}
	text, _ := it.text()
	m := s.transcript.unplaced(&item{id: it.ID}, thread.RoleUser, thread.SourceText)
	m.id, m.meta.Status = cmp.Or(s.textID(it.ID), m.id), thread.StatusCompleted
	m.setText(0, text)
	m.show(in.Images)
	s.transcript.save(persistence.PutMessage{Message: thread.Message{ID: m.id, Role: m.role, Parts: m.parts(), Metadata: m.meta}, Place: persistence.Place{How: persistence.PlaceLast}})
	return m.id
}

// allow lists what a browser may do once the session is ready.
func (s *State) allow(ev realtime.Event, in BrowserEvent) {
	switch ev.Type {
	case realtime.TypeItemCreate:
		s.createItem(ev, in)
	case realtime.TypeResponseCreate:
		fields, refused := readResponse(ev.Response)
		if refused != "" {
			s.refuse(ev.EventID, codeNotAllowed, "In response only "+strings.Join(responseFields, ", ")+" are allowed.", refused)
			return
		}
		s.settings.keepFixed(fields)
		s.answers.clientWantsAnswer(ev.EventID, fields, s.tools.onItsWay())
	case realtime.TypeResponseCancel:
		s.up.send(realtime.ResponseCancel(s.forClient(ev), s.up.names.theirs(ev.ResponseID)))
	case realtime.TypeOutputBufferClear:
		s.up.send(realtime.OutputAudioBufferClear(s.forClient(ev)))
	case realtime.TypeInputCommit:
		s.answers.clientCreate = false
		s.heldTill = s.now.Add(createTimeout)
		s.up.send(realtime.InputAudioBufferCommit(s.forClient(ev)))
	case realtime.TypeInputClear:
		s.heldTill = s.now.Add(speechTimeout)
		if !s.releasing { // a new session has nothing but what the caller says now
			s.up.send(realtime.InputAudioBufferClear(s.forClient(ev)))
		}
	case "bridge.tool.approve":
		s.tools.decide(ev, true)
	case "bridge.tool.deny":
		s.tools.decide(ev, false)
	case "bridge.tool.cancel":
		s.tools.cancel(ev)
	default:
		s.refuse(ev.EventID, codeNotAllowed, fmt.Sprintf("The event type %q is not allowed.", clip(ev.Type)), "type")
	}
}

// forClient returns the id of the event by which one of the browser's is passed on.
func (s *State) forClient(ev realtime.Event) string {
	return s.up.eventID(sentEvent{kind: sentOther, clientID: ev.EventID, forClient: true})
}

// responseFields are what a client may set in the response that it asks for.
var responseFields = slices.DeleteFunc(slices.Sorted(maps.Keys(realtime.ResponseFields.Fields)), func(name string) bool {
	return realtime.ResponseFields.Fields[name].Who < realtime.ByClient
})

// readResponse reads the response object of a response.create. refused names what is not allowed in
// it.
func readResponse(raw json.RawMessage) (fields map[string]json.RawMessage, refused string) {
	if len(raw) == 0 {
		return nil, ""
	}
	_ = json.Unmarshal(raw, &fields) // it was decoded before
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if !slices.Contains(responseFields, name) {
			return nil, "response." + clip(name)
		}
	}
	return fields, ""
}

// createItem takes a user's text or the output of a client tool.
func (s *State) createItem(ev realtime.Event, in BrowserEvent) {
	var it clientItem
	if ev.Item == nil || json.Unmarshal(ev.Item, &it) != nil {
		s.refuse(ev.EventID, "invalid_value", "item cannot be read.", "item")
		return
	}
	switch {
	case it.Type == realtime.ItemFunctionCallOutput:
		s.tools.clientOutput(ev.EventID, it.CallID, outputText(it.Output))
	case it.Type == realtime.ItemMessage && it.Role == string(thread.RoleUser):
		s.userText(ev, it, in)
	default:
		s.refuse(ev.EventID, codeNotAllowed, "Only messages of the user and outputs of client tools can be created.", "item")
	}
}

// outputText returns a tool's output as text: a string as it is, anything else as JSON.
func outputText(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	return string(raw)
}

func (s *State) userText(ev realtime.Event, it clientItem, in BrowserEvent) {
	if e := s.refusal(ev, it, in); e != nil {
		s.refuse(ev.EventID, e.Code, e.Message, e.Param)
		return
	}
	text, _ := it.text()
	s.answers.clientCreate = false
	id := it.ID
	if id == "" {
		id = s.nextItemID()
	}
	s.answers.typed = id
	messageID := cmp.Or(in.MessageID, s.textID(it.ID), s.newID())
	s.typed(ServerText{MessageID: messageID, Text: text, Images: in.Images}, id, sentEvent{kind: sentText, clientID: ev.EventID, forClient: true})
}

// refusal returns why a text of the browser is not taken; nil if it is.
func (s *State) refusal(ev realtime.Event, it clientItem, in BrowserEvent) *realtime.Error {
	text, bad := it.text()
	switch {
	case bad >= 0:
		return &realtime.Error{Code: codeNotAllowed, Message: "Only input_text and input_image are allowed as content.", Param: fmt.Sprintf("item.content[%d].type", bad)}
	case in.BadImage != "":
		return &realtime.Error{Code: "invalid_image", Message: in.BadImage, Param: "item.content"}
	case strings.TrimSpace(text) == "" && len(in.Images) == 0:
		return &realtime.Error{Code: "invalid_value", Message: "The text is empty.", Param: "item.content"}
	case len(text) > MaxInputText:
		return &realtime.Error{Code: "text_too_long", Message: fmt.Sprintf("The text has %d bytes; the limit is %d.", len(text), MaxInputText), Param: "item.content"}
	case ev.PreviousItemID != "":
		return &realtime.Error{Code: codeNotAllowed, Message: "Text can only be added at the end.", Param: "previous_item_id"}
	case it.ID != "" && (!validItemID(it.ID) || s.transcript.items[it.ID] != nil || s.delivered[s.textID(it.ID)] != nil || strings.HasPrefix(it.ID, s.ItemPrefix+"_")):
		return &realtime.Error{Code: "invalid_value", Message: "item.id is taken or is not 1 to 32 characters of A-Z a-z 0-9 _ -.", Param: "item.id"}
	}
	return nil
}

// textID returns the id of the message of a text that the browser sends in an item with an id of its choice; empty without
// one. It is that of an idempotency key, so that the client can send by HTTP once more what may be lost.
func (s *State) textID(itemID string) string {
	if itemID == "" {
		return ""
	}
	return persistence.OnceID(s.Key.Thread, s.CallID+"/"+itemID)
}

// typed sends a text upstream. Its message is written once the upstream has it, because only then
// is its place known; at the end if the upstream does not say.
func (s *State) typed(in ServerText, itemID string, sent sentEvent) {
	it := s.transcript.item(itemID)
	if n := len(s.transcript.messages); n > 0 && !s.transcript.messages[n-1].placed && s.transcript.messages[n-1].meta.Source == thread.SourceText {
		it.prev = s.transcript.messages[n-1].item.id
	}
	it.raw = realtime.Item{
		ID: itemID, Type: realtime.ItemMessage, Role: string(thread.RoleUser),
		Content: []realtime.Content{{Type: realtime.ContentInputText, Text: in.Text}},
	}
	m := s.transcript.newMessage(it, thread.RoleUser, thread.SourceText)
	m.id, m.queued, m.meta.Extra = in.MessageID, in.Queued, in.Extra
	m.setText(0, in.Text)
	m.show(in.Images)
	s.delivered[m.id] = m
	m.meta.Status, m.flushAt = thread.StatusCompleted, s.now.Add(ackTimeout)
	sent.itemID, sent.images = itemID, len(in.Images) > 0
	item := it.raw
	item.Content = contentOf(in)
	event := realtime.ItemCreate(s.up.eventID(sent), item, "")
	if len(event) > s.up.limit {
		s.textRefused(sent, &realtime.Error{Code: "text_too_long", Message: "The text is too long for the upstream."})
		return
	}
	s.record.Turns++
	s.limiter.active()
	s.answers.rounds = 0
	s.answers.ask(s.now)
	s.up.send(event)
}

// contentOf returns a text with its images for the upstream.
func contentOf(in ServerText) []realtime.Content {
	var content []realtime.Content
	if in.Text != "" {
		content = append(content, realtime.Content{Type: realtime.ContentInputText, Text: in.Text})
	}
	for _, i := range in.Images {
		if i.URL != "" {
			content = append(content, realtime.Content{Type: realtime.ContentInputImage, ImageURL: i.URL})
		} else {
			content = append(content, realtime.Content{Type: realtime.ContentInputText, Text: "(An image that cannot be shown.)"})
		}
	}
	return content
}

// textRefused handles a typed text that the upstream refused. If it had images, it is sent again without them;
// otherwise it is saved as failed, and the browser is told.
func (s *State) textRefused(sent sentEvent, e *realtime.Error) {
	waiting := s.answers.drop(sent.itemID)
	it := s.transcript.items[sent.itemID]
	open := it != nil && it.message != nil && !it.message.placed
	if open && sent.images && it.message.text() != "" && s.listening() {
		s.log(slog.LevelWarn, "images refused by the upstream", "code", e.Code, "error", e.Message)
		sent.images = false
		if len(waiting) == 0 {
			waiting = []need{{id: sent.itemID}}
		}
		s.answers.need(waiting[0])
		s.up.send(realtime.ItemCreate(s.up.eventID(sent), it.raw, ""))
		return
	}
	if open {
		s.transcript.writeRefused(it.message)
	}
	s.sendError(*e, sent.clientOf())
	for _, n := range waiting {
		for _, id := range n.eventIDs {
			s.sendError(*e, id) // no response comes for these
		}
	}
}

func validItemID(id string) bool {
	for _, c := range []byte(id) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '_', c == '-':
		default:
			return false
		}
	}
	return id != "" && len(id) <= realtime.MaxItemID
}

// retrieve answers conversation.item.retrieve for items of this call: the upstream would include
// their audio.
func (s *State) retrieve(ev realtime.Event) {
	it := s.transcript.items[ev.ItemID]
	if it == nil || it.seeded || it.raw.Type == "" || s.tools.hides(&it.raw) {
		s.refuse(ev.EventID, "item_retrieve_invalid_item_id", fmt.Sprintf("There is no item %q in this call.", clip(ev.ItemID)), "item_id")
		return
	}
	raw := it.raw
	raw.ID, raw.Object = it.id, "realtime.item"
	if m := it.message; m != nil && raw.Type == realtime.ItemMessage {
		kind := realtime.ContentInputText
		switch {
		case m.role == thread.RoleAssistant:
			kind = realtime.ContentOutputAudio
		case m.meta.Source == thread.SourceVoice:
			kind = realtime.ContentInputAudio
		}
		c := realtime.Content{Type: kind, Transcript: m.text()}
		if kind == realtime.ContentInputText {
			c = realtime.Content{Type: kind, Text: m.text()}
		}
		raw.Content = []realtime.Content{c}
	}
	s.notify(retrievedEvent{Type: realtime.TypeItemRetrieved, EventID: s.ownEventID(), Item: raw})
}
