package session

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"voicebridge/persistence"
	"voicebridge/realtime"
	"voicebridge/thread"
)

// transcript turns the upstream's items into the thread's messages. Their order is that of the item
// chain (previous_item_id), as far as there is one: else that in which they were told of.
type transcript struct {
	*line
	items    map[string]*item
	next     map[string]*item // by the id of the item before
	tail     *item            // the last of those written, in the order of the conversation
	messages []*message       // of this call, in the order of their creation
	growing  []*message       // those that may have a deadline
	memory   memory
	secrets  []string // digits of keys that are masked
	pace     pace     // of the voice, at the speed to which it is set
	speed    float64
}

func (t *transcript) deadline() time.Time {
	var at time.Time
	for _, m := range t.growing {
		at = until(at, m.flushAt)
		at = until(at, m.publishAt)
		at = until(at, m.transcriptionBy)
	}
	return at
}

// awaitsTranscription reports whether the transcription of an utterance may still come.
func (t *transcript) awaitsTranscription() bool {
	return slices.ContainsFunc(t.growing, func(m *message) bool { return !m.transcriptionBy.IsZero() })
}

func (t *transcript) onTime() {
	for _, m := range t.growing {
		if t.due(m.transcriptionBy) {
			m.end(thread.StatusFailed)
		}
		if t.due(m.publishAt) {
			t.publish(m)
		}
		if t.due(m.flushAt) {
			t.flush(m)
		}
	}
	t.growing = slices.DeleteFunc(t.growing, func(m *message) bool {
		return !m.grows() && m.flushAt.IsZero() && m.publishAt.IsZero() && m.transcriptionBy.IsZero()
	})
}

// itemOf finds or makes the item that an event is about, and records how the event describes it; nil if it names none.
func (t *transcript) itemOf(ev *event) *item {
	if ev.item.ID == "" && ev.ItemID == "" {
		return nil
	}
	it := t.item(cmp.Or(ev.item.ID, ev.ItemID))
	if ev.item.ID != "" {
		it = t.described(&ev.item)
	}
	return it
}

// link records which item the upstream says comes before that of an event. Null says nothing, as many send it with each
// item, which is then where it was told of: see [transcript.item]. Only our own driver means the start by it.
func (t *transcript) link(ev *event) {
	id := cmp.Or(ev.item.ID, ev.ItemID)
	if ev.PreviousItemID == id {
		ev.PreviousItemID = ""
	}
	if id == "" || ev.Malformed != nil {
		return
	}
	it := t.item(id)
	isStart := ev.PreviousItemID == "" && ev.HasPrevious && t.up.can.Duplex
	if it.linked || ev.PreviousItemID == "" && !isStart {
		return
	}
	// What seemed to follow it, as it was told of later, is before it.
	if after := t.next[id]; after != nil && t.follows(t.items[ev.PreviousItemID], id) {
		t.put(after, it.prev)
	}
	t.put(it, ev.PreviousItemID)
	it.linked = true
}

// put puts an item after another one, and before what was said to follow that: it has come between them.
func (t *transcript) put(it *item, prev string) {
	if t.next[it.prev] == it {
		delete(t.next, it.prev)
	}
	if after := t.next[prev]; after != nil && after != it && (t.items[prev] != nil || t.up.isSeed(prev)) {
		after.prev, t.next[it.id] = it.id, after
	}
	it.prev, t.next[prev] = prev, it
}

// described finds or makes an item that the upstream describes.
func (t *transcript) described(raw *realtime.Item) *item {
	it := t.item(raw.ID)
	content := it.raw.Content
	if it.raw = *raw; len(raw.Content) == 0 {
		it.raw.Content = content
	}
	return it
}

// item finds or makes the item with the id. Whatever first tells of an item gives it its place until the upstream names
// one: after the last item so far, unless others were said to follow it.
func (t *transcript) item(id string) *item {
	it := t.items[id]
	if it != nil {
		return it
	}
	it = &item{id: id, gen: t.up.gen, seeded: t.up.isSeed(id)}
	t.items[id] = it
	if it.seeded {
		return it
	}
	if last := t.items[t.up.newest]; last != nil && t.next[id] == nil {
		for n := 0; t.next[last.id] != nil && n < len(t.items); n++ {
			last = t.next[last.id]
		}
		t.put(it, last.id)
	}
	t.up.newest = id
	return it
}

// newMessage makes the message of an item.
func (t *transcript) newMessage(it *item, role thread.Role, source thread.Source) *message {
	m := t.unplaced(it, role, source)
	it.message = m
	t.messages = append(t.messages, m)
	t.growing = append(t.growing, m)
	return m
}

