package simulator

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"voicebridge/realtime"
)

const (
	maxID      = 32
	maxEventID = 512
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

// isID checks an optional id of at most 32 characters.
func isID(param string, v any) *realtime.Error {
	s, ok := v.(string)
	if !ok {
		return wrongType(param, "a string", v)
	}
	if len(s) > maxID {
		return refuse("string_above_max_length", param,
			"Invalid '%s': string too long. Expected a string with maximum length %d, but got a string with length %d instead.", param, maxID, len(s))
	}
	if s == "" {
		return refuse("invalid_value", param, "Invalid '%s': empty string.", param)
	}
	return nil
}

var (
	statusCheck = isOneOf("completed", "incomplete", "in_progress")
	objectCheck = isOneOf("realtime.item")

	itemSchemas = map[string]fields{
		realtime.ItemMessage: {
			"id": isID, "object": objectCheck, "type": isString, "status": statusCheck,
			"role": isOneOf("user", "assistant", "system"), "content": isAny,
		},
		realtime.ItemFunctionCall: {
			"id": isID, "object": objectCheck, "type": isString, "status": statusCheck,
			"call_id": isID, "name": isString, "arguments": isString,
		},
		realtime.ItemFunctionCallOutput: {
			"id": isID, "object": objectCheck, "type": isString, "status": statusCheck,
			"call_id": isID, "output": isString,
		},
	}
	itemRequired = map[string][]string{
		realtime.ItemMessage:            {"role", "content"},
		realtime.ItemFunctionCall:       {"name", "arguments"},
		realtime.ItemFunctionCallOutput: {"call_id", "output"},
	}

	// contentSchemas are the parts that clients may create, by role. Assistant audio is not among
	// them: it cannot be created.
	contentSchemas = map[string]map[string]fields{
		"user": {
			realtime.ContentInputText:  {"type": isString, "text": isString},
			realtime.ContentInputAudio: {"type": isString, "audio": isString, "transcript": nullable(isString)},
			realtime.ContentInputImage: {"type": isString, "image_url": isString, "detail": isString},
		},
		"assistant": {realtime.ContentOutputText: {"type": isString, "text": isString}},
		"system":    {realtime.ContentInputText: {"type": isString, "text": isString}},
	}
	contentRequired = map[string]string{
		realtime.ContentInputText: "text", realtime.ContentOutputText: "text",
		realtime.ContentInputAudio: "audio", realtime.ContentInputImage: "image_url",
	}
)

// newItem makes an item from what a client sent, or returns what is wrong with it.
func (c *conversation) newItem(o object) (*item, *realtime.Error) {
	kind, ok := o["type"].(string)
	if !ok {
		return nil, refuse("missing_required_parameter", "item.type", "Missing required parameter: 'item.type'.")
	}
	schema, ok := itemSchemas[kind]
	if !ok {
		return nil, refuse("invalid_value", "item.type",
			"Invalid value: '%s'. Supported values are: 'message', 'function_call', and 'function_call_output'.", kind)
	}
	if err := schema.of("item", o); err != nil {
		return nil, err
	}
	for _, name := range itemRequired[kind] {
		if _, ok := o[name]; !ok {
			return nil, refuse("missing_required_parameter", "item."+name, "Missing required parameter: 'item.%s'.", name)
		}
	}
	text := func(name string) string { s, _ := o[name].(string); return s }
	it := &item{
		id: text("id"), kind: kind, status: "completed", role: text("role"),
		callID: text("call_id"), name: text("name"), arguments: text("arguments"), output: text("output"),
	}
	if it.id != "" && c.index(it.id) >= 0 {
		return nil, refuse("invalid_value", "item.id", "Item with ID '%s' already exists in the conversation.", it.id)
	}
	if err := c.checkKind(it, o); err != nil {
		return nil, err
	}
	it.id = cmp.Or(it.id, newID("item_"))
	return it, nil
}

func (c *conversation) checkKind(it *item, o object) *realtime.Error {
	switch it.kind {
	case realtime.ItemMessage:
		return it.readContent(o["content"])
	case realtime.ItemFunctionCall:
		it.callID = cmp.Or(it.callID, newID("call_"))
		if c.has(realtime.ItemFunctionCall, it.callID) {
			return refuse("invalid_value", "item.call_id", "A function call with ID '%s' already exists in the conversation.", it.callID)
		}
	case realtime.ItemFunctionCallOutput:
		if !c.has(realtime.ItemFunctionCall, it.callID) {
			return refuse("invalid_value", "item.call_id", "Tool call ID '%s' not found in conversation.", it.callID)
		}
		if c.has(realtime.ItemFunctionCallOutput, it.callID) {
			return refuse("invalid_value", "item.call_id", "Tool call ID '%s' already has an output.", it.callID)
		}
	}
	return nil
}

func (it *item) readContent(v any) *realtime.Error {
	list, ok := v.([]any)
	if !ok {
		return wrongType("item.content", "an array", v)
	}
	if len(list) == 0 {
		return refuse("invalid_value", "item.content", "Invalid 'item.content': empty array.")
	}
	for i, part := range list {
		o, ok := part.(object)
		at := fmt.Sprintf("item.content[%d]", i)
		if !ok {
			return wrongType(at, "an object", part)
		}
		kind, _ := o["type"].(string)
		schema, ok := contentSchemas[it.role][kind]
		if !ok {
			return refuse("invalid_value", at+".type", "Invalid value: '%s'. It is not supported in a message of role '%s'.", kind, it.role)
		}
		if err := schema.of(at, o); err != nil {
			return err
		}
		if need := contentRequired[kind]; o[need] == nil {
			return refuse("missing_required_parameter", at+"."+need, "Missing required parameter: '%s.%s'.", at, need)
		}
		it.content = append(it.content, o)
		if s, ok := o["text"].(string); ok {
			it.words += s
		}
	}
	return nil
}
