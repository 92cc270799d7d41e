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
	// created and updated are the session.created and the latest session.updated, as the upstream sent them.
	created, updated []byte
}

// of returns what the browser (0) or a sideband sees of an event, nil for nothing. It does not see function calls that
// others answer, nor their outputs: clients take every function call for one that they have to run. They learn about these
// from bridge.tool events instead; not from mcp_call items, after which OpenAI's SDK asks for one more answer.
func (v *view) of(ev *event, side int) []byte {
	switch {
	case ev.Type == realtime.TypeItemRetrieved, ev.Type == realtime.TypeOutputAudioDelta, ev.Type == realtime.TypeOutputAudioDeltaBeta:
		return nil // they contain audio, and no client asked for them
	case strings.HasPrefix(ev.Type, "session."):
		return v.ofSession(ev, side)
	case ev.Malformed != nil:
		return ofMalformed(ev)
	case ev.Item != nil:
		if v.tools.hides(&ev.item, side) {
			return nil
		}
		if side == 0 && len(ev.Raw) > v.BrowserLimit && bytes.Contains(ev.Item, []byte(`"image_url"`)) {
			return withoutImages(ev)
		}
	case ev.Response != nil:
		return v.withoutOthersCalls(ev, side)
	case ev.Type == realtime.TypeFunctionArgumentsDelta, ev.Type == realtime.TypeFunctionArgumentsDone:
		call := realtime.Item{Type: realtime.ItemFunctionCall, CallID: ev.CallID, Name: ev.Name}
		if it := v.transcript.items[ev.ItemID]; it != nil {
			call.CallID, call.Name = cmp.Or(it.raw.CallID, call.CallID), cmp.Or(it.raw.Name, call.Name)
		}
		if v.tools.hides(&call, side) {
			return nil
		}
	}
	// An item that follows one that the browser does not see is shown as following the nearest one before it that the
	// browser sees, if there is any. An id that a client does not know is less harm than none: "first of all".
	before := ev.PreviousItemID
	it := v.transcript.items[before]
	if it == nil || !v.tools.hides(&it.raw, side) {
		return ev.Raw
	}
	for n := 0; it != nil && (it.seeded || v.tools.hides(&it.raw, side)) && n <= len(v.transcript.items); n++ { // the chain may be circular
		before = it.prev
		it = v.transcript.items[before]
	}
	if it == nil {
		return ev.Raw
	}
	return replaced(ev.Raw, "previous_item_id", encode(before))
}

// ofMalformed returns what the browser sees of an event with an unreadable field: no more than of a readable one.
func ofMalformed(ev *event) []byte {
	switch ev.Type {
	case realtime.TypeItemAdded, realtime.TypeItemCreatedBeta, realtime.TypeItemDone, // perhaps for a replayed item
		realtime.TypeOutputItemAdded, realtime.TypeOutputItemDone, realtime.TypeFunctionArgumentsDelta, realtime.TypeFunctionArgumentsDone, // perhaps a server tool
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
	visible := v.redacted(raw, side)
	switch {
	case ev.Malformed != nil || visible == nil:
	case ev.Type == realtime.TypeSessionCreated:
		v.created = raw
	case ev.Type == realtime.TypeSessionUpdated:
		v.updated = ev.Raw
	}
	return visible
}

// withVoice returns a session.created with the voice that the session is about to get, where the upstream tells its own.
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

// redacted returns what the browser (0) or a sideband sees of a session event, nil for nothing.
func (v *view) redacted(event []byte, side int) []byte {
	if event == nil {
		return nil
	}
	visible, err := realtime.RedactSession(event, func(tool string) bool { return v.client.declares(side, tool) })
	if err != nil {
		v.log(slog.LevelWarn, "session event held back", "error", err)
		return nil
	}
	return visible
}

// withoutOthersCalls returns an event about a response without the calls in its output that others answer.
func (v *view) withoutOthersCalls(ev *event, side int) []byte {
	var response struct {
		Output []json.RawMessage `json:"output"`
	}
	if json.Unmarshal(ev.Response, &response) != nil {
		return ev.Raw
	}
	output := []json.RawMessage{}
	for _, raw := range response.Output {
		var item realtime.Item
		if json.Unmarshal(raw, &item) != nil || !v.tools.hides(&item, side) {
			output = append(output, raw)
		}
	}
	if len(output) == len(response.Output) {
		return ev.Raw
	}
	return replaced(ev.Raw, "response", replaced(ev.Response, "output", encode(output)))
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
		v.refuse(ev.EventID, "item_retrieve_invalid_item_id", fmt.Sprintf("There is no item %q in this call.", clip(ev.ItemID)), "item_id")
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
	v.sendTo(side, encode(retrievedEvent{Type: realtime.TypeItemRetrieved, EventID: v.ownEventID(), Item: raw}), false)
}

// session returns a session.created with the session as it is.
func (v *view) session(side int) []byte {
	created := v.redacted(v.created, side)
	var updated struct{ Session json.RawMessage }
	if v.updated == nil || json.Unmarshal(v.redacted(v.updated, side), &updated) != nil || updated.Session == nil {
		return created
	}
	return replaced(created, "session", updated.Session)
}

// ofSidebands returns what each sideband sees of an event.
func (v *view) ofSidebands(ev *event) [][]byte {
	if len(v.sidebands) == 0 {
		return nil
	}
	views := make([][]byte, len(v.sidebands))
	for i, side := range v.sidebands {
		if side.told {
			views[i] = v.of(ev, side.id)
		}
	}
	return views
}
