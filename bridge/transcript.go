package bridge

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"voicebridge/persistence"
	"voicebridge/realtime"
)

// transcript turns the upstream's items into the thread's messages. Their order
// is that of the chain of items (previous_item_id), never that of arrival.
type transcript struct {
	items    map[string]*item
	tail     *item      // the last one that was written
	messages []*message // of this call, in the order in which they were made
	growing  []*message // those of them that may have a deadline
}

// item is one entry of the upstream's conversation.
type item struct {
	id string
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

// message is one message of the thread that this call writes.
type message struct {
	item  *item
	id    string
	role  persistence.Role
	meta  persistence.Metadata
	texts []string // by content index
	tools []persistence.Part
	// placed says that the message is in the thread, or on its way there.
	placed bool
	// flushAt and publishAt are when partial text is saved and told; zero when
	// there is none.
	flushAt, publishAt time.Time
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
}

func newTranscript() transcript { return transcript{items: make(map[string]*item)} }

func (t *transcript) deadline() time.Time {
	var at time.Time
	for _, m := range t.growing {
		at = until(at, m.flushAt)
		at = until(at, m.publishAt)
		at = until(at, m.wordsBy)
	}
	return at
}

// awaitsWords says whether the transcript of a spoken turn may still come.
func (t *transcript) awaitsWords() bool {
	return slices.ContainsFunc(t.growing, func(m *message) bool { return !m.wordsBy.IsZero() })
}

func (t *transcript) onTime(s *state) {
	for _, m := range t.growing {
		if s.due(m.wordsBy) {
			s.closeMessage(m, persistence.StatusFailed)
		}
		if s.due(m.publishAt) {
			m.publishAt = time.Time{}
			s.do(publish{"message_delta", deltaEvent{ID: m.id, Text: m.text()}})
		}
		if s.due(m.flushAt) {
			s.write(m)
		}
	}
	t.growing = slices.DeleteFunc(t.growing, func(m *message) bool {
		return !m.grows() && m.flushAt.IsZero() && m.publishAt.IsZero() && m.wordsBy.IsZero()
	})
}

// of is the response that the message belongs to, nil where that is not known.
func (m *message) of() *response {
	if m == nil {
		return nil
	}
	return m.response
}

// text is what the message says.
func (m *message) text() string { return strings.Join(m.texts, "\n") }

func (m *message) open() bool { return m.meta.Status == persistence.StatusInProgress }

// grows says whether more of the text may come. The upstream generates faster than
// it speaks: of an answer that was interrupted it may send the rest, until the
// response is done.
func (m *message) grows() bool {
	return m.open() || (m.meta.Status == persistence.StatusInterrupted && m.response != nil && !m.response.done)
}

// takes says whether the text replaces what there is. The upstream may have
// deleted words of an answer that was interrupted; here they are kept.
func (m *message) takes(old, text string) bool {
	return m.grows() && text != "" && (m.open() || len(text) > len(old))
}

func (m *message) parts() []persistence.Part {
	var parts []persistence.Part
	if m.role == persistence.RoleAssistant {
		parts = append(parts, persistence.StepStart())
	}
	if text := m.text(); text != "" || len(m.tools) == 0 {
		parts = append(parts, persistence.TextPart(text))
	}
	return append(parts, m.tools...)
}

// item returns the item of that id, a new one if there is none.
func (t *transcript) item(id string) *item {
	it := t.items[id]
	if it == nil {
		it = &item{id: id}
		t.items[id] = it
	}
	return it
}

// link notes the item's predecessor.
func (it *item) link(ev *realtime.Event) {
	if ev.HasPrevious && !it.linked {
		it.prev, it.linked = ev.PreviousItemID, true
	}
}

// newMessage makes the message of an item.
func (s *state) newMessage(it *item, role persistence.Role, source persistence.Source) *message {
	m := &message{item: it, id: s.newID(), role: role, texts: []string{""}, meta: persistence.Metadata{
		Source: source, Status: persistence.StatusInProgress, CallID: s.callID, CreatedAt: s.now, ItemID: it.id,
	}}
	if role == persistence.RoleAssistant {
		m.meta.Model, m.meta.Voice = s.session.Model, s.session.Voice
	}
	it.message = m
	s.script.messages = append(s.script.messages, m)
	s.script.growing = append(s.script.growing, m)
	return m
}

// write saves the message as it is now.
func (s *state) write(m *message) {
	at := place{how: placeKept}
	if !m.placed {
		at = s.placeOf(m.item)
		m.placed, s.script.tail = true, m.item
	}
	m.flushAt = time.Time{}
	if !m.open() {
		m.publishAt = time.Time{}
	}
	s.save(saveMessage{message: persistence.Message{ID: m.id, Role: m.role, Parts: m.parts(), Metadata: m.meta}, place: at, with: m.with})
	m.with = nil
}

// writeRest saves what was added to a message that is closed.
func (s *state) writeRest(m *message) {
	if !m.flushAt.IsZero() {
		s.write(m)
	}
}

// placeOf follows the chain of items back to the nearest one that is shown.
func (s *state) placeOf(it *item) place {
	for range len(s.script.items) + 1 {
		if !it.linked {
			return place{how: placeLast}
		}
		if it.prev == "" {
			return place{how: placeAfter, after: s.lastMessage}
		}
		prev := s.script.items[it.prev]
		switch {
		case prev == nil:
			// It will come, and then stand before this one.
			return place{how: placeLast}
		case prev.seeded:
			return place{how: placeAfter, after: s.lastMessage}
		case prev.message != nil && prev.message.placed:
			return place{how: placeAfter, after: cmp.Or(prev.message.after, prev.message.id)}
		}
		it = prev
	}
	return place{how: placeLast} // the chain is a circle
}

// writeRefused saves a text that the upstream did not take. It stands where it
// was typed, behind the last message of the call until now.
func (s *state) writeRefused(m *message) {
	tail := s.script.tail
	m.meta.Status = persistence.StatusFailed
	s.write(m)
	s.script.tail = tail
	s.standsHere(m.id)
}

// standsHere notes a message that belongs to no item, or that a tool has written:
// what is said from now on stands behind it.
func (s *state) standsHere(messageID string) {
	if s.script.tail == nil {
		s.lastMessage = messageID
		return
	}
	s.script.tail.message.after = messageID
}

// grow adds a piece of text to a message.
func (s *state) grow(m *message, index int, delta string) {
	if !m.grows() || delta == "" {
		return
	}
	m.setText(index, m.at(index)+delta)
	s.reheard(m)
	if !m.placed {
		s.write(m)
		return
	}
	if m.flushAt.IsZero() {
		m.flushAt = s.now.Add(flushEvery)
	}
	if m.publishAt.IsZero() {
		m.publishAt = s.now.Add(publishEvery)
	}
}

const maxContents = 16 // of one item

func (m *message) at(index int) string {
	if index < 0 || index >= len(m.texts) {
		return ""
	}
	return m.texts[index]
}

func (m *message) setText(index int, text string) {
	if index < 0 || index >= maxContents {
		return
	}
	for len(m.texts) <= index {
		m.texts = append(m.texts, "")
	}
	if len(text) > maxMessageText {
		text = strings.ToValidUTF8(text[:maxMessageText], "")
	}
	m.texts[index] = text
}

// closeMessage ends a message in progress and saves it.
func (s *state) closeMessage(m *message, status persistence.Status) {
	m.wordsBy = time.Time{}
	if !m.open() {
		return
	}
	m.meta.Status = status
	s.write(m)
}
