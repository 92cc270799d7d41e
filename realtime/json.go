package realtime

import (
	"bytes"
	"errors"
	"io"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// maxDepth is the deepest nesting of objects and arrays that Decode accepts. Real events nest about ten deep, for a
// tool's JSON schema inside a session.
const maxDepth = 64

// The errors of Decode, besides ErrNoType.
var (
	// ErrNotJSON means that the bytes are not one JSON object in valid UTF-8.
	ErrNotJSON = errors.New("event is not a JSON object")
	// ErrTooDeep means that objects and arrays nest more than 64 deep.
	ErrTooDeep = errors.New("event is nested too deeply")
)

// members calls keep with each member of an object; null counts as an empty one. val is JSON text and shares raw's
// memory.
func members(raw []byte, keep func(key string, val []byte) error) error {
	if string(raw) == "null" {
		return nil
	}
	return entries(raw, '{', keep)
}

// elements calls keep with each value of an array, as JSON text that shares raw's memory.
func elements(raw []byte, keep func(val []byte) error) error {
	return entries(raw, '[', func(_ string, val []byte) error { return keep(val) })
}

// entries reads raw, an object or array as open says, and nothing beside it. Of an array's entries the key is empty.
// Duplicate keys are reported as often as they occur, and half of a surrogate pair is U+FFFD, as in encoding/json.
func entries(raw []byte, open jsontext.Kind, keep func(key string, val []byte) error) error {
	if !utf8.Valid(raw) {
		return ErrNotJSON
	}
	if tooDeep(raw) {
		return ErrTooDeep
	}
	d := jsontext.NewDecoder(bytes.NewBuffer(raw), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if first, err := d.ReadToken(); err != nil || first.Kind() != open {
		return ErrNotJSON
	}
	end := open + 2 // ']' follows '[' and '}' follows '{' at this distance
	for d.PeekKind() != end {
		key := ""
		if open == '{' {
			name, err := d.ReadToken()
			if err != nil {
				return ErrNotJSON
			}
			key = name.String()
		}
		val, err := d.ReadValue()
		if err != nil {
			return ErrNotJSON
		}
		if err := keep(key, val); err != nil {
			return err
		}
	}
	if _, err := d.ReadToken(); err != nil {
		return ErrNotJSON
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return ErrNotJSON
	}
	return nil
}

// tooDeep reports whether JSON text nests deeper than maxDepth.
func tooDeep(raw []byte) bool {
	depth, quoted := 0, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			depth--
		}
		if depth > maxDepth {
			return true
		}
	}
	return false
}

// isNull reports whether a value that entries has read is null.
func isNull(val []byte) bool { return val[0] == 'n' }

// unquoted is the text of a JSON string that entries has read.
func unquoted(val []byte) string {
	text, _ := jsontext.AppendUnquote(nil, val) // its error is half of a surrogate pair
	return string(text)
}
