package conductor

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"voicebridge/chat"
	"voicebridge/persistence"
	"voicebridge/toolkit"
	"voicebridge/web/problem"
)

// agentToolkit is the name under which a session enables the agent tools.
const agentToolkit = "agent"

// Tools are the tools that the app of a conductor session runs.
type Tools struct {
	definitions []toolkit.Definition
	system      string
	// names maps the model's names of tools to the app's, where they differ: model APIs allow no
	// dots in names.
	names map[string]string
}

// wireName returns a tool's name as the app knows it.
func (t Tools) wireName(name string) string {
	return cmp.Or(t.names[name], name)
}

// NewTools combines the tools that a text session declares with the toolkit that the query enables.
func NewTools(session persistence.TextSession, query string) (Tools, error) {
	var t Tools
	if err := json.Unmarshal([]byte(cmp.Or(session.Tools, "[]")), &t.definitions); err != nil {
		return t, fmt.Errorf("read tools of the session: %w", err)
	}
	if query != "" && query != agentToolkit {
		return t, problem.Invalid("tools", "There is no toolkit %.50q; there is %q.", query, agentToolkit)
	}
	if query == "" {
		return t, nil
	}
	t.system, t.names = chat.AgentInstructions, make(map[string]string)
	for _, d := range chat.AgentTools() {
		// Tools that the session itself declares take precedence.
		if !slices.ContainsFunc(t.definitions, func(own toolkit.Definition) bool { return own.Name == d.Name }) {
			t.definitions = append(t.definitions, d)
			t.names[d.Name] = chat.AppName(d.Name)
		}
	}
	if err := (chat.ClientTools{Tools: t.definitions}).Validate(); err != nil {
		return t, err
	}
	return t, nil
}
