package session

import (
	"cmp"
	"strings"
	"time"

	"voicebridge/persistence"
	"voicebridge/realtime"
)

// message is one message of the thread that this call writes.
type message struct {
	item  *item
	id    string
	role  persistence.Role
	meta  persistence.Metadata
	texts []words            // by content index
	files []persistence.Part // images of a user's text
	tools []persistence.Part
	// placed says that the message is in the thread, or on its way there.
	placed bool
	// flushAt and publishAt are when partial text is saved and told; zero when
	// there is none.
	flushAt, publishAt time.Time
	// written is the text as it was last saved, and told as the watchers were told it;
	// pieces says that what is added to it can be saved alone.
	written, told string
	pieces        bool
	// exact says that the upstream has told how much was played.
	exact bool
	// wordsBy is when the transcript of a spoken turn is given up.
	wordsBy time.Time
	// response is that of an assistant's message.
	response *response
	// with is written when the message is saved first.
	with func(*persistence.Batch) error
	// after is the id of a message that stands behind this one and has no item: a
	// text that the upstream refused, or what a tool has written.
	after string
	// again says that the answer is asked for again: the model is not told of this
	// beginning of it.
	again bool
}

// of is the response that the message belongs to, nil where that is not known.
func (m *message) of() *response {
	if m == nil {
		return nil
	}
	return m.response
}

// text is what the message says.
func (m *message) text() string {
	if len(m.texts) == 1 {
		return m.texts[0].String()
	}
	texts := make([]string, len(m.texts))
	for i := range m.texts {
		texts[i] = m.texts[i].String()
	}
	return strings.Join(texts, "\n")
}

// words are text that grows: what is added costs no copy of what there is.
type words struct{ b *strings.Builder }

func newWords(text string) words {
	w := words{new(strings.Builder)}
	w.b.WriteString(text)
	return w
}

// String is the text as it is now.
func (w words) String() string { return w.b.String() }

func (m *message) open() bool { return m.meta.Status == persistence.StatusInProgress }

// grows reports whether more of the text may come. The upstream generates faster than
// it speaks: of an answer that was interrupted it may send the rest, until the
// response is done.
func (m *message) grows() bool {
	return m.open() || (m.meta.Status == persistence.StatusInterrupted && m.response != nil && !m.response.done)
}

// takes reports whether the text replaces what there is. The upstream may have
// deleted words of an answer that was interrupted; here they are kept.
func (m *message) takes(old, text string) bool {
	return m.grows() && text != "" && (m.open() || len(text) > len(old))
}

func (m *message) parts() []persistence.Part { return m.partsWith(m.tools) }

// show adds images to the message.
func (m *message) show(images []Image) {
	for _, i := range images {
		m.files = append(m.files, i.Part)
	}
}

// partsWith are the message's parts with these tool parts.
func (m *message) partsWith(tools []persistence.Part) []persistence.Part {
	var parts []persistence.Part
	if m.role == persistence.RoleAssistant {
		parts = append(parts, persistence.StepStart())
	}
	if text := m.text(); text != "" || len(tools)+len(m.files) == 0 {
		parts = append(parts, persistence.TextPart(text))
	}
	return append(append(parts, m.files...), tools...)
}

const maxContents = 16 // of one item

func (m *message) at(index int) string {
	if index < 0 || index >= len(m.texts) {
		return ""
	}
	return m.texts[index].String()
}

// add puts text behind the text of a content.
func (m *message) add(index int, text string) {
	text = withoutNUL(text)
	if index < 0 || index >= len(m.texts) || m.texts[index].b.Len()+len(text) > maxMessageText {
		m.setText(index, m.at(index)+text)
		return
	}
	m.texts[index].b.WriteString(text)
}

// withoutNUL leaves out what the thread cannot keep, so that the text here is as long
// as there.
func withoutNUL(text string) string { return strings.ReplaceAll(text, "\x00", "") }

func (m *message) setText(index int, text string) {
	if index < 0 || index >= maxContents {
		return
	}
	for len(m.texts) <= index {
		m.texts = append(m.texts, newWords(""))
	}
	if len(text) > maxMessageText {
		text = strings.ToValidUTF8(text[:maxMessageText], "")
	}
	m.texts[index] = newWords(withoutNUL(text))
}

// item is one entry of the conversation.
type item struct {
	id  string
	gen int // of the upstream session that has it
	// prev is the item before this one, which is known when linked; empty then
	// means that this item is the first.
	prev   string
	linked bool
	// seeded items come from the thread and are not written again.
	seeded bool
	// forgotten items were deleted upstream, and stay in the thread.
	forgotten bool
	// message is what the item is a part of, nil when it is not shown.
	message *message
	raw     realtime.Item // as far as it is known, for conversation.item.retrieve
}

// link notes the item's predecessor.
func (it *item) link(ev *realtime.Event) {
	if ev.HasPrevious && (!it.linked || it.prev == "") {
		it.prev, it.linked = ev.PreviousItemID, true
	}
}

// know keeps what is said of the item.
func (it *item) know(raw realtime.Item) {
	if len(raw.Content) == 0 {
		raw.Content = it.raw.Content
	}
	it.raw = raw
}

// end is the id of the last message of the thread that belongs to this one.
func (m *message) end() string { return cmp.Or(m.after, m.id) }

// response is one response of the upstream.
type response struct {
	id       string
	record   persistence.ResponseRecord
	created  bool // it was announced
	done     bool
	messages []*message // in the order of their items
	tools    int        // tool calls
	open     int        // of them, without an answer
	asked    time.Time  // when the user's turn ended that it answers
	// latency has the stages that the answer has reached: see stage.
	latency map[string]int64
}
