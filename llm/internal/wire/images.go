package wire

import (
	"fmt"
	"slices"
	"strings"

	"voicebridge/llm"
)

// ImagesOfUsers returns a conversation for providers that accept images only in user messages: the
// images of tool results follow the results of all calls of the step, in a user message that names
// the tools.
func ImagesOfUsers(messages []llm.Message) []llm.Message {
	out := make([]llm.Message, 0, len(messages))
	var images []llm.Image
	var names []string
	for i, m := range messages {
		if m.Role == llm.RoleTool && len(m.Images) > 0 {
			images = append(images, m.Images...)
			if !slices.Contains(names, m.ToolName) {
				names = append(names, m.ToolName)
			}
			m.Images = nil
		}
		out = append(out, m)
		if last := i+1 == len(messages) || messages[i+1].Role != llm.RoleTool; last && len(images) > 0 {
			text := fmt.Sprintf("(What the tool returned as images: %s)", strings.Join(names, ", "))
			out = append(out, llm.Message{Role: llm.RoleUser, Content: text, Images: images})
			images, names = nil, nil
		}
	}
	return out
}
