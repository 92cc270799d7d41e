package session

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"voicebridge/realtime"
	"voicebridge/thread"
)

// view is what the browser sees of the upstream's events.
type view struct {
	*line
	transcript *transcript
	tools      *tools
	client     *clientTools
	// created and updated are what clients may see of session.created and the latest session.updated.
	created, updated []byte
}

// note records what an event has told a client.
func (v *view) note(t *told, ev *event, visible []byte) {
	switch {
	case visible == nil:
	case ev.Type == realtime.TypeItemDeleted:
		v.deleted(ev.ItemID)
	case hasPlace(ev.Type) && ev.item.ID != "":
		t.sees(ev.item.ID, textOf(realtime.Member(visible, "previous_item_id")), v.now)
	}
}

// deleted takes that the clients know that an item is gone.
func (v *view) deleted(id string) {
	for _, t := range v.clients {
		t.forgets(id)
	}
}

// knows reports whether a client may name an item as the one before its own.
func (v *view) knows(side int, id string) bool {
	it := v.transcript.items[id]
	return id == root || it != nil && !it.seeded && (it.announced || it.message != nil) && !v.tools.hides(&it.raw, side)
}

// hasPlace reports whether an event says where in the conversation its item is.
func hasPlace(kind string) bool {
	switch kind {
	case realtime.TypeItemAdded, realtime.TypeItemCreatedBeta, realtime.TypeItemDone, realtime.TypeInputCommitted:
		return true
	}
	return false
}

// textOf reads a string, empty for anything else.
func textOf(raw json.RawMessage) (text string) {
	_ = json.Unmarshal(raw, &text)
	return text
}

// outputText returns a tool's output, or its arguments, as text: a string as it is, anything else as JSON.
func outputText(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	return string(raw)
}

// placed returns an event with the item before its own that a client knows: the nearest one or, if it knows none of
// those before it, the last one that it was told of, since an upstream that is silent about the order means that of its
// words. An item that is still to come stays named.
func (v *view) placed(ev *event, side int) []byte {
	before := v.before(ev, side)
	if before == textOf(realtime.Member(ev.Raw, "previous_item_id")) {
		return ev.Raw
	}
	var value any
	if before != "" {
		value = before
	}
	return replaced(ev.Raw, "previous_item_id", encode(value))
}

func (v *view) before(ev *event, side int) string {
	t, own := v.told(side), cmp.Or(ev.item.ID, ev.ItemID)
	if before, again := t.before[own]; again {
		return before
	}
	id, named := ev.PreviousItemID, true
	if it := v.transcript.items[own]; it != nil && (it.linked || id == "") {
		if id, named = it.prev, it.linked; named && id == "" {
			return ""
		}
	}
	for range len(v.transcript.items) + 1 { // the chain may be circular
		if _, knows := t.before[id]; knows {
			return id
		}
		it := v.transcript.items[id]
		isComing := it == nil || !it.announced && !v.tools.hides(&it.raw, side)
		if named && id != "" && !v.up.isSeed(id) && isComing {
			return id
		}
		if id = ""; it != nil {
			id, named = it.prev, named && it.linked
		}
	}
	if t.before[t.last] == own {
		return ""
	}
	return t.last
}

// of returns what the browser (0) or a sideband sees of an event, nil for nothing. It does not see function calls that
// others answer, nor their outputs: clients take every function call for one that they have to run. They learn about
// these from bridge.tool events instead; not from mcp_call items, after which OpenAI's SDK asks for one more answer.
func (v *view) of(ev *event, side int) []byte {
	switch {
	case ev.Type == realtime.TypeItemRetrieved, ev.Type == realtime.TypeOutputAudioDelta,
		ev.Type == realtime.TypeOutputAudioDeltaBeta:
		return nil // they contain audio, and no client asked for them
	case strings.HasPrefix(ev.Type, "session."):
		return v.ofSession(ev, side)
	case ev.Malformed != nil:
		return ofMalformed(ev)
	case ev.Item != nil:
		if v.tools.hides(&ev.item, side) {
			return nil
		}
		if cut := v.cut(ev.Item, &ev.item); cut != nil {
			ev.Raw = replaced(ev.Raw, "item", cut)
		}
		if side == 0 && len(ev.Raw) > v.BrowserLimit && bytes.Contains(ev.Item, []byte(`"image_url"`)) {
			return withoutImages(ev)
		}
	case ev.Response != nil:
		return v.ofResponse(ev, side)
	case ev.Type == realtime.TypeFunctionArgumentsDelta, ev.Type == realtime.TypeFunctionArgumentsDone:
		call := realtime.Item{Type: realtime.ItemFunctionCall, CallID: ev.CallID, Name: ev.Name}
		if it := v.transcript.items[ev.ItemID]; it != nil {
			call.CallID, call.Name = cmp.Or(it.raw.CallID, call.CallID), cmp.Or(it.raw.Name, call.Name)
		}
		if v.tools.hides(&call, side) {
			return nil
		}
	}
	if hasPlace(ev.Type) {
		return v.placed(ev, side)
	}
	return ev.Raw
}

// ofMalformed returns what the browser sees of an event with an unreadable field: no more than of a readable one.
func ofMalformed(ev *event) []byte {
	switch ev.Type {
	case realtime.TypeItemAdded, realtime.TypeItemCreatedBeta, realtime.TypeItemDone, // perhaps for a replayed item
		// perhaps a server tool
		realtime.TypeOutputItemAdded, realtime.TypeOutputItemDone,
		realtime.TypeFunctionArgumentsDelta, realtime.TypeFunctionArgumentsDone,
		realtime.TypeResponseDone:
		return nil
	}
	return ev.Raw
}

