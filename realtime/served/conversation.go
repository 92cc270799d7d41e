package served

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/rivo/uniseg"

	"voicebridge/realtime"
)

// Item is an entry of the conversation.
type Item struct {
	ID, Type, Status, Role string
	Content                []map[string]any
	CallID, Name           string
	Arguments, Output      string

	Spoken bool   // by the user
	Words  string // its text; of an utterance, what the Ear has written
	Given  bool   // the client has created it

	audioMS int64 // length of an assistant item's audio
	spoken  []int // how many bytes of its text are spoken after each frame; nil if that is not known exactly
}

// heard returns the text of so much sound, in whole words.
func (it *Item) heard(ms int64) string {
	n := min(int(ms/frameMS), len(it.spoken))
	if n == 0 {
		return ""
	}
	return strings.TrimSpace(it.Words[:wordStart(it.Words, it.spoken[n-1])])
}

// wordStart returns where the word around a place in a text begins or, past its middle, the next one.
func wordStart(text string, at int) int {
	// Languages without spaces have words, too.
	state, start, rest := -1, 0, text
	for rest != "" {
		var word string
		word, rest, state = uniseg.FirstWordInString(rest, state)
		if end := start + len(word); at < end {
			if at-start > len(word)/2 {
				return end
			}
			return start
		}
		start += len(word)
	}
	return start
}

// speaks reports whether an item is sound of the assistant.
func (it *Item) speaks() bool {
	return it.Role == "assistant" && len(it.Content) > 0 && it.Content[0]["type"] == realtime.ContentOutputAudio
}

func (it *Item) shown() object {
	o := object{"id": it.ID, "object": "realtime.item", "type": it.Type, "status": it.Status}
	switch it.Type {
	case realtime.ItemMessage:
		content := make([]any, len(it.Content))
		for i, c := range it.Content {
			content[i] = c
		}
		o["role"], o["content"] = it.Role, content
	case realtime.ItemFunctionCall:
		o["name"], o["call_id"], o["arguments"] = it.Name, it.CallID, it.Arguments
	case realtime.ItemFunctionCallOutput:
		o["call_id"], o["output"] = it.CallID, it.Output
	}
	return o
}

// conversation is the ordered list of items.
type conversation struct{ items []*Item }

func (c *conversation) index(id string) int {
	return slices.IndexFunc(c.items, func(it *Item) bool { return it.ID == id })
}

func (c *conversation) find(id string) *Item {
	if i := c.index(id); i >= 0 {
		return c.items[i]
	}
	return nil
}

// previous returns the id before the item, nil for the first, as shown in events.
func (c *conversation) previous(id string) any {
	if i := c.index(id); i > 0 {
		return c.items[i-1].ID
	}
	return nil
}

func (c *conversation) append(it *Item) { c.items = append(c.items, it) }

// insert puts the item after previous: "" means the end, "root" the beginning.
func (c *conversation) insert(it *Item, previous string) *realtime.Error {
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
	return slices.ContainsFunc(c.items, func(it *Item) bool { return it.Type == kind && it.CallID == callID })
}

// newItem makes an item from an object of a client, whose schema was checked, or returns why the conversation cannot
// have it; at is the path to it.
func (c *conversation) newItem(at string, o object) (*Item, *realtime.Error) {
	text := func(name string) string { s, _ := o[name].(string); return s }
	it := &Item{
		Given: true,
		ID:    text("id"), Type: text("type"), Status: "completed", Role: text("role"),
		CallID: text("call_id"), Name: text("name"), Arguments: text("arguments"), Output: text("output"),
	}
	if it.ID != "" && c.index(it.ID) >= 0 {
		return nil, refuse("invalid_value", at+".id", "Item with ID '%s' already exists in the conversation.", it.ID)
	}
	if err := c.checkKind(at, it, o); err != nil {
		return nil, err
	}
	it.ID = cmp.Or(it.ID, NewID("item_"))
	return it, nil
}

func (c *conversation) checkKind(at string, it *Item, o object) *realtime.Error {
	switch it.Type {
	case realtime.ItemMessage:
		it.readContent(o["content"].([]any))
	case realtime.ItemFunctionCall:
		it.CallID = cmp.Or(it.CallID, NewID("call_"))
		if c.has(realtime.ItemFunctionCall, it.CallID) {
			return refuse("invalid_value", at+".call_id",
				"A function call with ID '%s' already exists in the conversation.", it.CallID)
		}
	case realtime.ItemFunctionCallOutput:
		if !c.has(realtime.ItemFunctionCall, it.CallID) {
			return refuse("invalid_value", at+".call_id", "Tool call ID '%s' not found in conversation.", it.CallID)
		}
		if c.has(realtime.ItemFunctionCallOutput, it.CallID) {
			return refuse("invalid_value", at+".call_id", "Tool call ID '%s' already has an output.", it.CallID)
		}
	}
	return nil
}

func (it *Item) readContent(list []any) {
	for _, part := range list {
		o := part.(object)
		it.Content = append(it.Content, o)
		if s, ok := o["text"].(string); ok {
			it.Words += s
		}
	}
}

// context reads the input of a response.create: the items that the response sees in place of the conversation, nil if
// it sees that.
func (c *conversation) context(params object) ([]*Item, *realtime.Error) {
	list, ok := params["input"].([]any)
	if !ok {
		return nil, nil
	}
	own := conversation{items: []*Item{}}
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