// unplaced makes a message that is not part of the conversation yet.
func (t *transcript) unplaced(it *item, role thread.Role, source thread.Source) *message {
	m := &message{item: it, id: t.newID(), role: role, texts: []growingText{newGrowingText("")}, meta: thread.Metadata{
		Source: source, Status: thread.StatusInProgress, CallID: t.CallID, CreatedAt: t.now, ItemID: it.id,
	}}
	if source == thread.SourceVoice {
		m.meta.Model, m.meta.Voice = t.record.Model, t.record.Voice
	}
	return m
}

// saveChanged saves the messages that have changed.
func (t *transcript) saveChanged() {
	for _, m := range t.messages {
		if m.changed {
			t.write(m)
		}
	}
}

// write saves the message as it is now.
func (t *transcript) write(m *message) {
	m.changed = false
	at := persistence.Place{How: persistence.PlaceKept}
	if !m.placed {
		at = t.placeOf(m.item)
		m.placed = true
		if t.tail == nil || at.How != persistence.PlaceAfter || at.After == t.tail.message.last() {
			t.tail = m.item // the others were written late, between two messages
		}
		t.memory.add(m, at)
	}
	m.flushAt = time.Time{}
	if !m.open() {
		m.publishAt = time.Time{}
	}
	if end := m.meta.AudioEndMS; end != nil {
		m.meta.HeardText = cmp.Or(m.heard, new(t.heard(m, time.Duration(*end)*time.Millisecond-m.heardBefore)))
	}
	t.save(persistence.PutMessage{Message: thread.Message{ID: m.id, Role: m.role, Parts: m.parts(), Metadata: m.meta},
		Place: at, Queued: m.queued,
		Continues: m.meta.Status == thread.StatusCompleted && m.response != nil && !m.response.done})
	m.written = m.text()
	m.pieces = m.open() && (m.written != "" || len(m.tools) == 0) // there is a part for the text
}

// lasts returns how long a message is spoken.
func (t *transcript) lasts(m *message) time.Duration {
	if m.sound > 0 {
		return m.sound
	}
	return t.pace.length(m.spoken())
}

// packetTime is how long a packet of sound lasts.
const packetTime = 20 * time.Millisecond

// ended reports whether so much of a message is all of it, but for less than a packet.
func (t *transcript) ended(m *message, played time.Duration) bool {
	return played+packetTime >= t.lasts(m)
}

// heard returns the beginning of a message's text that is spoken in that time.
func (t *transcript) heard(m *message, played time.Duration) string {
	if t.ended(m, played) {
		return m.text()
	}
	return m.with(beginning(m.spoken(), played.Seconds()/t.lasts(m).Seconds()))
}

// sounds takes how long a message is spoken.
func (t *transcript) sounds(m *message, sound time.Duration) {
	m.changed = m.changed || m.meta.AudioEndMS != nil && m.sound != sound
	m.sound = sound
}

// speaks takes how fast the voice is to speak.
func (t *transcript) speaks(session json.RawMessage) {
	speed, err := strconv.ParseFloat(string(realtime.Member(session, "audio", "output", "speed")), 64)
	if err == nil && speed >= 0.1 && speed <= 10 {
		t.pace *= pace(speed / t.speed)
		t.speed = speed
	}
}

// flush saves text added to a message, by itself if possible.
func (t *transcript) flush(m *message) {
	text := m.text()
	if !m.open() || !m.placed || !m.pieces || !strings.HasPrefix(text, m.written) {
		m.changed = true
		return
	}
	m.flushAt = time.Time{}
	if added := text[len(m.written):]; added != "" {
		t.save(persistence.PutDraft{Draft: persistence.Draft{MessageID: m.id, Start: len(m.written), Text: added}})
		m.written = text
	}
}

// publish publishes the text that was added. Replaced text, and the text of a closed message, is published when
// it is saved.
func (t *transcript) publish(m *message) {
	m.publishAt = time.Time{}
	text, start := m.text(), len(m.published)
	if m.open() && len(text) > start && strings.HasPrefix(text, m.published) {
		delta := persistence.Delta{ID: m.id, Start: &start, Text: text[start:]}
		t.do(Publish{Kind: persistence.EventMessageDelta, Data: delta})
	}
	m.published = text
}

