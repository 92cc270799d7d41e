package bridge

import (
	"encoding/json"

	"voicebridge/realtime"
	"voicebridge/toolkit"
)

// SessionConfig is what the operator sets for every call.
type SessionConfig struct {
	Model              string
	Voice              string
	TranscriptionModel string
	Instructions       string
	// AllowClientInstructions lets a client replace the instructions.
	AllowClientInstructions bool
}

// creation is the session object that a call is created with: what is fixed for
// its whole life, and nothing that lets the model answer.
func (c SessionConfig) creation() ([]byte, error) {
	return json.Marshal(realtime.Session{
		Type: "realtime", Model: c.Model, OutputModalities: []string{"audio"},
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

func (s *state) sessionOf(u *update) sessionObject {
	w := u.wish
	in := sessionInput{Noise: w.noise, Transcription: s.transcription(w.transcription), Turns: w.turns}
	out := sessionOutput{Voice: w.voice, Speed: w.speed}
	o := sessionObject{Type: "realtime", Instructions: w.instructions}
	if u.first {
		if o.Instructions == nil {
			o.Instructions = &s.session.Instructions
		}
		if in.Transcription == nil {
			in.Transcription = s.transcription(json.RawMessage("{}"))
		}
		if in.Turns == nil {
			in.Turns = json.RawMessage(`{"type":"server_vad"}`)
		}
		if out.Voice == nil && s.session.Voice != "" {
			out.Voice = encode(s.session.Voice)
		}
		o.ToolChoice = "auto"
	}
	if u.noVoice {
		out.Voice = nil
	}
	if u.first || w.hasTools {
		o.Tools = definitions(s.registry)
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
func (s *state) transcription(raw json.RawMessage) json.RawMessage {
	if raw == nil {
		return nil
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(raw, &fields) != nil || notNull(fields["model"]) != nil {
		return raw // the upstream will say what is wrong with it
	}
	fields["model"] = encode(s.session.TranscriptionModel)
	return encode(fields)
}

func definitions(r *toolkit.Registry) []realtime.Tool {
	tools := []realtime.Tool{}
	for _, d := range r.Definitions() {
		tools = append(tools, realtime.Tool{Type: "function", Name: d.Name, Description: d.Description, Parameters: d.Parameters})
	}
	return tools
}
