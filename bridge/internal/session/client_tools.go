package session

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"voicebridge/toolkit"
	"voicebridge/toolkit/clienttool"
)

// clientTools are the tools that clients declare, among all of the call.
type clientTools struct {
	*core
	registry *toolkit.Registry // the call's tools
	deny     toolkit.Names     // those that no client can have
	declared bySide            // it is replaced, never changed
}

// acceptable removes tools that the client cannot have and tells it which. waiting are those that clients will have.
func (c *clientTools) acceptable(clientID string, defs []toolkit.Definition, waiting bySide) []toolkit.Definition {
	side, _ := asked(clientID)
	taken := "tool_name_taken"
	if side != 0 {
		taken = "tool_exists"
	}
	var good []toolkit.Definition
	var room clienttool.Room
	others := c.declared.with(side, nil)
	maps.Copy(others, waiting)
	delete(others, side)
	for _, d := range others.all() {
		room.Take(d)
	}
	var tooMany []string // names
	for i, d := range defs {
		if c.deny.Has(d.Name) {
			continue // in silence: the answer to the update has what is taken
		}
		param := fmt.Sprintf("session.tools[%d]", i)
		if e, ok := c.registry.Lookup(d.Name); ok && e.Executor != toolkit.ExecutorClient {
			c.refuse(clientID, taken, fmt.Sprintf(
				"The client tool %q is left out: a tool of the server (%s) has this name.", d.Name, e.Executor), param)
			continue
		}
		if other, ok := others.of(d.Name); ok {
			whose := "the client"
			if other != 0 {
				whose = "another application"
			}
			c.refuse(clientID, taken,
				fmt.Sprintf("The client tool %q is left out: a tool of %s has this name.", d.Name, whose), param)
			continue
		}
		if slices.ContainsFunc(good, func(o toolkit.Definition) bool { return o.Name == d.Name }) {
			c.refuse(clientID, taken, fmt.Sprintf("The client tool %q is declared twice.", d.Name), param)
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

// use makes tools the clients', all of them or, with an error, none. Those of a sideband that is gone are left out.
func (c *clientTools) use(next bySide) error {
	next = maps.Clone(next)
	maps.DeleteFunc(next, func(side int, _ []toolkit.Definition) bool { return !c.joined(side) })
	defs := next.all()
	entries, err := clienttool.Entries(defs)
	if err != nil {
		return err
	}
	var old []string
	for _, d := range c.declared.all() {
		old = append(old, d.Name)
	}
	if err := c.registry.Replace(old, entries); err != nil {
		return fmt.Errorf("declare tools: %w", err)
	}
	c.declared = next
	c.do(DeclareTools{Tools: defs})
	return nil
}

// isDeclared reports whether a client has declared a tool of that name.
func (c *clientTools) isDeclared(name string) bool {
	_, ok := c.declared.of(name)
	return ok
}

// declares reports whether that client has declared a tool of that name.
func (c *clientTools) declares(side int, name string) bool {
	of, ok := c.declared.of(name)
	return ok && of == side
}

func namesOf(tools []toolkit.Entry) (names []string) {
	for _, e := range tools {
		names = append(names, e.Tool.Definition().Name)
	}
	return names
}
