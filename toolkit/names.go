package toolkit

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"time"
)

// Names is an operator's list of tools: names, and patterns in which * stands for any characters
// (server__*, *_delete). With the suffix :write an entry covers only calls that change something,
// for tools that know which do ([Writer]). The zero value names no tools.
type Names []Name

// Name is an entry of [Names].
type Name struct {
	text    string
	pattern string // for [path.Match]: there are no slashes in names
	writes  bool
}

// UnmarshalText implements [encoding.TextUnmarshaler].
func (n *Name) UnmarshalText(raw []byte) error {
	text := string(raw)
	name, writes := strings.CutSuffix(text, writeSuffix)
	if name == "" || len(name) > MaxName ||
		strings.ContainsFunc(name, func(r rune) bool { return r != '*' && (r > 127 || !NameByte(byte(r))) }) {
		return fmt.Errorf("%q is neither the name of a tool nor a pattern such as server__*", text)
	}
	*n = Name{text: text, pattern: name, writes: writes}
	return nil
}

// String returns the entry as it was written.
func (n Name) String() string { return n.text }

// Writer is implemented by tools of which only some calls change something outside.
type Writer interface {
	// Writes reports whether a call with these arguments changes something. The arguments are
	// unchecked; if they are invalid, the result is true.
	Writes(arguments string) bool
}

const writeSuffix = ":write"

// MustNames returns a list of constant names and patterns. It panics on a bad one.
func MustNames(list ...string) Names {
	n := make(Names, len(list))
	for i, text := range list {
		if err := n[i].UnmarshalText([]byte(text)); err != nil {
			panic(err)
		}
	}
	return n
}

// With returns a new list with more names, each in the form that UnmarshalText takes; others are left out.
func (n Names) With(more []string) Names {
	out := slices.Clone(n)
	for _, text := range more {
		var name Name
		if name.UnmarshalText([]byte(text)) == nil {
			out = append(out, name)
		}
	}
	return out
}

// Has reports whether the list names the tool, for any calls.
func (n Names) Has(name string) bool {
	return slices.ContainsFunc(n, func(e Name) bool { return !e.writes && e.matches(name) })
}

// hasCall reports whether the list covers this call: its tool, or, with :write, the tool's calls that
// change something, if this is one.
func (n Names) hasCall(v *Invocation) bool {
	return slices.ContainsFunc(n, func(e Name) bool {
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
	for _, e := range n {
		if !slices.ContainsFunc(tools, func(t Entry) bool {
			_, writer := t.Tool.(Writer)
			return e.matches(t.Tool.Definition().Name) && (writer || !e.writes)
		}) && !slices.ContainsFunc(others, e.matches) {
			none = append(none, e.text)
		}
	}
	return none
}

func (n Name) matches(name string) bool {
	ok, _ := path.Match(n.pattern, name) // it was checked
	return ok
}

// NeedsApproval reports whether the user must approve the call, because of the list or of its tool
// ([Entry.Asks]). A call whose arguments cannot be read does not run anyway.
func (v *Invocation) NeedsApproval(list Names) bool {
	if !v.found || !v.Entry.Asks && !list.hasCall(v) {
		return false
	}
	_, _, err := parseArguments(v.Call.Arguments)
	return err == nil
}

// Settings are what an operator sets for all tools. The tags are those of cmd/voicebridge/internal/config.
type Settings struct {
	// Of a tool call.
	Timeout time.Duration `yaml:"timeout_seconds" default:"30" min:"1" max:"600"`
	// Only these; empty: all.
	Allow Names `yaml:"allow"`
	// Never these, whether the server has them or a client declares them.
	Deny Names `yaml:"deny"`
	// Only with the user's approval, given in the call or by anyone who follows the thread; no answer within a minute
	// is a no. http:write means all requests of the tool http except GET and HEAD.
	Approve Names `yaml:"approve" default:"http:write"`
}

// Allows reports whether a tool may be used.
func (s *Settings) Allows(name string) bool {
	return !s.Deny.Has(name) && (len(s.Allow) == 0 || s.Allow.Has(name))
}
