// Package thread holds the words in which everybody here speaks of a conversation: messages and their parts, tool
// calls, approvals, and what was heard. It only describes: it imports nothing of this program, stores nothing, and may
// be imported by every other package.
package thread

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Role says who a message is from. There is no tool role: an assistant message holds its tool calls
// and their results as parts.
type Role string

// The roles of a message.
const (
	RoleSystem    Role = "system"
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
)

// Source says how a message came about.
type Source string

// The sources of a message.
const (
	SourceVoice Source = "voice"
	SourceText  Source = "text"
	// SourceKeys is that of what a caller has typed on a telephone.
	SourceKeys Source = "keys"
	// SourceAPI is that of texts of the system and the assistant that an application's server has put into a call.
	SourceAPI Source = "api"
)

// Status is a message's state.
type Status string

// The states of a message. All but StatusInProgress are final.
const (
	StatusInProgress  Status = "in_progress"
	StatusCompleted   Status = "completed"
	StatusInterrupted Status = "interrupted"
	StatusFailed      Status = "failed"
)

// Key names a thread and its owner. Every read and write needs both: another owner's thread does
// not exist.
type Key struct {
	Owner  string
	Thread string
}

// Message is one entry of a thread, in the form of the AI SDK's UIMessage.
type Message struct {
	ID       string   `json:"id"`
	Role     Role     `json:"role"`
	Parts    []Part   `json:"parts"`
	Metadata Metadata `json:"metadata"`

	// Seq is the message's place in its thread: later messages have larger numbers. When a message
	// is inserted before others, it and those that follow get new numbers, so that a reader who
	// asks for what comes after the last number it has seen misses nothing.
	Seq int64 `json:"-"`
	// Revision is the number of the last change, from the same counter as Seq.
	Revision int64 `json:"-"`
}

// Metadata is what is known about a message besides its content.
type Metadata struct {
	Source    Source          `json:"source,omitempty"`
	Status    Status          `json:"status,omitempty"`
	CallID    string          `json:"call_id,omitempty"`
	Model     string          `json:"model,omitempty"`
	Voice     string          `json:"voice,omitempty"`
	CreatedAt time.Time       `json:"created_at,omitzero"`
	Usage     json.RawMessage `json:"usage,omitempty"`
	// LatencyMS holds named latencies in milliseconds. In a text turn, first_token and total count
	// from its start; in a call, commit, response, first_audio and first_packet count from when the
	// user stopped speaking.
	LatencyMS map[string]int64 `json:"latency_ms,omitempty"`
	// HeardText and AudioEndMS say how much of an interrupted voice answer was played; nil for all
	// other messages.
	HeardText  *string `json:"heard_text,omitempty"`
	AudioEndMS *int64  `json:"audio_end_ms,omitempty"`
	// Audio is where the message's sound is in the recording of its call, if there is one.
	Audio *AudioSpan `json:"audio,omitempty"`
	// ItemID is the upstream's id of the message's item.
	ItemID string `json:"item_id,omitempty"`
	// Seq repeats the message's number for clients that resume from it.
	Seq int64 `json:"seq,omitempty"`
	// Extra holds unknown keys, which are kept.
	Extra map[string]json.RawMessage `json:"-"`
}

// AudioSpan is a part of a recording, in milliseconds from its beginning.
type AudioSpan struct {
	StartMS int64 `json:"start_ms"`
	EndMS   int64 `json:"end_ms"`
}

// Usage counts the tokens of one response.
type Usage struct {
	InputTokens       int64
	OutputTokens      int64
	CachedTokens      int64
	InputAudioTokens  int64
	OutputAudioTokens int64
}

// The limits of what can be stored.
const (
	// MaxMessageBytes is the size of a message's parts as JSON, in bytes.
	MaxMessageBytes = 4 << 20
	// MaxParts is the number of parts of a message.
	MaxParts = 1000
	// MaxIDBytes is the size of an id or an owner, in bytes.
	MaxIDBytes = 500

	maxTypeBytes = 300
)

// Text returns the message's text parts, one per line.
func (m Message) Text() string {
	var texts []string
	for _, p := range m.Parts {
		if p.Type == PartText && p.Text != "" {
			texts = append(texts, p.Text)
		}
	}
	return strings.Join(texts, "\n")
}

