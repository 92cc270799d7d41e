package session

import (
	"cmp"
	"encoding/json"
	"strings"
	"time"

	"voicebridge/realtime"
	"voicebridge/toolkit"
)

// Creation returns the session object for creating a call: what is fixed for its whole life, and
// nothing that lets the model answer.
func (d Defaults) Creation() []byte {
	return encode(sessionObject{
		Type: "realtime", Model: d.Model, Modalities: json.RawMessage(`["audio"]`),
		Audio: &sessionAudio{Input: &sessionInput{Turns: json.RawMessage("null")}},
	})
}

// sessionObject is a session as it is created or in a session.update. Parts that come from a client are passed on
// unchanged.
type sessionObject struct {
	Type         string          `json:"type"`
	Model        string          `json:"model,omitempty"` // fixed at the creation
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

// object returns the session of the update: the client's part and, in a session's first update, the operator's
// settings. If it has tools, they are all those of the call.
func (u *update) object(d *Defaults, tools *toolkit.Registry) sessionObject {
	w := u.patch
	in := sessionInput{Noise: w.noise, Transcription: d.transcription(w.transcription), Turns: w.turns}
	out := sessionOutput{Voice: w.voice, Speed: w.speed}
	o := sessionObject{Type: "realtime", Instructions: w.instructions, MaxTokens: w.maxTokens, Modalities: w.modalities}
	if u.first {
		o.Instructions = cmp.Or(o.Instructions, &d.Instructions)
		if in.Transcription == nil {
			in.Transcription = d.transcription(json.RawMessage("{}"))
		}
		if in.Turns == nil {
			in.Turns = json.RawMessage(d.TurnDetection)
		}
		if len(in.Turns) == 0 {
			in.Turns = json.RawMessage(`{"type":"server_vad"}`)
		}
		if in.Noise == nil && d.NoiseReduction != "" {
			in.Noise = json.RawMessage(d.NoiseReduction)
		}
		if out.Voice == nil && d.Voice != "" {
			out.Voice = voiceObject(d.Voice)
		}
		o.ToolChoice = "auto"
	}
	if u.noVoice {
		out.Voice = nil
	}
	if u.first || w.hasTools {
		o.Tools = definitions(tools)
	}
	o.Audio = audioOf(in, out)
	return o
}

// voiceObject is a voice as the API takes it: the name of one of its own, or an object with the id of a custom one.
func voiceObject(voice string) json.RawMessage {
	if strings.HasPrefix(voice, "voice_") {
		return encode(map[string]string{"id": voice})
	}
	return encode(voice)
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

// transcription adds the operator's model if the client names none.
func (d *Defaults) transcription(raw json.RawMessage) json.RawMessage {
	if raw == nil {
		return nil
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(raw, &fields) != nil || notNull(fields["model"]) != nil {
		return raw // the upstream will say what is wrong
	}
	fields["model"] = encode(d.TranscriptionModel)
	if d.Language != "" && notNull(fields["language"]) == nil {
		fields["language"] = encode(d.Language)
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

// voiceOf reads the voice of a session: a name, or an object with the id of a custom voice.
func voiceOf(session json.RawMessage) string {
	voice := realtime.Member(session, "audio", "output", "voice")
	var name string
	var own struct {
		ID string `json:"id"`
	}
	if json.Unmarshal(voice, &name) != nil && json.Unmarshal(voice, &own) == nil {
		name = own.ID
	}
	return clip(name)
}

// answersTurns reports whether the upstream answers utterances by itself. It does unless the session
// says otherwise.
func answersTurns(session json.RawMessage) bool {
	turns := turnDetection(session)
	if turns == nil {
		return true
	}
	if notNull(turns) == nil {
		return false // push to talk
	}
	var t struct {
		CreateResponse *bool `json:"create_response"`
	}
	return json.Unmarshal(turns, &t) != nil || t.CreateResponse == nil || *t.CreateResponse
}

// turnDetection returns a session's turn detection, nil if it does not say: null means push to talk.
func turnDetection(session json.RawMessage) json.RawMessage {
	return realtime.Member(session, "audio", "input", "turn_detection")
}

// update is a session.update that the upstream has not answered yet.
type update struct {
	eventID string
	patch   Patch // the client's part
	first   bool  // it contains the bridge's own settings
	onTop   bool  // the client's part comes on top of the session with which the call was started
	noVoice bool
	before  []toolkit.Definition // the client's tools before the update
	by      time.Time            // when to give up; zero for the first one, without which there is no call
}

// asked reports whether the client is waiting for the answer.
func (u *update) asked() bool { return len(u.patch.eventIDs) > 0 }
