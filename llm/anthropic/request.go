package anthropic

import (
	"cmp"
	"encoding/json"
	"strings"

	"voicebridge/llm"
	"voicebridge/llm/internal/wire"
)

// defaultMaxTokens limits an answer if the request does not; the API requires a limit, and counts what the
// model thinks.
const defaultMaxTokens = 16_000

// leastMaxTokens limits an answer of a model that refuses a higher limit; all of them accept this one.
const leastMaxTokens = 4096

// The roles of the API.
const (
	roleUser      = "user"
	roleAssistant = "assistant"
)

// body is a request on the wire.
type body struct {
	Model       string          `json:"model"`
	MaxTokens   int             `json:"max_tokens"`
	Temperature *float64        `json:"temperature,omitempty"`
	TopP        *float64        `json:"top_p,omitempty"`
	System      []block         `json:"system,omitempty"`
	Tools       []tool          `json:"tools,omitempty"`
	ToolChoice  json.RawMessage `json:"tool_choice,omitempty"`
	Messages    []message       `json:"messages"`
	Stream      bool            `json:"stream"`
	// OutputConfig has the form of the answer:
	// https://platform.claude.com/docs/en/build-with-claude/structured-outputs.
	OutputConfig *outputConfig `json:"output_config,omitempty"`
}

type outputConfig struct {
	Format outputFormat `json:"format"`
}

type outputFormat struct {
	Type   string          `json:"type"`
	Schema json.RawMessage `json:"schema"`
}

// closed returns a schema in which no object may have other properties than those that it names, as the API demands.
func closed(schema json.RawMessage) json.RawMessage {
	var value any
	if json.Unmarshal(schema, &value) != nil {
		return schema
	}
	var shut func(any)
	shut = func(value any) {
		switch v := value.(type) {
		case map[string]any:
			if _, given := v["additionalProperties"]; v["type"] == "object" && !given {
				v["additionalProperties"] = false
			}
			for _, inner := range v {
				shut(inner)
			}
		case []any:
			for _, inner := range v {
				shut(inner)
			}
		}
	}
	shut(value)
	out, _ := json.Marshal(value) // it was read from JSON
	return out
}

// message is a group on the wire.
type message struct {
	Role    string  `json:"role"`
	Content []block `json:"content"`
}

// request writes a request; cache marks the prefix that may be cached.
func request(req llm.Request, cache bool) body {
	system, groups := wire.Alternate(req)
	out := body{
		Model: req.Model, MaxTokens: cmp.Or(max(0, req.MaxTokens), defaultMaxTokens), Temperature: req.Temperature,
		TopP: req.TopP, Tools: tools(req.Tools), Stream: true,
	}
	if out.Temperature != nil { // those of other vendors go up to 2
		out.Temperature = new(min(*out.Temperature, 1))
	}
	if len(req.Schema) > 0 {
		out.OutputConfig = &outputConfig{outputFormat{"json_schema", closed(req.Schema)}}
	}
	for _, words := range system {
		out.System = append(out.System, text(words))
	}
	current := wire.Current(groups)
	for i, group := range groups {
		out.Messages = append(out.Messages, content(group, i > current))
	}
	if len(out.Tools) == 0 {
		// Calls in the history are refused unless the request has tools.
		if out.Tools = formerTools(req.Messages); len(out.Tools) > 0 {
			out.ToolChoice = json.RawMessage(`{"type":"none"}`)
		}
	}
	if req.MustCall {
		out.ToolChoice = json.RawMessage(`{"type":"any"}`)
	}
	if cache && mayContinue(req) {
		mark(&out)
	}
	return out
}

// content writes a group: the results of all calls, then images and texts, then calls. Thoughts are for the
// exchange in which they came: another model, or an edited conversation, makes them invalid.
func content(group wire.Group, thinks bool) message {
	out := message{Role: roleUser}
	if group.Model {
		out.Role = roleAssistant
	}
	for _, m := range group.Messages {
		if m.Role == llm.RoleTool {
			out.Content = append(out.Content, result(m))
			continue
		}
		if thinks {
			out.Content = append(out.Content, thoughts(m.ToolCalls)...)
		}
		out.Content = append(out.Content, images(m)...)
		if strings.TrimSpace(m.Content) != "" {
			out.Content = append(out.Content, text(m.Content))
		}
		for _, c := range m.ToolCalls {
			out.Content = append(out.Content, call(c))
		}
	}
	return out
}

// mayContinue reports whether a request with the same beginning may follow: there are tools, whose
// results will come back, or it is not the first of its conversation.
func mayContinue(req llm.Request) bool { return len(req.Tools) > 0 || len(req.Messages) > 1 }

// mark sets the two marks up to which the prefix is cached: after the tools and the system prompt,
// which are the same in all turns of a thread, and after the last message, which the next round and
// the next turn share.
func mark(b *body) {
	control := &cacheControl{Type: "ephemeral"}
	if n := len(b.System); n > 0 {
		b.System[n-1].CacheControl = control
	}
	last := b.Messages[len(b.Messages)-1].Content
	last[len(last)-1].CacheControl = control
}
