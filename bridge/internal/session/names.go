package session

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"voicebridge/realtime"
)

// event is an event of an upstream session. Its item and its response are empty if it has none that can be read.
type event struct {
	realtime.Event
	item     realtime.Item
	response realtime.Response
	said     *Said
	sound    time.Duration
}

func readEvent(data []byte) (ev event, err error) {
	if ev.Event, err = realtime.Decode(data); err != nil {
		return ev, err
	}
	if ev.Item != nil && ev.Type != realtime.TypeItemRetrieved { // which has its audio
		ev.item, _ = realtime.DecodeItem(ev.Item)
	}
	if ev.Response != nil {
		ev.response, _ = realtime.DecodeResponse(ev.Response)
		if beside, err := realtime.DecodeUsage(ev.Usage); err == nil && !ev.response.Usage.Counts() {
			ev.response.Usage = &beside // xAI's
		}
	}
	return ev, nil
}

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

// translate replaces the ids in a session's event, which stays as it was received if nothing changes.
func (n *names) translate(known firstUse, ev *event) {
	n.meet(ev.ResponseID, ev.CallID)
	n.meet(ev.ResponseID, ev.item.CallID)
	ids := []string{ev.ItemID, ev.PreviousItemID, ev.ResponseID, ev.CallID, ev.item.ID, ev.item.CallID, ev.response.ID}
	for _, item := range ev.response.Output {
		n.meet(ev.response.ID, item.CallID)
		ids = append(ids, item.ID, item.CallID)
	}
	changed := false
	for _, id := range ids {
		changed = n.ours(known, id) != id || changed
	}
	if !changed {
		return
	}
	var tree map[string]any
	d := json.NewDecoder(bytes.NewReader(ev.Raw))
	d.UseNumber()
	if d.Decode(&tree) != nil {
		return // cannot happen: it was decoded before
	}
	n.rename(tree, known, false)
	if again, err := readEvent(encode(tree)); err == nil {
		*ev = again
	}
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
