package session

import (
	"maps"
	"slices"

	"voicebridge/realtime"
)

// forget makes the model forget what was said, except the current turn. The thread keeps it.
func (s *State) forget() {
	if s.phase >= draining {
		return
	}
	for _, id := range slices.Sorted(maps.Keys(s.transcript.items)) {
		it := s.transcript.items[id]
		if s.forgettable(it) {
			s.deleteItem(it)
		}
		if it.message != nil {
			it.message.past = it.message.placed
		}
	}
	s.up.forgot = true
	s.transcript.memory.forget(func(m *message) bool { return !m.item.forgotten })
	s.transcript.rebase()
	if s.next != nil { // it has been told what must be forgotten
		s.giveUpNext()
		s.dial()
	}
}

// forgettable reports whether an item is finished and part of the conversation.
func (s *State) forgettable(it *item) bool {
	wanted := func(n need) bool {
		r := it.message.of()
		return n.id == it.id || r != nil && n.batch == r.id
	}
	runs := func(r *toolRun) bool { return !r.Done() && r.message == it.message }
	switch m := it.message; {
	case it.forgotten, it.raw.Type == "" && !it.seeded, it.raw.Status == realtime.ResponseInProgress:
		return false
	case slices.ContainsFunc(s.answers.needs, wanted), slices.ContainsFunc(s.tools.open, runs):
		return false
	case m != nil && (m.open() || !m.placed):
		return false
	case m.of() != nil:
		return m.response.done && m.response.open == 0
	}
	return true
}
