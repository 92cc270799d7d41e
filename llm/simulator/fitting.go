package simulator

import (
	"encoding/json"
	"strings"
)

// maxFitting limits how deep the simulator follows a schema.
const maxFitting = 32

// fitting returns a JSON value that fits a schema without references, as far as its types and enumerations go.
func fitting(schema json.RawMessage) string {
	var value any
	if json.Unmarshal(schema, &value) != nil {
		return "{}"
	}
	raw, _ := json.Marshal(fit(value, 0)) // of values that were read from JSON
	return string(raw)
}

func fit(schema any, depth int) any {
	s, _ := schema.(map[string]any)
	if depth > maxFitting {
		return nil
	}
	if v, ok := s["const"]; ok {
		return v
	}
	if values, _ := s["enum"].([]any); len(values) > 0 {
		return values[0]
	}
	kind, _ := s["type"].(string)
	if kinds, _ := s["type"].([]any); len(kinds) > 0 {
		kind, _ = kinds[0].(string)
	}
	switch kind {
	case "object":
		out := map[string]any{}
		properties, _ := s["properties"].(map[string]any)
		for name, inner := range properties {
			out[name] = fit(inner, depth+1)
		}
		return out
	case "array":
		least, _ := s["minItems"].(float64)
		out := []any{}
		for range min(int(least), 100) {
			out = append(out, fit(s["items"], depth+1))
		}
		return out
	case "number", "integer":
		least, _ := s["minimum"].(float64)
		return least
	case "boolean":
		return false
	case "null":
		return nil
	default:
		least, _ := s["minLength"].(float64)
		return "made up by the simulator" +
			strings.Repeat(".", max(0, min(int(least), 10_000)-len("made up by the simulator")))
	}
}
