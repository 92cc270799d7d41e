package livetest

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"voicebridge/realtime"
	"voicebridge/realtime/served"
)

// object is a JSON object that is being read or written.
type object = map[string]any

// fieldsOf are what an object of GPT-Live may have, each with what is below it; nil means anything.
type fieldsOf map[string]fieldsOf

// fields are those of a session. Source: "Create a session" of OpenAI's API reference about Live.
var fields = fieldsOf{
	"model": nil, "instructions": nil, "input": nil, "store": nil, "audio": {"output": {"voice": nil}},
	"safety_identifier": nil,
	"delegation":        {"type": nil, "acknowledgement_delay_ms": nil},
	"client":            {"data_channel": nil},
}

// check names the first field that an object may not have.
func (f fieldsOf) check(path string, o object) *realtime.Error {
	for _, name := range slices.Sorted(maps.Keys(o)) {
		below, known := f[name]
		if !known {
			return realtime.Refuse("unknown_parameter", path+"."+name, "Unknown parameter: '%s.%s'.", path, name)
		}
		if inner, ok := o[name].(object); ok && below != nil {
			if e := below.check(path+"."+name, inner); e != nil {
				return e
			}
		}
	}
	return nil
}

// Limits of a session's history, instructions and appends, in messages and tokens.
const (
	maxInput, maxInputTokens = 128, 8192
	maxInstructions          = 16_384
	maxAppend                = 500
)

// tokens estimates how many tokens a text has, as they are few.
func tokens(text string) int { return len(text) / 4 }

// checkSession checks the session of a creation.
func checkSession(o object) *realtime.Error {
	if e := fields.check("session", o); e != nil {
		return e
	}
	model, _ := o["model"].(string)
	if !strings.HasPrefix(model, "gpt-live") {
		return realtime.Refuse("model_not_found", "session.model",
			"The model '%s' does not exist or you do not have access to it.", model)
	}
	if text, _ := o["instructions"].(string); tokens(text) > maxInstructions {
		return realtime.Refuse("invalid_value", "session.instructions",
			"The instructions have more than %d tokens.", maxInstructions)
	}
	input, _ := o["input"].([]any)
	if len(input) > maxInput {
		return realtime.Refuse("invalid_value", "session.input",
			"array too long. Expected an array with maximum length %d", maxInput)
	}
	if kind, given := served.Lookup(o, "delegation", "type"); given && kind != "client" {
		return realtime.Refuse("invalid_value", "session.delegation.type", "The simulator delegates to the client alone.")
	}
	total := 0
	for i, m := range input {
		message, _ := m.(object)
		role, _ := message["role"].(string)
		content, _ := message["content"].([]any)
		known := slices.Contains([]string{"user", "assistant", "developer"}, role)
		if message["type"] != "message" || !known || len(content) != 1 {
			return realtime.Refuse("invalid_value", fmt.Sprintf("session.input[%d]", i), "It is not a message with one text.")
		}
		part, _ := content[0].(object)
		text, _ := part["text"].(string)
		want := map[bool]string{true: "output_text", false: "input_text"}[role == "assistant"]
		if part["type"] != want || text == "" {
			return realtime.Refuse("invalid_value", fmt.Sprintf("session.input[%d].content", i), "It must be an %s.", want)
		}
		total += tokens(text)
	}
	if total > maxInputTokens {
		return realtime.Refuse("invalid_value", "session.input", "The input has more than %d tokens.", maxInputTokens)
	}
	return nil
}
