package session

import (
	"encoding/json"

	"voicebridge/realtime"
	"voicebridge/toolkit"
)

// Creation is the session object that a call is created with: what is fixed for
// its whole life, and nothing that lets the model answer.
func (d Defaults) Creation() ([]byte, error) {
	return json.Marshal(realtime.Session{
		Type: "realtime", Model: d.Model, OutputModalities: []string{"audio"},
		Audio: &realtime.Audio{Input: &realtime.AudioInput{TurnDetection: realtime.Null[realtime.TurnDetection]()}},
	})
}

// sessionObject is the session of a session.update. Parts that come from a
// client are passed on as they are.
type sessionObject struct {
	Type         string          `json:"type"`
	Instructions *string         `json:"instructions,omitempty"`
	Audio        *sessionAudio   `json:"audio,omitempty"`
	Tools        []realtime.Tool `json:"tools,omitzero"`
	ToolChoice   string          `json:"tool_choice,omitempty"`
	MaxTokens    json.RawMessage `json:"max_output_tokens,omitempty"`
	Modalities   json.RawMessage `json:"output_modalities,omitempty"`
}

type sessionAudio struct {
	Input  *sessionInput  `json:"input,omitempty"`
	Output *sessionOutput `json:"output,omitempty"`
}

type sessionInput struct {
	Noise         json.RawMessage `json:"noise_reduction,omitempty"`
	Transcription json.RawMessage `json:"transcription,omitempty"`
	Turns         json.RawMessage `json:"turn_detection,omitempty"`
}

type sessionOutput struct {
	Voice json.RawMessage `json:"voice,omitempty"`
	Speed json.RawMessage `json:"speed,omitempty"`
}

func (c *settings) object(u *update) sessionObject {
	w := u.patch
	in := sessionInput{Noise: w.noise, Transcription: c.transcription(w.transcription), Turns: w.turns}
	out := sessionOutput{Voice: w.voice, Speed: w.speed}
	o := sessionObject{Type: "realtime", Instructions: w.instructions, MaxTokens: w.maxTokens, Modalities: w.modalities}
	if u.first {
		if o.Instructions == nil {
			o.Instructions = &c.Session.Instructions
		}
		if in.Transcription == nil {
			in.Transcription = c.transcription(json.RawMessage("{}"))
		}
		if in.Turns == nil {
			in.Turns = json.RawMessage(c.Session.TurnDetection)
		}
		if len(in.Turns) == 0 {
			in.Turns = json.RawMessage(`{"type":"server_vad"}`)
		}
		if in.Noise == nil && c.Session.NoiseReduction != "" {
			in.Noise = json.RawMessage(c.Session.NoiseReduction)
		}
		if out.Voice == nil && c.Session.Voice != "" {
			out.Voice = encode(c.Session.Voice)
		}
		o.ToolChoice = "auto"
	}
	if u.noVoice {
		out.Voice = nil
	}
	if u.first || w.hasTools {
		o.Tools = definitions(c.registry)
	}
	o.Audio = audioOf(in, out)
	return o
}

func audioOf(in sessionInput, out sessionOutput) *sessionAudio {
	var a sessionAudio
	if in.Noise != nil || in.Transcription != nil || in.Turns != nil {
		a.Input = &in
	}
	if out.Voice != nil || out.Speed != nil {
		a.Output = &out
	}
	if a == (sessionAudio{}) {
		return nil
	}
	return &a
}

// transcription names the operator's model where the client names none.
func (c *settings) transcription(raw json.RawMessage) json.RawMessage {
	if raw == nil {
		return nil
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(raw, &fields) != nil || notNull(fields["model"]) != nil {
		return raw // the upstream will say what is wrong with it
	}
	fields["model"] = encode(c.Session.TranscriptionModel)
	if c.Session.Language != "" && notNull(fields["language"]) == nil {
		fields["language"] = encode(c.Session.Language)
	}
	return encode(fields)
}

func definitions(r *toolkit.Registry) []realtime.Tool {
	tools := []realtime.Tool{}
	for _, d := range r.Definitions() {
		tools = append(tools, realtime.Tool{Type: "function", Name: d.Name, Description: d.Description, Parameters: d.Parameters})
	}
	return tools
}
