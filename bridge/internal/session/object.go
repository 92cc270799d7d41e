package session

import (
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
		"type": encode("realtime"), "model": encode(d.Model), "output_modalities": encode([]string{"audio"}), setTurns: encode(nil),
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
	if d.Voice != "" {
		s[setVoice] = voiceObject(d.Voice)
	}
	return s
}

// object returns the session of the update: the client's part and, in a session's first update, the operator's
// settings. If it has tools, they are all those of the call.
func (u *update) object(d *Defaults, tools *toolkit.Registry) realtime.Settings {
	s := realtime.Settings{}
	if u.first {
		s = d.settings()
	}
	maps.Copy(s, u.patch.set)
	if u.patch.sets(setTranscription) {
		s[setTranscription] = d.transcription(u.patch.set[setTranscription])
	}
	if u.noVoice {
		delete(s, setVoice)
	}
	if u.first || u.patch.sets(setTools) {
		s[setTools] = encode(definitions(tools))
	}
	s["type"] = encode("realtime")
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

// transcription adds the operator's model if the client names none.
func (d *Defaults) transcription(raw json.RawMessage) json.RawMessage {
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
