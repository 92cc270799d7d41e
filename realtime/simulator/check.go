package simulator

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"voicebridge/realtime"
)

// object is a JSON object that is being read or written.
type object = map[string]any

// readObject decodes JSON and keeps numbers as they are written.
func readObject(raw []byte) (object, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var o object
	if err := dec.Decode(&o); err != nil {
		return nil, err
	}
	return o, nil
}

// lookup follows a path of objects.
func lookup(o object, path ...string) (any, bool) {
	for _, name := range path[:len(path)-1] {
		next, ok := o[name].(object)
		if !ok {
			return nil, false
		}
		o = next
	}
	v, ok := o[path[len(path)-1]]
	return v, ok
}

func refuse(code, param, format string, args ...any) *realtime.Error {
	return &realtime.Error{
		Type: "invalid_request_error", Code: code, Param: param, Message: fmt.Sprintf(format, args...),
	}
}

// check returns what is wrong with a value, or nil; param is the path to it.
type check func(param string, v any) *realtime.Error

// fields are the known members of an object.
type fields map[string]check

// of checks all members of o, in the order of their names so that the error is always the same.
func (f fields) of(param string, o object) *realtime.Error {
	for _, name := range slices.Sorted(maps.Keys(o)) {
		at := name
		if param != "" {
			at = param + "." + name
		}
		check, ok := f[name]
		if !ok {
			return refuse("unknown_parameter", at, "Unknown parameter: '%s'.", at)
		}
		if err := check(at, o[name]); err != nil {
			return err
		}
	}
	return nil
}

func wrongType(param, want string, v any) *realtime.Error {
	got := "an object"
	switch v.(type) {
	case nil:
		got = "null"
	case string:
		got = "a string"
	case json.Number:
		got = "a number"
	case bool:
		got = "a boolean"
	case []any:
		got = "an array"
	}
	return refuse("invalid_type", param, "Invalid type for '%s': expected %s, but got %s instead.", param, want, got)
}

func isAny(string, any) *realtime.Error { return nil }

func isString(param string, v any) *realtime.Error {
	if _, ok := v.(string); !ok {
		return wrongType(param, "a string", v)
	}
	return nil
}

func isBool(param string, v any) *realtime.Error {
	if _, ok := v.(bool); !ok {
		return wrongType(param, "a boolean", v)
	}
	return nil
}

func isOneOf(values ...string) check {
	return func(param string, v any) *realtime.Error {
		s, ok := v.(string)
		if !ok {
			return wrongType(param, "a string", v)
		}
		if !slices.Contains(values, s) {
			return refuse("invalid_value", param, "Invalid value: '%s'. Supported values are: '%s'.", s, strings.Join(values, "', '"))
		}
		return nil
	}
}

func isNumber(low, high float64) check {
	return func(param string, v any) *realtime.Error {
		n, ok := v.(json.Number)
		if !ok {
			return wrongType(param, "a number", v)
		}
		if f, err := n.Float64(); err != nil || f < low || f > high {
			return refuse("invalid_value", param, "Invalid '%s': expected a number between %v and %v, but got %s instead.", param, low, high, n)
		}
		return nil
	}
}

func isObject(f fields) check {
	return func(param string, v any) *realtime.Error {
		o, ok := v.(object)
		if !ok {
			return wrongType(param, "an object", v)
		}
		return f.of(param, o)
	}
}

func nullable(c check) check {
	return func(param string, v any) *realtime.Error {
		if v == nil {
			return nil
		}
		return c(param, v)
	}
}

func isModalities(param string, v any) *realtime.Error {
	list, ok := v.([]any)
	if !ok {
		return wrongType(param, "an array", v)
	}
	if len(list) != 1 || (list[0] != "audio" && list[0] != "text") {
		return refuse("invalid_value", param, "Invalid modalities: %v. Supported combinations are: ['text'] and ['audio'].", list)
	}
	return nil
}

func isFormat(param string, v any) *realtime.Error {
	return isObject(fields{"type": isOneOf("audio/pcm", "audio/pcmu", "audio/pcma"), "rate": isNumber(24000, 24000)})(param, v)
}

func isVoice(param string, v any) *realtime.Error {
	if o, ok := v.(object); ok {
		return fields{"id": isString}.of(param, o)
	}
	return isOneOf("alloy", "ash", "ballad", "cedar", "coral", "echo", "marin", "sage", "shimmer", "verse")(param, v)
}

func isTurnDetection(param string, v any) *realtime.Error {
	o, ok := v.(object)
	if !ok {
		return wrongType(param, "an object", v)
	}
	kind, _ := o["type"].(string)
	schema, ok := turnSchemas[kind]
	if !ok {
		return refuse("invalid_value", param+".type", "Invalid value: '%v'. Supported values are: 'server_vad', 'semantic_vad'.", o["type"])
	}
	return schema.of(param, o)
}

func isMaxTokens(param string, v any) *realtime.Error {
	if v == "inf" {
		return nil
	}
	return isNumber(1, 4096)(param, v)
}

func isToolChoice(param string, v any) *realtime.Error {
	if o, ok := v.(object); ok {
		return fields{"type": isOneOf("function", "mcp"), "name": isString, "server_label": isString}.of(param, o)
	}
	return isOneOf("auto", "none", "required")(param, v)
}

func isTools(param string, v any) *realtime.Error {
	list, ok := v.([]any)
	if !ok {
		return wrongType(param, "an array", v)
	}
	for i, t := range list {
		at := fmt.Sprintf("%s[%d]", param, i)
		o, ok := t.(object)
		if !ok {
			return wrongType(at, "an object", t)
		}
		if o["type"] == "mcp" {
			continue // remote MCP servers are not run here; the declaration is kept
		}
		if err := isFunction(at, o); err != nil {
			return err
		}
	}
	return nil
}

func isFunction(at string, o object) *realtime.Error {
	schema := fields{
		"type": isOneOf("function", "mcp"), "name": isString, "description": isString,
		"parameters": func(p string, v any) *realtime.Error {
			if _, ok := v.(object); !ok {
				return wrongType(p, "an object", v)
			}
			return nil
		},
	}
	if err := schema.of(at, o); err != nil {
		return err
	}
	for _, name := range []string{"type", "name"} {
		if _, ok := o[name]; !ok {
			return refuse("missing_required_parameter", at+"."+name, "Missing required parameter: '%s.%s'.", at, name)
		}
	}
	name := o["name"].(string)
	if len(name) == 0 || len(name) > 64 || strings.IndexFunc(name, notNameRune) >= 0 {
		return refuse("invalid_value", at+".name", "Invalid '%s.name': '%s' does not match the pattern '^[a-zA-Z0-9_-]{1,64}$'.", at, name)
	}
	return nil
}

func notNameRune(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' && r != '-'
}

var turnSchemas = map[string]fields{
	"server_vad": {
		"type": isString, "threshold": isNumber(0, 1), "prefix_padding_ms": isNumber(0, 10_000),
		"silence_duration_ms": isNumber(0, 10_000), "idle_timeout_ms": nullable(isNumber(5000, 30_000)),
		"create_response": isBool, "interrupt_response": isBool,
	},
	"semantic_vad": {
		"type": isString, "eagerness": isOneOf("low", "medium", "high", "auto"),
		"create_response": isBool, "interrupt_response": isBool,
	},
}
