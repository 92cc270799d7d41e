package openai

import (
	"encoding/base64"
	"math"
	"strings"

	openai "github.com/sashabaranov/go-openai"

	"voicebridge/llm"
	"voicebridge/llm/internal/wire"
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
	for _, m := range wire.ImagesOfUsers(req.Messages) {
		if !m.Empty() {
			out.Messages = append(out.Messages, message(m))
		}
	}
	if !p.config.OmitStreamOptions {
		out.StreamOptions = &openai.StreamOptions{IncludeUsage: true}
	}
	if req.Temperature != nil {
		out.Temperature = number(*req.Temperature)
	}
	if req.TopP != nil {
		out.TopP = number(*req.TopP)
	}
	if p.config.LegacyMaxTokens && !reasons(req.Model) {
		out.MaxTokens = max(0, req.MaxTokens) //nolint:staticcheck // it is the name that most compatible servers know
	} else {
		out.MaxCompletionTokens = max(0, req.MaxTokens)
	}
	return out
}

// number returns n for a field that the client leaves out when it is 0.
func number(n float64) float32 {
	if n == 0 {
		return math.SmallestNonzeroFloat32
	}
	return float32(n)
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
	case llm.RoleUser:
		if len(m.Images) > 0 {
			out.Content, out.MultiContent = "", parts(m)
		}
	case llm.RoleSystem:
	}
	return out
}

// parts writes a message with images, which go as data URLs.
func parts(m llm.Message) []openai.ChatMessagePart {
	var out []openai.ChatMessagePart
	for _, i := range m.Images {
		address := "data:" + i.MediaType + ";base64," + base64.StdEncoding.EncodeToString(i.Data)
		out = append(out, openai.ChatMessagePart{Type: openai.ChatMessagePartTypeImageURL, ImageURL: &openai.ChatMessageImageURL{URL: address}})
	}
	if strings.TrimSpace(m.Content) != "" {
		out = append(out, openai.ChatMessagePart{Type: openai.ChatMessagePartTypeText, Text: m.Content})
	}
	return out
}
