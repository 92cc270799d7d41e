package session

import (
	"slices"

	"voicebridge/persistence"
	"voicebridge/thread"
)

// memory is the end of the thread as the call knows it, in order: what a new upstream session gets.
type memory struct {
	entries []entry
	limit   int // how many messages a session gets
	// ids are those of the messages that existed before the call, including those forgotten since.
	ids map[string]bool
}

// entry is a message of the thread: of this call, or from before it.
type entry struct {
	id   string
	mine *message
	old  *thread.Message
}

func newMemory(history []thread.Message, limit int) memory {
	m := memory{limit: limit, ids: make(map[string]bool)}
	for i := range history {
		m.ids[history[i].ID] = true
		m.entries = append(m.entries, entry{id: history[i].ID, old: &history[i]})
	}
	return m
}

// merge takes the thread's last messages, and adds and returns the new ones: finished messages that belong to no call.
// They are put where they stand in the thread.
func (m *memory) merge(messages []thread.Message) (added []thread.Message) {
	at := 0
	for _, msg := range messages {
		if i := slices.IndexFunc(m.entries, func(e entry) bool { return e.id == msg.ID }); i >= 0 {
			at = i + 1
			continue
		}
		if m.ids[msg.ID] || msg.Metadata.CallID != "" || msg.Metadata.Status == thread.StatusInProgress {
			continue
		}
		m.ids[msg.ID] = true
		m.entries = slices.Insert(m.entries, at, entry{id: msg.ID, old: &msg})
		at++
		added = append(added, msg)
	}
	return added
}

// add adds a message of the call at its place.
func (m *memory) add(msg *message, at persistence.Place) {
	e, i := entry{id: msg.id, mine: msg}, len(m.entries)
	if at.How == persistence.PlaceAfter && at.After == "" {
		i = 0
	} else if at.How == persistence.PlaceAfter {
		// A message after one that is not known goes to the end. Before one without an item there is the one that it
		// follows.
		for n, e := range slices.Backward(m.entries) {
			if e.id == at.After || e.mine.ends(at.After) {
				i = n + 1
				break
			}
		}
	}
	m.entries = slices.Insert(m.entries, i, e)
	if extra := len(m.entries) - m.limit - spareEntries; extra > 0 {
		m.entries = slices.Delete(m.entries, 0, extra)
	}
}

// spareEntries are kept beyond the limit, since not all messages have text.
const spareEntries = 64

// ends reports whether id is that of a message without an item that follows m.
func (m *message) ends(id string) bool { return m != nil && m.after == id }

// forget drops the messages for which keep is false. The upstream puts what comes next right after those it keeps; in
// the thread it comes after the dropped ones that follow them.
func (m *memory) forget(keep func(*message) bool) {
	var kept *message
	m.entries = slices.DeleteFunc(m.entries, func(e entry) bool {
		if e.mine != nil && keep(e.mine) {
			kept = e.mine
			return false
		}
		if kept != nil {
			kept.after = e.end()
		}
		return true
	})
}

// last returns the last messages for a session.
func (m *memory) last() []thread.Message { return m.lastOf(m.entries) }

// settled is last without the messages from the first on that is still being made: half of it would stay half.
func (m *memory) settled() []thread.Message {
	n := slices.IndexFunc(m.entries, func(e entry) bool { return e.mine.beingMade() })
	if n < 0 {
		n = len(m.entries)
	}
	return m.lastOf(m.entries[:n])
}

func (m *memory) lastOf(entries []entry) []thread.Message {
	var msgs []thread.Message
	for i := len(entries) - 1; i >= 0 && len(msgs) < m.limit; i-- {
		if msg, ok := entries[i].message(); ok {
			msgs = append(msgs, msg)
		}
	}
	slices.Reverse(msgs)
	return msgs
}

// beforeFirst returns the id of the message before the call's first one for which is is true, empty if that is not one
// of the present context and of this call; ok is false if there is no such message.
func (m *memory) beforeFirst(is func(*message) bool) (id string, ok bool) {
	i := slices.IndexFunc(m.entries, func(e entry) bool { return e.mine != nil && is(e.mine) })
	if i > 0 && m.entries[i-1].mine != nil && !m.entries[i-1].mine.past {
		id = m.entries[i-1].mine.last()
	}
	return id, i >= 0
}

// end returns the id of the last message of the thread that belongs to the entry.
func (e entry) end() string {
	if e.mine != nil {
		return e.mine.last()
	}
	return e.id
}

// question returns the id of the user's last message, empty if none is known.
func (m *memory) question() string {
	for _, e := range slices.Backward(m.entries) {
		if e.mine != nil && e.mine.role == thread.RoleUser || e.old != nil && e.old.Role == thread.RoleUser {
			return e.id
		}
	}
	return ""
}

// message returns the entry for a model: without calls that have no result yet. ok is false if
// nothing is left.
func (e entry) message() (thread.Message, bool) {
	if e.old != nil {
		return *e.old, true
	}
	m := e.mine
	if string(m.meta.Extra[thread.MetadataDeleted]) == "true" {
		return thread.Message{}, false
	}
	tools := slices.DeleteFunc(slices.Clone(m.tools),
		func(p thread.Part) bool { return p.State == thread.ToolInputAvailable })
	if m.text() == "" && len(tools)+len(m.files) == 0 {
		return thread.Message{}, false
	}
	return thread.Message{ID: m.id, Role: m.role, Parts: m.partsWith(tools), Metadata: m.meta}, true
}
