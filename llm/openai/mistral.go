package openai

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"slices"
	"strings"

	"voicebridge/llm"
)

// isMistral reports whether a model is one of Mistral's, by its name: Mistral, Codestral, Pixtral. Their rules hold on
// every server that has them: https://github.com/mistralai/mistral-common.
func isMistral(model string) bool {
	model = strings.ToLower(model)
	return strings.Contains(model, "stral") || strings.Contains(model, "xtral")
}

// mistralCallID matches the call ids that those models accept.
var mistralCallID = regexp.MustCompile(`^[a-zA-Z0-9]{9}$`)

// withMistralIDs gives the calls of a conversation, and their results, ids of nine characters. Calls of other models
// are in it after a change of the model, or from voice calls.
func withMistralIDs(messages []llm.Message) {
	for i := range messages {
		m := &messages[i]
		if m.Role == llm.RoleTool {
			m.ToolCallID = mistralID(m.ToolCallID)
		}
		m.ToolCalls = slices.Clone(m.ToolCalls)
		for i, c := range m.ToolCalls {
			m.ToolCalls[i].ID = mistralID(c.ID)
		}
	}
}

// mistralID returns a call's id for sending it back.
func mistralID(id string) string {
	if mistralCallID.MatchString(id) {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:])[:9]
}
