package anthropic

import (
	"cmp"
	"encoding/json"
	"regexp"
	"strings"

	"voicebridge/llm"
	"voicebridge/llm/internal/wire"
)

// validCallID matches the call ids that the API accepts.
var validCallID = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// callID returns a call's id for sending it back.
func callID(id string) string {
	if validCallID.MatchString(id) {
		return id
	}
	return wire.StandIn(id)
}

// maxMetadata limits the thoughts that are kept with a call, in bytes.
const maxMetadata = 128 << 10

// metadata is what is kept with the first call of an answer.
type metadata struct {
	// Thinking are the thoughts with which the answer began. The model goes on with them once it has the
	// results: https://platform.claude.com/docs/en/build-with-claude/extended-thinking.
	Thinking []block `json:"thinking,omitempty"`
}

// thoughts returns the thoughts that came with the calls of an answer.
func thoughts(calls []llm.ToolCall) []block {
	var kept metadata
	if len(calls) == 0 || json.Unmarshal(calls[0].Metadata, &kept) != nil { // none, or another provider's
		return nil
	}
	return kept.Thinking
}

// tool is a definition on the wire.
type tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	InputSchema json.RawMessage `json:"input_schema"`

	own map[string]string // the tool's names of properties that have another one here
}

// tools writes definitions. Schemas are passed on unchanged, except for names that the API refuses.
func tools(definitions []llm.Tool) []tool {
	var out []tool
	for _, d := range definitions {
		schema, own := withValidKeys(wire.Schema(d.Parameters))
		out = append(out, tool{Name: d.Name, Description: d.Description, InputSchema: schema, own: own})
	}
	return out
}

// formerTools declares the tools that a history calls.
func formerTools(messages []llm.Message) []tool {
	var former []llm.Tool
	seen := map[string]bool{}
	for _, m := range messages {
		for _, c := range m.ToolCalls {
			if !seen[c.Name] {
				seen[c.Name] = true
				former = append(former, llm.Tool{Name: c.Name})
			}
		}
	}
	return tools(former)
}

// call writes a call of the model.
func call(c llm.ToolCall) block {
	return block{Type: "tool_use", ID: callID(c.ID), Name: c.Name, Input: wire.Object(c.Arguments)}
}

// result writes the answer to a call.
func result(m llm.Message) block {
	out := block{Type: "tool_result", ToolUseID: callID(m.ToolCallID), IsError: m.Failed}
	if strings.TrimSpace(m.Content) != "" {
		out.Content = []block{text(m.Content)}
	}
	out.Content = append(out.Content, images(m)...)
	return out
}

// piece is a call that arrives in pieces.
type piece struct {
	index int64 // of its content block
	call  llm.ToolCall
	whole json.RawMessage // arguments that came with the beginning
}

// complete returns the complete calls. In an answer that was cut off, by a limit or a filter, partial
// arguments are not a call.
func complete(pieces []piece, cut bool) []llm.ToolCall {
	var out []llm.ToolCall
	for _, p := range pieces {
		c := p.call
		c.Arguments = wire.Arguments(cmp.Or(c.Arguments, string(p.whole)))
		if c.Name == "" || (cut && !json.Valid([]byte(p.call.Arguments))) {
			continue
		}
		c.ID = cmp.Or(c.ID, wire.NewCallID())
		out = append(out, c)
	}
	return out
}
