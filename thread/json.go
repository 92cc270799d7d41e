package thread

import (
	"bytes"
	"encoding/json"
	"strings"
)

// MaxDepth is how deep JSON may be nested. PostgreSQL allows a few thousand levels, parsers in other
// languages fewer.
const MaxDepth = 200

// Depth returns how deep valid JSON is nested.
func Depth(raw []byte) int {
	deepest, now := 0, 0
	inString := false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			now++
			deepest = max(deepest, now)
		case c == '}' || c == ']':
			now--
		}
	}
	return deepest
}

// Encode is json.Marshal without escaping for HTML, which would make the tables harder to read.
func Encode(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}

// AsJSON returns raw if it is JSON of a reasonable depth, else raw as a string.
func AsJSON(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return nil
	}
	if json.Valid(raw) && Depth(raw) <= MaxDepth {
		return raw
	}
	text, _ := Encode(string(raw)) // a string can always be encoded
	return text
}

// CleanText makes s storable: PostgreSQL refuses NUL and invalid UTF-8.
func CleanText(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\ufffd"), "\x00", "")
}
