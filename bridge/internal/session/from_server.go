package session

import (
	"cmp"
	"maps"
	"slices"

	"voicebridge/realtime"
)

// written tells the model what was written in the thread meanwhile. It says what nobody has heard.
func (s *State) written(in Written) {
	if s.phase >= draining {
		return
	}
	added := s.transcript.memory.merge(in.Messages)
	switch {
	case len(added) == 0:
		return
	case s.phase == starting:
		s.texts.backlog.written = append(s.texts.backlog.written, added...)
		s.Greeting = cmp.Or(in.Unheard, s.Greeting)
		return
	case !s.up.gone: // otherwise the next session is told
		s.do(Append{Gen: s.up.gen, Messages: added})
	}
	if in.Unheard != "" {
		s.answers.say(in.Unheard)
	}
}

// interruptTurn stops the turn: the answer, the rest of its audio, and its tools. Unanswered
// requests are withdrawn.
func (s *State) interruptTurn(in Interrupt) {
	stopped := s.phase == live && (s.busy || s.playback.playing != "")
	s.do(Answer{To: in.Stopped, Yes: stopped})
	if !stopped {
		return
	}
	for _, run := range s.tools.unfinished() {
		s.tools.cancelRun(run)
	}
	s.answers.stop()
	if s.playback.playing != "" {
		s.playback.clear()
	}
}

// flushBacklog handles what was waiting for a session.
func (s *State) flushBacklog() {
	waiting := s.texts.backlog
	s.texts.backlog = backlog{}
	if len(waiting.written) > 0 {
		s.do(Append{Gen: s.up.gen, Messages: waiting.written})
	}
	for _, e := range waiting.events {
		s.browser(e)
	}
	for _, t := range waiting.texts {
		s.texts.say(t)
	}
}

// forget makes the model forget what was said, except the current turn. The thread keeps it.
func (s *State) forget() {
	if s.phase >= draining {
		return
	}
	for _, id := range slices.Sorted(maps.Keys(s.transcript.items)) {
		it := s.transcript.items[id]
		if s.forgettable(it) {
			s.transcript.forgetItem(it)
		}
		if it.message != nil {
			it.message.past = it.message.placed
		}
	}
	s.up.forgot = true
	s.transcript.memory.forget(func(m *message) bool { return !m.item.forgotten })
	s.transcript.rebase()
	switch r := &s.renewal; {
	case r.next != nil: // it has been told what must be forgotten
		r.drop()
		r.dial()
	case s.listening() && !s.up.can.Deletion && r.reason == EndNone:
		r.begin(RenewPlanned)
	}
}

// forgettable reports whether an item is finished and part of the conversation.
func (s *State) forgettable(it *item) bool {
	wanted := func(n need) bool {
		return n.id == it.id || n.batch != nil && n.batch == it.message.of()
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
