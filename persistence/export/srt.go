package export

import (
	"bufio"
	"fmt"
	"iter"
	"strings"
	"time"
	"unicode/utf8"

	"voicebridge/thread"
)

const (
	// cueRunes is how many characters one subtitle shows at most: two lines of 42.
	cueRunes = 84
	// readRunes is how many characters people read per second.
	readRunes = 15
	// minCue is how long a subtitle is shown at least.
	minCue = time.Second
)

// speech is a message, or what one says between two tool calls, as shown in subtitles.
type speech struct {
	at   time.Duration // since the first message
	text string        // with who says it
}

// writeSRT writes the words of a thread as SubRip subtitles. A message's time is counted from the
// first message. It is shown until it can have been read or the next one begins, which is delayed if
// the subtitles would be too short to read.
func writeSRT(w *bufio.Writer, messages iter.Seq2[thread.Message, error]) error {
	var first time.Time
	var last *speech
	cues := 0
	for m, err := range messages {
		if err != nil {
			return err
		}
		if first.IsZero() {
			first = m.Metadata.CreatedAt
		}
		for _, next := range speechesOf(m, max(0, m.Metadata.CreatedAt.Sub(first))) {
			if last != nil {
				end, err := writeCues(w, &cues, last, next.at)
				if err != nil {
					return err
				}
				next.at = max(next.at, end) // the order is that of the conversation; times never go back
			}
			last = &next
		}
	}
	if last == nil {
		return nil
	}
	_, err := writeCues(w, &cues, last, -1)
	return err
}

// speechesOf returns what a message says, as heard: the words between two tool calls are one speech. Only the beginning
// of a message is known; what comes later is said when what comes before can have been read.
func speechesOf(m thread.Message, at time.Duration) []speech {
	if m.Role == thread.RoleSystem {
		return nil
	}
	heard := thread.NewHeardText(&m)
	said := []string{""}
	for _, p := range m.Parts {
		switch {
		case p.IsTool():
			said = append(said, "")
		case p.Type == "text":
			said[len(said)-1] += " " + heard.Next(p.Text)
		}
	}
	var speeches []speech
	for _, text := range said {
		// An empty line would end the subtitle, and an arrow is part of its syntax.
		text = strings.ReplaceAll(strings.Join(strings.Fields(text), " "), "-->", "→")
		if text == "" {
			continue
		}
		s := speech{at: at, text: person(m.Role) + ": " + text}
		speeches = append(speeches, s)
		at += reading(s.text)
	}
	return speeches
}

// reading returns how long it takes to read a text.
func reading(text string) time.Duration {
	return time.Duration(utf8.RuneCountInString(text)) * time.Second / readRunes
}

// writeCues writes a message as one or more subtitles and returns when the last one ends. The time of
// each is its share of the characters, but at least minCue. until is when the next message was made,
// negative if there is none.
func writeCues(w *bufio.Writer, cues *int, s *speech, until time.Duration) (end time.Duration, err error) {
	pieces := split(s.text, cueRunes)
	total := 0
	for _, p := range pieces {
		total += utf8.RuneCountInString(p)
	}
	length := time.Duration(total) * time.Second / readRunes
	if until >= 0 {
		length = min(length, until-s.at)
	}
	end = s.at
	for _, p := range pieces {
		from := end
		end += max(length*time.Duration(utf8.RuneCountInString(p))/time.Duration(total), minCue)
		*cues++
		if err := puts(w, fmt.Sprintf("%d\n%s --> %s\n%s\n\n", *cues, stamp(from), stamp(end), p)); err != nil {
			return end, err
		}
	}
	return end, nil
}

// split cuts text between words into pieces of at most limit runes; longer words are cut.
func split(text string, limit int) []string {
	var pieces []string
	line := []rune(nil)
	for word := range strings.FieldsSeq(text) {
		r := []rune(word)
		if len(line) > 0 && len(line)+1+len(r) > limit {
			pieces, line = append(pieces, string(line)), nil
		}
		if len(line) > 0 {
			line = append(line, ' ')
		}
		for line = append(line, r...); len(line) > limit; line = line[limit:] {
			pieces = append(pieces, string(line[:limit]))
		}
	}
	if len(line) > 0 {
		pieces = append(pieces, string(line))
	}
	return pieces
}

// stamp formats a time as SubRip does: hours, minutes, seconds, milliseconds.
func stamp(d time.Duration) string {
	ms := d.Milliseconds()
	return fmt.Sprintf("%02d:%02d:%02d,%03d", ms/3_600_000, ms/60_000%60, ms/1000%60, ms%1000)
}
