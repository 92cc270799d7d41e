package bridge

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"voicebridge/persistence"
	"voicebridge/realtime"
)

// opened starts the session: first the thread's last messages, then one
// session.update. The channel keeps the order, so nothing is waited for.
func (s *state) opened() {
	if s.phase != dialing {
		return
	}
	s.phase = configuring
	for _, raw := range s.history {
		it := s.script.item(raw.ID)
		it.seeded = true
		event := realtime.ItemCreate(s.nextEventID(sentEvent{kind: sentSeed}), raw, "")
		s.do(toUpstream{event})
	}
	s.configure()
}

// ready lets the caller be heard.
func (s *state) ready() {
	s.phase = live
	s.record.ReadyAt = new(s.now)
	s.record.Replayed = int64(s.replayed)
	s.do(gate{open: true})
	s.saveCall()
	s.tell(readyEvent{Type: "bridge.ready", CallID: s.callID, ThreadID: s.key.Thread, Replayed: s.replayed})
	s.do(publish{"call_started", callEvent{CallID: s.callID}})
	held := s.held
	s.held, s.heldBytes = nil, 0
	for _, data := range held {
		s.browser(data)
	}
	texts := s.heldTexts
	s.heldTexts = nil
	for _, t := range texts {
		s.say(t)
	}
}

// lost ends the call because of the upstream.
func (s *state) lost(reason EndReason) {
	if s.phase >= draining {
		s.drainBy = s.now // nothing more will come
		return
	}
	s.tell(endedEvent{Type: "bridge.upstream.lost", Reason: reason})
	s.begin(reason)
	s.drainBy = s.now
}

// end ends the call.
func (s *state) end(reason EndReason) {
	if s.phase >= draining {
		if reason == EndTakenOver || reason == EndShutdown {
			s.drainBy = until(s.drainBy, s.now.Add(takeoverDrain))
		}
		return
	}
	s.begin(reason)
	wait := drainTimeout
	if reason == EndTakenOver || reason == EndShutdown {
		wait = takeoverDrain
	}
	s.drainBy = s.now.Add(wait)
}

// begin stops all that makes more of the conversation. What was said and has no
// words yet is waited for.
func (s *state) begin(reason EndReason) {
	s.reason = reason
	if s.turns.active != "" {
		s.do(toUpstream{realtime.ResponseCancel(s.nextEventID(sentEvent{}), "")})
	}
	if s.phase < live {
		s.keepHeld()
	}
	s.phase = draining
	s.do(gate{open: false})
	s.interruptPlaying(s.spoken.playing)
	s.spoken.playing, s.spoken.since = "", time.Time{}
	s.endTools()
}

// keepHeld saves the texts that wait for a session that will not be. Whoever typed
// them is told.
func (s *state) keepHeld() {
	for _, data := range s.held {
		ev, err := realtime.Decode(data)
		var it clientItem
		if err != nil || ev.Type != realtime.TypeItemCreate || json.Unmarshal(ev.Item, &it) != nil {
			continue
		}
		isUser := it.Type == realtime.ItemMessage && it.Role == string(persistence.RoleUser)
		if text, _ := it.text(); isUser && text != "" && len(text) <= maxInputText {
			item := s.script.item(s.nextItemID())
			m := s.newMessage(item, persistence.RoleUser, persistence.SourceText)
			m.setText(0, text)
			s.writeRefused(m)
			s.refuse(ev.EventID, "call_ended", "The call ended before the text could be said. It is saved in the thread.", "")
		}
	}
	s.held = nil
}

// finish closes what is open, saves the call and says goodbye.
func (s *state) finish() {
	for _, m := range s.script.messages {
		switch {
		case !m.placed && m.open() && m.text() == "":
			continue // announced and never begun
		case !m.placed && m.with != nil:
			continue // whoever has it says it elsewhere
		case !m.placed:
			s.write(m)
		case !m.open():
			s.writeRest(m)
			continue
		case m.role == persistence.RoleAssistant:
			s.interrupt(m, s.spoken.heard(s.now, m))
		}
		s.closeMessage(m, persistence.StatusFailed)
	}
	for _, id := range slices.Sorted(maps.Keys(s.turns.responses)) {
		if r := s.turns.responses[id]; !r.done {
			r.record.Status, r.record.StatusReason = realtime.ResponseCancelled, "call_ended"
			r.record.FinishedAt = new(s.now)
			s.save(saveResponse{r.record})
		}
	}
	s.record.EndedAt, s.record.EndReason = new(s.now), string(s.reason)
	s.saveCall()
	s.phase = ended
	s.tellTurn()
	s.tell(endedEvent{Type: "bridge.ended", Reason: s.reason})
	s.do(publish{"call_ended", callEvent{CallID: s.callID, Reason: s.reason}})
	s.do(finish{s.reason})
}

// ownEventID makes the id of an event that the bridge sends to the browser.
func (s *state) ownEventID() string {
	s.counter++
	return fmt.Sprintf("event_%s%d", ownPrefix, s.counter)
}
