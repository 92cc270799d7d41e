package anthropic

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"

	"voicebridge/llm/internal/wire"
)

// validKey matches the names of properties that the API accepts in a tool's schema, at its top; it refuses the whole
// request for any other, such as the $filter or filter[name] of some MCP servers.
var validKey = regexp.MustCompile(`^[a-zA-Z0-9_.-]{1,64}$`)

// notInKey matches what such a name must not contain.
var notInKey = regexp.MustCompile(`[^a-zA-Z0-9_.-]+`)

// withValidKeys renames the properties whose names the API does not accept. own maps the new names to the tool's own.
// A schema without any is returned unchanged, byte for byte.
func withValidKeys(schema json.RawMessage) (_ json.RawMessage, own map[string]string) {
	var fields, properties map[string]json.RawMessage
	if json.Unmarshal(schema, &fields) != nil || json.Unmarshal(fields["properties"], &properties) != nil {
		return schema, nil
	}
	var required []string
	_ = json.Unmarshal(fields["required"], &required) // none if it has another form
	for _, key := range slices.Sorted(maps.Keys(properties)) {
		if validKey.MatchString(key) {
			continue
		}
		name := notInKey.ReplaceAllString(key, "_")
		if _, taken := properties[name]; taken || !validKey.MatchString(name) {
			name = wire.StandIn(key)
		}
		if own == nil {
			own = map[string]string{}
		}
		own[name], properties[name] = key, properties[key]
		delete(properties, key)
		if i := slices.Index(required, key); i >= 0 {
			required[i] = name
		}
	}
	if own == nil {
		return schema, nil
	}
	fields["properties"], _ = json.Marshal(properties) // what has been read can be written
	if len(required) > 0 {
		fields["required"], _ = json.Marshal(required)
	}
	whole, _ := json.Marshal(fields)
	return whole, own
}

// withOwnKeys gives the arguments of a call the names that its tool knows.
func withOwnKeys(arguments string, own map[string]string) string {
	var fields map[string]json.RawMessage
	if len(own) == 0 || json.Unmarshal([]byte(arguments), &fields) != nil {
		return arguments
	}
	for name, key := range own {
		if value, given := fields[name]; given {
			fields[key] = value
			delete(fields, name)
		}
	}
	whole, _ := json.Marshal(fields) // what has been read can be written
	return string(whole)
}
