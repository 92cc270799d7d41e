package realtimetest

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// tree is a JSON object.
type tree = map[string]any

// refusal is what an error event says.
type refusal struct{ code, message, param string }

func invalid(param, format string, args ...any) *refusal {
	return &refusal{"invalid_value", fmt.Sprintf(format, args...), param}
}

// shape is what a JSON value has to be.
type shape interface {
	check(path string, v any) *refusal
}

type (
	// object has these fields and no others; one whose name ends with ! is required.
	object map[string]shape
	// byType is one of several objects, which "type" tells apart.
	byType map[string]object
	words  []string
	list   struct{ of shape }
	maybe  struct{ of shape } // or null
	either []shape
	// text has so many characters at most, 0: any number.
	text     int
	whole    struct{ low, high float64 }
	number   struct{ low, high float64 }
	exactly  float64
	flag     struct{}
	anything struct{}
	// anyObject is an object with any fields.
	anyObject struct{}
)

func (o object) check(path string, v any) *refusal {
	t, ok := v.(tree)
	if !ok {
		return &refusal{"invalid_type", "An object is expected.", path}
	}
	for _, name := range slices.Sorted(maps.Keys(o)) {
		if required, is := strings.CutSuffix(name, "!"); is {
			if _, has := t[required]; !has {
				return &refusal{"missing_required_parameter", "Missing required parameter: '" + below(path, required) + "'.", below(path, required)}
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(t)) {
		s, known := o[name]
		if !known {
			s, known = o[name+"!"]
		}
		if !known {
			return &refusal{"unknown_parameter", "Unknown parameter: '" + below(path, name) + "'.", below(path, name)}
		}
		if r := s.check(below(path, name), t[name]); r != nil {
			return r
		}
	}
	return nil
}

func (b byType) check(path string, v any) *refusal {
	t, ok := v.(tree)
	if !ok {
		return &refusal{"invalid_type", "An object is expected.", path}
	}
	kind, ok := t["type"].(string)
	if !ok {
		return &refusal{"missing_required_parameter", "Missing required parameter: '" + below(path, "type") + "'.", below(path, "type")}
	}
	o, known := b[kind]
	if !known {
		return invalid(below(path, "type"), "Invalid value: %q. Supported values are %q.", kind, slices.Sorted(maps.Keys(b)))
	}
	o = maps.Clone(o)
	o["type"] = words{kind}
	return o.check(path, v)
}

func (w words) check(path string, v any) *refusal {
	if s, ok := v.(string); !ok || !slices.Contains(w, s) {
		return invalid(path, "Invalid value: '%v'. Supported values are %q.", v, []string(w))
	}
	return nil
}

func (l list) check(path string, v any) *refusal {
	values, ok := v.([]any)
	if !ok {
		return &refusal{"invalid_type", "An array is expected.", path}
	}
	for i, value := range values {
		if r := l.of.check(fmt.Sprintf("%s[%d]", path, i), value); r != nil {
			return r
		}
	}
	return nil
}

func (m maybe) check(path string, v any) *refusal {
	if v == nil {
		return nil
	}
	return m.of.check(path, v)
}

func (e either) check(path string, v any) (r *refusal) {
	for _, s := range e {
		if r = s.check(path, v); r == nil {
			return nil
		}
	}
	return r
}

func (n text) check(path string, v any) *refusal {
	s, ok := v.(string)
	switch {
	case !ok:
		return &refusal{"invalid_type", "A string is expected.", path}
	case n > 0 && len(s) > int(n):
		return &refusal{"string_above_max_length", fmt.Sprintf("String too long: at most %d characters, got %d.", n, len(s)), path}
	}
	return nil
}

func (w whole) check(path string, v any) *refusal {
	n, ok := v.(float64)
	if !ok || n != math.Trunc(n) || n < w.low || n > w.high {
		return invalid(path, "An integer between %g and %g is expected, not %v.", w.low, w.high, v)
	}
	return nil
}

func (w number) check(path string, v any) *refusal {
	if n, ok := v.(float64); !ok || n < w.low || n > w.high {
		return invalid(path, "A number between %g and %g is expected, not %v.", w.low, w.high, v)
	}
	return nil
}

func (x exactly) check(path string, v any) *refusal {
	if v != float64(x) {
		return invalid(path, "%g is expected, not %v.", float64(x), v)
	}
	return nil
}

func (flag) check(path string, v any) *refusal {
	if _, ok := v.(bool); !ok {
		return &refusal{"invalid_type", "A boolean is expected.", path}
	}
	return nil
}

func (anyObject) check(path string, v any) *refusal {
	if _, ok := v.(tree); !ok {
		return &refusal{"invalid_type", "An object is expected.", path}
	}
	return nil
}

func (anything) check(string, any) *refusal { return nil }

func below(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
