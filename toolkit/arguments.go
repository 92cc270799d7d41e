package toolkit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// MaxArguments limits a call's arguments, in bytes.
const MaxArguments = 256 << 10

// maxDepth is how deep a call's arguments may be nested.
const maxDepth = 64

// MaxCalls is how many tools one answer of a model may start.
const MaxCalls = 64

// MaxValues limits the values of a JSON text that is decoded and comes from outside, however small it is in bytes.
const MaxValues = 200_000

// Depth returns how deep a JSON text nests: 0 for a scalar, 1 for {} or []. The text need not be valid
// JSON.
func Depth(data []byte) int {
	deepest, _ := Shape(data)
	return deepest
}

// Shape returns how deep a JSON text nests, and about how many values it has, without decoding it: {} takes two bytes
// of text, but hundreds once it is decoded. The text need not be valid JSON.
func Shape(data []byte) (deepest, values int) {
	depth := 0
	values = 1
	inString, escaped := false, false
	for _, c := range data {
		switch {
		case escaped:
			escaped = false
		case inString:
			escaped = c == '\\'
			inString = c != '"'
		case c == '"':
			inString = true
		case c == ',':
			values++
		case c == '{' || c == '[':
			values++
			depth++
			deepest = max(deepest, depth)
		case c == '}' || c == ']':
			depth--
		}
	}
	return deepest, values
}

// parseArguments parses the arguments that a model wrote. It returns the text for the tool (never
// empty, valid UTF-8) and the object. Errors are in words for the model.
func parseArguments(text string) (string, map[string]any, error) {
	if len(text) > MaxArguments {
		return "", nil, fmt.Errorf("the arguments are %d bytes long, the limit is %d", len(text), MaxArguments)
	}
	text = strings.TrimSpace(strings.ToValidUTF8(text, "\uFFFD"))
	if text == "" {
		return "{}", map[string]any{}, nil
	}
	if Depth([]byte(text)) > maxDepth {
		return "", nil, fmt.Errorf("the arguments nest deeper than %d levels", maxDepth)
	}
	var value any
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		return "", nil, argumentsError(err)
	}
	object, ok := value.(map[string]any)
	if !ok {
		return "", nil, fmt.Errorf("the arguments must be a JSON object, not %s", jsonKind(value))
	}
	// The schema would see one of them, and the tool perhaps the other.
	if key, twice := KeyTwice([]byte(text)); twice {
		return "", nil, fmt.Errorf("the arguments contain the field %q twice in one object", Cut(key, 40))
	}
	return text, object, nil
}

// KeyTwice returns the first duplicate key in one object of a valid JSON text.
func KeyTwice(data []byte) (key string, twice bool) {
	_, err := jsontext.NewDecoder(bytes.NewBuffer(data), jsontext.AllowInvalidUTF8(true)).ReadValue()
	wrong, ok := errors.AsType[*jsontext.SyntacticError](err)
	if !ok || !errors.Is(wrong.Err, jsontext.ErrDuplicateName) {
		return "", false
	}
	return wrong.JSONPointer.LastToken(), true
}

func argumentsError(err error) error {
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fmt.Errorf("the arguments are not valid JSON at byte %d: %w", syntax.Offset, syntax)
	}
	if number, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Errorf("the arguments contain a number that is out of range (%s)", Cut(number.Value, 60))
	}
	return fmt.Errorf("the arguments are not valid JSON: %w", err)
}

func jsonKind(value any) string {
	switch form := formOf(value); form {
	case "null":
		return form
	case "array":
		return "an array"
	default:
		return "a " + form
	}
}

// formOf returns the form of a decoded value, as JSON Schema calls it.
func formOf(value any) string {
	switch value.(type) {
	case map[string]any:
		return "object"
	case []any:
		return "array"
	case string:
		return "string"
	case bool:
		return "boolean"
	case nil:
		return "null"
	default:
		return "number"
	}
}
