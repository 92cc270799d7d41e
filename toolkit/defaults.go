package toolkit

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// defaults correct what models and schema generators often write, according to a schema. A property that is
// required although it has a default, as generators write it, may be omitted: JSON Schema itself gives
// default no meaning (2020-12, validation, 9.2). One that is not required may be null instead, as models
// write it, although its type is another.
type defaults struct {
	values   map[string]json.RawMessage // of properties that are required
	optional map[string]bool            // properties that may be omitted and cannot be null
	below    map[string]defaults        // of properties that are objects, or lists of them
}

// defaultsOf collects the defaults of a schema and of the objects in its properties.
func defaultsOf(schema map[string]any) defaults {
	d := defaults{values: map[string]json.RawMessage{}, optional: map[string]bool{}, below: map[string]defaults{}}
	properties, _ := schema["properties"].(map[string]any)
	required, _ := schema["required"].([]any)
	for name, value := range properties {
		property, ok := value.(map[string]any)
		if !ok {
			continue
		}
		value, hasDefault := property["default"]
		switch needed := slices.Contains(required, any(name)); {
		case needed && hasDefault:
			d.values[name] = Encode(value)
		case !needed && property["type"] != nil && !isType(property, "null"):
			d.optional[name] = true
		}
		below := defaultsOf(property)
		if items, ok := property["items"].(map[string]any); ok && below.empty() {
			below = defaultsOf(items)
		}
		if !below.empty() {
			d.below[name] = below
		}
	}
	return d
}

func (d defaults) empty() bool { return len(d.values)+len(d.optional)+len(d.below) == 0 }

// fill sets missing values in an object, as long as there is room for them (bytes), and removes nulls from it, and
// reports whether there were any.
func (d defaults) fill(object map[string]any, room *int) (filled bool) {
	for _, name := range slices.Sorted(maps.Keys(d.values)) {
		raw := d.values[name]
		if _, ok := object[name]; !ok && *room >= len(raw) {
			*room -= len(raw)
			var value any
			_ = json.Unmarshal(raw, &value) // it was encoded; each object has its own
			object[name], filled = value, true
		}
	}
	for name := range d.optional {
		if value, ok := object[name]; ok && value == nil {
			delete(object, name)
			filled = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(d.below)) {
		below := d.below[name]
		list, ok := object[name].([]any)
		if !ok {
			list = []any{object[name]}
		}
		for _, value := range list {
			if inner, ok := value.(map[string]any); ok {
				filled = below.fill(inner, room) || filled
			}
		}
	}
	return filled
}

// fillText sets missing values in an object and in its text, and removes nulls from both.
func (d defaults) fillText(text string, object map[string]any) string {
	room := MaxArguments
	if d.empty() || !d.fill(object, &room) {
		return text
	}
	// Numbers keep their spelling.
	var exact map[string]any
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	if decoder.Decode(&exact) != nil {
		return text
	}
	room = MaxArguments
	d.fill(exact, &room)
	return string(Encode(exact))
}

// isType reports whether a schema names the type, alone or in a list.
func isType(node map[string]any, name string) bool {
	list, _ := node["type"].([]any)
	return node["type"] == name || slices.Contains(list, any(name))
}
