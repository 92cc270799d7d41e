package wire

import (
	"strings"

	"voicebridge/llm"
)

// The tags between which open models think, at the beginning of their text.
const (
	opensThought  = "<think>"
	closesThought = "</think>"
)

// Thoughts separates what a model thinks from its text, for servers that do not: everything up to </think> if the text
// begins with <think>. The zero value is ready.
type Thoughts struct {
	held  string // what may be the beginning of a tag
	state int    // before, within or after the thoughts
	begun bool   // text after the thoughts has come, or thoughts within
}

const (
	mayThink = iota
	thinks
	speaks
)

// Split takes the next piece of text.
func (t *Thoughts) Split(text string) (out []llm.Delta) {
	text, t.held = t.held+text, ""
	if t.state == mayThink {
		switch start := strings.TrimLeft(text, " \t\r\n"); {
		case strings.HasPrefix(start, opensThought):
			text, t.state = start[len(opensThought):], thinks
		case strings.HasPrefix(opensThought, start): // also if nothing has come but spaces
			t.held = text
			return nil
		default:
			t.state, t.begun = speaks, true
		}
	}
	if t.state == thinks {
		thought, rest, closed := strings.Cut(text, closesThought)
		if !closed {
			n := overlap(text, closesThought)
			thought, t.held = text[:len(text)-n], text[len(text)-n:]
		}
		if thought = t.trim(thought); thought != "" {
			out = append(out, llm.Delta{Reasoning: thought})
		}
		if !closed {
			return out
		}
		text, t.state = rest, speaks
		t.begun = false
	}
	if text = t.trim(text); text != "" {
		out = append(out, llm.Delta{Text: text})
	}
	return out
}

// Rest returns what was held back, at the end of the answer.
func (t *Thoughts) Rest() []llm.Delta {
	held := t.held
	t.held = ""
	switch {
	case held == "":
		return nil
	case t.state == thinks:
		return []llm.Delta{{Reasoning: held}}
	}
	return []llm.Delta{{Text: held}}
}

// trim removes the spaces after a tag.
func (t *Thoughts) trim(text string) string {
	if !t.begun {
		text = strings.TrimLeft(text, " \t\r\n")
		t.begun = text != ""
	}
	return text
}

// overlap returns how many of the last bytes of text are the beginning of tag.
func overlap(text, tag string) int {
	for n := min(len(text), len(tag)-1); n > 0; n-- {
		if strings.HasSuffix(text, tag[:n]) {
			return n
		}
	}
	return 0
}