// Validate says why the message cannot be stored. NUL characters, which PostgreSQL
// cannot store, and invalid UTF-8 are allowed: they are removed or replaced when the message is
// saved.
func (m Message) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if !slices.Contains([]Role{RoleSystem, RoleUser, RoleAssistant}, m.Role) {
		bad("role %q is not system, user or assistant", m.Role)
	}
	if m.ID != "" && !ValidID(m.ID) {
		bad("id is not 1 to %d bytes of text", MaxIDBytes)
	}
	if len(m.Parts) > MaxParts {
		bad("%d parts are more than %d", len(m.Parts), MaxParts)
	}
	for i, p := range m.Parts {
		if err := p.validate(); err != nil {
			bad("part %d: %w", i, err)
			break
		}
	}
	if !slices.Contains([]Source{"", SourceVoice, SourceText, SourceKeys, SourceAPI}, m.Metadata.Source) {
		bad("source %q is not voice or text", m.Metadata.Source)
	}
	known := []Status{"", StatusInProgress, StatusCompleted, StatusInterrupted, StatusFailed}
	if !slices.Contains(known, m.Metadata.Status) {
		bad("status %q is not known", m.Metadata.Status)
	}
	for _, s := range []string{m.Metadata.CallID, m.Metadata.ItemID, m.Metadata.Model, m.Metadata.Voice} {
		if len(s) > MaxIDBytes {
			bad("an id or a name in the metadata has %d bytes, more than %d", len(s), MaxIDBytes)
		}
	}
	if h := m.Metadata.HeardText; h != nil && len(*h) > MaxMessageBytes {
		bad("heard_text has %d bytes, more than %d", len(*h), MaxMessageBytes)
	}
	if y := m.Metadata.CreatedAt.UTC().Year(); y < 1 || y > 9999 {
		bad("created_at has the year %d", y)
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	return nil
}

func (p Part) validate() error {
	switch {
	case p.Type == "" || p.Type == PartTool || len(p.Type) > maxTypeBytes || p.Type != CleanText(p.Type):
		return fmt.Errorf(
			"type is empty, lacks the tool's name, is not plain text, or has more than %d bytes", maxTypeBytes)
	case p.IsTool() && (p.ToolCallID == "" || len(p.ToolCallID) > MaxIDBytes):
		return fmt.Errorf("toolCallId is not 1 to %d bytes", MaxIDBytes)
	case p.IsTool() && p.State == "":
		return errors.New("a tool part needs a state")
	case p.Type == PartDynamicTool && p.ToolName == "":
		return errors.New("a dynamic-tool part needs a toolName")
	case p.Raw != nil && Depth(p.Raw) > MaxDepth:
		return fmt.Errorf("nested deeper than %d", MaxDepth)
	}
	return nil
}

// MarshalJSON writes the UIMessage form; parts is never null.
func (m Message) MarshalJSON() ([]byte, error) {
	type plain Message
	if m.Parts == nil {
		m.Parts = []Part{}
	}
	return Encode(plain(m))
}

// metadataKeys are the keys for which Metadata has a field.
var metadataKeys = []string{
	"source", "status", "call_id", "model", "voice", "created_at", "usage", "latency_ms",
	"heard_text", "audio_end_ms", "audio", "item_id", "seq",
}

// MarshalJSON writes the known keys and those in Extra.
func (m Metadata) MarshalJSON() ([]byte, error) {
	type plain Metadata
	m.Usage = AsJSON(m.Usage)
	known, err := Encode(plain(m))
	if err != nil || len(m.Extra) == 0 {
		return known, err
	}
	all := make(map[string]json.RawMessage, len(m.Extra)+len(metadataKeys))
	for key, raw := range m.Extra {
		if raw = AsJSON(raw); raw != nil && !slices.Contains(metadataKeys, key) {
			all[key] = raw
		}
	}
	if err := json.Unmarshal(known, &all); err != nil {
		return nil, err
	}
	return Encode(all)
}

// UnmarshalJSON keeps unknown keys in Extra. Keys are matched exactly.
func (m *Metadata) UnmarshalJSON(data []byte) error {
	type plain Metadata
	var all map[string]json.RawMessage
	if err := json.Unmarshal(data, &all); err != nil {
		return errors.New("read metadata: not a JSON object")
	}
	var extra map[string]json.RawMessage
	for key, raw := range all {
		if slices.Contains(metadataKeys, key) {
			continue
		}
		if extra == nil {
			extra = map[string]json.RawMessage{}
		}
		extra[key] = raw
		delete(all, key)
	}
	known, err := Encode(all)
	if err != nil {
		return err
	}
	var p plain
	if err := json.Unmarshal(known, &p); err != nil {
		return fmt.Errorf("read metadata: %w", err)
	}
	*m = Metadata(p)
	m.Extra = extra
	return nil
}

// ValidID reports whether s can be an id: it fits into an index, and PostgreSQL accepts it.
func ValidID(s string) bool {
	return s != "" && len(s) <= MaxIDBytes && utf8.ValidString(s) && !strings.Contains(s, "\x00")
}
