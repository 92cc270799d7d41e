package session

import (
	"cmp"
	"encoding/json"
	"maps"
	"strings"
	"time"

	"voicebridge/realtime"
	"voicebridge/toolkit"
)

// Creation returns the session object for creating a call: what is fixed for its whole life, and
// nothing that lets the model answer.
func (d Defaults) Creation() []byte {
	return encode(realtime.Settings{
		"type": encode("realtime"), "model": encode(d.Model), "output_modalities": encode([]string{"audio"}),
		setTurns: encode(nil),
	})
}

// settings are the operator's for a session's first update.
func (d *Defaults) settings() realtime.Settings {
	s := realtime.Settings{
		setInstructions: encode(d.Instructions), setTranscription: d.transcription(json.RawMessage("{}")),
		setTurns: d.TurnDetection.Object(), "tool_choice": encode("auto"),
	}
	if d.NoiseReduction != "" {
		s[setNoise] = encode(map[string]string{"type": d.NoiseReduction})
	}
	if d.Speed != 0 {
		s[setSpeed] = encode(d.Speed)
	}
	if d.Voice != "" {
		s[setVoice] = voiceObject(d.Voice)
	}
	return s
}

// Read reads a client's session object, or one that an application's server fixes. What they may not set is left out.
func (d *Defaults) Read(session json.RawMessage, fixed bool) (Patch, *realtime.Error) {
	if fixed {
		return readPatch(session, func(_ string, f realtime.Field) bool { return f.Who >= realtime.ByApp })
	}
	return readPatch(session, d.forClients)
}

// forClients reports whether any client may set a field of a session.
func (d *Defaults) forClients(path string, f realtime.Field) bool {
	return f.Who >= realtime.ByClient || path == setInstructions && d.AllowClientInstructions
}

// voiceObject is a voice as the API takes it: the name of one of its own, or an object with the id of a custom one.
func voiceObject(voice string) json.RawMessage {
	if strings.HasPrefix(voice, "voice_") {
		return encode(map[string]string{"id": voice})
	}
	return encode(voice)
}

// transcription adds the operator's model if the client names none, and the key terms as the model takes them unless
// the client has others.
func (d *Defaults) transcription(raw json.RawMessage) json.RawMessage {
	var fields map[string]json.RawMessage
	if json.Unmarshal(raw, &fields) != nil || notNull(fields["model"]) != nil && len(d.Keyterms) == 0 {
		return raw // the upstream will say what is wrong
	}
	if notNull(fields["model"]) == nil {
		fields["model"] = encode(d.TranscriptionModel)
		if d.Language != "" && notNull(fields["language"]) == nil {
			fields["language"] = encode(d.Language)
		}
	}
	var model string
	_ = json.Unmarshal(fields["model"], &model) // what is no text has no terms
	name, terms := realtime.Keyterms(model, d.Keyterms)
	if name != "" && len(d.Keyterms) > 0 && notNull(fields[name]) == nil {
		fields[name] = encode(terms)
	}
	return encode(fields)
}

// NewWhole returns the session of a call with these tools, of which the client wants p.
func NewWhole(own Defaults, p Patch, tools *toolkit.Registry) Whole {
	return Whole{own, p.set, encode(definitions(tools))}
}

// Of returns the session with what its upstream has.
func (w Whole) Of(r Route) realtime.Settings {
	own := w.own.With(r)
	s := own.settings()
	maps.Copy(s, w.set)
	s["type"], s[setTools] = encode("realtime"), w.tools
	return s
}

func definitions(r *toolkit.Registry) []realtime.Tool {
	tools := []realtime.Tool{}
	for _, d := range r.Definitions() {
		if e, _ := r.Lookup(d.Name); e.Executor == toolkit.ExecutorClient {
			d.Name = e.Tool.Definition().Name // the client reads the call as it comes
		}
		tools = append(tools,
			realtime.Tool{Type: "function", Name: d.Name, Description: d.Description, Parameters: d.Parameters})
	}
	return tools
}

// replaced returns a JSON object with another value for one of its fields.
func replaced(object json.RawMessage, field string, value json.RawMessage) json.RawMessage {
	var fields map[string]json.RawMessage
	if json.Unmarshal(object, &fields) != nil {
		return nil
	}
	fields[field] = value
	return encode(fields)
}

// rules are what an interruption must have; zero is nothing.
type rules struct {
	MinSeconds, ResumeSeconds float64
	MinWords                  int
}

func (d *Defaults) rules() rules {
	i := &d.Interruption
	return rules{given(i.MinSeconds), given(i.ResumeSeconds), given(i.MinWords)}
}

func given[T any](value *T) (v T) {
	if value != nil {
		v = *value
	}
	return v
}

// judges reports whether the bridge judges what interrupts such an upstream.
func (d *Defaults) judges(can Capabilities) bool {
	return d.rules() != rules{} && can.ResponseSettings && !can.Duplex && !can.Resumes
}

// replies reports whether what decides about turns has utterances answered: it does unless it says otherwise.
func replies(turns json.RawMessage) bool {
	var detection struct {
		CreateResponse *bool `json:"create_response"`
	}
	silent := json.Unmarshal(turns, &detection) == nil && detection.CreateResponse != nil && !*detection.CreateResponse
	return string(turns) != "null" && !silent
}

// leftOut returns how much of what a session calls speech is none, by its turn detection. Source: OpenAI's reference.
func leftOut(turns json.RawMessage) time.Duration {
	var told struct {
		Prefix  *int64 `json:"prefix_padding_ms"`
		Silence *int64 `json:"silence_duration_ms"`
		Type    string `json:"type"`
	}
	_ = json.Unmarshal(turns, &told) // what cannot be read is as usual
	ms := *cmp.Or(told.Prefix, new(int64(300)))
	if told.Type == "server_vad" {
		ms += *cmp.Or(told.Silence, new(int64(500)))
	}
	return time.Duration(ms) * time.Millisecond
}
