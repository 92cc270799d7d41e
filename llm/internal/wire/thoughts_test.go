package wire

import (
	"strings"
	"testing"
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
	} {
		for size := 1; size <= max(1, len(c.answer)); size++ {
			var split Thoughts
			var reasoning, text strings.Builder
			for rest := c.answer; rest != ""; rest = rest[min(size, len(rest)):] {
				for _, d := range split.Split(rest[:min(size, len(rest))]) {
					reasoning.WriteString(d.Reasoning)
					text.WriteString(d.Text)
				}
			}
			for _, d := range split.Rest() {
				reasoning.WriteString(d.Reasoning)
				text.WriteString(d.Text)
			}
			if reasoning.String() != c.reasoning || text.String() != c.text {
				t.Errorf("%q by %d bytes: %q after %q, want %q after %q", c.answer, size, text.String(), reasoning.String(), c.text, c.reasoning)
			}
		}
	}
}
