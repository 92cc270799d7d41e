package bridge

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"voicebridge/persistence"
	"voicebridge/persistence/pictures"
	"voicebridge/realtime"
	"voicebridge/thread"
	"voicebridge/toolkit"
)

const (
	// maxIDLen is the longest item id and call id that the API accepts.
	maxIDLen = 32
	// maxItemBytes limits the JSON text of one item's words, so that its event stays below 200 KiB
	// and passes any data channel.
	maxItemBytes = 128 << 10
	// maxOutputBytes is the same for a function's output: old results must not crowd out the
	// conversation.
	maxOutputBytes = 16 << 10
	// aroundItem is more than the rest of an item's event takes: the ids, a function's name and the
	// names of fields.
	aroundItem = 1 << 10

	// maxUnheard is how much of an answer is said in the next call, in bytes.
	maxUnheard = 4000

	cutMark = " […]" // stands where text was cut
	// noResult is what the model reads as the result of an unanswered call.
	noResult = `{"error":"the call ended before this function answered"}`
)

// replayItems turns saved messages into the items that replay them, oldest first: user and system
// text as input_text, assistant text as output_text (only what was heard of an interrupted voice
// answer), tool parts as pairs of function_call and function_call_output, never one without the
// other. Messages without words are skipped. newID makes the item ids; call ids that do not
// suit the API (up to 32 characters of A-Z a-z 0-9 _ -) are replaced by a hash. Text that would make an
// event larger than maxEvent bytes, the upstream's limit, is cut and marked; arguments of that size
// are left out.
func replayItems(msgs []thread.Message, maxEvent int, newID func() string) []realtime.Item {
	h := history{
		newID: newID, room: min(max(maxEvent-aroundItem, 0), maxItemBytes), calls: make(map[string]bool),
	}
	for i := range msgs {
		h.message(&msgs[i])
	}
	return h.items
}

// maxRead is how many of a thread's messages are read to find those that are not discarded.
const maxRead = 1000

// lastMessages reads the last n messages of a thread, without those that were discarded.
func lastMessages(ctx context.Context, store *persistence.Store, key thread.Key, n int) ([]thread.Message, error) {
	discarded := func(m thread.Message) bool { return m.IsDiscarded() }
	messages, err := store.Replay(ctx, key, n)
	if err == nil && slices.ContainsFunc(messages, discarded) {
		messages, err = store.Replay(ctx, key, maxRead)
	}
	messages = slices.DeleteFunc(messages, discarded)
	return messages[max(len(messages)-n, 0):], err
}

// replayable returns the messages to replay: nothing twice or discarded, no answer that is still being written, none
// that says nothing, and none that holds only our own text about a failure, which the model must not take for its own.
func replayable(messages []thread.Message) []thread.Message {
	return slices.DeleteFunc(thread.WithoutEchoes(messages), func(m thread.Message) bool {
		notice := m.IsNotice() && !slices.ContainsFunc(m.Parts, thread.Part.IsTool)
		return notice || m.IsDiscarded() || m.Metadata.Status == thread.StatusInProgress || !says(&m)
	})
}

// unheard returns the newest answer of the agent since which nothing was said or written: its caller had hung up.
// The message with the call that has asked for it does not count, as that changes with the answer.
func unheard(messages []thread.Message) string {
	var answer thread.Message
	for _, m := range messages {
		if m.AskedBy() != "" && m.Metadata.Status == thread.StatusCompleted && m.Revision > answer.Revision {
			answer = m
		}
	}
	for i := range messages {
		m := &messages[i]
		asks := func(p thread.Part) bool { return p.ToolCallID == answer.AskedBy() }
		if m.Role == thread.RoleAssistant && m.Revision > answer.Revision && says(m) && !slices.ContainsFunc(m.Parts, asks) {
			return ""
		}
	}
	return cutJSON(answer.Text(), maxUnheard)
}

// says reports whether a message has words that were heard, a tool call or an image.
func says(m *thread.Message) bool {
	heardText := thread.NewHeardText(m)
	return slices.ContainsFunc(m.Parts, func(p thread.Part) bool {
		return p.IsTool() || p.Type == thread.PartFile ||
			p.Type == thread.PartText && strings.TrimSpace(heardText.Next(p.Text)) != ""
	})
}

type history struct {
	newID func() string
	items []realtime.Item
	room  int             // bytes of JSON text for one item's words
	calls map[string]bool // call ids in use
}

