package llm

import (
	"fmt"
	"slices"
	"strings"
)

// maxName is how long a tool's name may be, in bytes.
const maxName = 64

// rename gives the tools of a request names that the strictest vendors take, which begin with a letter, and returns the
// tools' own names by those. Calls in the conversation are renamed alike, also of tools that are gone. The request's
// slices are copied where they change.
func (r *Request) rename() (own map[string]string) {
	own = map[string]string{}
	sent := map[string]string{}
	taken := func(name string) bool {
		return own[name] != "" || slices.ContainsFunc(r.Tools, func(t Tool) bool { return t.Name == name })
	}
	name := func(of string) string {
		if of == "" || isLetter(of[0]) {
			return of
		}
		if sent[of] == "" {
			rest := strings.TrimLeft(of, "_-")
			as := cut("t_" + rest)
			for n := 2; taken(as); n++ {
				as = cut(fmt.Sprintf("t%d_%s", n, rest))
			}
			sent[of], own[as] = as, of
		}
		return sent[of]
	}
	tools, messages := slices.Clone(r.Tools), slices.Clone(r.Messages)
	for i := range tools {
		tools[i].Name = name(tools[i].Name)
	}
	for i := range messages {
		m := &messages[i]
		m.ToolName = name(m.ToolName)
		m.ToolCalls = slices.Clone(m.ToolCalls)
		for j := range m.ToolCalls {
			m.ToolCalls[j].Name = name(m.ToolCalls[j].Name)
		}
	}
	if len(own) > 0 {
		r.Tools, r.Messages = tools, messages
	}
	return own
}

func cut(name string) string { return name[:min(len(name), maxName)] }

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }
