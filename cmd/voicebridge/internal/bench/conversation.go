package bench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"voicebridge/realtime"
)

// object is a JSON object.
type object = map[string]any

// conversation is the upstream's side of the events of one call: it takes items
// and settings and says nothing by itself, unless its model uses tools. It is used
// by one goroutine.
type conversation struct {
	session object
	items   []string // ids in the order of the conversation
	made    int      // ids given out
	batches *batches // nil: the model uses no tools
}

func newConversation(callID string, posted object) *conversation {
	c := &conversation{session: object{"output_modalities": []any{"audio"}, "tools": []any{}, "instructions": ""}}
	merge(c.session, posted)
	merge(c.session, object{
		"id": "sess_" + callID, "object": "realtime.session", "type": "realtime",
		"expires_at": time.Now().Add(time.Hour).Unix(),
	})
	return c
}

// merge takes the fields of change over, objects field by field: what a change
// does not name stays.
func merge(into, change object) {
	for key, value := range change {
		inner, isObject := value.(object)
		old, wasObject := into[key].(object)
		if isObject && wasObject {
			merge(old, inner)
			continue
		}
		into[key] = value
	}
}

// created is the first event of a call.
func (c *conversation) created() []byte {
	return c.event(object{"type": realtime.TypeSessionCreated, "session": c.session})
}

// receive returns the events that answer a client's event.
func (c *conversation) receive(raw []byte) [][]byte {
	event, err := realtime.Decode(raw)
	if err == nil {
		err = event.Malformed
	}
	if err != nil {
		return c.refuse(event.EventID, realtime.Error{Code: "invalid_event", Message: err.Error()})
	}
	switch event.Type {
	case realtime.TypeSessionUpdate:
		return c.update(event)
	case realtime.TypeItemCreate:
		return c.create(event)
	case realtime.TypeResponseCreate:
		if c.batches != nil {
			return c.batches.create()
		}
	}
	return c.refuse(event.EventID, realtime.Error{
		Code: "invalid_value", Param: "type", Message: fmt.Sprintf("This upstream measures and does not know %q.", event.Type),
	})
}

func (c *conversation) update(event realtime.Event) [][]byte {
	change, err := readObject(event.Session)
	if err != nil {
		return c.refuse(event.EventID, realtime.Error{Code: "invalid_value", Param: "session", Message: "Invalid session: " + err.Error()})
	}
	if change["type"] != "realtime" {
		return c.refuse(event.EventID, realtime.Error{
			Code: "missing_required_parameter", Param: "session.type", Message: "Missing required parameter: 'session.type'.",
		})
	}
	for _, fixed := range []string{"id", "object", "model", "expires_at"} {
		delete(change, fixed)
	}
	merge(c.session, change)
	return [][]byte{c.event(object{"type": realtime.TypeSessionUpdated, "session": c.session})}
}

// create adds an item after the one that the event names, or at the end.
func (c *conversation) create(event realtime.Event) [][]byte {
	item, err := readObject(event.Item)
	if err != nil {
		return c.refuse(event.EventID, realtime.Error{Code: "invalid_value", Param: "item", Message: "Invalid item: " + err.Error()})
	}
	at := len(c.items)
	switch before := event.PreviousItemID; before {
	case "":
	case "root":
		at = 0
	default:
		if at = slices.Index(c.items, before) + 1; at == 0 {
			return c.refuse(event.EventID, realtime.Error{Code: "item_not_found", Param: "previous_item_id", Message: "There is no item " + before + "."})
		}
	}
	id, _ := item["id"].(string)
	if id == "" {
		id = c.newID("item_")
	}
	if slices.Contains(c.items, id) {
		return c.refuse(event.EventID, realtime.Error{Code: "invalid_value", Param: "item.id", Message: "There is an item " + id + " already."})
	}
	c.items = slices.Insert(c.items, at, id)
	merge(item, object{"id": id, "object": "realtime.item", "status": "completed"})
	events := [][]byte{c.itemEvent(realtime.TypeItemAdded, at, item), c.itemEvent(realtime.TypeItemDone, at, item)}
	if c.batches != nil && item["type"] == realtime.ItemFunctionCallOutput {
		callID, _ := item["call_id"].(string)
		output, _ := item["output"].(string)
		c.batches.output(callID, output)
	}
	return events
}

// append adds an item of the model at the end and returns the event that says so.
func (c *conversation) append(item object) []byte {
	id, _ := item["id"].(string)
	c.items = append(c.items, id)
	return c.itemEvent(realtime.TypeItemAdded, len(c.items)-1, item)
}

func (c *conversation) itemEvent(kind string, at int, item object) []byte {
	var previous any
	if at > 0 {
		previous = c.items[at-1]
	}
	return c.event(object{"type": kind, "previous_item_id": previous, "item": item})
}

// forget drops all items but the last, behind which others stand.
func (c *conversation) forget() {
	c.items = slices.Delete(c.items, 0, max(len(c.items)-1, 0))
}

func (c *conversation) refuse(eventID string, e realtime.Error) [][]byte {
	e.EventID = eventID
	return [][]byte{realtime.ErrorEvent(c.newID("event_"), e)}
}

func (c *conversation) newID(prefix string) string {
	c.made++
	return fmt.Sprintf("%s%d", prefix, c.made)
}

// event writes one event with an id of its own.
func (c *conversation) event(o object) []byte {
	o["event_id"] = c.newID("event_")
	raw, err := json.Marshal(o)
	if err != nil {
		panic("load: encode event: " + err.Error()) // it came from JSON
	}
	return raw
}

// readObject reads a JSON object; numbers stay as they were written.
func readObject(raw []byte) (object, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var o object
	if err := d.Decode(&o); err != nil {
		return nil, err
	}
	if o == nil {
		return nil, fmt.Errorf("it is not a JSON object")
	}
	return o, nil
}
