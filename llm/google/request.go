package google

import (
	"math"
	"strings"

	"google.golang.org/genai"

	"voicebridge/llm"
	"voicebridge/llm/internal/wire"
)

// The roles of the API.
const (
	roleUser  = "user"
	roleModel = "model"
)

// request writes a request.
func request(req llm.Request) ([]*genai.Content, *genai.GenerateContentConfig) {
	system, turns := wire.Turns(req)
	config := &genai.GenerateContentConfig{
		Tools: tools(req.Tools),
		// The client would ask again by itself after a break in an answer.
		AutomaticContinuation: new(false),
	}
	if req.MaxTokens > 0 {
		config.MaxOutputTokens = int32(min(req.MaxTokens, math.MaxInt32))
	}
	if req.Temperature != nil {
		config.Temperature = new(float32(*req.Temperature))
	}
	if req.TopP != nil {
		config.TopP = new(float32(*req.TopP))
	}
	if len(system) > 0 {
		config.SystemInstruction = &genai.Content{}
		for _, text := range system {
			config.SystemInstruction.Parts = append(config.SystemInstruction.Parts, &genai.Part{Text: text})
		}
	}
	now := 0 // where the present turn of the conversation begins
	names := map[string]string{}
	for i, turn := range turns {
		if !turn.Model && turn.Messages[len(turn.Messages)-1].Role == llm.RoleUser {
			now = i
		}
		for _, m := range turn.Messages {
			for _, c := range m.ToolCalls {
				names[c.ID] = c.Name
			}
		}
	}
	third := third(req.Model)
	contents := make([]*genai.Content, 0, len(turns))
	for i, turn := range turns {
		contents = append(contents, content(turn, names, third, third && i > now))
	}
	config.HTTPOptions = &genai.HTTPOptions{ExtrasRequestProvider: func(body map[string]any) map[string]any {
		return exact(body, contents, config.Tools)
	}}
	return contents, config
}

// exact puts conversation and tools into a request that the client has written.
// On its way there it makes a float64 of every number, which loses digits, and a
// map of every schema, which loses the order in which models write arguments.
func exact(body map[string]any, contents []*genai.Content, tools []*genai.Tool) map[string]any {
	body["contents"] = contents
	if len(tools) > 0 {
		body["tools"] = tools
	}
	return body
}

// content writes one turn. inside puts the images of a result into it; sign puts a stand-in
// where the model's signature of its calls is missing.
func content(turn wire.Turn, names map[string]string, inside, sign bool) *genai.Content {
	out := &genai.Content{Role: roleUser}
	if turn.Model {
		out.Role = roleModel
	}
	var shown []*genai.Part // images of results, behind all of them
	for n, m := range turn.Messages {
		if m.Role == llm.RoleTool {
			part := result(m, names)
			if inside {
				part.FunctionResponse.Parts = imagesInside(m)
			} else {
				shown = append(shown, images(m)...)
			}
			out.Parts = append(out.Parts, part)
			if n+1 == len(turn.Messages) || turn.Messages[n+1].Role != llm.RoleTool {
				out.Parts, shown = append(out.Parts, shown...), nil
			}
			continue
		}
		out.Parts = append(out.Parts, images(m)...)
		if strings.TrimSpace(m.Content) != "" {
			out.Parts = append(out.Parts, &genai.Part{Text: m.Content})
		}
		for i, c := range m.ToolCalls {
			out.Parts = append(out.Parts, call(c, sign && i == 0))
		}
	}
	return out
}

// images writes the images of a message.
func images(m llm.Message) []*genai.Part {
	var out []*genai.Part
	for _, i := range m.Images {
		out = append(out, &genai.Part{InlineData: &genai.Blob{Data: i.Data, MIMEType: i.MediaType}})
	}
	return out
}

// imagesInside writes the images of a tool's result as parts of it:
// https://ai.google.dev/gemini-api/docs/function-calling#multimodal.
func imagesInside(m llm.Message) []*genai.FunctionResponsePart {
	var out []*genai.FunctionResponsePart
	for _, i := range m.Images {
		out = append(out, genai.NewFunctionResponsePartFromBytes(i.Data, i.MediaType))
	}
	return out
}

// third reports whether a model is of Gemini 3 or later. Those want their signatures back and
// refuse calls without, and take images inside of a tool's result.
func third(model string) bool {
	version, ok := strings.CutPrefix(strings.TrimPrefix(model, "models/"), "gemini-")
	return ok && !strings.HasPrefix(version, "1") && !strings.HasPrefix(version, "2")
}
