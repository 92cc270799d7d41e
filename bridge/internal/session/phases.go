package session

import (
	"errors"
	"log/slog"
	"slices"
	"time"

	"voicebridge/realtime"
	"voicebridge/thread"
)

// dialed takes the success of a dial: of the first session, for which the call could not wait, or of one that replaces
// it.
func (s *State) dialed(in UpstreamDialed) {
	if s.phase != starting || in.Gen != s.up.gen {
		s.renewal.dialed(in)
		return
	}
	s.up.take(in)
	s.adopt()
	s.do(Switch{Gen: in.Gen})
	s.configureEarly()
}

// configureEarly sends the first session its settings with the opening of the channel, one round trip before it can
// have announced itself, as OpenAI's own client does. A history waits: nothing says that a conversation is there before
// that.
func (s *State) configureEarly() {
	if s.phase == starting && s.up.stage == dialing && s.up.can.Early && len(s.History) == 0 {
		s.up.stage = configuring
		s.do(Replay{Gen: s.up.gen})
		s.settings.configure()
	}
}

// adopt makes the upstream of the active session the call's.
func (s *State) adopt() {
	if to := s.up.route; to.Name != "" {
		s.Session = s.Session.With(to)
		s.record.Upstream, s.record.Model = to.Name, s.Session.Model
		s.record.Voice = s.Session.Voice
	}
	s.record.UpstreamCallID = s.up.id
	s.saveCall()
}

// dialFailed takes the failure of a dial. Without a first session there is no call, and no upstream is left to ask.
func (s *State) dialFailed(in UpstreamDialFailed) {
	if s.phase != starting || in.Gen != s.up.gen {
		s.giveUp(s.renewal.dialFailed(in))
		return
	}
	s.log(slog.LevelWarn, "call without an upstream session", "error", in.Err)
	s.up.gone = true
	s.sendError(in.Refusal)
	if _, refused := errors.AsType[*realtime.APIError](in.Err); refused {
		s.giveUp(EndUpstreamRefused)
		return
	}
	s.giveUp(EndUpstreamSetup)
}

// startOver asks another upstream for the first session, because this one refuses it or is lost before it is ready. It
// reports false if it is too late for that, or no other one is left.
func (s *State) startOver(why EndReason) bool {
	if s.phase != starting || s.overs >= s.Others {
		return false
	}
	s.overs++
	s.log(slog.LevelWarn, "the next upstream is tried", "failed", s.record.Upstream, "reason", why)
	s.complaint, s.up.gone = nil, true
	s.settings.takeBack()
	s.do(HangUp{Gen: s.up.gen, Reason: why})
	s.up = s.newUpstream(s.up.gen + 1)
	s.renewal.schedule()
	s.do(Dial{Gen: s.up.gen, History: s.History, Refused: s.record.Upstream, Whole: s.settings.whole()})
	return true
}

// saying reports whether an answer is being made or heard, or about to be.
func (s *State) saying() bool {
	q := s.answers
	return q.active != "" || q.create != nil || s.now.Before(q.saidBy) || s.playback.playing != "" ||
		slices.ContainsFunc(q.turn.responses, (*response).awaitsSound)
}

// tone has a tone begin, or end: while a tool takes longer than the filler waits, nobody speaks.
func (s *State) tone() {
	t, q := s.tools, s.answers
	on := s.FillerTone && s.listening() && !s.away && !t.waitsSince.IsZero() && t.fillerAt.IsZero() &&
		!q.busy() && !s.saying() && !s.speech.talking()
	if on != s.sounds {
		s.sounds = on
		s.do(Tone{On: on})
	}
}

// noticed begins the recording once the notice of it was heard to its end, and goes on with the greeting. One that was
// interrupted is said again.
func (s *State) noticed() {
	q := s.answers
	if !s.NoticeFirst || !q.greeted || s.phase != live {
		return
	}
	r := q.byID[q.notice]
	asked := func(n need) bool { return n.id == greetingID }
	if q.create.has(need{id: greetingID}) || slices.ContainsFunc(q.needs, asked) ||
		r != nil && (!r.done || s.playback.playing == r.id || r.awaitsSound()) {
		return
	}
	heard := r != nil && len(r.messages) > 0 && !slices.ContainsFunc(r.messages, func(m *message) bool {
		return m.meta.Status != thread.StatusCompleted
	})
	if !heard && q.notices < maxTries {
		q.notice, q.notices = "", q.notices+1
		q.say(s.Announcement)
		return
	}
	s.NoticeFirst, s.Announcement = false, ""
	if heard {
		s.recording.begin()
	} else {
		s.recording.unheard()
	}
	if q.greeted = !s.up.can.ResponseSettings; !q.greeted {
		q.greet(s.browserLeg.connected)
	}
}

// leave runs the tool by which the model leaves the call, or lets it go on, once what is being said was heard.
func (s *State) leave() {
	l := &s.tools.leaving
	if l.run == nil && l.id != "" { // a tool's tool
		l.run = s.tools.byID[l.id]
	}
	if l.run == nil || s.phase >= draining {
		return
	}
	if l.may != nil && l.run.Done() {
		s.transferred()
		return
	}
	if l.started {
		return
	}
	making := l.run.response != nil && !l.run.response.done
	switch {
	case s.now.Before(l.by) &&
		(making || l.within && !l.run.Done() || s.saying() || l.says != "" && (s.answers.busy() || !s.listening())):
		l.at = time.Time{}
	case l.says != "":
		if s.listening() && s.up.can.ResponseSettings {
			s.answers.request(creation{filler: true}, says(l.says))
		}
		l.says, l.by = "", s.now.Add(lostAfter)
	case l.at.IsZero():
		l.at = s.now.Add(farewell)
		if done := l.run.Record().FinishedAt; l.within && done != nil && !s.playback.lastHeard().After(*done) {
			l.at = s.now.Add(saidWait)
		}
	case s.due(l.at) && l.within:
		s.end(EndAssistant)
	case s.due(l.at) && l.may != nil:
		l.started, l.paused = true, s.recording.state == RecordingOn
		s.do(Gate{Open: false})
		if l.paused {
			s.recording.to(RecordingPaused)
		}
		s.do(Answer{To: l.may, Yes: true})
	case s.due(l.at):
		l.started = true
		s.tools.run(l.run)
	}
}

// transferred takes the end of a transfer: that of the call, or it goes on.
func (s *State) transferred() {
	l := s.tools.leaving
	if !l.run.Result().Failed() {
		s.end(EndTransferred)
		return
	}
	s.isLeaving, s.tools.leaving = false, leaving{}
	if l.started && !s.away {
		s.do(Gate{Open: true})
	}
	if l.paused {
		s.recording.to(RecordingOn)
	}
	s.limiter.heard() // nobody could speak
}

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
	s.notify(endedEvent{Type: "bridge.ended", Reason: s.reason, Detail: s.detail})
	end := callEvent{CallID: s.CallID, Reason: s.reason, Recording: !s.recording.began.IsZero()}
	s.do(Tell{Kind: CallEnded, Data: end})
	s.do(Finish{Reason: s.reason})
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
