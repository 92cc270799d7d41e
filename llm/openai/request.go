package openai

import (
	"strings"

	openai "github.com/sashabaranov/go-openai"

	"voicebridge/llm"
)

// noOutput stands for the empty output of a tool, which the client leaves out
// and the API insists on.
const noOutput = "(no output)"

// request writes a request. Roles go through as they are: the API has all of
// ours, and takes system messages anywhere.
func (p *Provider) request(req llm.Request) openai.ChatCompletionRequest {
	out := openai.ChatCompletionRequest{Model: req.Model, Tools: tools(req.Tools)}
	if req.System != "" {
		out.Messages = append(out.Messages, openai.ChatCompletionMessage{Role: openai.ChatMessageRoleSystem, Content: req.System})
	}
	for _, m := range req.Messages {
		if m.Content != "" || len(m.ToolCalls) > 0 || m.Role == llm.RoleTool {
			out.Messages = append(out.Messages, message(m))
		}
	}
	if !p.config.OmitStreamOptions {
		out.StreamOptions = &openai.StreamOptions{IncludeUsage: true}
	}
	if p.config.LegacyMaxTokens && !reasons(req.Model) {
		out.MaxTokens = max(0, req.MaxTokens)
	} else {
		out.MaxCompletionTokens = max(0, req.MaxTokens)
	}
	return out
}

// reasons reports whether the client refuses max_tokens for a model by its name,
// as OpenAI does.
func reasons(model string) bool {
	for _, prefix := range []string{"o1", "o3", "o4", "gpt-5", "gpt-6"} {
		if strings.HasPrefix(model, prefix) {
			return true
		}
	}
	return false
}

// message writes one message.
func message(m llm.Message) openai.ChatCompletionMessage {
	out := openai.ChatCompletionMessage{Role: string(m.Role), Content: m.Content}
	switch m.Role {
	case llm.RoleTool:
		out.ToolCallID = callID(m.ToolCallID)
		if out.Content == "" {
			out.Content = noOutput
		}
	case llm.RoleAssistant:
		out.ToolCalls = calls(m.ToolCalls)
	case llm.RoleSystem, llm.RoleUser:
	}
	return out
}
