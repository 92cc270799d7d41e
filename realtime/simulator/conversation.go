package simulator

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"voicebridge/realtime"
)

// item is an entry of the conversation.
type item struct {
	id, kind, status, role string
	content                []object
	callID, name           string
	arguments, output      string

	spoken bool   // by the user
	words  string // its text; of an utterance, the script's transcript
	reply  *Reply // the script's, to an utterance

	audioMS int64 // length of an assistant item's audio
	given   bool  // the client has created it
}

// speaks reports whether an item is sound of the assistant.
func (it *item) speaks() bool {
	return it.role == "assistant" && len(it.content) > 0 && it.content[0]["type"] == realtime.ContentOutputAudio
}

func (it *item) shown() object {
	o := object{"id": it.id, "object": "realtime.item", "type": it.kind, "status": it.status}
	switch it.kind {
	case realtime.ItemMessage:
		content := make([]any, len(it.content))
		for i, c := range it.content {
			content[i] = c
		}
		o["role"], o["content"] = it.role, content
	case realtime.ItemFunctionCall:
		o["name"], o["call_id"], o["arguments"] = it.name, it.callID, it.arguments
	case realtime.ItemFunctionCallOutput:
		o["call_id"], o["output"] = it.callID, it.output
	}
	return o
}

// conversation is the ordered list of items.
type conversation struct{ items []*item }

func (c *conversation) index(id string) int {
	return slices.IndexFunc(c.items, func(it *item) bool { return it.id == id })
}

func (c *conversation) find(id string) *item {
	if i := c.index(id); i >= 0 {
		return c.items[i]
	}
	return nil
}

// previous returns the id before the item, nil for the first, as shown in events.
func (c *conversation) previous(id string) any {
	if i := c.index(id); i > 0 {
		return c.items[i-1].id
	}
	return nil
}

func (c *conversation) append(it *item) { c.items = append(c.items, it) }

// insert puts the item after previous: "" means the end, "root" the beginning.
func (c *conversation) insert(it *item, previous string) *realtime.Error {
	at := len(c.items)
	switch previous {
	case "":
	case "root":
		at = 0
	default:
		i := c.index(previous)
		if i < 0 {
			return refuse("item_not_found", "previous_item_id",
				"Previous item ID '%s' not found in conversation.", previous)
		}
		at = i + 1
	}
	c.items = slices.Insert(c.items, at, it)
	return nil
}

func (c *conversation) remove(id string) bool {
	i := c.index(id)
	if i < 0 {
		return false
	}
	c.items = slices.Delete(c.items, i, i+1)
	return true
}

// has reports whether there is a function call, or an output, with that id.
func (c *conversation) has(kind, callID string) bool {
	return slices.ContainsFunc(c.items, func(it *item) bool { return it.kind == kind && it.callID == callID })
}

// before returns what the user said in the turn before the latest, or "nothing yet".
func (c *conversation) before() string {
	turns := 0
	for _, it := range slices.Backward(c.items) {
		if it.kind != realtime.ItemMessage || it.role != "user" || it.words == "" {
			continue
		}
		if turns++; turns == 2 {
			return it.words
		}
	}
	return "nothing yet"
}

// maxEverything limits the result of everything, in bytes.
const maxEverything = 4000

// everything returns all that the user said before the latest turn, oldest first, or "nothing yet".
func (c *conversation) everything() string {
	var texts []string
	for _, it := range c.items {
		if it.kind == realtime.ItemMessage && it.role == "user" && it.words != "" {
			texts = append(texts, it.words)
		}
	}
	if len(texts) < 2 {
		return "nothing yet"
	}
	text := strings.Join(texts[:len(texts)-1], " / ")
	return text[max(0, len(text)-maxEverything):]
}

// newItem makes an item from what a client sent, which was checked by itself, or returns why the conversation cannot
// have it; at is the path to it.
func (c *conversation) newItem(at string, o object) (*item, *realtime.Error) {
	text := func(name string) string { s, _ := o[name].(string); return s }
	it := &item{
		given: true,
		id:    text("id"), kind: text("type"), status: "completed", role: text("role"),
		callID: text("call_id"), name: text("name"), arguments: text("arguments"), output: text("output"),
	}
	if it.id != "" && c.index(it.id) >= 0 {
		return nil, refuse("invalid_value", at+".id", "Item with ID '%s' already exists in the conversation.", it.id)
	}
	if err := c.checkKind(at, it, o); err != nil {
		return nil, err
	}
	it.id = cmp.Or(it.id, newID("item_"))
	return it, nil
}

func (c *conversation) checkKind(at string, it *item, o object) *realtime.Error {
	switch it.kind {
	case realtime.ItemMessage:
		it.readContent(o["content"].([]any))
	case realtime.ItemFunctionCall:
		it.callID = cmp.Or(it.callID, newID("call_"))
		if c.has(realtime.ItemFunctionCall, it.callID) {
			return refuse("invalid_value", at+".call_id",
				"A function call with ID '%s' already exists in the conversation.", it.callID)
		}
	case realtime.ItemFunctionCallOutput:
		if !c.has(realtime.ItemFunctionCall, it.callID) {
			return refuse("invalid_value", at+".call_id", "Tool call ID '%s' not found in conversation.", it.callID)
		}
		if c.has(realtime.ItemFunctionCallOutput, it.callID) {
			return refuse("invalid_value", at+".call_id", "Tool call ID '%s' already has an output.", it.callID)
		}
	}
	return nil
}

func (it *item) readContent(list []any) {
	for _, part := range list {
		o := part.(object)
		it.content = append(it.content, o)
		if s, ok := o["text"].(string); ok {
			it.words += s
		}
	}
}

// context reads the input of a response.create: the items that the response sees in place of the conversation, nil if
// it sees that.
func (c *conversation) context(params object) ([]*item, *realtime.Error) {
	list, ok := params["input"].([]any)
	if !ok {
		return nil, nil
	}
	own := conversation{items: []*item{}}
	for i, v := range list {
		o, at := v.(object), fmt.Sprintf("response.input[%d]", i)
		if o["type"] != "item_reference" {
			it, err := own.newItem(at, o)
			if err != nil {
				return nil, err
			}
			own.append(it)
			continue
		}
		id := o["id"].(string)
		it := c.find(id)
		if it == nil {
			return nil, refuse("item_not_found", at+".id", "Item with ID '%s' not found in conversation.", id)
		}
		own.append(it)
	}
	return own.items, nil
}
