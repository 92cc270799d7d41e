package session

import (
	"maps"
	"slices"

	"voicebridge/persistence"
)

// say puts text into the conversation and asks for an answer.
func (s *State) say(in ServerText) {
	if s.phase >= draining {
		return
	}
	if m := s.delivered[in.MessageID]; m != nil {
		s.deliveredAgain(m, in)
		return
	}
	if !s.listening() {
		s.backlog.texts = append(s.backlog.texts, in)
		return
	}
	itemID := s.nextItemID()
	s.answers.need(need{id: itemID}) // before a refusal drops it
	s.typed(in, itemID, sentEvent{kind: sentText})
}

// written tells the model what was written in the thread meanwhile, without asking for an answer.
func (s *State) written(messages []persistence.Message) {
	if s.phase >= draining {
		return
	}
	switch added := s.transcript.memory.merge(messages); {
	case len(added) == 0:
	case s.phase == starting:
		s.backlog.written = append(s.backlog.written, added...)
	case !s.up.gone: // otherwise the next session is told
		s.do(Append{Gen: s.up.gen, Messages: added})
	}
}

// deliveredAgain takes a text that is already in the call. It is not said again, but what in.With writes is saved.
func (s *State) deliveredAgain(m *message, in ServerText) {
	m.with = in.With
	if m.placed {
		s.transcript.write(m)
	}
}

// interruptTurn stops the turn: the answer, the rest of its audio, and its tools. Unanswered
// requests are withdrawn.
func (s *State) interruptTurn(in Interrupt) {
	stopped := s.phase == live && (s.busy || s.playback.playing != "")
	s.do(Answer{in.Stopped, stopped})
	if !stopped {
		return
	}
	for _, run := range s.tools.unfinished() {
		s.tools.cancelRun(run)
	}
	s.answers.stop()
	if s.playback.playing != "" {
		s.up.clearAudio()
	}
}

// forget makes the model forget what was said, except the current turn. The thread keeps it.
func (s *State) forget() {
	if s.phase >= draining {
		return
	}
	for _, id := range slices.Sorted(maps.Keys(s.transcript.items)) {
		if it := s.transcript.items[id]; s.forgettable(it) {
			s.deleteItem(it)
		}
	}
	s.up.forgot = true
	s.transcript.memory.forget(func(m *message) bool { return !m.item.forgotten })
	s.transcript.rebase()
}

// forgettable reports whether an item is finished and part of the conversation.
func (s *State) forgettable(it *item) bool {
	wanted := func(n need) bool {
		r := it.message.of()
		return n.id == it.id || r != nil && n.batch == r.id
	}
	runs := func(r *toolRun) bool { return !r.Done() && r.message == it.message }
	switch m := it.message; {
	case it.forgotten, it.raw.Type == "" && !it.seeded:
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

// flushBacklog handles what was waiting for a session.
func (s *State) flushBacklog() {
	if written := s.backlog.written; len(written) > 0 {
		s.do(Append{Gen: s.up.gen, Messages: written})
	}
	events, texts := s.backlog.take()
	for _, e := range events {
		s.browser(e)
	}
	for _, t := range texts {
		s.say(t)
	}
}
