package chat

import (
	"net/http"
	"slices"
	"sync"

	"voicebridge/llm"
)

// blindModels are those that have refused the images of tools' results in this process. Nobody
// has asked for these images: a model that reads only text goes on with the words.
type blindModels struct{ known sync.Map }

type modelName struct{ provider, model string }

func (b *blindModels) has(m modelName) bool {
	_, known := b.known.Load(m)
	return known
}

// learn notes a model that has refused a request with images, and taken it without. A failure
// that may pass, or by which only these images are too large, says nothing of the model.
func (b *blindModels) learn(m modelName, refused *llm.Error) {
	if refused != nil && (refused.Kind == llm.KindBadRequest || refused.Status == http.StatusInternalServerError) {
		b.known.Store(m, true)
	}
}

func hasToolImages(messages []llm.Message) bool {
	return slices.ContainsFunc(messages, func(m llm.Message) bool { return m.Role == llm.RoleTool && len(m.Images) > 0 })
}

// withoutToolImages leaves the images of tools' results out. That there were some stands in the words.
func withoutToolImages(messages []llm.Message) []llm.Message {
	kept := slices.Clone(messages)
	for i := range kept {
		if kept[i].Role == llm.RoleTool {
			kept[i].Images = nil
		}
	}
	return kept
}
