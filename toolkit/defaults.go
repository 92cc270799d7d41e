package toolkit

import (
	"encoding/json"
	"slices"
	"strings"
)

// defaults are the values of properties that a schema requires although it has defaults for them,
// as schema generators do: callers may omit them, and the tool needs them. JSON Schema itself gives
// default no meaning (2020-12, validation, 9.2).
type defaults struct {
	values map[string]any
	below  map[string]defaults // of properties that are objects
}

// defaultsOf collects the defaults of a schema and of the objects in its properties.
func defaultsOf(schema map[string]any) defaults {
	d := defaults{values: map[string]any{}, below: map[string]defaults{}}
	properties, _ := schema["properties"].(map[string]any)
	required, _ := schema["required"].([]any)
	for name, value := range properties {
		property, ok := value.(map[string]any)
		if !ok {
			continue
		}
		if value, ok := property["default"]; ok && slices.Contains(required, any(name)) {
			d.values[name] = value
		}
		if below := defaultsOf(property); !below.empty() {
			d.below[name] = below
		}
	}
	return d
}

func (d defaults) empty() bool { return len(d.values)+len(d.below) == 0 }

// fill sets missing values in an object, and reports whether there were any.
func (d defaults) fill(object map[string]any) (filled bool) {
	for name, value := range d.values {
		if _, ok := object[name]; !ok {
			object[name], filled = value, true
		}
	}
	for name, below := range d.below {
		if inner, ok := object[name].(map[string]any); ok {
			filled = below.fill(inner) || filled
		}
	}
	return filled
}

// fillText sets missing values in an object and in its text.
func (d defaults) fillText(text string, object map[string]any) string {
	if d.empty() || !d.fill(object) {
		return text
	}
	// Numbers keep their spelling.
	var exact map[string]any
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	if decoder.Decode(&exact) != nil {
		return text
	}
	d.fill(exact)
	return string(Encode(exact))
}
