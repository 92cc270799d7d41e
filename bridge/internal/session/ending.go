package session

import (
	"encoding/json"

	"voicebridge/realtime"
	"voicebridge/thread"
)

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
	s.saveBacklog()
	s.phase = draining
	s.giveUpNext()
	s.do(Gate{Open: false})
	s.playback.cutOff(s.playback.playing)
	s.cutOffQueued()
	s.playback.reset()
	s.tools.end()
}

// cutOffQueued closes the answers that are no longer played.
func (s *State) cutOffQueued() {
	for _, r := range s.playback.queued() {
		s.playback.cutOffQueued(r)
	}
}

// saveBacklog saves the browser's texts that were waiting for a session, and tells the browser. Texts from elsewhere
// are left to their senders, who learn that there is no call.
func (s *State) saveBacklog() {
	events, _ := s.backlog.take()
	for _, e := range events {
		ev, err := realtime.Decode(e.Data)
		var it clientItem
		if e.MessageID == "" || s.delivered[e.MessageID] != nil || err != nil || json.Unmarshal(ev.Item, &it) != nil {
			continue
		}
		text, _ := it.text()
		m := s.transcript.newMessage(s.transcript.item(s.nextItemID()), thread.RoleUser, thread.SourceText)
		m.id, s.delivered[e.MessageID] = e.MessageID, m
		m.setText(0, text)
		m.show(e.Images)
		s.transcript.writeRefused(m)
		s.refuse(ev.EventID, "call_ended", "The call ended before the text could be said. It is saved in the thread.", "")
	}
}

// closeOpen closes what is open. goesOn means that the call does not end: a text that the upstream
// has not acknowledged is kept for the next session.
func (s *State) closeOpen(goesOn bool) {
	for _, m := range s.transcript.messages {
		switch {
		case !m.placed && m.open() && m.text() == "":
			continue // announced and never begun
		case !m.placed && m.queued != "" && !goesOn:
			continue // left to its queue
		case !m.placed:
			s.transcript.write(m)
		case !m.open():
			s.transcript.writeRest(m)
			continue
		case m.role == thread.RoleAssistant:
			s.playback.interrupt(m, s.playback.played(m))
		}
		s.transcript.closeMessage(m, thread.StatusFailed)
	}
}

// finish closes what is open, saves the call and sends bridge.ended.
func (s *State) finish() {
	s.cutOffQueued() // they may have been completed meanwhile
	s.closeOpen(false)
	s.answers.closeAll("call_ended")
	s.record.EndedAt, s.record.EndReason = new(s.now), string(s.reason)
	s.saveCall()
	s.phase = ended
	s.publishTurn()
	s.notify(endedEvent{Type: "bridge.ended", Reason: s.reason})
	s.do(Publish{CallEnded, callEvent{CallID: s.CallID, Reason: s.reason}})
	s.do(Finish{s.reason})
}

// giveUp ends the call because of the upstream.
func (s *State) giveUp(reason EndReason) {
	if s.phase >= draining {
		s.drainBy = s.now // nothing more will come
		return
	}
	s.notify(endedEvent{Type: "bridge.upstream.lost", Reason: reason})
	s.startDraining(reason)
	s.drainBy = s.now
}

// giveUpNext drops the session that is being prepared.
func (s *State) giveUpNext() {
	if s.next == nil {
		return
	}
	s.next.gone = true
	s.do(HangUp{Gen: s.next.gen, Reason: EndUpstreamSetup})
	s.next = nil
}
