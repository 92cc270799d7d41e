package anthropic

import (
	"strings"

	anthropic "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/packages/param"

	"voicebridge/llm"
	"voicebridge/llm/internal/wire"
)

// params writes a request.
func (p *Provider) params(req llm.Request) anthropic.MessageNewParams {
	system, turns := wire.Turns(req)
	params := anthropic.MessageNewParams{Model: req.Model, MaxTokens: int64(req.MaxTokens), Tools: tools(req.Tools)}
	if params.MaxTokens <= 0 {
		params.MaxTokens = defaultMaxTokens
	}
	for _, text := range system {
		params.System = append(params.System, anthropic.TextBlockParam{Text: text})
	}
	for _, turn := range turns {
		params.Messages = append(params.Messages, message(turn))
	}
	if last := &params.Messages[len(params.Messages)-1]; last.Role == anthropic.MessageParamRoleAssistant {
		trim(last)
	}
	if len(params.Tools) == 0 {
		// Calls in the history without any tool in the request are refused.
		if params.Tools = formerTools(req.Messages); len(params.Tools) > 0 {
			params.ToolChoice.OfNone = &anthropic.ToolChoiceNoneParam{}
		}
	}
	if p.cache {
		mark(&params)
	}
	return params
}

// message writes one turn: the results of all calls, then texts, then calls.
func message(turn wire.Turn) anthropic.MessageParam {
	out := anthropic.MessageParam{Role: anthropic.MessageParamRoleUser}
	if turn.Model {
		out.Role = anthropic.MessageParamRoleAssistant
	}
	for _, m := range turn.Messages {
		if m.Role == llm.RoleTool {
			out.Content = append(out.Content, result(m))
			continue
		}
		if strings.TrimSpace(m.Content) != "" {
			out.Content = append(out.Content, anthropic.NewTextBlock(m.Content))
		}
		for _, c := range m.ToolCalls {
			out.Content = append(out.Content, call(c))
		}
	}
	return out
}

// trim takes spaces off the end of a text that the model is to go on with: they
// are refused.
func trim(m *anthropic.MessageParam) {
	if text := m.Content[len(m.Content)-1].OfText; text != nil {
		text.Text = strings.TrimRight(text.Text, " \t\r\n")
	}
}

// mark sets the two marks up to which the prefix is kept: after the tools and
// the system prompt, which are the same in all turns of a thread, and after the
// last message, which the next round of this turn has too.
func mark(params *anthropic.MessageNewParams) {
	control := anthropic.NewCacheControlEphemeralParam()
	if n := len(params.System); n > 0 {
		params.System[n-1].CacheControl = control
	}
	content := params.Messages[len(params.Messages)-1].Content
	switch last := &content[len(content)-1]; {
	case last.OfText != nil:
		last.OfText.CacheControl = control
	case last.OfToolResult != nil:
		last.OfToolResult.CacheControl = control
	case last.OfToolUse != nil:
		last.OfToolUse.CacheControl = control
	}
}

// optional leaves an empty text out.
func optional(text string) param.Opt[string] {
	if text == "" {
		return param.Opt[string]{}
	}
	return param.NewOpt(text)
}
