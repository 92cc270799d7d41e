package google

import (
	"encoding/json"
	"strings"

	"voicebridge/llm"
	"voicebridge/llm/internal/wire"
)

// The roles of the API.
const (
	roleUser  = "user"
	roleModel = "model"
)

// body is a request on the wire.
type body struct {
	Contents          []content        `json:"contents"`
	GenerationConfig  generationConfig `json:"generationConfig"`
	SystemInstruction *content         `json:"systemInstruction,omitempty"`
	Tools             []toolSet        `json:"tools,omitempty"`
	ToolConfig        json.RawMessage  `json:"toolConfig,omitempty"`
}

type generationConfig struct {
	MaxOutputTokens int      `json:"maxOutputTokens,omitempty"`
	Temperature     *float64 `json:"temperature,omitempty"`
	TopP            *float64 `json:"topP,omitempty"`
	// An answer in JSON: https://ai.google.dev/gemini-api/docs/structured-output.
	ResponseMIMEType   string          `json:"responseMimeType,omitempty"`
	ResponseJSONSchema json.RawMessage `json:"responseJsonSchema,omitempty"`
}

// content is a group on the wire.
type content struct {
	Parts []part `json:"parts"`
	Role  string `json:"role"`
}

// request writes a request.
func request(req llm.Request) body {
	system, groups := wire.Alternate(req)
	out := body{Tools: tools(req.Tools), GenerationConfig: generationConfig{
		MaxOutputTokens: max(0, req.MaxTokens), Temperature: req.Temperature, TopP: req.TopP,
	}}
	if len(req.Schema) > 0 {
		out.GenerationConfig.ResponseMIMEType, out.GenerationConfig.ResponseJSONSchema = "application/json", req.Schema
	}
	if req.MustCall {
		out.ToolConfig = json.RawMessage(`{"functionCallingConfig":{"mode":"ANY"}}`)
	}
	if len(system) > 0 {
		out.SystemInstruction = &content{Role: roleUser}
		for _, text := range system {
			out.SystemInstruction.Parts = append(out.SystemInstruction.Parts, part{Text: text})
		}
	}
	current := wire.Current(groups)
	gemini3 := isGemini3(req.Model)
	for i, group := range groups {
		out.Contents = append(out.Contents, write(group, gemini3, gemini3 && i > current))
	}
	return out
}

// write writes a group. inside puts the images of a result into it; sign substitutes for a missing
// signature of a call.
func write(group wire.Group, inside, sign bool) content {
	out := content{Role: roleUser}
	if group.Model {
		out.Role = roleModel
	}
	var shown []part // images of results, which follow the last result
	for n, m := range group.Messages {
		if m.Role == llm.RoleTool {
			part := result(m)
			if inside { // https://ai.google.dev/gemini-api/docs/function-calling#multimodal
				part.FunctionResponse.Parts = images(m)
			} else {
				shown = append(shown, images(m)...)
			}
			out.Parts = append(out.Parts, part)
			if n+1 == len(group.Messages) || group.Messages[n+1].Role != llm.RoleTool {
				out.Parts, shown = append(out.Parts, shown...), nil
			}
			continue
		}
		out.Parts = append(out.Parts, images(m)...)
		if strings.TrimSpace(m.Content) != "" {
			out.Parts = append(out.Parts, part{Text: m.Content})
		}
		for i, c := range m.ToolCalls {
			out.Parts = append(out.Parts, call(c, sign && i == 0))
		}
	}
	return out
}

// isGemini3 reports whether a model is Gemini 3 or later. Those need their signatures back, refuse
// calls without one, and accept images inside a tool's result.
func isGemini3(model string) bool {
	version, ok := strings.CutPrefix(strings.TrimPrefix(model, "models/"), "gemini-")
	return ok && !strings.HasPrefix(version, "1") && !strings.HasPrefix(version, "2")
}
