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
// begins with <think>, or has no such tag, which then stood in the prompt. The zero value is ready.
type Thoughts struct {
	// Within means that the model is known to begin within its thoughts: nothing is text until they have ended. Of
	// others it is found out too late, and [llm.Delta.Unsaid] takes back what was text until then.
	Within bool
	// Apart means that the server does separate them: an end without a beginning is text.
	Apart bool

	held  string          // what may be the beginning of a tag
	doubt strings.Builder // what was taken for thoughts
	ticks int             // how many there were: after an odd number of them comes code
	state int
	begun bool // text after the thoughts has come, or thoughts within
}

const (
	mayThink   = iota
	thinks     // after <think>
	mayThought // no tag has come: it may have thought
	speaks     // the rest is text
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
			t.state, t.begun = mayThought, true
		}
	}
	if t.state == mayThought && !t.Apart {
		return t.unopened(text)
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
	return append(out, t.text(text)...)
}

// unopened takes text of an answer without tags so far.
func (t *Thoughts) unopened(text string) []llm.Delta {
	opens, closes := t.find(text, opensThought), t.find(text, closesThought)
	switch {
	case opens >= 0 && (closes < 0 || opens < closes):
		t.state = speaks
		return t.text(t.doubt.String() + text)
	case closes >= 0:
		t.state, t.begun = speaks, false
		out := []llm.Delta{{Reasoning: text[:closes], Unsaid: !t.Within}}
		return append(out, t.text(text[closes+len(closesThought):])...)
	}
	n := 0
	for _, tag := range []string{opensThought, closesThought, `"` + closesThought} {
		n = max(n, overlap(text, tag))
	}
	t.held, text = text[len(text)-n:], text[:len(text)-n]
	t.ticks += strings.Count(text, "`")
	if t.Within && text != "" {
		t.doubt.WriteString(text)
		return []llm.Delta{{Reasoning: text}}
	}
	return t.text(text)
}

// find returns where a tag is that is neither quoted nor code; -1 if there is none.
func (t *Thoughts) find(text, tag string) int {
	for from := 0; ; from += len(tag) {
		n := strings.Index(text[from:], tag)
		if n < 0 {
			return -1
		}
		from += n
		before := text[:from]
		if (t.ticks+strings.Count(before, "`"))%2 == 0 && !strings.HasSuffix(before, `"`) {
			return from
		}
	}
}

// text returns text that is no thought.
func (t *Thoughts) text(text string) []llm.Delta {
	if text = t.trim(text); text == "" {
		return nil
	}
	return []llm.Delta{{Text: text}}
}

// Rest returns what was held back, or wrongly taken for thoughts, at the end of the answer. cut means that it has come
// to its limit.
func (t *Thoughts) Rest(cut bool) []llm.Delta {
	held := t.held
	t.held = ""
	doubtful := t.state == mayThought && t.Within
	if doubtful && !cut {
		held = t.doubt.String() + held
	}
	switch {
	case held == "":
		return nil
	case t.state == thinks, doubtful && cut:
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
