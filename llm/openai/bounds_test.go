package openai

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	"voicebridge/llm"
)

// TestBounds: clients name models, and models think, as much as they like.
func TestBounds(t *testing.T) {
	t.Parallel()
	var r refusals
	for n := range 3 * maxRefusals {
		refused := &llm.Error{Kind: llm.KindBadRequest, Status: 400, Err: errors.New("reasoning_effort: use /v1/responses")}
		if model := "model-" + strconv.Itoa(n); !r.learn(model, concessions{}, refused, true) || !r.of(model).responses || len(r.models) > maxRefusals {
			t.Fatalf("%d models are remembered", len(r.models))
		}
	}
	if kept := encode(metadata{Reasoning: []thought{{EncryptedContent: strings.Repeat("x", maxMetadata)}}}); kept != nil {
		t.Errorf("%d bytes of thoughts are kept", len(kept))
	}
}
