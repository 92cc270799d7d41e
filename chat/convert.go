package chat

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"

	"voicebridge/llm"
	"voicebridge/thread"
	"voicebridge/toolkit"
)

// noResult is what the model reads as the result of an unanswered call.
const noResult = "Error: the call ended before it was answered"

// entry is a message of a request before trimming.
type entry struct {
	llm.Message
	// full is the whole output of a tool message whose output was cut.
	full   string
	images []Image
	from   *thread.Message
}

// tokens estimates the number of tokens.
func (e entry) tokens() int { return llm.Tokens(e.Message) + len(e.images)*imageTokens }

// converter makes the messages of a request.
type converter struct {
	provider  string
	maxOutput int // characters of one earlier tool output or input
	tight     bool
	sorts     bool // HistoryConfig.sorts
	entries   []entry
	ids       map[string]bool // of calls
	// lastAssistant is the last message of the assistant.
	lastAssistant *thread.Message
}

func (c *converter) message(m *thread.Message) {
	switch {
	case m.IsDiscarded():
	case m.Role == thread.RoleAssistant:
		c.lastAssistant = m
		c.assistant(m)
	case m.Role == thread.RoleUser, m.Role == thread.RoleSystem:
		c.input(m)
	}
}

// input adds a message of the user or the operator, unless it is empty.
func (c *converter) input(m *thread.Message) {
	e := entry{Message: llm.Message{Role: llm.Role(m.Role), Content: m.Text()}, from: m}
	for i := range m.Parts {
		if image, ok := imageOf(&m.Parts[i]); ok && m.Role == thread.RoleUser {
			e.images = append(e.images, image)
		}
	}
	if strings.TrimSpace(e.Content) == "" && len(e.images) == 0 {
		return
	}
	if note := extraText(m, extraContext); note != "" {
		e.Content = strings.TrimSpace(note + "\n\n" + e.Content)
	}
	c.entries = append(c.entries, e)
}

func (c *converter) assistant(m *thread.Message) {
	heard := thread.NewHeardText(m)
	for _, s := range stepsOf(m) {
		var texts []string
		for _, text := range s.texts {
			if text = heard.Next(text); strings.TrimSpace(text) != "" && !m.IsNotice() {
				texts = append(texts, text)
			}
		}
		s.texts = texts
		c.step(s, m)
	}
}

// step is one answer of a model: text and calls.
type step struct {
	texts []string
	tools []*thread.Part
}

// stepsOf returns the steps of an answer, some of which may be empty.
func stepsOf(m *thread.Message) []step {
	all := []step{{}}
	for i := range m.Parts {
		last := &all[len(all)-1]
		switch p := &m.Parts[i]; {
		case p.Type == "step-start":
			all = append(all, step{})
		case p.Type == "text":
			last.texts = append(last.texts, p.Text)
		case p.IsTool():
			last.tools = append(last.tools, p)
		}
	}
	return all
}

func (c *converter) step(s step, m *thread.Message) {
	if len(s.texts)+len(s.tools) == 0 {
		return
	}
	answer := entry{Message: llm.Message{Role: llm.RoleAssistant, Content: strings.Join(s.texts, "\n")}, from: m}
	results := make([]entry, 0, len(s.tools))
	for _, p := range s.tools {
		if c.sorts {
			p = new(*p)
			p.Input, p.Output = sorted(p.Input), sorted(p.Output)
		}
		call := llm.ToolCall{
			ID: c.callID(p.ToolCallID), Name: toolkit.ModelName(p.ToolName), Arguments: arguments(p, c.maxOutput),
			Metadata: toolkit.Metadata(p.Raw, c.provider),
		}
		answer.ToolCalls = append(answer.ToolCalls, call)
		output := resultText(p)
		result := entry{from: m, images: imagesOf(p), Message: llm.Message{
			Role: llm.RoleTool, Content: output, ToolCallID: call.ID, ToolName: call.Name,
			Failed: p.State != thread.ToolOutputAvailable,
		}}
		if cut := cutRunes(output, c.maxOutput); cut != output {
			if result.Content = cut; !c.tight {
				result.full = output
			}
		}
		results = append(results, result)
	}
	c.entries = append(append(c.entries, answer), results...)
}

// callID returns the id of a tool call, which some models read; a provider that does not accept it sends another one.
// Two tool calls with the same id, for example from two voice calls, get different ones.
func (c *converter) callID(saved string) string {
	id := saved
	for n := 0; id == "" || c.ids[id]; n++ {
		id = hashID(saved + "#" + strconv.Itoa(n))
	}
	c.ids[id] = true
	return id
}

func hashID(s string) string {
	sum := sha256.Sum256([]byte(s))
	return "call_" + hex.EncodeToString(sum[:12])
}

// arguments returns a call's input in a form that providers accept: always a JSON object.
func arguments(p *thread.Part, limit int) string {
	input := bytes.TrimSpace(p.Input)
	switch {
	case len(input) == 0 || input[0] != '{' || !json.Valid(input):
		return "{}"
	case utf8.RuneCount(input) > limit:
		return `{"note":"the arguments are too long to repeat"}`
	}
	return toolkit.Compact(input)
}

// sorted returns JSON with the keys of its objects in alphabetical order.
func sorted(raw json.RawMessage) json.RawMessage {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var value any
	if !json.Valid(raw) || d.Decode(&value) != nil {
		return raw
	}
	return toolkit.Encode(value)
}

// resultText returns what a model reads of a call's result.
func resultText(p *thread.Part) string {
	switch p.State {
	case thread.ToolOutputAvailable:
		return toolkit.ResultText(p.Output, p.Raw)
	case thread.ToolOutputError:
		return "Error: " + p.ErrorText
	default:
		return noResult
	}
}
