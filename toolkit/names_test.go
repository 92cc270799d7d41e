package toolkit

import (
	"slices"
	"strings"
	"testing"
)

// writing is a tool whose calls write if their arguments contain a W.
type writing struct{ uncalled }

func (writing) Writes(arguments string) bool { return strings.Contains(arguments, "W") }

func TestNames(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		entry, yes, no string // names of tools
	}{
		{"http", "http", "https xhttp"},
		{"files__*", "files__read files__", "file__read xfiles__read files_read"},
		{"*_delete", "files_delete _delete", "delete files_deleted"},
		{"a*b*c", "abc axxbyyc abbc", "ab ac acb xabc"},
		{"a*a", "aa aba", "a"},
		{"*", "anything x", ""},
		{"**", "anything", ""},
	} {
		n := MustNames(c.entry)
		for name := range strings.FieldsSeq(c.yes) {
			if !n.Has(name) {
				t.Errorf("%q does not match %q", c.entry, name)
			}
		}
		for name := range strings.FieldsSeq(c.no) {
			if n.Has(name) {
				t.Errorf("%q matches %q", c.entry, name)
			}
		}
	}
	for _, bad := range []string{"", ":write", "a b", "files/*", "é", "http:read", strings.Repeat("x", MaxName+1), "a\x00"} {
		if err := new(Name).UnmarshalText([]byte(bad)); err == nil || !strings.Contains(err.Error(), "neither the name of a tool") {
			t.Errorf("%q is a name: %v", bad, err)
		}
	}
}

func TestNamesOfCalls(t *testing.T) {
	t.Parallel()
	r := NewRegistry()
	var entries []Entry
	for _, tool := range []Tool{writing{uncalled{"http"}}, uncalled{"chart"}} {
		e := Entry{Tool: tool, Executor: ExecutorApp}
		entries = append(entries, e)
		must(t, r.Add(e))
	}
	n := MustNames("http:write", "charts", "cha*", "chart:write", "mcp__*")
	for call, want := range map[string]bool{"http W": true, "http R": false, "chart W": true, "other W": false} {
		name, arguments, _ := strings.Cut(call, " ")
		if got := n.hasCall(r.Invoke("r", Call{Name: name, Arguments: arguments}, 0, noon)); got != want {
			t.Errorf("hasCall(%s) = %v", call, got)
		}
	}
	// What cannot run is not asked about.
	for arguments, want := range map[string]bool{"": true, `{"a":1}`: true, `{"a":`: false, `["W"]`: false, `{"a":1,"a":2}`: false} {
		if got := r.Invoke("r", Call{Name: "chart", Arguments: arguments}, 0, noon).NeedsApproval(n); got != want {
			t.Errorf("NeedsApproval() of a call with %q = %v", arguments, got)
		}
	}
	if n.Has("http") {
		t.Error("http:write means all calls of http")
	}
	if got, want := n.Unmatched(entries), []string{"charts", "chart:write", "mcp__*"}; !slices.Equal(got, want) {
		t.Errorf("Unmatched() = %q, want %q", got, want)
	}
	if (Names{}).hasCall(r.Invoke("r", Call{Name: "http"}, 0, noon)) {
		t.Error("the zero value matches a tool")
	}
}
