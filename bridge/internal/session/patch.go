package session

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"voicebridge/realtime"
	"voicebridge/toolkit"
)

// The settings that the bridge reads or writes itself.
const (
	setInstructions  = "instructions"
	setTools         = "tools"
	setNoise         = "audio.input.noise_reduction"
	setTranscription = "audio.input.transcription"
	setTurns         = "audio.input.turn_detection"
	setVoice         = "audio.output.voice"
	setSpeed         = "audio.output.speed"
)

// Patch is the accepted part of a client's session object. The zero value changes nothing.
type Patch struct {
	set realtime.Settings
	// tools are those that set names, as far as the call can have them, of the clients whose tools change.
	tools bySide
	// eventIDs are the ids of the clients' events that asked for it, see [asker].
	eventIDs []string
}

// bySide are tools by who has declared them: 0 is the browser, others are sidebands.
type bySide map[int][]toolkit.Definition

// with returns them with those of one client replaced.
func (b bySide) with(side int, defs []toolkit.Definition) bySide {
	next := make(bySide, len(b)+1)
	maps.Copy(next, b)
	next[side] = defs
	return next
}

// of returns whose tool that is. ok is false if it is nobody's.
func (b bySide) of(name string) (side int, ok bool) {
	for side, defs := range b {
		if slices.ContainsFunc(defs, func(d toolkit.Definition) bool { return d.Name == name }) {
			return side, true
		}
	}
	return 0, false
}

// all returns the tools of all, the browser's first.
func (b bySide) all() (defs []toolkit.Definition) {
	for _, side := range slices.Sorted(maps.Keys(b)) {
		defs = append(defs, b[side]...)
	}
	return defs
}

// readPatch reads what somebody may set of a session object. What the bridge does not support is left out, too. The
// error says what cannot be read; the rest is there all the same.
func readPatch(session json.RawMessage, allowed func(path string, f realtime.Field) bool) (Patch, *realtime.Error) {
	s, refused := realtime.SessionFields.Settings(session,
		func(path string, f realtime.Field) bool { return path == "type" || allowed(path, f) })
	if kind, ok := s["type"]; ok && string(kind) != `"realtime"` {
		return Patch{}, mustBe("type", `"realtime"`)
	}
	delete(s, "type")
	if text, ok := s[setInstructions]; ok && text[0] != '"' {
		refused = mustBe(setInstructions, "a string")
		delete(s, setInstructions)
	}
	if notNull(s[setTranscription]) == nil {
		delete(s, setTranscription) // without transcripts the thread would have no text
	}
	p := Patch{set: s}
	if list, ok := s[setTools]; ok {
		functions, defs, readable := readTools(list)
		if s[setTools], p.tools = functions, (bySide{0: defs}); !readable {
			refused = mustBe(setTools, "a list of functions")
			delete(s, setTools)
		}
	}
	return p, refused
}

func mustBe(path, want string) *realtime.Error {
	return realtime.Refuse("invalid_value", "session."+path, "session.%s must be %s.", path, want)
}

// readTools reads the functions that a client declares. Tools of other types, such as remote MCP
// servers, are left out.
func readTools(list json.RawMessage) (functions json.RawMessage, defs []toolkit.Definition, ok bool) {
	var all []json.RawMessage
	if json.Unmarshal(list, &all) != nil {
		return nil, nil, false
	}
	kept := []json.RawMessage{}
	for _, one := range all {
		var t struct {
			Type        string          `json:"type"`
			Name        string          `json:"name"`
			Description string          `json:"description"`
			Parameters  json.RawMessage `json:"parameters"`
		}
		if json.Unmarshal(one, &t) != nil {
			return nil, nil, false
		}
		if t.Type != "" && t.Type != "function" {
			continue
		}
		if notNull(t.Parameters) == nil {
			t.Parameters = json.RawMessage(`{"type":"object","properties":{}}`)
		}
		kept = append(kept, one)
		defs = append(defs, toolkit.Definition{Name: t.Name, Description: t.Description, Parameters: t.Parameters})
	}
	return toolkit.Encode(kept), defs, true
}

func notNull(raw json.RawMessage) json.RawMessage {
	if string(bytes.TrimSpace(raw)) == "null" {
		return nil
	}
	return raw
}

// Settings returns what it sets; the tools are as the client wrote them.
func (p *Patch) Settings() realtime.Settings { return p.set }

func (p *Patch) sets(path string) bool {
	_, ok := p.set[path]
	return ok
}

// named returns the setting that the parameter of an error is in, empty if that is none of these.
func (p *Patch) named(param string) string {
	for path := range p.set {
		if rest, ok := strings.CutPrefix(param, "session."+path); ok &&
			(rest == "" || rest[0] == '.' || rest[0] == '[') {
			return path
		}
	}
	return ""
}

// empty reports whether nothing of the client's update was accepted.
func (p *Patch) empty() bool { return len(p.set) == 0 }

// without returns the Patch without one of its settings.
func (p Patch) without(path string) Patch {
	p.set = maps.Clone(p.set)
	delete(p.set, path)
	return p
}

// add puts a later Patch on top.
func (p *Patch) add(later Patch) {
	set := realtime.Settings{}
	maps.Copy(set, p.set)
	maps.Copy(set, later.set)
	p.set = set
	if later.sets(setTools) {
		tools := make(bySide)
		maps.Copy(tools, p.tools)
		maps.Copy(tools, later.tools)
		p.tools = tools
	}
	p.eventIDs = append(p.eventIDs, later.eventIDs...)
}
