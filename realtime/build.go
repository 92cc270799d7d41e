package realtime

import (
	"encoding/json"
	"slices"
)

// clientEvent is the union of the fields of the client events that are built here.
type clientEvent struct {
	Type           string `json:"type"`
	EventID        string `json:"event_id,omitempty"`
	PreviousItemID string `json:"previous_item_id,omitempty"`
	Item           *Item  `json:"item,omitempty"`
	ItemID         string `json:"item_id,omitempty"`
	ResponseID     string `json:"response_id,omitempty"`
	ContentIndex   *int   `json:"content_index,omitempty"`
	AudioEndMS     *int64 `json:"audio_end_ms,omitempty"`
}

// ItemCreate builds conversation.item.create. previousItemID is empty (append), "root" (put first) or the id of an
// existing item.
func ItemCreate(eventID string, item Item, previousItemID string) []byte {
	return Encode(clientEvent{Type: TypeItemCreate, EventID: eventID, PreviousItemID: previousItemID, Item: &item})
}

// FunctionCallOutput builds the conversation.item.create that answers a function call. output is text for the model,
// usually JSON.
func FunctionCallOutput(eventID, itemID, callID, output string) []byte {
	return ItemCreate(eventID, Item{ID: itemID, Type: ItemFunctionCallOutput, CallID: callID, Output: output}, "")
}

// SessionUpdate builds session.update with a session object, which is not read: with its tools it is large.
func SessionUpdate(eventID string, session json.RawMessage) []byte {
	event := Encode(clientEvent{Type: TypeSessionUpdate, EventID: eventID})
	return slices.Concat(event[:len(event)-1], []byte(`,"session":`), session, []byte("}"))
}

// ResponseCreate builds response.create without overrides.
func ResponseCreate(eventID string) []byte {
	return Encode(clientEvent{Type: TypeResponseCreate, EventID: eventID})
}

// ItemDelete builds conversation.item.delete.
func ItemDelete(eventID, itemID string) []byte {
	return Encode(clientEvent{Type: TypeItemDelete, EventID: eventID, ItemID: itemID})
}

// ItemTruncate builds conversation.item.truncate for the first content part: audioEndMS of its audio were heard.
func ItemTruncate(eventID, itemID string, audioEndMS int64) []byte {
	e := clientEvent{Type: TypeItemTruncate, EventID: eventID, ItemID: itemID}
	e.ContentIndex, e.AudioEndMS = new(0), &audioEndMS
	return Encode(e)
}

// ResponseCancel builds response.cancel; an empty responseID means the active response of the conversation.
func ResponseCancel(eventID, responseID string) []byte {
	return Encode(clientEvent{Type: TypeResponseCancel, EventID: eventID, ResponseID: responseID})
}

// OutputAudioBufferClear builds output_audio_buffer.clear (WebRTC only).
func OutputAudioBufferClear(eventID string) []byte {
	return Encode(clientEvent{Type: TypeOutputBufferClear, EventID: eventID})
}

// InputAudioBufferCommit builds input_audio_buffer.commit.
func InputAudioBufferCommit(eventID string) []byte {
	return Encode(clientEvent{Type: TypeInputCommit, EventID: eventID})
}

// InputAudioBufferClear builds input_audio_buffer.clear.
func InputAudioBufferClear(eventID string) []byte {
	return Encode(clientEvent{Type: TypeInputClear, EventID: eventID})
}

// ErrorEvent builds the server event "error". eventID is the event's own id; e.EventID is the id of the client event
// that it answers. An empty e.Type becomes invalid_request_error.
func ErrorEvent(eventID string, e Error) []byte {
	if e.Type == "" {
		e.Type = "invalid_request_error"
	}
	return Encode(struct {
		Type    string `json:"type"`
		EventID string `json:"event_id"`
		Error   Error  `json:"error"`
	}{TypeError, eventID, e})
}
