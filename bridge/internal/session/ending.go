package session

// end ends the call.
func (s *State) end(reason EndReason) {
	hurry := reason == EndTakenOver
	if s.phase >= draining {
		if hurry {
			s.drainBy = until(s.drainBy, s.now.Add(takeoverDrain))
		}
		return
	}
	s.startDraining(reason)
	s.drainBy = s.now.Add(drainTimeout)
	if hurry {
		s.drainBy = s.now.Add(takeoverDrain)
	}
}

// startDraining stops everything that continues the conversation, and waits for transcripts of what
// was already said.
func (s *State) startDraining(reason EndReason) {
	s.reason = reason
	if s.answers.active != "" {
		s.up.cancel("")
	}
	s.texts.saveBacklog()
	s.phase = draining
	s.renewal.drop()
	s.do(Gate{Open: false})
	s.playback.stopAll()
	s.tools.end()
}

// finish closes what is open, saves the call and sends bridge.ended.
func (s *State) finish() {
	s.playback.stopAll() // they may have been completed meanwhile
	s.playback.closeOpen(false)
	s.answers.closeAll("call_ended")
	s.transcript.saveChanged() // the end of the call comes last
	s.record.EndedAt, s.record.EndReason = new(s.now), string(s.reason)
	s.saveCall()
	s.phase = ended
	s.publishTurn()
	s.notify(endedEvent{Type: "bridge.ended", Reason: s.reason})
	s.do(Tell{CallEnded, callEvent{CallID: s.CallID, Reason: s.reason, Recording: !s.recording.began.IsZero()}})
	s.do(Finish{s.reason})
}

// giveUp ends the call because of the upstream, unless the reason is EndNone.
func (s *State) giveUp(reason EndReason) {
	if reason == EndNone {
		return
	}
	if s.phase < draining {
		s.notify(endedEvent{Type: "bridge.upstream.lost", Reason: reason})
		s.startDraining(reason)
	}
	s.drainBy = s.now // nothing more will come
}