// placeOf returns where an item's message belongs: it follows the chain of items back to the nearest one whose message
// is in the thread. An item before it that comes later is then placed before it.
func (t *transcript) placeOf(it *item) persistence.Place {
	after := func(id string) persistence.Place { return persistence.Place{How: persistence.PlaceAfter, After: id} }
	first := it.id
	for n := 0; it != nil && (it.linked || it.prev != "") && n <= len(t.items); n++ { // the chain may be circular
		prev := t.items[it.prev]
		switch {
		case it.prev == "", prev == nil && strings.HasPrefix(it.prev, t.SeedPrefix(it.gen)),
			prev != nil && prev.seeded && !prev.linked:
			return after(t.LastMessage)
		case prev != nil && prev.message != nil && prev.message.past:
			return after(t.LastMessage)
		case prev != nil && prev.message != nil && prev.message.placed && (prev.message.item == prev || prev.prev == ""):
			// a call that an earlier message shows comes after what was said meanwhile
			return after(prev.message.last())
		}
		it = prev
	}
	follows := func(m *message) bool { return t.follows(m.item, first) }
	if before, ok := t.memory.beforeFirst(follows); ok { // one that follows it is there
		return after(cmp.Or(before, t.LastMessage))
	}
	if t.tail == nil { // the call's first, which may be saved long after others
		return after(t.LastMessage)
	}
	return persistence.Place{How: persistence.PlaceLast}
}

// follows reports whether the chain of items leads back from an item to the one with the id.
func (t *transcript) follows(it *item, id string) bool {
	for n := 0; it != nil && n <= len(t.items); n++ {
		if it.prev == id {
			return true
		}
		it = t.items[it.prev]
	}
	return false
}

// rebase begins a new chain of items: what comes next may be the first item of a conversation, but
// is not the first message.
func (t *transcript) rebase() {
	t.LastMessage, t.tail = t.end(), nil
	t.up.newest = ""
}

// end returns the id of the thread's last message, empty if there is none.
func (t *transcript) end() string {
	if t.tail == nil {
		return t.LastMessage
	}
	return t.tail.message.last()
}

// writeRefused saves a text that the upstream refused. Its place is where it was typed, after the
// call's last message so far.
func (t *transcript) writeRefused(m *message) {
	tail := t.tail
	m.meta.Status = thread.StatusFailed
	t.write(m)
	t.tail = tail
	t.anchor(m.id)
}

// anchor records a message that belongs to no item, or that a tool has written: what is said from
// now on comes after it.
func (t *transcript) anchor(messageID string) {
	if t.tail == nil {
		t.LastMessage = messageID
		return
	}
	t.tail.message.after = messageID
}

// grow adds the piece of text in an event to a message.
func (t *transcript) grow(m *message, ev *event) {
	if !m.grows() || ev.Delta == "" {
		return
	}
	delta := m.piece(ev)
	if delta == "" {
		return
	}
	m.add(ev.ContentIndex, delta)
	if !m.placed {
		m.changed = true
		return
	}
	// Handle what is nearly due now, to save the loop an extra wake-up.
	switch {
	case m.flushAt.IsZero():
		m.flushAt = t.now.Add(flushEvery)
	case t.now.Add(flushEvery / 8).After(m.flushAt):
		t.flush(m)
	}
	switch {
	case m.publishAt.IsZero():
		m.publishAt = t.now.Add(publishEvery)
	case t.now.Add(publishEvery / 4).After(m.publishAt):
		t.publish(m)
	}
}

// amend adds words to a spoken message that is complete, unless all of it was known. It reports whether it is complete.
func (t *transcript) amend(m *message, ev *event) bool {
	if m.grows() {
		return false
	}
	isNew := t.up.can.Duplex || ev.ItemID != m.voice().id || !m.part(ev.ContentIndex).isWhole()
	if isNew && ev.Delta != "" && m.meta.Source == thread.SourceVoice {
		m.add(ev.ContentIndex, m.piece(ev))
		m.changed = true
	}
	return true
}

// forgetItem removes an item from the model's conversation.
func (t *transcript) forgetItem(it *item) {
	it.forgotten = true
	if it.gen == t.up.gen && t.up.can.Deletion {
		t.up.send(realtime.ItemDelete(t.up.eventID(sentEvent{kind: sentDelete}), t.up.names.theirs(it.id)))
	}
}

// dropClosed drops the messages that can no longer change.
func (t *transcript) dropClosed() {
	t.messages = slices.DeleteFunc(t.messages, func(m *message) bool {
		return !m.open() && m.flushAt.IsZero() && (m.role != thread.RoleAssistant || len(m.tools) == 0)
	})
}

// isFree reports whether a client may give a new item that id.
func (t *transcript) isFree(id string) bool {
	return validItemID(id) && t.items[id] == nil && !strings.HasPrefix(id, t.ItemPrefix+"_")
}

func validItemID(id string) bool {
	for _, c := range []byte(id) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '_', c == '-':
		default:
			return false
		}
	}
	return id != "" && len(id) <= realtime.MaxItemID
}
