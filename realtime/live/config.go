package live

import (
	"encoding/json"
	"slices"
	"strings"

	"voicebridge/realtime"
)

// AskTool is the function of the client's that does what the voice delegates; its argument is question.
const AskTool = "ask_agent"

// Model is the voice model of sessions that name none.
const Model = "gpt-live-1.1"

// voicePolicy is what the model is told beside what the operator wrote.
const voicePolicy = "You speak with the user and have a backend that does the work: it knows what was said and has the " +
	"tools. Delegate to it whatever needs a tool, a fact that may have changed, or careful thought, also " +
	"when you know how to answer from memory something that a tool could tell exactly. Say in a few words" +
	" that you are looking into it, and go on listening. Never claim a result that you have not got, and " +
	"never say that you cannot do something before the backend has said so. When a result comes, tell it " +
	"at once."

// config is what a session has.
type config struct {
	model    string
	session  map[string]json.RawMessage // as in the Realtime API
	history  []Message
	instruct string // the operator's instructions
}

// newConfig reads a session of the Realtime API.
func newConfig(model string, session json.RawMessage, history []Message) config {
	c := config{model: model, history: history}
	_ = json.Unmarshal(session, &c.session) // what is of another form is none
	if c.session == nil {
		c.session = make(map[string]json.RawMessage)
	}
	_ = json.Unmarshal(c.session["instructions"], &c.instruct)
	return c
}

// voice is the name of a voice, or an object with the id of one.
func (c *config) voice() json.RawMessage {
	return realtime.Member(c.session["audio"], "output", "voice")
}

// creation is the session as it is created.
func (c *config) creation() tree {
	s := tree{
		"model": c.model, "instructions": fit(join(c.instruct, voicePolicy), maxInstructions),
		"delegation": tree{"type": "client"},
	}
	if v := c.voice(); len(v) > 0 && string(v) != "null" {
		s["audio"] = tree{"output": tree{"voice": v}}
	}
	if messages := input(c.history); len(messages) > 0 {
		s["input"] = messages
	}
	return s
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

// spoken is the only modality.
const spoken = "audio"

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
