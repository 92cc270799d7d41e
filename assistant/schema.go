package assistant

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Schema returns the JSON schema of an assistant as the API's description has it.
func Schema() map[string]any {
	return schemaOf(reflect.TypeFor[Assistant](), `doc:"A named set of what is otherwise the server's settings"`)
}

// schemaOf returns the schema of a field.
func schemaOf(t reflect.Type, tag reflect.StructTag) map[string]any {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	s := map[string]any{}
	if doc := tag.Get("doc"); doc != "" {
		s["description"] = doc
	}
	limit := func(name, key string) {
		if n := tag.Get(key); n != "" {
			s[name] = json.Number(n)
		}
	}
	switch {
	case t == reflect.TypeFor[json.RawMessage]():
		s["type"] = "object"
	case t == reflect.TypeFor[time.Time]():
		s["type"], s["format"], s["readOnly"] = "string", "date-time", true
	case t.Kind() == reflect.Struct:
		s["type"], s["additionalProperties"] = "object", false
		properties, required := map[string]any{}, []any{}
		for f := range t.Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name == "-" {
				continue
			}
			property := schemaOf(f.Type, f.Tag)
			if slices.Contains(served, name) {
				property["readOnly"] = true
			}
			properties[name] = property
			if isRequired(f) {
				required = append(required, name)
			}
		}
		s["properties"] = properties
		if len(required) > 0 {
			s["required"] = required
		}
	case t.Kind() == reflect.Map:
		s["type"], s["additionalProperties"] = "object", map[string]any{"type": "string", "maxLength": maxValue}
		limit("maxProperties", "max")
	case t.Kind() == reflect.Slice:
		s["type"], s["items"] = "array", schemaOf(t.Elem(), "")
		limit("maxItems", "max")
	case t.Kind() == reflect.String:
		s["type"] = "string"
		if values, ok := tag.Lookup("enum"); ok {
			s["enum"] = strings.Split(values, ",")
		}
		limit("minLength", "min")
		limit("maxLength", "max")
		if tag.Get("format") == "id" {
			s["pattern"] = idPattern.String()
		}
	case t.Kind() == reflect.Bool:
		s["type"] = "boolean"
	case t.Kind() == reflect.Int:
		s["type"] = "integer"
		limit("minimum", "min")
		limit("maximum", "max")
	default:
		s["type"] = "number"
		limit("minimum", "min")
		limit("maximum", "max")
	}
	return s
}
