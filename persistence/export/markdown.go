package export

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"iter"
	"net/url"
	"regexp"
	"strings"
	"time"

	"voicebridge/persistence"
	"voicebridge/thread"
)

func writeMarkdown(w *bufio.Writer, thread persistence.Thread, messages iter.Seq2[thread.Message, error]) error {
	title := cmp.Or(strings.Join(strings.Fields(thread.Title), " "), "Conversation")
	if err := puts(w, "# ", title, "\n\n", readable(thread.CreatedAt), " · ", thread.ID, "\n"); err != nil {
		return err
	}
	recorded := map[string]bool{} // calls whose recording was named
	for m, err := range messages {
		if err != nil {
			return err
		}
		text := markdownOf(m)
		if m.Metadata.Audio != nil {
			text += "\n" + soundOf(thread.ID, m)
			if id := m.Metadata.CallID; id != "" && !recorded[id] {
				recorded[id] = true
				text = "[Recording of the call](/api/calls/" + url.PathEscape(id) + "/recording?track=both)\n\n" + text
			}
		}
		if err := puts(w, "\n", text); err != nil {
			return err
		}
	}
	return nil
}

// soundOf returns a link to a message's sound, by its place in the recording of its call. It is relative to the server,
// as those of pictures are.
func soundOf(threadID string, m thread.Message) string {
	minutes := func(ms int64) string {
		seconds := max(0, ms) / 1000
		return fmt.Sprintf("%d:%02d", seconds/60, seconds%60)
	}
	span := m.Metadata.Audio
	return fmt.Sprintf("[Sound, %s to %s](/api/threads/%s/messages/%s/audio)\n",
		minutes(span.StartMS), minutes(span.EndMS), url.PathEscape(threadID), url.PathEscape(m.ID))
}

func readable(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") + " UTC" }

// markdownOf returns a message under a heading that says who, when, and how.
func markdownOf(m thread.Message) string {
	var b strings.Builder
	fmt.Fprintf(&b, "## %s · %s%s\n", person(m.Role), readable(m.Metadata.CreatedAt), manner(m.Metadata))
	empty := true
	for _, p := range m.Parts {
		switch {
		case p.Type == "text" && strings.TrimSpace(p.Text) != "":
			b.WriteString("\n" + closed(strings.TrimRight(p.Text, "\n")) + "\n")
			empty = false
		case p.IsTool():
			b.WriteString(markdownTool(p))
			empty = false
		case p.Type == "file":
			b.WriteString(markdownFile(p))
			empty = false
		}
	}
	if h := m.Metadata.HeardText; h != nil {
		fmt.Fprintf(&b, "\n*Heard:* %s\n", strings.TrimSpace(*h))
		empty = false
	}
	if empty {
		b.WriteString("\n*(no words)*\n")
	}
	return b.String()
}

// codeFence matches a line that begins or ends a code block: https://spec.commonmark.org/0.31.2/#fenced-code-blocks.
var codeFence = regexp.MustCompile("(?m)^ {0,3}(`{3,}|~{3,})(.*)$")

// closed ends a code block that a text leaves open, as an answer does that was cut off: what follows does not belong to
// it.
func closed(text string) string {
	open := ""
	for _, m := range codeFence.FindAllStringSubmatch(text, -1) {
		fence, rest := m[1], m[2]
		switch {
		case open == "" && (fence[0] == '~' || !strings.Contains(rest, "`")):
			open = fence
		case open != "" && strings.HasPrefix(fence, open) && strings.TrimSpace(rest) == "":
			open = ""
		}
	}
	if open != "" {
		text += "\n" + open
	}
	return text
}

// manner says what is unusual: that a message was spoken, or did not finish.
func manner(m thread.Metadata) string {
	out := ""
	if m.Source == thread.SourceVoice {
		out += " · spoken"
	}
	switch m.Status {
	case thread.StatusInterrupted:
		out += " · interrupted"
	case thread.StatusFailed:
		out += " · failed"
	case thread.StatusInProgress:
		out += " · not finished"
	}
	return out
}

// markdownTool returns a call with its result.
func markdownTool(p thread.Part) string {
	out := "\nTool " + inline(p.ToolName) + "\n"
	if len(p.Input) > 0 {
		out += "\n" + fenced(p.Input)
	}
	switch p.State {
	case thread.ToolOutputAvailable:
		out += "\nResult\n\n" + fenced(p.Output)
	case thread.ToolOutputError:
		out += "\nError: " + inline(p.ErrorText) + "\n"
	default:
		out += "\nNo result.\n"
	}
	return out
}

// markdownFile says that there is a picture or another file, and where it can be read.
func markdownFile(p thread.Part) string {
	var file struct{ MediaType, URL string }
	_ = json.Unmarshal(p.Raw, &file) // what is missing is left out
	out := "\nFile"
	if strings.HasPrefix(file.MediaType, "image/") {
		out = "\nPicture"
	}
	if file.URL != "" && !strings.HasPrefix(file.URL, "data:") {
		out += " " + inline(file.URL)
	}
	return out + "\n"
}

// fenced returns JSON in a code block whose fence is longer than any inside it.
func fenced(raw json.RawMessage) string {
	var b bytes.Buffer
	if json.Indent(&b, raw, "", "  ") != nil {
		b.Reset()
		b.Write(raw)
	}
	fence := strings.Repeat("`", max(3, longestRun(b.String())+1))
	return fence + "json\n" + b.String() + "\n" + fence + "\n"
}

// inline returns text as inline code.
func inline(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	fence := strings.Repeat("`", longestRun(text)+1)
	if strings.HasPrefix(text, "`") || strings.HasSuffix(text, "`") {
		text = " " + text + " "
	}
	return fence + text + fence
}

// longestRun returns the length of the longest run of backquotes.
func longestRun(text string) int {
	longest, run := 0, 0
	for _, r := range text {
		run++
		if r != '`' {
			run = 0
		}
		longest = max(longest, run)
	}
	return longest
}
