package simulator

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

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
		at := below(param, name)
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

// with checks an object that must have the named members.
func (f fields) with(names ...string) check {
	return is("an object", func(param string, o object) *realtime.Error {
		if err := f.of(param, o); err != nil {
			return err
		}
		return missing(param, o, names...)
	})
}

// missing refuses an object without one of the named members.
func missing(param string, o object, names ...string) *realtime.Error {
	for _, name := range names {
		if _, ok := o[name]; !ok {
			at := below(param, name)
			return refuse("missing_required_parameter", at, "Missing required parameter: '%s'.", at)
		}
	}
	return nil
}

// below returns the path to a member of the object at param.
func below(param, name string) string {
	if param == "" {
		return name
	}
	return param + "." + name
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
		if want == "an integer" {
			got = "a decimal number"
		}
	case bool:
		got = "a boolean"
	case []any:
		got = "an array"
	}
	return refuse("invalid_type", param, "Invalid type for '%s': expected %s, but got %s instead.", param, want, got)
}

// is checks that a value has the type T, which want names, and then more of it.
func is[T any](want string, more func(param string, v T) *realtime.Error) check {
	return func(param string, v any) *realtime.Error {
		if t, ok := v.(T); ok {
			return more(param, t)
		}
		return wrongType(param, want, v)
	}
}

func anyOf[T any](string, T) *realtime.Error { return nil }

var (
	isString = is("a string", anyOf[string])
	isBool   = is("a boolean", anyOf[bool])
	isMap    = is("an object", anyOf[object]) // with members of any name
)

// isUpTo checks a string of at most limit characters.
func isUpTo(limit int) check {
	return is("a string", func(param, s string) *realtime.Error {
		if n := utf8.RuneCountInString(s); n > limit {
			return refuse("string_above_max_length", param,
				"Invalid '%s': string too long. Expected a string with maximum length %d, but got a string with length %d instead.", param, limit, n)
		}
		return nil
	})
}

func isOneOf(values ...string) check {
	return is("a string", func(param, s string) *realtime.Error {
		if !slices.Contains(values, s) {
			return refuse("invalid_value", param, "Invalid value: '%s'. Supported values are: '%s'.", s, strings.Join(values, "', '"))
		}
		return nil
	})
}

func isNumber(low, high float64) check {
	return is("a number", func(param string, n json.Number) *realtime.Error {
		if f, err := n.Float64(); err != nil || f < low || f > high {
			return refuse("invalid_value", param, "Invalid '%s': expected a number between %v and %v, but got %s instead.", param, low, high, n)
		}
		return nil
	})
}

func isInteger(low, high int64) check {
	return is("an integer", func(param string, n json.Number) *realtime.Error {
		f, err := n.Float64()
		switch {
		case err == nil && f != math.Trunc(f):
			return wrongType(param, "an integer", n)
		case err != nil || f < float64(low) || f > float64(high):
			return refuse("invalid_value", param, "Invalid '%s': expected an integer between %d and %d, but got %s instead.", param, low, high, n)
		}
		return nil
	})
}

func isObject(f fields) check { return f.with() }

func isList(c check) check {
	return is("an array", func(param string, list []any) *realtime.Error {
		for i, v := range list {
			if err := c(fmt.Sprintf("%s[%d]", param, i), v); err != nil {
				return err
			}
		}
		return nil
	})
}

// byType checks an object according to its type.
func byType(schemas map[string]check) check {
	isType := isOneOf(slices.Sorted(maps.Keys(schemas))...)
	return is("an object", func(param string, o object) *realtime.Error {
		if err := missing(param, o, "type"); err != nil {
			return err
		}
		if err := isType(param+".type", o["type"]); err != nil {
			return err
		}
		return schemas[o["type"].(string)](param, o)
	})
}

func nullable(c check) check {
	return func(param string, v any) *realtime.Error {
		if v == nil {
			return nil
		}
		return c(param, v)
	}
}
