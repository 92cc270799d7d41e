package persistence

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// The limits of what can be stored; exceeding one is ErrInvalid.
const (
	// MaxMessageBytes is the size of a message's parts as JSON, in bytes.
	MaxMessageBytes = 4 << 20
	// MaxParts is the number of parts of a message.
	MaxParts = 1000
	// MaxTitleBytes is the size of a thread's title, in bytes.
	MaxTitleBytes = 2000
	// MaxIDBytes is the size of an id or an owner, in bytes.
	MaxIDBytes = 500

	maxTypeBytes     = 300
	maxMetadataBytes = 256 << 10
)

// Text returns the message's text parts, one per line.
func (m Message) Text() string {
	var texts []string
	for _, p := range m.Parts {
		if p.Type == partText && p.Text != "" {
			texts = append(texts, p.Text)
		}
	}
	return strings.Join(texts, "\n")
}

// Validate says why the message cannot be stored (ErrInvalid). NUL characters, which PostgreSQL
// cannot store, and invalid UTF-8 are allowed: they are removed or replaced when the message is
// saved.
func (m Message) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if !slices.Contains([]Role{RoleSystem, RoleUser, RoleAssistant}, m.Role) {
		bad("role %q is not system, user or assistant", m.Role)
	}
	if m.ID != "" && !validID(m.ID) {
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
	if !slices.Contains([]Source{"", SourceVoice, SourceText}, m.Metadata.Source) {
		bad("source %q is not voice or text", m.Metadata.Source)
	}
	if !slices.Contains([]Status{"", StatusInProgress, StatusCompleted, StatusInterrupted, StatusFailed}, m.Metadata.Status) {
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
		return Invalid("message: %v", errors.Join(errs...))
	}
	return nil
}

func (p Part) validate() error {
	switch {
	case p.Type == "" || p.Type == partTool || len(p.Type) > maxTypeBytes || p.Type != cleanText(p.Type):
		return fmt.Errorf("type is empty, lacks the tool's name, is not plain text, or has more than %d bytes", maxTypeBytes)
	case p.IsTool() && (p.ToolCallID == "" || len(p.ToolCallID) > MaxIDBytes):
		return fmt.Errorf("toolCallId is not 1 to %d bytes", MaxIDBytes)
	case p.IsTool() && p.State == "":
		return errors.New("a tool part needs a state")
	case p.Type == partDynamic && p.ToolName == "":
		return errors.New("a dynamic-tool part needs a toolName")
	case p.Raw != nil && depth(p.Raw) > maxDepth:
		return fmt.Errorf("nested deeper than %d", maxDepth)
	}
	return nil
}

// MarshalJSON writes the UIMessage form; parts is never null.
func (m Message) MarshalJSON() ([]byte, error) {
	type plain Message
	if m.Parts == nil {
		m.Parts = []Part{}
	}
	return encode(plain(m))
}

// metadataKeys are the keys for which Metadata has a field.
var metadataKeys = []string{
	"source", "status", "call_id", "model", "voice", "created_at", "usage", "latency_ms",
	"heard_text", "audio_end_ms", "item_id", "seq",
}

// MarshalJSON writes the known keys and those in Extra.
func (m Metadata) MarshalJSON() ([]byte, error) {
	type plain Metadata
	m.Usage = asJSON(m.Usage)
	known, err := encode(plain(m))
	if err != nil || len(m.Extra) == 0 {
		return known, err
	}
	all := make(map[string]json.RawMessage, len(m.Extra)+len(metadataKeys))
	for key, raw := range m.Extra {
		if raw = asJSON(raw); raw != nil && !slices.Contains(metadataKeys, key) {
			all[key] = raw
		}
	}
	if err := json.Unmarshal(known, &all); err != nil {
		return nil, err
	}
	return encode(all)
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
	known, err := encode(all)
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

// validID reports whether s can be an id: it fits into an index, and PostgreSQL accepts it.
func validID(s string) bool {
	return s != "" && len(s) <= MaxIDBytes && utf8.ValidString(s) && !strings.Contains(s, "\x00")
}

// check returns ErrNotFound if the key cannot name a thread: the database's error would be less
// clear.
func (k Key) check() error {
	if !validID(k.Owner) || !validID(k.Thread) {
		return ErrNotFound
	}
	return nil
}
