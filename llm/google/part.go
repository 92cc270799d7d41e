package google

import (
	"encoding/json"

	"voicebridge/llm"
)

// part is one piece of content.
type part struct {
	FunctionCall     *functionCall     `json:"functionCall,omitempty"`
	FunctionResponse *functionResponse `json:"functionResponse,omitempty"`
	InlineData       *blob             `json:"inlineData,omitempty"`
	Text             string            `json:"text,omitempty"`
	Thought          bool              `json:"thought,omitempty"`
	ThoughtSignature []byte            `json:"thoughtSignature,omitempty"`
}

type blob struct {
	Data     []byte `json:"data"`
	MIMEType string `json:"mimeType"`
}

type functionCall struct {
	ID   string          `json:"id,omitempty"`
	Args json.RawMessage `json:"args,omitempty"` // an object
	Name string          `json:"name"`
}

type functionResponse struct {
	Parts    []part          `json:"parts,omitempty"`
	ID       string          `json:"id,omitempty"`
	Name     string          `json:"name"`
	Response json.RawMessage `json:"response"` // an object
}

// images writes the images of a message.
func images(m llm.Message) []part {
	var out []part
	for _, i := range m.Images {
		out = append(out, part{InlineData: &blob{Data: i.Data, MIMEType: i.MediaType}})
	}
	return out
}
