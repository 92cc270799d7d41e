package session

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"voicebridge/toolkit"
)

// Patch is the accepted part of a client's session.update. Fields that the client does not name are
// nil. The zero value changes nothing.
type Patch struct {
	noise, transcription, turns json.RawMessage
	voice, speed                json.RawMessage
	maxTokens, modalities       json.RawMessage // only for a fixed session
	instructions                *string
	tools                       []toolkit.Definition
	hasTools                    bool
	// eventIDs are the ids of the client's events that asked for it.
	eventIDs []string
}

// clientSession holds the fields that are read from a client's session object.
type clientSession struct {
	Type         string          `json:"type"`
	Instructions json.RawMessage `json:"instructions"`
	Audio        struct {
		Input struct {
			Noise         json.RawMessage `json:"noise_reduction"`
			Transcription json.RawMessage `json:"transcription"`
			Turns         json.RawMessage `json:"turn_detection"`
		} `json:"input"`
		Output struct {
			Voice json.RawMessage `json:"voice"`
			Speed json.RawMessage `json:"speed"`
		} `json:"output"`
	} `json:"audio"`
	Tools json.RawMessage `json:"tools"`
}

// FieldError says what is wrong with a field of a client's session object.
type FieldError struct {
	Field string // as session.audio.input
	Want  string // what it must be
}

// Error implements error.
func (e *FieldError) Error() string { return e.Field + " must be " + e.Want }

// read decodes a session object.
func read(raw json.RawMessage, into any) error {
	err := json.Unmarshal(raw, into)
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		want := "an object"
		if e.Type.Kind() == reflect.String {
			want = "a string"
		}
		return &FieldError{"session." + e.Field, want}
	}
	if err != nil {
		return fmt.Errorf("session cannot be read: %w", err)
	}
	return nil
}

// ReadPatch reads a client's session object. Parts that are not supported are ignored; an
// unreadable object is an error.
func ReadPatch(raw json.RawMessage, allowInstructions bool) (Patch, error) {
	var c clientSession
	if !isObject(raw) {
		return Patch{}, errors.New("session must be an object")
	}
	if err := read(raw, &c); err != nil {
		return Patch{}, err
	}
	if c.Type != "" && c.Type != "realtime" {
		return Patch{}, &FieldError{"session.type", `"realtime"`}
	}
	p := Patch{
		noise: c.Audio.Input.Noise, turns: c.Audio.Input.Turns,
		voice: notNull(c.Audio.Output.Voice), speed: notNull(c.Audio.Output.Speed),
		// Without transcripts the thread would have no text, so null is ignored.
		transcription: notNull(c.Audio.Input.Transcription),
	}
	if allowInstructions && notNull(c.Instructions) != nil {
		if err := json.Unmarshal(c.Instructions, &p.instructions); err != nil {
			return Patch{}, &FieldError{"session.instructions", "a string"}
		}
	}
	if c.Tools == nil {
		return p, nil
	}
	p.hasTools = true
	var err error
	p.tools, err = readTools(c.Tools)
	return p, err
}

// ReadFixed reads the session object that an application's server has fixed. Besides what ReadPatch takes, it takes
// instructions, max_output_tokens and output_modalities.
func ReadFixed(raw json.RawMessage) (Patch, error) {
	p, err := ReadPatch(raw, true)
	if err != nil {
		return p, err
	}
	var more struct {
		MaxTokens  json.RawMessage `json:"max_output_tokens"`
		Modalities json.RawMessage `json:"output_modalities"`
	}
	if err := read(raw, &more); err != nil {
		return Patch{}, err
	}
	p.maxTokens, p.modalities = notNull(more.MaxTokens), notNull(more.Modalities)
	return p, nil
}

// without removes what the fixed session names, except what may be changed, and instructions if
// clients may not set them.
func (p Patch) without(fixed Patch, may []string, instructions bool) Patch {
	for _, f := range []struct {
		name        string
		mine, fixed *json.RawMessage
	}{
		{"voice", &p.voice, &fixed.voice}, {"speed", &p.speed, &fixed.speed}, {"noise_reduction", &p.noise, &fixed.noise},
		{"transcription", &p.transcription, &fixed.transcription}, {"turn_detection", &p.turns, &fixed.turns},
	} {
		if *f.fixed != nil && !slices.Contains(may, f.name) {
			*f.mine = nil
		}
	}
	if !slices.Contains(may, "instructions") && (fixed.instructions != nil || !instructions) {
		p.instructions = nil
	}
	if !slices.Contains(may, "tools") && fixed.hasTools {
		p.tools, p.hasTools = nil, false
	}
	return p
}

// readTools reads the functions that a client declares. Tools of other types, such as remote MCP
// servers, are ignored.
func readTools(raw json.RawMessage) ([]toolkit.Definition, error) {
	var list []struct {
		Type        string          `json:"type"`
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Parameters  json.RawMessage `json:"parameters"`
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, &FieldError{"session.tools", "a list of functions"}
	}
	var defs []toolkit.Definition
	for _, t := range list {
		if t.Type != "" && t.Type != "function" {
			continue
		}
		if notNull(t.Parameters) == nil {
			t.Parameters = json.RawMessage(`{"type":"object","properties":{}}`)
		}
		defs = append(defs, toolkit.Definition{Name: t.Name, Description: t.Description, Parameters: t.Parameters})
	}
	return defs, nil
}

func isObject(raw json.RawMessage) bool {
	raw = bytes.TrimSpace(raw)
	return len(raw) > 0 && raw[0] == '{'
}

func notNull(raw json.RawMessage) json.RawMessage {
	if string(bytes.TrimSpace(raw)) == "null" {
		return nil
	}
	return raw
}

// empty reports whether nothing of the client's update was accepted.
func (p *Patch) empty() bool { return len(p.fields()) == 0 }

// fields returns the names of what it sets, as in the client's session object.
func (p *Patch) fields() (names []string) {
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"instructions", p.instructions != nil}, {"tools", p.hasTools}, {"audio.input.noise_reduction", p.noise != nil},
		{"audio.input.transcription", p.transcription != nil}, {"audio.input.turn_detection", p.turns != nil},
		{"audio.output.voice", p.voice != nil}, {"audio.output.speed", p.speed != nil},
		{"max_output_tokens", p.maxTokens != nil}, {"output_modalities", p.modalities != nil},
	} {
		if f.set {
			names = append(names, f.name)
		}
	}
	return names
}

// add puts a later Patch on top.
func (p *Patch) add(later Patch) {
	for _, f := range []struct{ to, from *json.RawMessage }{
		{&p.noise, &later.noise}, {&p.transcription, &later.transcription}, {&p.turns, &later.turns},
		{&p.voice, &later.voice}, {&p.speed, &later.speed}, {&p.maxTokens, &later.maxTokens}, {&p.modalities, &later.modalities},
	} {
		if *f.from != nil {
			*f.to = *f.from
		}
	}
	if later.instructions != nil {
		p.instructions = later.instructions
	}
	if later.hasTools {
		p.tools, p.hasTools = later.tools, true
	}
	p.eventIDs = append(p.eventIDs, later.eventIDs...)
}
