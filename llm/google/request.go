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
	contents := make([]*genai.Content, 0, len(turns))
	for i, turn := range turns {
		contents = append(contents, content(turn, names, i > now && signs(req.Model)))
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

// content writes one turn. sign puts a stand-in where the model's signature of
// its calls is missing.
func content(turn wire.Turn, names map[string]string, sign bool) *genai.Content {
	out := &genai.Content{Role: roleUser}
	if turn.Model {
		out.Role = roleModel
	}
	for _, m := range turn.Messages {
		if m.Role == llm.RoleTool {
			out.Parts = append(out.Parts, result(m, names))
			continue
		}
		for _, i := range m.Images {
			out.Parts = append(out.Parts, &genai.Part{InlineData: &genai.Blob{Data: i.Data, MIMEType: i.MediaType}})
		}
		if strings.TrimSpace(m.Content) != "" {
			out.Parts = append(out.Parts, &genai.Part{Text: m.Content})
		}
		for i, c := range m.ToolCalls {
			out.Parts = append(out.Parts, call(c, sign && i == 0))
		}
	}
	return out
}

// signs reports whether a model wants its signatures back and refuses calls
// without: those since Gemini 3.
func signs(model string) bool {
	version, ok := strings.CutPrefix(strings.TrimPrefix(model, "models/"), "gemini-")
	return ok && !strings.HasPrefix(version, "1") && !strings.HasPrefix(version, "2")
}
