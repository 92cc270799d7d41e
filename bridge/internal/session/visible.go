package session

import (
	"cmp"
	"encoding/json"

	"voicebridge/realtime"
	"voicebridge/toolkit"
)

// withoutServerCalls returns what the browser sees of an upstream event, nil for nothing. It does not see function calls
// that the server answers, nor their outputs: clients take every function call for one that they have to run. They learn
// about these from bridge.tool events instead; not from mcp_call items, after which OpenAI's SDK asks for one more answer.
func (s *State) withoutServerCalls(ev realtime.Event) []byte {
	switch {
	case ev.Item != nil:
		if item, err := realtime.DecodeItem(ev.Item); err == nil && s.tools.hides(&item) {
			return nil
		}
	case ev.Response != nil:
		return s.withoutServerOutput(ev)
	case ev.Type == realtime.TypeFunctionArgumentsDelta, ev.Type == realtime.TypeFunctionArgumentsDone:
		call := realtime.Item{Type: realtime.ItemFunctionCall, CallID: ev.CallID, Name: ev.Name}
		if it := s.transcript.items[ev.ItemID]; it != nil {
			call.CallID, call.Name = cmp.Or(it.raw.CallID, call.CallID), cmp.Or(it.raw.Name, call.Name)
		}
		if s.tools.hides(&call) {
			return nil
		}
	}
	return s.linked(ev)
}

// linked returns an event whose item follows one that the browser does not see as following the nearest one before it
// that the browser sees, if there is any. An id that a client does not know is less harm than none: "first of all".
func (s *State) linked(ev realtime.Event) []byte {
	before := ev.PreviousItemID
	it := s.transcript.items[before]
	if it == nil || !s.tools.hides(&it.raw) {
		return ev.Raw
	}
	for n := 0; it != nil && (it.seeded || s.tools.hides(&it.raw)) && n <= len(s.transcript.items); n++ { // the chain may be circular
		before = it.prev
		it = s.transcript.items[before]
	}
	if it == nil {
		return ev.Raw
	}
	return replaced(ev.Raw, "previous_item_id", encode(before))
}

// withoutServerOutput returns an event about a response without the calls in its output that the browser does not see.
func (s *State) withoutServerOutput(ev realtime.Event) []byte {
	var response struct {
		Output []json.RawMessage `json:"output"`
	}
	if json.Unmarshal(ev.Response, &response) != nil {
		return ev.Raw
	}
	output := []json.RawMessage{}
	for _, raw := range response.Output {
		if item, err := realtime.DecodeItem(raw); err != nil || !s.tools.hides(&item) {
			output = append(output, raw)
		}
	}
	if len(output) == len(response.Output) {
		return ev.Raw
	}
	return replaced(ev.Raw, "response", replaced(ev.Response, "output", encode(output)))
}

// replaced returns a JSON object with another value for one of its fields.
func replaced(object json.RawMessage, field string, value json.RawMessage) json.RawMessage {
	var fields map[string]json.RawMessage
	if json.Unmarshal(object, &fields) != nil {
		return nil
	}
	fields[field] = value
	return encode(fields)
}

// hides reports whether an item is a function call that the browser does not have to answer, or the output of one.
func (t *tools) hides(raw *realtime.Item) bool {
	switch raw.Type {
	case realtime.ItemFunctionCall, realtime.ItemFunctionCallOutput:
	default:
		return false
	}
	if run := t.byID[raw.CallID]; run != nil {
		return run.Entry.Executor != toolkit.ExecutorClient
	}
	entry, _ := t.registry.Lookup(raw.Name)
	return entry.Executor != toolkit.ExecutorClient
}
