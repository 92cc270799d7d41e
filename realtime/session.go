package realtime

import (
	"encoding/json"
	"fmt"
)

// Session is the configuration of a realtime session, for creating a call and for session.update. Only fields that are
// set are written, because an update changes the fields that it names.
type Session struct {
	Type             string          `json:"type"` // always "realtime"
	Model            string          `json:"model,omitempty"`
	Instructions     *string         `json:"instructions,omitempty"`
	OutputModalities []string        `json:"output_modalities,omitempty"` // ["audio"] or ["text"]
	Audio            *Audio          `json:"audio,omitempty"`
	Tools            []Tool          `json:"tools,omitzero"` // empty but not nil clears them
	ToolChoice       json.RawMessage `json:"tool_choice,omitempty"`
	ParallelTools    *bool           `json:"parallel_tool_calls,omitempty"`
	MaxOutputTokens  json.RawMessage `json:"max_output_tokens,omitempty"`
	Truncation       json.RawMessage `json:"truncation,omitempty"`
}

// Audio holds both directions of a Session.
type Audio struct {
	Input  *AudioInput  `json:"input,omitempty"`
	Output *AudioOutput `json:"output,omitempty"`
}

// AudioInput says what happens to the caller's audio.
type AudioInput struct {
	NoiseReduction Nullable[NoiseReduction] `json:"noise_reduction,omitzero"`
	// Transcription null turns off transcripts of the user.
	Transcription Nullable[Transcription] `json:"transcription,omitzero"`
	// TurnDetection null means manual turns, ended by input_audio_buffer.commit.
	TurnDetection Nullable[TurnDetection] `json:"turn_detection,omitzero"`
}

// AudioOutput says how the session speaks.
type AudioOutput struct {
	Voice string   `json:"voice,omitempty"` // locked once the model has spoken
	Speed *float64 `json:"speed,omitempty"` // 0.25 to 1.5
}

// NoiseReduction selects near_field (headset) or far_field (laptop).
type NoiseReduction struct {
	Type string `json:"type"`
}

// Transcription asks for transcripts of what the user says.
type Transcription struct {
	Model    string `json:"model,omitempty"`
	Language string `json:"language,omitempty"` // ISO 639-1
	Prompt   string `json:"prompt,omitempty"`
}

// TurnDetection is server_vad or semantic_vad.
type TurnDetection struct {
	Type              string   `json:"type"`
	Threshold         *float64 `json:"threshold,omitempty"`           // server_vad, 0 to 1
	PrefixPaddingMS   *int     `json:"prefix_padding_ms,omitempty"`   // server_vad
	SilenceDurationMS *int     `json:"silence_duration_ms,omitempty"` // server_vad
	IdleTimeoutMS     *int     `json:"idle_timeout_ms,omitempty"`     // server_vad, 5000 to 30000
	Eagerness         string   `json:"eagerness,omitempty"`           // semantic_vad: low, medium, high, auto
	CreateResponse    *bool    `json:"create_response,omitempty"`
	InterruptResponse *bool    `json:"interrupt_response,omitempty"`
}

// Tool declares one function that the model may call.
type Tool struct {
	Type        string          `json:"type"` // "function"
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters,omitempty"` // JSON schema
}

// Nullable is a field that may be absent (the zero value), null or a value; a session.update distinguishes the three.
// Use it with omitzero.
type Nullable[T any] struct {
	Value T
	Set   bool // the field is present
	Valid bool // the field is not null
}

// Null returns an explicit null.
func Null[T any]() Nullable[T] { return Nullable[T]{Set: true} }

// IsZero lets omitzero leave out a field that is not set.
func (n Nullable[T]) IsZero() bool { return !n.Set }

// MarshalJSON writes the value or null.
func (n Nullable[T]) MarshalJSON() ([]byte, error) {
	if !n.Valid {
		return []byte("null"), nil
	}
	return marshal(n.Value)
}

// UnmarshalJSON reads a value or null.
func (n *Nullable[T]) UnmarshalJSON(b []byte) error {
	*n = Nullable[T]{Set: true}
	if string(b) == "null" {
		return nil
	}
	n.Valid = true
	return json.Unmarshal(b, &n.Value)
}

// RedactSession returns a session.created or session.updated event without what a browser must not see: the
// instructions, the stored prompt and the tools that keepTool rejects. For tools without a name, such as remote MCP
// servers, keepTool gets "". A tool_choice that names a hidden tool becomes "auto". All other values stay as they are,
// but the order of keys may change. An event without a session object is returned unchanged.
func RedactSession(raw []byte, keepTool func(name string) bool) ([]byte, error) {
	event, err := fields(raw)
	if err != nil {
		return nil, fmt.Errorf("redact session: %w", err)
	}
	if s := event["session"]; len(s) == 0 || string(s) == "null" {
		return raw, nil
	}
	session, err := fields(event["session"])
	if err != nil {
		return nil, fmt.Errorf("redact session: %w", err)
	}
	delete(session, "instructions")
	delete(session, "prompt")
	if err := redactTools(session, keepTool); err != nil {
		return nil, fmt.Errorf("redact session tools: %w", err)
	}
	if event["session"], err = marshal(session); err != nil {
		return nil, fmt.Errorf("redact session: %w", err)
	}
	return marshal(event)
}

// fields returns the members of an object. They share its memory, since a session with its tools is large.
func fields(raw []byte) (map[string]json.RawMessage, error) {
	all := make(map[string]json.RawMessage)
	return all, members(raw, func(key string, val []byte) error {
		all[key] = val
		return nil
	})
}

func redactTools(session map[string]json.RawMessage, keepTool func(string) bool) error {
	if list := session["tools"]; len(list) > 0 && string(list) != "null" {
		kept := []json.RawMessage{}
		err := elements(list, func(tool []byte) error {
			if name, err := nameOf(tool); err == nil && keepTool(name) {
				kept = append(kept, tool)
			}
			return nil
		})
		if err != nil {
			return err
		}
		b, err := marshal(kept)
		if err != nil {
			return err
		}
		session["tools"] = b
	}
	if choice := session["tool_choice"]; len(choice) > 0 && choice[0] == '{' {
		if name, err := nameOf(choice); err != nil || !keepTool(name) {
			session["tool_choice"] = json.RawMessage(`"auto"`)
		}
	}
	return nil
}

func nameOf(raw []byte) (name string, err error) {
	err = members(raw, func(key string, val []byte) error {
		if key == "name" {
			name = looseText(val)
		}
		return nil
	})
	return name, err
}

// Member returns the value that path, a sequence of keys, leads to in nested objects. It does not decode the rest,
// since a session with its tools is large. The result shares raw's memory; it is nil if there is no such value or raw
// is not JSON.
func Member(raw json.RawMessage, path ...string) json.RawMessage {
	for _, name := range path {
		var found []byte
		err := members(raw, func(key string, val []byte) error {
			if key == name {
				found = val
			}
			return nil
		})
		if err != nil || found == nil {
			return nil
		}
		raw = found
	}
	return raw
}
