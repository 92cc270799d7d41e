package wire

import (
	"strings"
	"testing"

	"voicebridge/llm"
)

func TestThoughts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ answer, reasoning, text string }{
		{"Hello", "", "Hello"},
		{"  Hello ", "", "  Hello "},
		{"<think>\nI think.\n</think>\n\nHello\n", "I think.\n", "Hello\n"},
		{" \n<think>a</thin</think>b", "a</thin", "b"},
		{"<think></think>b", "", "b"},
		{"<think>never closed </thi", "never closed </thi", ""},
		{"<thinking>", "", "<thinking>"},
		{"<thi", "", "<thi"},
		{"a <think>b</think>", "", "a <think>b</think>"},
		{"<think>a</think>b<think>c</think>", "a", "b<think>c</think>"},
		{"<think>", "", ""},
		{"   ", "", "   "},
		{"", "", ""},
		{"\nI think.\n</think>\n\nHello</think>", "\nI think.\n", "Hello</think>"},
		{"</think>b", "", "b"},
		{"Or `</think>`, \"</think>\"?</think>b", "Or `</think>`, \"</think>\"?", "b"},
		{"Write `</think>` or ```\n<think>x</think>``` or \"</think>\".", "", "Write `</think>` or ```\n<think>x</think>``` or \"</think>\"."},
		{"1 < 2 </think", "", "1 < 2 </think"},
	} {
		for size := 1; size <= max(1, len(c.answer)); size++ {
			var unknown, within, apart Thoughts
			within.Within, apart.Apart = true, true
			thought, said := splitBy(&unknown, c.answer, size, false)
			if thought != c.reasoning || said != c.text {
				t.Errorf("%q by %d bytes: %q after %q, want %q after %q", c.answer, size, said, thought, c.text, c.reasoning)
			}
			if _, said := splitBy(&within, c.answer, size, false); said != c.text {
				t.Errorf("%q by %d bytes, within its thoughts: %q, want %q", c.answer, size, said, c.text)
			}
			thought, said = splitBy(&apart, c.answer, size, false)
			if !strings.Contains(c.answer, opensThought) && thought+said != c.answer {
				t.Errorf("%q by %d bytes, thoughts apart: %q after %q", c.answer, size, said, thought)
			}
		}
	}
	if thought, said := splitBy(&Thoughts{Within: true}, "I think </th", 5, true); thought != "I think </th" || said != "" {
		t.Errorf("thoughts that were cut: %q after %q", said, thought)
	}
}

// splitBy returns what is left of an answer, sent in pieces, as thoughts and as text.
func splitBy(split *Thoughts, answer string, size int, cut bool) (thought, said string) {
	var deltas []llm.Delta
	for rest := answer; rest != ""; rest = rest[min(size, len(rest)):] {
		deltas = append(deltas, split.Split(rest[:min(size, len(rest))])...)
	}
	for _, d := range append(deltas, split.Rest(cut)...) {
		if d.Unsaid {
			thought, said = thought+said, ""
		}
		thought, said = thought+d.Reasoning, said+d.Text
	}
	return thought, said
}
