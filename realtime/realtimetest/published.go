package realtimetest

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"github.com/google/jsonschema-go/jsonschema"
)

// openai has the schemas of the Realtime API's events in OpenAI's OpenAPI document, and what they refer to.
//
//go:embed openai.json
var openai []byte

// events are the published schemas of events, by direction and type. Each is resolved when it is first needed: that of
// all takes seconds, for which a server that is just being talked to would not answer.
var events = sync.OnceValue(func() map[string]func() *jsonschema.Resolved {
	var all jsonschema.Schema
	if err := json.Unmarshal(openai, &all); err != nil {
		panic(err)
	}
	found := make(map[string]func() *jsonschema.Resolved)
	for name, s := range all.Defs {
		direction, _, isEvent := strings.Cut(strings.TrimPrefix(name, "Realtime"), "Event")
		kind := s.Properties["type"]
		if !isEvent || kind == nil {
			continue
		}
		resolve := sync.OnceValue(func() *jsonschema.Resolved {
			root := &jsonschema.Schema{Ref: "#/$defs/" + name, Defs: all.Defs}
			resolved, err := root.CloneSchemas().Resolve(nil)
			if err != nil {
				panic(fmt.Errorf("resolve %s: %w", name, err))
			}
			return resolved
		})
		for _, value := range append(kind.Enum, constOf(kind)...) {
			found[fmt.Sprint(direction, " ", value)] = resolve
		}
	}
	return found
})

func constOf(s *jsonschema.Schema) []any {
	if s.Const == nil {
		return nil
	}
	return []any{*s.Const}
}

// The directions of events.
const (
	FromClient = "Client"
	FromServer = "Server"
)

// Published returns how an event differs from what OpenAI publishes about those of its type; nil means that it does
// not, or that there is no such type. Members that are null count as missing where OpenAI itself sends null: those that
// are named.
func Published(direction string, event []byte, nulls ...string) error {
	var tree map[string]any
	if err := json.Unmarshal(event, &tree); err != nil {
		return fmt.Errorf("decode event: %w", err)
	}
	schema := events()[fmt.Sprint(direction, " ", tree["type"])]
	if schema == nil {
		return nil
	}
	withoutNulls(tree, nulls)
	if err := schema().Validate(tree); err != nil {
		return fmt.Errorf("%s: %w", tree["type"], err)
	}
	return nil
}

func withoutNulls(v any, names []string) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			withoutNulls(e, names)
		}
	case map[string]any:
		for _, name := range names {
			if value, ok := v[name]; ok && value == nil {
				delete(v, name)
			}
		}
		for _, e := range v {
			withoutNulls(e, names)
		}
	}
}
