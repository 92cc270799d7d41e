package session

import (
	"cmp"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"

	"voicebridge/persistence"
	"voicebridge/realtime"
	"voicebridge/thread"
)

// texts are the user's texts, typed in the browser or elsewhere, and what waits for a session to be said in.
type texts struct {
	*line
	transcript *transcript
	answers    *responses
	limiter    *limiter
	view       *view
	backlog    backlog
	delivered  map[string]*message // by message id
}

// fromBrowser takes a text of the browser. Those of the system and the assistant are no turn. asks means that a tool
// waits for its answer: images without words are a part of that.
func (t *texts) fromBrowser(ev realtime.Event, it clientItem, in BrowserEvent, asks bool) {
	if e := t.refusal(ev, it, in); e != nil {
		t.refuse(ev.EventID, e.Code, e.Message, e.Param)
		return
	}
	text, _ := it.text()
	role := thread.Role(it.Role)
	ofTool := role != thread.RoleUser || asks && strings.TrimSpace(text) == ""
	id := it.ID
	if id == "" {
		id = t.nextItemID()
	}
	if !ofTool {
		t.asksAnew()
		t.told(in.Side).typed = id
	}
	messageID := cmp.Or(in.MessageID, t.textID(it.ID), t.newID())
	sent := sentEvent{kind: sentText, clientID: ev.EventID, forClient: true, ofTool: ofTool, role: role}
	if t.told(in.Side).isEnd(ev.PreviousItemID, t.now) {
		t.told(in.Side).made = id
	} else {
		t.place(id, ev.PreviousItemID)
		sent.after = t.up.after(t.transcript.items[ev.PreviousItemID])
	}
	t.send(ServerText{MessageID: messageID, Text: text, Images: in.Images}, id, sent)
}

// refusal returns why a text of the browser is not taken; nil if it is.
func (t *texts) refusal(ev realtime.Event, it clientItem, in BrowserEvent) *realtime.Error {
	text, bad := it.text()
	switch {
	case bad >= 0:
		return &realtime.Error{
			Code: codeNotAllowed, Message: "Only text is allowed as content, and images of the user.",
			Param: fmt.Sprintf("item.content[%d].type", bad),
		}
	case in.BadImage != "":
		return &realtime.Error{Code: "invalid_image", Message: in.BadImage, Param: "item.content"}
	case strings.TrimSpace(text) == "" && len(in.Images) == 0:
		return &realtime.Error{Code: "invalid_value", Message: "The text is empty.", Param: "item.content"}
	case len(text) > MaxInputText:
		return &realtime.Error{
			Code:    "text_too_long",
			Message: fmt.Sprintf("The text has %d bytes; the limit is %d.", len(text), MaxInputText),
			Param:   "item.content",
		}
	case !t.told(in.Side).isEnd(ev.PreviousItemID, t.now) && !t.view.knows(in.Side, ev.PreviousItemID):
		return &realtime.Error{
			Code: "item_not_found", Param: "previous_item_id",
			Message: fmt.Sprintf("There is no item %q in this call.", clip(ev.PreviousItemID)),
		}
	case it.ID != "" && (!t.transcript.isFree(it.ID) || t.delivered[t.textID(it.ID)] != nil):
		return &realtime.Error{
			Code: "invalid_value", Message: "item.id is taken or is not 1 to 32 characters of A-Z a-z 0-9 _ -.",
			Param: "item.id",
		}
	}
	return nil
}

// place puts the item of a text where a client wants it: after another one, or before all of the call's with [root].
func (t *texts) place(id, previous string) {
	it := t.transcript.item(id)
	if previous == root {
		previous = ""
	}
	t.transcript.put(it, previous)
	it.linked = true
}

// send sends a text upstream. Its message is written once the upstream has it, because only then
// is its place known; at the end if the upstream does not say.
func (t *texts) send(in ServerText, itemID string, sent sentEvent) {
	it := t.transcript.item(itemID)
	role, source := cmp.Or(sent.role, thread.RoleUser), cmp.Or(in.Source, thread.SourceText)
	kind := realtime.ContentInputText
	if role != thread.RoleUser {
		source = thread.SourceAPI
	}
	if role == thread.RoleAssistant {
		kind = realtime.ContentOutputText
	}
	it.raw = realtime.Item{
		ID: itemID, Type: realtime.ItemMessage, Role: string(role),
		Content: []realtime.Content{{Type: kind, Text: in.Text}},
	}
	m := t.transcript.newMessage(it, role, source)
	m.silent = role == thread.RoleAssistant
	m.id, m.queued = in.MessageID, in.Queued
	m.meta.Extra = in.Extra
	m.setText(0, in.Text)
	if m.masked = t.MaskKeys && source == thread.SourceKeys; m.masked {
		m.setText(0, maskedKeys)
		t.transcript.secrets = append(t.transcript.secrets, secretsOf(in.Text)...)
	}
	m.show(in.Images)
	t.delivered[m.id] = m
	m.meta.Status, m.flushAt = thread.StatusCompleted, t.now.Add(ackTimeout)
	sent.itemID, sent.images = itemID, len(in.Images) > 0
	item := it.raw
	if role == thread.RoleUser {
		item.Content = contentOf(in, t.up.can.Images)
	}
	event := realtime.ItemCreate(t.up.eventID(sent), item, sent.after)
	if len(event) > t.up.limit {
		t.refused(sent, &realtime.Error{Code: "text_too_long", Message: "The text is too long for the upstream."})
		return
	}
	t.limiter.heard()
	if !sent.ofTool {
		t.countTurn()
		t.answers.rounds = 0
		t.answers.turnEnded(t.now)
	}
	t.up.send(event)
}

