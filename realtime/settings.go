package realtime

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// Settings are the parts of a session by their paths in it, such as audio.output.voice, as JSON. A later change is
// merged by copying its Settings over those before: a session.update changes what it names, and replaces what is not
// made of Parts.
type Settings map[string]json.RawMessage

// Settings reads the settings in a session object, as far as take accepts them. It checks no values. Null is left out
// where the API does not allow it. Its error is that something around them is not an object; the others are there all
// the same.
func (f Field) Settings(session json.RawMessage, take func(path string, f Field) bool) (Settings, *Error) {
	all := Settings{}
	if session = bytes.TrimSpace(session); len(session) == 0 || isNull(session) {
		return nil, Refuse("invalid_value", "session", "session must be an object.")
	}
	return all, f.collect(all, "", session, take)
}

func (f Field) collect(into Settings, at string, raw []byte, take func(path string, f Field) bool) *Error {
	var all map[string]json.RawMessage
	if json.Unmarshal(raw, &all) != nil {
		param := strings.TrimSuffix("session."+at, ".")
		return Refuse("invalid_value", param, "%s must be an object.", param)
	}
	var failed *Error
	for _, name := range slices.Sorted(maps.Keys(all)) {
		val := all[name]
		member, known := f.Fields[name]
		path := below(at, name)
		switch {
		case known && member.Parts:
			failed = cmp.Or(member.collect(into, path, val, take), failed)
		case known && (member.Null || !isNull(val)) && take(path, member):
			into[path] = val
		}
	}
	return failed
}

// Encode returns the session object. It panics if a value is not JSON.
func (s Settings) Encode() json.RawMessage { return Encode(s) }

// MarshalJSON writes the session object.
func (s Settings) MarshalJSON() ([]byte, error) {
	session := map[string]any{}
	for _, path := range slices.Sorted(maps.Keys(s)) {
		Put(session, path, s[path])
	}
	return marshal(session)
}
