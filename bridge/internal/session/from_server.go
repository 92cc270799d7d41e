package session

import "voicebridge/thread"

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
func (s *State) written(messages []thread.Message) {
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

// deliveredAgain takes a text that is already in the call. It is not said again, but saved, as its queue may not know.
func (s *State) deliveredAgain(m *message, in ServerText) {
	m.queued = in.Queued
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
