package chat

import (
	"net/http"
	"slices"
	"sync"

	"voicebridge/llm"
)

// blindModels are those that have refused the images of tool results in this process. Nobody asked
// for these images, so a model that reads only text goes on with the text.
type blindModels struct{ known sync.Map }

type modelName struct{ provider, model string }

func (b *blindModels) has(m modelName) bool {
	_, known := b.known.Load(m)
	return known
}

// learn records a model that refused a request with images but accepted it without. A temporary
// failure, or one about the size of these images, says nothing about the model.
func (b *blindModels) learn(m modelName, refused *llm.Error) {
	if refused != nil && (refused.Kind == llm.KindBadRequest || refused.Status == http.StatusInternalServerError) {
		b.known.Store(m, true)
	}
}

func hasToolImages(messages []llm.Message) bool {
	return slices.ContainsFunc(messages, func(m llm.Message) bool { return m.Role == llm.RoleTool && len(m.Images) > 0 })
}

// withoutToolImages removes the images of tool results. The text still mentions them.
func withoutToolImages(messages []llm.Message) []llm.Message {
	kept := slices.Clone(messages)
	for i := range kept {
		if kept[i].Role == llm.RoleTool {
			kept[i].Images = nil
		}
	}
	return kept
}
