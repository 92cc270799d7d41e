package simulator

import (
	"cmp"
	"encoding/json"
	"path"
	"regexp"
	"slices"
	"strings"

	"voicebridge/realtime"
)

// maxSampleDepth limits arguments that are made up from a schema.
const maxSampleDepth = 6

// answer is what a response says and calls.
type answer struct {
	say   string
	calls []chosenCall
	reply *Reply // what follows the calls' outputs
}

// chosenCall is a call of a declared tool.
type chosenCall struct{ name, arguments string }

// chooser decides what to answer.
type chooser struct {
	script *Script
	items  *items
	follow map[string]*Reply // by call id: what follows its output
}

// order matches instructions to say what follows a blank line as it is.
var order = regexp.MustCompile(`(?s)^Say exactly [^\n]*:\n\n(.+)$`)

// choose decides what a response says: about new outputs of function calls, else about what the user said last.
func (c *chooser) choose(r *response) answer {
	if r.ordered != "" {
		return answer{say: r.ordered}
	}
	var outputs []*item
	for _, it := range slices.Backward(r.seen(c.items.items)) {
		switch {
		case it.kind == realtime.ItemFunctionCallOutput:
			outputs = append(outputs, it)
			continue
		case it.kind == realtime.ItemFunctionCall:
			continue
		case len(outputs) > 0:
		case it.role == "user":
			return c.resolve(r, c.replyTo(it))
		case it.role == "system", it.role == "assistant" && it.given: // perhaps the beginning of an answer
			continue
		}
		break
	}
	if len(outputs) > 0 {
		return c.speakAbout(outputs)
	}
	return c.resolve(r, &c.script.Otherwise)
}

func (c *chooser) replyTo(it *item) *Reply {
	if it.reply != nil {
		return it.reply
	}
	for i := range c.script.Typed {
		if rule := &c.script.Typed[i]; rule.Match.MatchString(it.words) {
			return &rule.Reply
		}
	}
	return &c.script.Otherwise
}

// speakAbout is the answer after tools; a failure takes precedence.
func (c *chooser) speakAbout(outputs []*item) answer {
	say := ""
	for _, out := range outputs {
		reply := cmp.Or(c.follow[out.callID], &Reply{})
		delete(c.follow, out.callID)
		if reportsError(out.output) {
			return answer{say: c.fill(cmp.Or(reply.Failed, textToolFailed))}
		}
		say = cmp.Or(reply.Then, textToolDone)
	}
	return answer{say: c.fill(say)}
}

// reportsError recognises the forms in which tools report failures to a model.
func reportsError(output string) bool {
	if strings.HasPrefix(strings.ToLower(strings.TrimSpace(output)), "error") {
		return true
	}
	var o struct {
		Error   any    `json:"error"`
		IsError bool   `json:"isError"`
		Status  string `json:"status"`
	}
	return json.Unmarshal([]byte(output), &o) == nil && (o.Error != nil || o.IsError || o.Status == "error")
}

// resolve turns a reply into an answer whose tools are all declared.
func (c *chooser) resolve(r *response, reply *Reply) answer {
	if forced, ok := c.forcedCall(r); ok {
		return answer{calls: []chosenCall{forced}, reply: &Reply{Then: textToolDone, Failed: textToolFailed}}
	}
	for ; reply != nil; reply = reply.Else {
		if calls, ok := pickCalls(r, reply.Calls); ok {
			return answer{say: c.fill(reply.Say), calls: calls, reply: reply}
		}
	}
	return answer{say: textPlainAgain}
}

// forcedCall obeys a tool_choice that demands a call. It is asked about what the user said, never about outputs, so
// that the model speaks in the end.
func (c *chooser) forcedCall(r *response) (chosenCall, bool) {
	chosen, _ := r.choice.(object)
	for _, t := range r.tools {
		if r.choice == "required" || t.name == chosen["name"] {
			return chosenCall{t.name, sampleArguments(t.parameters)}, true
		}
	}
	return chosenCall{}, false
}

func pickCalls(r *response, wanted []Call) ([]chosenCall, bool) {
	var calls []chosenCall
	for _, w := range wanted {
		if r.choice == "none" {
			return nil, false
		}
		i := slices.IndexFunc(r.tools, func(t tool) bool {
			ok, err := path.Match(w.Name, t.name)
			return ok && err == nil
		})
		if i < 0 {
			return nil, false
		}
		calls = append(calls, chosenCall{r.tools[i].name, cmp.Or(w.Arguments, sampleArguments(r.tools[i].parameters))})
	}
	return calls, true
}

func (c *chooser) fill(text string) string {
	return strings.NewReplacer("{previous}", c.items.before(), "{everything}", c.items.everything()).Replace(text)
}

// sampleArguments makes up arguments that satisfy a JSON schema: its required members, with
// examples, defaults and first enum values if there are any.
func sampleArguments(schema object) string {
	b, _ := json.Marshal(sampleObject(schema, 0)) // what it takes from the schema was JSON before
	return string(b)
}

func sampleObject(schema object, depth int) object {
	out := object{}
	properties, _ := schema["properties"].(object)
	required, _ := schema["required"].([]any)
	for _, name := range required {
		key, _ := name.(string)
		property, _ := properties[key].(object)
		out[key] = sample(property, depth+1)
	}
	return out
}

func sample(schema object, depth int) any {
	if depth > maxSampleDepth {
		return nil
	}
	if v, ok := schema["const"]; ok {
		return v
	}
	if v, ok := schema["default"]; ok {
		return v
	}
	for _, list := range []string{"enum", "examples"} {
		if v, ok := schema[list].([]any); ok && len(v) > 0 {
			return v[0]
		}
	}
	for _, list := range []string{"anyOf", "oneOf", "allOf"} {
		if v, ok := schema[list].([]any); ok && len(v) > 0 {
			first, _ := v[0].(object)
			return sample(first, depth+1)
		}
	}
	return sampleOfType(schema, depth)
}

func sampleOfType(schema object, depth int) any {
	kind, _ := schema["type"].(string)
	if list, ok := schema["type"].([]any); ok && len(list) > 0 {
		kind, _ = list[0].(string)
	}
	switch kind {
	case "object":
		return sampleObject(schema, depth)
	case "array":
		items, _ := schema["items"].(object)
		return []any{sample(items, depth+1)}
	case "integer", "number":
		if low, ok := schema["minimum"]; ok {
			return low
		}
		return 1
	case "boolean":
		return true
	case "null":
		return nil
	}
	return "hello"
}
