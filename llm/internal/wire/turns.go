package wire

import (
	"strings"

	"voicebridge/llm"
)

// opening begins a conversation whose first message is the model's, for providers that require the
// user to begin.
const opening = "(The conversation goes on.)"

// Turn is what one side says before the other does.
type Turn struct {
	// Model means that it is the model's.
	Model bool
	// Messages are of the roles user, assistant and tool. None is empty.
	Messages []llm.Message
}

// Turns writes a conversation for providers with only two roles, which alternate and begin with the
// user. System messages at the beginning go to the system prompt; a later one, whose place matters,
// becomes marked text in the user's turn. Empty texts are omitted, because providers refuse them.
func Turns(req llm.Request) (system []string, turns []Turn) {
	if req.System != "" {
		system = append(system, req.System)
	}
	leading := 0
	for leading < len(req.Messages) && req.Messages[leading].Role == llm.RoleSystem {
		leading++
	}
	if leading == len(req.Messages) {
		leading = 0 // something to answer must remain
	}
	for _, m := range req.Messages[:leading] {
		if strings.TrimSpace(m.Content) != "" {
			system = append(system, m.Content)
		}
	}
	for _, m := range req.Messages[leading:] {
		if m.Empty() {
			continue
		}
		if m.Role == llm.RoleSystem {
			m = llm.Message{Role: llm.RoleUser, Content: "<system>\n" + m.Content + "\n</system>"}
		}
		model := m.Role == llm.RoleAssistant
		if len(turns) == 0 && model {
			turns = append(turns, Turn{Messages: []llm.Message{{Role: llm.RoleUser, Content: opening}}})
		}
		if n := len(turns); n > 0 && turns[n-1].Model == model {
			turns[n-1].Messages = append(turns[n-1].Messages, m)
			continue
		}
		turns = append(turns, Turn{Model: model, Messages: []llm.Message{m}})
	}
	if len(turns) == 0 {
		turns = []Turn{{Messages: []llm.Message{{Role: llm.RoleUser, Content: opening}}}}
	}
	return system, turns
}
