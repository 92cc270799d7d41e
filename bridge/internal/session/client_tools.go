package session

import (
	"fmt"
	"slices"
	"strings"

	"voicebridge/toolkit"
	"voicebridge/toolkit/clienttool"
)

// clientTools are the tools that the client declares, among all of the call.
type clientTools struct {
	*core
	registry *toolkit.Registry // the call's tools
	declared []toolkit.Definition
}

// acceptable removes tools that the client cannot have and tells it which.
func (c *clientTools) acceptable(clientID string, defs []toolkit.Definition) []toolkit.Definition {
	var good []toolkit.Definition
	var room clienttool.Room
	var tooMany []string // names
	for i, d := range defs {
		param := fmt.Sprintf("session.tools[%d]", i)
		if e, ok := c.registry.Lookup(d.Name); ok && e.Executor != toolkit.ExecutorClient {
			c.refuse(clientID, "tool_name_taken", fmt.Sprintf(
				"The client tool %q is left out: a tool of the server (%s) has this name.", d.Name, e.Executor), param)
			continue
		}
		if slices.ContainsFunc(good, func(o toolkit.Definition) bool { return o.Name == d.Name }) {
			c.refuse(clientID, "tool_name_taken", fmt.Sprintf("The client tool %q is declared twice.", d.Name), param)
			continue
		}
		if err := clienttool.Check(d); err != nil {
			c.refuse(clientID, "invalid_value", fmt.Sprintf("The client tool %q is left out: %v", d.Name, err), param)
			continue
		}
		if !room.Take(d) {
			tooMany = append(tooMany, d.Name)
			continue
		}
		good = append(good, d)
	}
	if n := len(tooMany); n > 0 {
		c.refuse(clientID, "too_many_tools", fmt.Sprintf(
			"%d client tools are left out (%s): a call has room for %d, with %d bytes in all.",
			n, clip(strings.Join(tooMany, ", ")), clienttool.MaxTools, clienttool.MaxDeclaration), "session.tools")
	}
	return good
}

// use makes tools the client's, all of them or, with an error, none.
func (c *clientTools) use(defs []toolkit.Definition) error {
	entries, err := clienttool.Entries(defs)
	if err != nil {
		return err
	}
	old := make([]string, len(c.declared))
	for i, d := range c.declared {
		old[i] = d.Name
	}
	if err := c.registry.Replace(old, entries); err != nil {
		return fmt.Errorf("declare tools: %w", err)
	}
	c.declared = defs
	c.do(DeclareTools{defs})
	return nil
}

// isDeclared reports whether the client has declared a tool of that name.
func (c *clientTools) isDeclared(name string) bool {
	e, ok := c.registry.Lookup(name)
	return ok && e.Executor == toolkit.ExecutorClient
}

func namesOf(tools []toolkit.Entry) (names []string) {
	for _, e := range tools {
		names = append(names, e.Tool.Definition().Name)
	}
	return names
}
