package toolkit

import (
	"fmt"
	"slices"
	"strings"
)

// Names is an operator's list of tools: names, and patterns in which * stands for any characters
// (server__*, *_delete). With the suffix :write an entry covers only calls that change something,
// for tools that know which do ([Writer]). The zero value names no tools.
type Names struct{ entries []nameEntry }

type nameEntry struct {
	text    string
	pattern []string // the pieces around the stars
	writes  bool
}

// Writer is implemented by tools of which only some calls change something outside.
type Writer interface {
	// Writes reports whether a call with these arguments changes something. The arguments are
	// unchecked; if they are invalid, the result is true.
	Writes(arguments string) bool
}

const writeSuffix = ":write"

// ParseNames reads a list of names and patterns.
func ParseNames(list []string) (Names, error) {
	var n Names
	for _, text := range list {
		name, writes := strings.CutSuffix(text, writeSuffix)
		if name == "" || len(name) > MaxName || strings.ContainsFunc(name, func(r rune) bool { return r != '*' && (r > 127 || !NameByte(byte(r))) }) {
			return Names{}, fmt.Errorf("%q is neither the name of a tool nor a pattern such as server__*", text)
		}
		n.entries = append(n.entries, nameEntry{text: text, pattern: strings.Split(name, "*"), writes: writes})
	}
	return n, nil
}

// MustNames is ParseNames for constant names. It panics on a bad one.
func MustNames(list ...string) Names {
	n, err := ParseNames(list)
	if err != nil {
		panic(err)
	}
	return n
}

// Empty reports whether the list has no entries.
func (n Names) Empty() bool { return len(n.entries) == 0 }

// Has reports whether the list names the tool, for any calls.
func (n Names) Has(name string) bool {
	return slices.ContainsFunc(n.entries, func(e nameEntry) bool { return !e.writes && e.matches(name) })
}

// hasCall reports whether the list covers this call: its tool, or, with :write, the tool's calls that
// change something, if this is one.
func (n Names) hasCall(v *Invocation) bool {
	return slices.ContainsFunc(n.entries, func(e nameEntry) bool {
		if !e.matches(v.Call.Name) || !e.writes {
			return e.matches(v.Call.Name)
		}
		w, ok := v.Entry.Tool.(Writer)
		return ok && w.Writes(v.Call.Arguments)
	})
}

// Unmatched returns the entries that match none of the tools and other names: they may be misspelt.
func (n Names) Unmatched(tools []Entry, others ...string) []string {
	var none []string
	for _, e := range n.entries {
		if !slices.ContainsFunc(tools, func(t Entry) bool {
			_, writer := t.Tool.(Writer)
			return e.matches(t.Tool.Definition().Name) && (writer || !e.writes)
		}) && !slices.ContainsFunc(others, e.matches) {
			none = append(none, e.text)
		}
	}
	return none
}

func (e nameEntry) matches(name string) bool {
	first, last := e.pattern[0], e.pattern[len(e.pattern)-1]
	if len(e.pattern) == 1 {
		return name == first
	}
	rest, ok := strings.CutPrefix(name, first)
	if !ok {
		return false
	}
	for _, piece := range e.pattern[1 : len(e.pattern)-1] {
		if _, rest, ok = strings.Cut(rest, piece); !ok {
			return false
		}
	}
	return strings.HasSuffix(rest, last)
}

// NeedsApproval reports whether the user must approve the call, because of the list or of its tool
// ([Entry.Asks]). A call whose arguments cannot be read does not run anyway.
func (v *Invocation) NeedsApproval(list Names) bool {
	if !v.known || !v.Entry.Asks && !list.hasCall(v) {
		return false
	}
	_, _, err := parseArguments(v.Call.Arguments)
	return err == nil
}
