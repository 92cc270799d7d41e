package schema

import (
	"encoding/json"
	"reflect"
	"strings"
	"time"
)

// Describe returns the description of a field of the struct that declares it, and whether it is only shown.
type Describe func(in reflect.Type, f reflect.StructField) (text string, readOnly bool)

// JSON returns the JSON schema (2020-12) of a struct.
func (r *Rules) JSON(t reflect.Type, describe Describe) map[string]any {
	return r.group(t, "", describe)
}

func (r *Rules) group(t reflect.Type, path string, describe Describe) map[string]any {
	properties, needed := map[string]any{}, []any{}
	for name, f := range r.Fields(t) {
		at := Join(path, name)
		s := r.field(f.Type, f.Tag, at, describe)
		text, readOnly := describe(Declarer(t, f), f)
		if text != "" {
			s["description"] = text
		}
		if readOnly {
			s["readOnly"] = true
		}
		var byDefault any
		if r.Default != nil {
			byDefault = r.Default(at, f)
		}
		if byDefault != nil {
			s["default"] = byDefault
		} else if required(f) {
			needed = append(needed, name)
		}
		properties[name] = s
	}
	s := map[string]any{"type": "object", "additionalProperties": false, "properties": properties}
	if len(needed) > 0 {
		s["required"] = needed
	}
	return s
}

// Declarer returns the struct that declares a field of t, which may be a part of it.
func Declarer(t reflect.Type, f reflect.StructField) reflect.Type {
	for _, i := range f.Index[:len(f.Index)-1] {
		t = t.Field(i).Type
	}
	return t
}

func (r *Rules) field(t reflect.Type, tag reflect.StructTag, path string, describe Describe) map[string]any {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	s := map[string]any{}
	limit := func(name, key string) {
		if n := tag.Get(key); n != "" {
			s[name] = json.Number(n)
		}
	}
	switch {
	case t == reflect.TypeFor[json.RawMessage]():
		s["type"] = "object"
	case t == reflect.TypeFor[time.Time]():
		s["type"], s["format"] = "string", "date-time"
	case IsText(t):
		s["type"] = "string"
	case t.Kind() == reflect.Struct:
		return r.group(t, path, describe)
	case t.Kind() == reflect.Map:
		s["type"] = "object"
		if r.IsGroup(t.Elem()) {
			s["additionalProperties"] = r.group(t.Elem(), Join(path, "NAME"), describe)
		} else if t.Elem().Kind() == reflect.String {
			s["additionalProperties"] = map[string]any{"type": "string", "maxLength": MaxValue}
		}
		limit("maxProperties", "items")
	case t.Kind() == reflect.Slice:
		s["type"], s["items"] = "array", r.field(t.Elem(), tag, path+"[0]", describe)
		limit("maxItems", "items")
	case t.Kind() == reflect.String:
		s["type"] = "string"
		if values, ok := tag.Lookup("enum"); ok {
			s["enum"] = strings.Split(values, ",")
		}
		limit("minLength", "min")
		limit("maxLength", "max")
		if pattern := r.Patterns[tag.Get("format")]; pattern != nil {
			s["pattern"] = pattern.String()
		}
	case t.Kind() == reflect.Bool:
		s["type"] = "boolean"
	default:
		s["type"] = map[bool]string{true: "number", false: "integer"}[t.Kind() == reflect.Float64]
		limit("minimum", "min")
		limit("maximum", "max")
	}
	return s
}
