package live

import (
	"encoding/json"
	"slices"
	"strings"

	"voicebridge/realtime"
)

// Delegate is who does what the voice delegates.
type Delegate string

// The ways of delegation.
const (
	// DelegateResponses is a model of the upstream's, which calls our functions.
	DelegateResponses Delegate = "responses"
	// DelegateChat is whoever runs the function AskTool.
	DelegateChat Delegate = "chat"
)

// AskTool is the function that a delegation calls if DelegateChat does the work; its argument is question.
const AskTool = "ask_agent"

// Model is the voice model of sessions that name none.
const Model = "gpt-live-1.1"

// What each part of the model is told beside what the operator wrote.
const (
	voicePolicy = "You speak with the user and have a backend that does the work: it knows what was said and has the " +
		"tools. Delegate to it whatever needs a tool, a fact that may have changed, or careful thought, also " +
		"when you know how to answer from memory something that a tool could tell exactly. Say in a few words" +
		" that you are looking into it, and go on listening. Never claim a result that you have not got, and " +
		"never say that you cannot do something before the backend has said so. When a result comes, tell it " +
		"at once."
	workPolicy = "You work for a voice assistant: what you write is spoken to the user as it stands. Write a few " +
		"plain sentences, without markup, lists, formulas or addresses. Use the functions that you have; if one says " +
		"that it has only started, say so and end."
)

// Backend is who does what the voice delegates.
type Backend struct {
	Delegate Delegate // empty means DelegateResponses
	// Of DelegateResponses: the model (required), the effort of its reasoning, empty for the model's own, and its
	// instructions.
	Model, Effort, Instructions string
	// Rounds limits how often it goes on with results of functions after the user's last words; zero means no limit.
	Rounds int
}

// config is what a session has.
type config struct {
	model    string
	session  map[string]json.RawMessage // as in the Realtime API
	history  []Message
	tools    []tree
	instruct string // the operator's instructions
}

// newConfig reads a session of the Realtime API.
func newConfig(model string, session json.RawMessage, history []Message) config {
	c := config{model: model, history: history}
	_ = json.Unmarshal(session, &c.session) // what is of another form is none
	if c.session == nil {
		c.session = make(map[string]json.RawMessage)
	}
	c.read()
	return c
}

// read reads what means something here.
func (c *config) read() {
	c.tools, c.instruct = []tree{}, ""
	_ = json.Unmarshal(c.session["instructions"], &c.instruct)
	var all []struct {
		Type        string          `json:"type"`
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Parameters  json.RawMessage `json:"parameters"`
	}
	_ = json.Unmarshal(c.session["tools"], &all)
	for _, t := range all {
		if t.Name == "" {
			continue
		}
		if len(t.Parameters) == 0 || string(t.Parameters) == "null" {
			t.Parameters = json.RawMessage(`{"type":"object","properties":{}}`)
		}
		c.tools = append(c.tools, tree{
			"type": "function", "name": t.Name, "description": t.Description,
			"parameters": t.Parameters, "strict": false,
		})
	}
}

// voice is the name of a voice, or an object with the id of one.
func (c *config) voice() json.RawMessage {
	return realtime.Member(c.session["audio"], "output", "voice")
}

// creation is the session as it is created.
func (c *config) creation(work Backend) tree {
	s := tree{"model": c.model, "instructions": fit(join(c.instruct, voicePolicy), maxInstructions)}
	if v := c.voice(); len(v) > 0 && string(v) != "null" {
		s["audio"] = tree{"output": tree{"voice": v}}
	}
	if messages := input(c.history); len(messages) > 0 {
		s["input"] = messages
	}
	s["delegation"] = tree{"type": "client"}
	if work.Delegate != DelegateChat {
		s["delegation"] = c.delegation(work)
	}
	return s
}

// delegation is the backend.
func (c *config) delegation(work Backend) tree {
	instructions := join(c.instruct, work.Instructions, workPolicy, earlier(c.history))
	r := tree{
		"model": work.Model, "instructions": fit(instructions, maxInstructions),
		"tools": c.tools, "tool_choice": "auto",
	}
	if work.Effort != "" {
		r["reasoning"] = tree{"effort": work.Effort}
	}
	return tree{"type": "responses", "responses": r}
}

// maxEarlier is how much of the history the backend is told, in bytes: it does not get that of the voice.
const maxEarlier = 4000

// earlier writes the end of the history for the backend.
func earlier(history []Message) string {
	var lines []string
	size := 0
	for _, m := range slices.Backward(history) {
		line := m.Role + ": " + m.Text
		if size += len(line) + 1; size > maxEarlier {
			break
		}
		lines = append(lines, line)
	}
	if len(lines) == 0 {
		return ""
	}
	slices.Reverse(lines)
	return "This was said before:\n" + strings.Join(lines, "\n")
}

func join(parts ...string) string {
	parts = slices.DeleteFunc(parts, func(s string) bool { return strings.TrimSpace(s) == "" })
	return strings.Join(parts, "\n\n")
}

// fit cuts a text to so many tokens.
func fit(text string, limit int) string {
	for tokens(text) > limit {
		text = realtime.HeadOf(text, len(text)*limit/(tokens(text)+1))
	}
	return text
}

// shown is the session as clients of the Realtime API know it.
func (c *config) shown(id string) tree {
	s := tree{
		"id": id, "object": "realtime.session", "type": "realtime", "model": c.model,
		"output_modalities": []string{spoken},
	}
	for _, name := range []string{"instructions", "tools", "tool_choice"} {
		if v, ok := c.session[name]; ok {
			s[name] = v
		}
	}
	if v := c.voice(); len(v) > 0 {
		s["audio"] = tree{"output": tree{"voice": v}}
	}
	return s
}
