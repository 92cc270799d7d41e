package mcptool

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	"voicebridge/toolkit"
)

// pinned is the pinned definition of a tool. The exposed name is not part of it.
type pinned struct {
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
}

func pinOf(d toolkit.Definition) string {
	return string(toolkit.Encode(pinned{d.Description, d.Parameters}))
}

// pinsOf returns under which name the definitions of an owner's tools are kept: no other server's, whatever owners are
// called. All processes of a command have the same; what an account has may be another's secret.
func (s *server) pinsOf(owner string) string {
	name := strings.NewReplacer("%", "%25", " of ", "%20of%20").Replace(s.name)
	if s.config.Auth != AuthOAuth {
		return name
	}
	return name + " of " + owner
}

// samePin reports whether two definitions are the same JSON, but for how numbers and characters are written.
func samePin(a, b string) bool {
	var x, y any
	return a == b ||
		json.Unmarshal([]byte(a), &x) == nil && json.Unmarshal([]byte(b), &y) == nil && reflect.DeepEqual(x, y)
}

const (
	whyNew = "The server did not have this tool when it was first seen. The operator can accept it with " +
		"trustChanges."
	whyChanged = "The tool's definition has changed since it was first seen. The previous definition is used, and " +
		"each call needs approval. The operator can accept the change with trustChanges."
)

// hold compares what a server offers with what was seen before. The tools of a new server are
// pinned as they are. Later, a tool whose definition has changed is offered with its old
// definition, and each call needs approval; a new tool is not offered. A tool's description is an
// instruction to the model, and a server that was once trusted may have changed hands.
//
// Tools that the configuration bars are pinned with the others, so that the operator can allow them
// later: the server has had them all along.
func (s *server) hold(ctx context.Context, listed, barred []*tool) ([]*tool, error) {
	earlier, err := s.options.Pins.ToolPins(ctx, s.pinsOf(s.owner))
	if err != nil {
		return nil, fmt.Errorf("compare its tools with those seen before: %w", err)
	}
	if len(earlier) == 0 || s.config.TrustChanges {
		return listed, s.pin(ctx, earlier, slices.Concat(listed, barred))
	}
	var offer []*tool
	var held []Held
	for _, t := range listed {
		before, seen := earlier[t.remote]
		switch {
		case !seen:
			held = append(held, Held{Tool: t.def, Why: whyNew})
			s.log.Warn("MCP tool held, the server did not have it when it was first seen", "tool", t.remote)
		case samePin(before, pinOf(t.def)):
			offer = append(offer, t)
		default:
			old, err := t.asPinned(before)
			if err != nil {
				return nil, fmt.Errorf("read the pinned definition of %q: %w", t.remote, err)
			}
			held = append(held, Held{Tool: t.def, Why: whyChanged})
			offer = append(offer, old)
			s.log.Warn("MCP tool held, its definition has changed since it was first seen; each call needs approval",
				"tool", t.remote)
		}
	}
	s.mu.Lock()
	s.held = held
	s.mu.Unlock()
	return offer, nil
}

// pin pins the current tools, and drops the pins of those that are gone.
func (s *server) pin(ctx context.Context, earlier map[string]string, listed []*tool) error {
	change := map[string]string{}
	for name := range earlier {
		change[name] = ""
	}
	for _, t := range listed {
		if pin := pinOf(t.def); earlier[t.remote] == pin {
			delete(change, t.remote)
		} else {
			change[t.remote] = pin
		}
	}
	if len(change) > 0 {
		if err := s.options.Pins.PinTools(ctx, s.pinsOf(s.owner), change); err != nil {
			return fmt.Errorf("pin its tools: %w", err)
		}
	}
	s.mu.Lock()
	s.held = nil
	s.mu.Unlock()
	return nil
}

// asPinned returns the tool with its pinned definition. Each call needs approval.
func (t *tool) asPinned(text string) (*tool, error) {
	var p pinned
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		return nil, err
	}
	old := *t
	old.def.Description, old.def.Parameters = p.Description, p.Parameters
	old.asks = true
	// By now the server may accept other arguments than these.
	old.unchecked = toolkit.CheckParameters(p.Parameters) != nil
	return &old, nil
}

// memory keeps pins while the process runs.
type memory struct {
	mu   sync.Mutex
	pins map[string]map[string]string
}

func (m *memory) ToolPins(_ context.Context, server string) (map[string]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.pins[server]), nil
}

func (m *memory) PinTools(_ context.Context, server string, definitions map[string]string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.pins == nil {
		m.pins = map[string]map[string]string{}
	}
	if m.pins[server] == nil {
		m.pins[server] = map[string]string{}
	}
	maps.Copy(m.pins[server], definitions)
	maps.DeleteFunc(m.pins[server], func(_, definition string) bool { return definition == "" })
	return nil
}
