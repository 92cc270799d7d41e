package session

import (
	"bytes"
	"encoding/json"
	"fmt"

	"voicebridge/realtime"
)

// firstUse holds, for each id of an item, a response or a function call, the generation of the session that used it
// first.
type firstUse map[string]int

// names translates a session's ids of items, responses and function calls. An id that an earlier
// session of the call has used means something else here, and gets another id for the call and its
// browser.
type names struct {
	gen   int
	alias map[string]string // the session's id → the call's
	real  map[string]string // the call's id → the session's
	met   map[use]bool
}

// use is a call_id in a response, or in any if that is empty.
type use struct{ callID, responseID string }

// ours returns the call's id for the session's id.
func (n *names) ours(known firstUse, id string) string {
	if id == "" {
		return ""
	}
	if alias, ok := n.alias[id]; ok {
		return alias
	}
	if gen, ok := known[id]; !ok || gen == n.gen {
		known[id] = n.gen
		return id
	}
	alias := fmt.Sprintf("g%d_%s", n.gen, id)
	known[alias] = n.gen
	n.link(alias, id)
	return alias
}

// meet takes a function call of a response. A call_id that an earlier response has used is that of another call.
func (n *names) meet(responseID, callID string) {
	in, before := use{callID, responseID}, use{callID: callID}
	if callID == "" || responseID == "" || n.met[in] {
		return
	}
	if n.met == nil {
		n.met = make(map[use]bool)
	}
	if n.met[before] {
		n.link(fmt.Sprintf("g%d_%d_%s", n.gen, len(n.met), callID), callID)
	}
	n.met[in], n.met[before] = true, true
}

// link makes theirs the session's id for the call's id ours.
func (n *names) link(ours, theirs string) {
	if n.alias == nil {
		n.alias, n.real = make(map[string]string), make(map[string]string)
	}
	n.alias[theirs], n.real[ours] = ours, theirs
}

// theirs returns the session's id for the call's id.
func (n *names) theirs(id string) string {
	if theirs, ok := n.real[id]; ok {
		return theirs
	}
	return id
}

// translate replaces the ids in a session's event. If nothing changes, it returns the event as
// received.
func (n *names) translate(known firstUse, ev realtime.Event) realtime.Event {
	changed := false
	ours := func(id string) {
		if n.ours(known, id) != id {
			changed = true
		}
	}
	n.meet(ev.ResponseID, ev.CallID)
	ours(ev.ItemID)
	ours(ev.PreviousItemID)
	ours(ev.ResponseID)
	ours(ev.CallID)
	if ev.Item != nil {
		if item, err := realtime.DecodeItem(ev.Item); err == nil {
			n.meet(ev.ResponseID, item.CallID)
			ours(item.ID)
			ours(item.CallID)
		}
	}
	if ev.Response != nil {
		if r, err := realtime.DecodeResponse(ev.Response); err == nil {
			ours(r.ID)
			for _, item := range r.Output {
				n.meet(r.ID, item.CallID)
				ours(item.ID)
				ours(item.CallID)
			}
		}
	}
	if !changed {
		return ev
	}
	var tree map[string]any
	d := json.NewDecoder(bytes.NewReader(ev.Raw))
	d.UseNumber()
	if d.Decode(&tree) != nil {
		return ev // cannot happen: it was decoded before
	}
	n.rename(tree, known, false)
	again, err := realtime.Decode(encode(tree))
	if err != nil {
		return ev
	}
	return again
}

// rename replaces the ids in an event. inner means that the object's own id is one of them.
func (n *names) rename(tree map[string]any, known firstUse, inner bool) {
	for key, value := range tree {
		switch value := value.(type) {
		case string:
			switch key {
			case "item_id", "previous_item_id", "response_id", "call_id":
				tree[key] = n.ours(known, value)
			case "id":
				if inner {
					tree[key] = n.ours(known, value)
				}
			}
		case map[string]any:
			if key == "item" || key == "response" {
				n.rename(value, known, true)
			}
		case []any:
			for _, item := range value {
				if item, ok := item.(map[string]any); ok && key == "output" {
					n.rename(item, known, true)
				}
			}
		}
	}
}