// ofSession returns a session event without the server's instructions and others' tools, and keeps it for who joins.
func (v *view) ofSession(ev *event, side int) []byte {
	raw := ev.Raw
	if ev.Type == realtime.TypeSessionCreated {
		raw = v.withVoice(raw)
	}
	public := v.redacted(raw, v.client.isDeclared) // small: most tools are the server's
	switch {
	case ev.Malformed != nil || public == nil:
	case ev.Type == realtime.TypeSessionCreated:
		v.created = public
	case ev.Type == realtime.TypeSessionUpdated:
		v.updated = public
	}
	return v.redactedFor(public, side)
}

// withVoice returns a session.created with the voice that the session is about to get, where the upstream tells its
// own.
func (v *view) withVoice(created []byte) []byte {
	var event struct{ Session json.RawMessage }
	var session struct{ Audio json.RawMessage }
	var audio struct{ Output map[string]json.RawMessage }
	unread := json.Unmarshal(created, &event) != nil || json.Unmarshal(event.Session, &session) != nil
	if unread || json.Unmarshal(session.Audio, &audio) != nil || audio.Output["voice"] == nil || v.Session.Voice == "" {
		return created
	}
	audio.Output["voice"] = voiceObject(v.Session.Voice)
	spoken := replaced(session.Audio, "output", encode(audio.Output))
	return replaced(created, "session", replaced(event.Session, "audio", spoken))
}

// redactedFor returns what the browser (0) or a sideband sees of a session event, nil for nothing.
func (v *view) redactedFor(event []byte, side int) []byte {
	return v.redacted(event, func(tool string) bool { return v.client.declares(side, tool) })
}

// redacted returns a session event with these tools, nil for nothing.
func (v *view) redacted(event []byte, keepTool func(string) bool) []byte {
	if event == nil {
		return nil
	}
	visible, err := realtime.RedactSession(event, keepTool)
	if err != nil {
		v.log(slog.LevelWarn, "session event held back", "error", err)
		return nil
	}
	return visible
}

// ofResponse returns an event about a response without the calls in its output that others answer, and without what was
// cut off.
func (v *view) ofResponse(ev *event, side int) []byte {
	var response struct {
		Output []json.RawMessage `json:"output"`
	}
	if json.Unmarshal(ev.Response, &response) != nil {
		return ev.Raw
	}
	output, changed := []json.RawMessage{}, false
	for _, raw := range response.Output {
		var item realtime.Item
		hidden := json.Unmarshal(raw, &item) == nil && v.tools.hides(&item, side)
		if cut := v.cut(raw, &item); cut != nil {
			raw, changed = cut, true
		}
		if changed = changed || hidden; !hidden {
			output = append(output, raw)
		}
	}
	if !changed {
		return ev.Raw
	}
	return replaced(ev.Raw, "response", replaced(ev.Response, "output", encode(output)))
}

// cut returns an answer's item as it is since the answer was cut: incomplete, with what was heard, or keys that are
// masked; nil if there is nothing to cut.
func (v *view) cut(raw json.RawMessage, it *realtime.Item) json.RawMessage {
	known := v.transcript.items[it.ID]
	if known != nil && known.message != nil && known.message.masked {
		return replaced(raw, "content", encode([]realtime.Content{{Type: realtime.ContentInputText, Text: maskedKeys}}))
	}
	if known == nil || it.Type != realtime.ItemMessage || !known.message.isCut() {
		return nil
	}
	heard := []realtime.Content{{Type: realtime.ContentOutputAudio, Transcript: known.message.heardText()}}
	return replaced(replaced(raw, "status", encode(realtime.ResponseIncomplete)), "content", encode(heard))
}

// withoutImages returns an event without its item's image data, which is too large for the data
// channel; the thread has it.
func withoutImages(ev *event) []byte {
	item := ev.item
	item.Content = slices.Clone(item.Content)
	for i := range item.Content {
		item.Content[i].ImageURL = ""
	}
	return replaced(ev.Raw, "item", encode(item))
}

// retrieve answers conversation.item.retrieve for items of this call: the upstream would include
// their audio.
func (v *view) retrieve(ev realtime.Event) {
	it := v.transcript.items[ev.ItemID]
	side, _ := asked(ev.EventID)
	if it == nil || it.seeded || it.raw.Type == "" || v.tools.hides(&it.raw, side) {
		v.refuse(ev.EventID, "item_retrieve_invalid_item_id",
			fmt.Sprintf("There is no item %q in this call.", clip(ev.ItemID)), "item_id")
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
		if m.isCut() {
			raw.Status = realtime.ResponseIncomplete
		}
		c := realtime.Content{Type: kind, Transcript: m.heardText()}
		if kind == realtime.ContentInputText {
			c = realtime.Content{Type: kind, Text: m.text()}
		}
		raw.Content = []realtime.Content{c}
	}
	v.sendTo(side, encode(retrievedEvent{Type: realtime.TypeItemRetrieved, EventID: v.ownEventID(), Item: raw}), false)
}

// session returns a session.created with the session as it is.
func (v *view) session(side int) []byte {
	created := v.redactedFor(v.created, side)
	var updated struct{ Session json.RawMessage }
	if v.updated == nil || json.Unmarshal(v.redactedFor(v.updated, side), &updated) != nil || updated.Session == nil {
		return created
	}
	return replaced(created, "session", updated.Session)
}

// ofEach returns what each client sees of an event.
func (v *view) ofEach(ev *event) [][]byte {
	views := make([][]byte, len(v.clients))
	for i, t := range v.clients {
		if t.welcomed {
			views[i] = v.of(ev, t.side)
		}
	}
	return views
}
