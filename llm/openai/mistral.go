package openai

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"slices"
	"strings"

	"voicebridge/llm"
	"voicebridge/llm/internal/wire"
)

// isMistral reports whether a model is one of Mistral's, by its name: Mistral, Codestral, Pixtral. Their rules hold on
// every server that has them: https://github.com/mistralai/mistral-common.
func isMistral(model string) bool {
	model = strings.ToLower(model)
	return strings.Contains(model, "stral") || strings.Contains(model, "xtral")
}

// mistralCallID matches the call ids that those models accept.
var mistralCallID = regexp.MustCompile(`^[a-zA-Z0-9]{9}$`)

// forMistral returns a conversation as those models accept it: after results comes an answer, system messages do not
// follow an answer, and ids have nine characters. Calls of other models are in it after a change of the model, or from
// voice calls.
func forMistral(messages []llm.Message) []llm.Message {
	out := make([]llm.Message, 0, len(messages))
	last := llm.RoleSystem
	for _, m := range messages {
		if m.Empty() {
			continue
		}
		if last == llm.RoleTool && (m.Role == llm.RoleUser || m.Role == llm.RoleSystem) {
			last = llm.RoleAssistant
			out = append(out, llm.Message{Role: last, Content: "(No answer.)"})
		}
		if m.Role == llm.RoleSystem && last == llm.RoleAssistant {
			m = wire.OfUser(m)
		}
		if m.Role == llm.RoleTool {
			m.ToolCallID = mistralID(m.ToolCallID)
		}
		m.ToolCalls = slices.Clone(m.ToolCalls)
		for i, c := range m.ToolCalls {
			m.ToolCalls[i].ID = mistralID(c.ID)
		}
		last = m.Role
		out = append(out, m)
	}
	return out
}

// mistralID returns a call's id for sending it back.
func mistralID(id string) string {
	if mistralCallID.MatchString(id) {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:])[:9]
}