func (h *history) message(m *thread.Message) {
	heardText := thread.NewHeardText(m)
	var contents []realtime.Content
	flush := func() {
		h.contents(m.Role, contents)
		contents = nil
	}
	for i := range m.Parts {
		p := &m.Parts[i]
		switch {
		case p.Type == thread.PartText:
			if t := heardText.Next(p.Text); strings.TrimSpace(t) != "" {
				contents = append(contents, realtime.Content{Text: t})
			}
		case m.Role == thread.RoleUser && p.Type == thread.PartFile:
			if url := shownURL(p); url != "" {
				contents = append(contents, realtime.Content{Type: realtime.ContentInputImage, ImageURL: url})
			}
		case p.IsTool() && m.Role == thread.RoleAssistant:
			flush()
			h.tool(p)
		}
	}
	flush()
}

// shownURL returns the data URL of a file, empty if its URL is of another kind.
func shownURL(p *thread.Part) string {
	var file struct{ URL string }
	if json.Unmarshal(p.Raw, &file) != nil || !strings.HasPrefix(file.URL, "data:image/") {
		return ""
	}
	return file.URL
}

// fitted returns an image's data URL in at most limit bytes, scaled down if necessary, or empty if that is impossible.
func fitted(url string, limit int) string {
	if len(url) <= limit {
		return url
	}
	image, err := pictures.ReadDataURL(url)
	if err == nil {
		url, err = pictures.DataURL(image, limit)
	}
	if err != nil {
		return ""
	}
	return url
}

// contents appends a message item, unless it would be empty.
func (h *history) contents(role thread.Role, contents []realtime.Content) {
	kind := realtime.ContentInputText
	switch role {
	case thread.RoleAssistant:
		kind = realtime.ContentOutputText
	case thread.RoleUser, thread.RoleSystem:
	default:
		return
	}
	left := h.room
	var content []realtime.Content
	for at, c := range contents {
		if c.Type == realtime.ContentInputImage {
			if c.ImageURL = fitted(c.ImageURL, left/(len(contents)-at)-64); c.ImageURL != "" {
				left -= len(c.ImageURL) + 64
				content = append(content, c)
			}
			continue
		}
		cut := cutJSON(c.Text, left)
		if cut == "" {
			break
		}
		// 64 bytes for the JSON around each part.
		left -= jsonLen(cut) + 64
		content = append(content, realtime.Content{Type: kind, Text: cut})
		if left <= 0 {
			break
		}
	}
	if len(content) > 0 {
		h.items = append(h.items,
			realtime.Item{ID: h.newID(), Type: realtime.ItemMessage, Role: string(role), Content: content})
	}
}

// tool appends a call and its output.
func (h *history) tool(p *thread.Part) {
	arguments := string(p.Input)
	if len(p.Input) == 0 || !json.Valid(p.Input) || jsonLen(arguments) > h.room {
		arguments = "{}"
	}
	var output string
	switch p.State {
	case thread.ToolOutputAvailable:
		output = toolkit.ResultText(p.Output, p.Raw)
	case thread.ToolOutputError:
		output = string(toolkit.Encode(map[string]string{"error": p.ErrorText}))
	default:
		output = noResult
	}
	call := h.callID(p.ToolCallID)
	h.items = append(h.items,
		realtime.Item{
			ID: h.newID(), Type: realtime.ItemFunctionCall, CallID: call, Name: toolkit.ModelName(p.ToolName),
			Arguments: arguments,
		},
		realtime.Item{
			ID: h.newID(), Type: realtime.ItemFunctionCallOutput, CallID: call,
			Output: cutJSON(output, min(h.room, maxOutputBytes)),
		})
}

// callID returns the model's id of a tool call, made to fit. Two tool calls with the same id, for example from two
// voice calls, get different ones.
func (h *history) callID(saved string) string {
	if saved == "" {
		saved = h.newID()
	}
	id := fitID(saved)
	for n := 0; h.calls[id]; n++ {
		id = hashID(saved + "#" + strconv.Itoa(n))
	}
	h.calls[id] = true
	return id
}

func fitID(id string) string {
	if id == "" || len(id) > maxIDLen || toolkit.CleanName(id) != id {
		return hashID(id)
	}
	return id
}

func hashID(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:maxIDLen/2])
}

// jsonLen returns how many bytes s takes inside a JSON string.
func jsonLen(s string) int { return len(toolkit.Encode(s)) - len(`""`) }

func jsonRuneLen(r rune, size int) int {
	switch {
	case r == '"' || r == '\\' || r == '\n' || r == '\r' || r == '\t' || r == '\b' || r == '\f':
		return 2
	case r < 0x20 || r == '\u2028' || r == '\u2029' || (r == utf8.RuneError && size == 1):
		return 6
	}
	return size
}

// cutJSON shortens s to at most limit bytes inside a JSON string, at a character boundary, and
// marks the cut.
func cutJSON(s string, limit int) string {
	n, fits := 0, 0
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		n += jsonRuneLen(r, size)
		i += size
		if n <= limit-len(cutMark) {
			fits = i
		}
		if n > limit {
			if fits == 0 {
				return ""
			}
			return s[:fits] + cutMark
		}
	}
	return s
}
