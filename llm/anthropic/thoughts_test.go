package anthropic

import (
	"strings"
	"testing"

	"voicebridge/internal/testkit"
)

// TestThoughtsThatStay: thoughts that cannot be sent back as they came are not kept.
func TestThoughtsThatStay(t *testing.T) {
	t.Parallel()
	signed := block{Type: thinking, Thinking: new("I think."), Signature: "c2ln"}
	long := signed
	long.Signature = strings.Repeat("x", maxMetadata)
	for name, c := range map[string]struct {
		blocks []block
		want   string
	}{
		"none":             {[]block{text("Hi"), {Type: "tool_use"}}, ""},
		"at the beginning": {[]block{signed, text("Hi")}, `{"thinking":[{"type":"thinking","thinking":"I think.","signature":"c2ln"}]}`},
		"between":          {[]block{signed, text("Hi"), signed}, ""},
		"without a mark":   {[]block{{Type: thinking, Thinking: new("I think.")}}, ""},
		"too long":         {[]block{long}, ""},
	} {
		var pieces thoughtPieces
		for i, b := range c.blocks {
			pieces.begin(int64(i), b)
		}
		testkit.Equal(t, string(pieces.metadata()), c.want, "%s", name)
	}
}
