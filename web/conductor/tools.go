package conductor

import (
	"encoding/json"
	"fmt"
	"slices"

	"voicebridge/chat"
	"voicebridge/persistence"
	"voicebridge/toolkit"
	"voicebridge/web/problem"
)

// agentToolkit is the name by which a session switches the agent tools on.
const agentToolkit = "agent"

// Tools are the tools that the app of a conductor session runs.
type Tools struct {
	definitions []toolkit.Definition
	system      string
	// names are those for the app, by those for the model, where they differ: model
	// APIs take no dots in a name.
	names map[string]string
}

// wireName is a tool's name as the app knows it.
func (t Tools) wireName(name string) string {
	if n, ok := t.names[name]; ok {
		return n
	}
	return name
}

// NewTools puts together what a text session declares and the toolkits that
// its defaults or the query switch on.
func NewTools(session persistence.TextSession, query string) (Tools, error) {
	var t Tools
	if session.Tools != "" {
		if err := json.Unmarshal([]byte(session.Tools), &t.definitions); err != nil {
			return t, fmt.Errorf("read tools of the session: %w", err)
		}
	}
	if query != "" && query != agentToolkit {
		return t, problem.BadRequest("invalid_value", "tools", fmt.Sprintf("There is no toolkit %.50q; there is %q.", query, agentToolkit))
	}
	if query == "" && !slices.Contains(defaultToolkits(session.Defaults), agentToolkit) {
		return t, nil
	}
	t.system, t.names = chat.AgentInstructions, make(map[string]string)
	for _, d := range chat.AgentTools() {
		// What the session declares under such a name is its own.
		if !slices.ContainsFunc(t.definitions, func(own toolkit.Definition) bool { return own.Name == d.Name }) {
			t.definitions = append(t.definitions, d)
			t.names[d.Name] = chat.AppName(d.Name)
		}
	}
	if err := (chat.CallerTools{Tools: t.definitions}).Validate(); err != nil {
		return t, err
	}
	return t, nil
}

// defaultToolkits reads the toolkits from the defaults of a text session:
// {"tools":"agent"} or {"tools":["agent"]}. Defaults are the caller's own, so
// anything else means nothing here.
func defaultToolkits(defaults string) []string {
	var one struct{ Tools string }
	if json.Unmarshal([]byte(defaults), &one) == nil {
		return []string{one.Tools}
	}
	var several struct{ Tools []string }
	if json.Unmarshal([]byte(defaults), &several) == nil {
		return several.Tools
	}
	return nil
}
