package wire

import (
	"fmt"
	"slices"
	"strings"

	"voicebridge/llm"
)

// opening stands for the user's words in a conversation that does not begin and end with the user, as
// providers require.
const opening = "(The conversation goes on.)"

// Group is the consecutive messages of one side.
type Group struct {
	// Model means that the model wrote them.
	Model bool
	// Messages are of the roles user, assistant and tool. None is empty.
	Messages []llm.Message
}

// Alternate groups a conversation for providers with only two roles, which alternate, and begin and end
// with the user. System messages at the beginning go to the system prompt; a later one, whose position
// matters, becomes marked text of the user. Empty texts are omitted, because providers refuse them.
func Alternate(req llm.Request) (system []string, groups []Group) {
	if req.System != "" {
		system = append(system, req.System)
	}
	leading := 0
	for leading < len(req.Messages) && req.Messages[leading].Role == llm.RoleSystem {
		leading++
	}
	if leading == len(req.Messages) {
		leading = 0 // something must remain for the model to answer
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
			m = m.OfUser()
		}
		model := m.Role == llm.RoleAssistant
		if len(groups) == 0 && model {
			groups = append(groups, Group{Messages: []llm.Message{{Role: llm.RoleUser, Content: opening}}})
		}
		if n := len(groups); n > 0 && groups[n-1].Model == model {
			groups[n-1].Messages = append(groups[n-1].Messages, m)
			continue
		}
		groups = append(groups, Group{Model: model, Messages: []llm.Message{m}})
	}
	if n := len(groups); n == 0 || groups[n-1].Model {
		groups = append(groups, Group{Messages: []llm.Message{{Role: llm.RoleUser, Content: opening}}})
	}
	return system, groups
}

// Fold returns a conversation for servers that apply a model's own template, many of which want a single system
// message, at the beginning, and no two messages of the user or the model in a row. strict puts an answer between the
// results of tools and the user's next words, too.
func Fold(req llm.Request, strict bool) llm.Request {
	system, groups := Alternate(req)
	req.System = strings.Join(system, "\n\n")
	req.Messages = nil
	last := llm.Message{Role: llm.RoleSystem}
	for _, group := range groups {
		for _, m := range group.Messages {
			switch n := len(req.Messages); {
			case strict && last.Role == llm.RoleTool && m.Role == llm.RoleUser:
				req.Messages = append(req.Messages, llm.Message{Role: llm.RoleAssistant, Content: "(No answer.)"}, m)
			case m.Role != last.Role, m.Role == llm.RoleTool:
				req.Messages = append(req.Messages, m)
			default:
				m.Content = strings.TrimSpace(last.Content + "\n\n" + m.Content)
				m.Images = slices.Concat(last.Images, m.Images)
				req.Messages[n-1] = m
			}
			last = req.Messages[len(req.Messages)-1]
		}
	}
	return req
}

// Current returns the index of the group with which the current exchange begins: the last words of the
// user. What follows are calls and their results.
func Current(groups []Group) int {
	for i, group := range slices.Backward(groups) {
		if !group.Model && group.Messages[len(group.Messages)-1].Role == llm.RoleUser {
			return i
		}
	}
	return 0
}

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