// refused handles a typed text that the upstream refused. If it had images, it is sent again without them;
// otherwise it is saved as failed, and the browser is told.
func (t *texts) refused(sent sentEvent, e *realtime.Error) {
	waiting := t.answers.drop(sent.itemID)
	it := t.transcript.items[sent.itemID]
	open := it != nil && it.message != nil && !it.message.placed
	if open && sent.images && it.message.text() != "" && t.listening() {
		t.log(slog.LevelWarn, "images refused by the upstream", "code", e.Code, "error", e.Message)
		sent.images = false
		if len(waiting) == 0 {
			waiting = []need{{id: sent.itemID}}
		}
		t.answers.need(waiting[0])
		t.up.send(realtime.ItemCreate(t.up.eventID(sent), it.raw, sent.after))
		return
	}
	if open {
		t.transcript.writeRefused(it.message)
	}
	t.sendError(*e, sent.clientOf())
	for _, n := range waiting {
		for _, id := range n.eventIDs {
			t.sendError(*e, id) // no response comes for these
		}
	}
}

// postpone keeps an event until the session is ready.
func (t *texts) postpone(ev realtime.Event, in BrowserEvent) {
	if ev.Type == realtime.TypeItemCreate && in.MessageID == "" {
		in.MessageID = t.saveWaiting(ev, in)
	}
	if t.backlog.full(in) {
		t.refuse(ev.EventID, "too_many_events", "The session is not ready yet, and no more events can be held for it.",
			"")
		return
	}
	t.backlog.events = append(t.backlog.events, in)
	t.backlog.bytes += len(in.Data)
}

// saveWaiting saves the user's text in an event that has to wait, and returns the id of its message; empty if there is
// none. A session may be long in coming, and this process may end before.
func (t *texts) saveWaiting(ev realtime.Event, in BrowserEvent) string {
	var it clientItem
	if t.backlog.full(in) || json.Unmarshal(ev.Item, &it) != nil || it.Type != realtime.ItemMessage ||
		it.Role != string(thread.RoleUser) || t.refusal(ev, it, in) != nil {
		return ""
	}
	text, _ := it.text()
	m := t.transcript.unplaced(&item{id: it.ID}, thread.RoleUser, thread.SourceText)
	m.id, m.meta.Status = cmp.Or(t.textID(it.ID), m.id), thread.StatusCompleted
	m.setText(0, text)
	m.show(in.Images)
	t.transcript.save(persistence.PutMessage{
		Message: thread.Message{ID: m.id, Role: m.role, Parts: m.parts(), Metadata: m.meta},
		Place:   persistence.Place{How: persistence.PlaceLast},
	})
	return m.id
}

// textID returns the id of the message of a text that the browser sends in an item with an id of its choice; empty
// without one. It is that of an idempotency key, so that the client can send by HTTP once more what may be lost.
func (t *texts) textID(itemID string) string {
	if itemID == "" {
		return ""
	}
	return persistence.OnceID(t.Key.Thread, t.CallID+"/"+itemID)
}

// contentOf returns a text with its images for the upstream; shown means that it can show them.
func contentOf(in ServerText, shown bool) []realtime.Content {
	var content []realtime.Content
	if in.Text != "" {
		content = append(content, realtime.Content{Type: realtime.ContentInputText, Text: in.Text})
	}
	for _, i := range in.Images {
		if i.URL != "" && shown {
			content = append(content, realtime.Content{Type: realtime.ContentInputImage, ImageURL: i.URL})
		} else {
			content = append(content,
				realtime.Content{Type: realtime.ContentInputText, Text: "(An image that cannot be shown.)"})
		}
	}
	return content
}

// say puts text into the conversation and asks for an answer.
func (t *texts) say(in ServerText) {
	if t.phase >= draining {
		return
	}
	if m := t.delivered[in.MessageID]; m != nil { // it is not said again, but saved, as its queue may not know
		if m.queued = in.Queued; m.placed {
			t.transcript.write(m)
		}
		return
	}
	if !t.listening() {
		t.backlog.texts = append(t.backlog.texts, in)
		return
	}
	itemID := t.nextItemID()
	t.answers.need(need{id: itemID}) // before a refusal drops it
	t.send(in, itemID, sentEvent{kind: sentText})
}

// saveBacklog saves the browser's texts that were waiting for a session, and tells the browser. Texts from elsewhere
// are left to their senders, who learn that there is no call.
func (t *texts) saveBacklog() {
	for _, e := range t.backlog.events {
		ev, err := realtime.Decode(e.Data)
		var it clientItem
		if e.MessageID == "" || t.delivered[e.MessageID] != nil || err != nil || json.Unmarshal(ev.Item, &it) != nil {
			continue
		}
		text, _ := it.text()
		m := t.transcript.newMessage(t.transcript.item(t.nextItemID()), thread.RoleUser, thread.SourceText)
		m.id, t.delivered[e.MessageID] = e.MessageID, m
		m.setText(0, text)
		m.show(e.Images)
		t.transcript.writeRefused(m)
		t.refuse(ev.EventID, "call_ended", "The call ended before the text could be said. It is saved in the thread.",
			"")
	}
	t.backlog = backlog{}
}

// backlog is what waits for a ready session: events of the browser, and texts from elsewhere.
type backlog struct {
	events []BrowserEvent
	bytes  int
	texts  []ServerText
	// written are messages of the thread that the first session should get.
	written []thread.Message
}

// full reports whether there is no room for an event.
func (b *backlog) full(e BrowserEvent) bool {
	return len(b.events) >= maxBacklogEvents || b.bytes+len(e.Data) > maxBacklogBytes
}
