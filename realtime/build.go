package realtime

// clientEvent is the union of the fields of the client events that are built here.
type clientEvent struct {
	Type           string `json:"type"`
	EventID        string `json:"event_id,omitempty"`
	PreviousItemID string `json:"previous_item_id,omitempty"`
	Item           *Item  `json:"item,omitempty"`
	Session        any    `json:"session,omitempty"`
	ItemID         string `json:"item_id,omitempty"`
	ResponseID     string `json:"response_id,omitempty"`
	ContentIndex   *int   `json:"content_index,omitempty"`
	AudioEndMS     *int64 `json:"audio_end_ms,omitempty"`
}

func (e clientEvent) bytes() []byte {
	b, err := marshal(e)
	if err != nil {
		// All but the session is made of strings, so this is a bug of the caller: the session cannot be encoded.
		panic("realtime: encode " + e.Type + ": " + err.Error())
	}
	return b
}

// ItemCreate builds conversation.item.create. previousItemID is empty (append), "root" (put first) or the id of an
// existing item.
func ItemCreate(eventID string, item Item, previousItemID string) []byte {
	return clientEvent{Type: TypeItemCreate, EventID: eventID, PreviousItemID: previousItemID, Item: &item}.bytes()
}

// FunctionCallOutput builds the conversation.item.create that answers a function call. output is text for the model,
// usually JSON.
func FunctionCallOutput(eventID, itemID, callID, output string) []byte {
	return ItemCreate(eventID, Item{ID: itemID, Type: ItemFunctionCallOutput, CallID: callID, Output: output}, "")
}

// SessionUpdate builds session.update. session encodes to a session object. It panics if session cannot be encoded.
func SessionUpdate(eventID string, session any) []byte {
	return clientEvent{Type: TypeSessionUpdate, EventID: eventID, Session: session}.bytes()
}

// ResponseCreate builds response.create without overrides.
func ResponseCreate(eventID string) []byte {
	return clientEvent{Type: TypeResponseCreate, EventID: eventID}.bytes()
}

// ItemDelete builds conversation.item.delete.
func ItemDelete(eventID, itemID string) []byte {
	return clientEvent{Type: TypeItemDelete, EventID: eventID, ItemID: itemID}.bytes()
}

// ItemTruncate builds conversation.item.truncate for the first content part: audioEndMS of its audio were heard.
func ItemTruncate(eventID, itemID string, audioEndMS int64) []byte {
	e := clientEvent{Type: TypeItemTruncate, EventID: eventID, ItemID: itemID}
	e.ContentIndex, e.AudioEndMS = new(0), &audioEndMS
	return e.bytes()
}

// ResponseCancel builds response.cancel; an empty responseID means the active response of the conversation.
func ResponseCancel(eventID, responseID string) []byte {
	return clientEvent{Type: TypeResponseCancel, EventID: eventID, ResponseID: responseID}.bytes()
}

// OutputAudioBufferClear builds output_audio_buffer.clear (WebRTC only).
func OutputAudioBufferClear(eventID string) []byte {
	return clientEvent{Type: TypeOutputBufferClear, EventID: eventID}.bytes()
}

// InputAudioBufferCommit builds input_audio_buffer.commit.
func InputAudioBufferCommit(eventID string) []byte {
	return clientEvent{Type: TypeInputCommit, EventID: eventID}.bytes()
}

// InputAudioBufferClear builds input_audio_buffer.clear.
func InputAudioBufferClear(eventID string) []byte {
	return clientEvent{Type: TypeInputClear, EventID: eventID}.bytes()
}

// ErrorEvent builds the server event "error". eventID is the event's own id; e.EventID is the id of the client event
// that it answers. An empty e.Type becomes invalid_request_error.
func ErrorEvent(eventID string, e Error) []byte {
	if e.Type == "" {
		e.Type = "invalid_request_error"
	}
	b, err := marshal(struct {
		Type    string `json:"type"`
		EventID string `json:"event_id"`
		Error   Error  `json:"error"`
	}{TypeError, eventID, e})
	if err != nil {
		panic("realtime: encode error: " + err.Error()) // strings only: cannot happen
	}
	return b
}
