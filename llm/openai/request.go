package openai

import (
	openai "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/param"

	"voicebridge/llm"
)

// params writes a request. Roles go through as they are: the API has all of
// ours, and takes system messages anywhere.
func (p *Provider) params(req llm.Request) openai.ChatCompletionNewParams {
	params := openai.ChatCompletionNewParams{Model: req.Model, Tools: tools(req.Tools)}
	if req.System != "" {
		params.Messages = append(params.Messages, openai.SystemMessage(req.System))
	}
	for _, m := range req.Messages {
		params.Messages = append(params.Messages, message(m))
	}
	if !p.config.OmitStreamOptions {
		params.StreamOptions.IncludeUsage = param.NewOpt(true)
	}
	switch {
	case req.MaxTokens <= 0:
	case p.config.LegacyMaxTokens:
		params.MaxTokens = param.NewOpt(int64(req.MaxTokens))
	default:
		params.MaxCompletionTokens = param.NewOpt(int64(req.MaxTokens))
	}
	return params
}

// message writes one message.
func message(m llm.Message) openai.ChatCompletionMessageParamUnion {
	switch m.Role {
	case llm.RoleSystem:
		return openai.SystemMessage(m.Content)
	case llm.RoleTool:
		return openai.ToolMessage(m.Content, callID(m.ToolCallID))
	case llm.RoleAssistant:
		if len(m.ToolCalls) == 0 {
			return openai.AssistantMessage(m.Content)
		}
		assistant := openai.ChatCompletionAssistantMessageParam{ToolCalls: calls(m.ToolCalls)}
		if m.Content != "" { // beside calls, an empty text is refused by some servers
			assistant.Content.OfString = param.NewOpt(m.Content)
		}
		return openai.ChatCompletionMessageParamUnion{OfAssistant: &assistant}
	case llm.RoleUser:
	}
	return openai.UserMessage(m.Content)
}
