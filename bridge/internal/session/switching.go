package session

import "time"

// upstreamIs takes the state of an upstream connection.
func (s *State) upstreamIs(gen int, state Connection) {
	u := s.renewal.session(gen)
	if u == nil || u.gone || state != Closed && state != Failed {
		return
	}
	switch {
	case u != s.up:
		s.giveUp(s.renewal.failed("connection lost", 0))
	case state == Closed:
		s.lost(EndUpstreamEndedIt)
	default:
		s.lost(EndUpstreamLost)
	}
}

// lost handles the loss of the active session. A call that was ready goes on with another one.
func (s *State) lost(reason EndReason) {
	if s.startOver(reason) {
		return
	}
	if s.renewal.tooManyLosses(reason) || s.phase != live {
		s.giveUp(reason)
		return
	}
	s.detach(EndUpstreamLost)
	s.renewal.replace(reason)
}

// renewOnTime carries out the steps of a renewal that are due.
func (s *State) renewOnTime() {
	r := &s.renewal
	if s.phase != live {
		return
	}
	forced := s.due(r.forceAt)
	switch {
	case r.next != nil && r.next.stage == ready:
		if s.up.gone || forced || s.quiet() {
			s.switchOver()
		}
	case r.next != nil:
		if s.due(r.next.by) {
			s.giveUp(r.failed("not ready in time", 0))
		}
	case s.due(r.retryAt) && (s.up.gone || forced || s.quiet()):
		r.retryAt = time.Time{}
		r.dial()
	case r.reason == EndNone && s.due(r.planAt) && (forced || s.quiet()):
		r.begin(RenewPlanned)
	}
}

// quiet reports whether nothing would be lost if the upstream were replaced now.
func (s *State) quiet() bool {
	return s.listening() && !s.now.Before(s.answers.saidBy) && !s.speech.going() && !s.answers.busy() &&
		len(s.answers.needs) == 0 && s.playback.playing == "" && !s.tools.running() && s.settings.inFlight == nil
}

// detach closes what depends on the active session, which is lost or is being replaced, perhaps in the middle of
// something. An answer that is cut off by this is asked for again.
func (s *State) detach(why EndReason) {
	q := s.answers
	q.questionLost = s.speech.lost()
	if !q.replyTill.IsZero() || q.now.Before(q.saidBy) {
		q.again() // an utterance that nobody has begun to answer
	}
	q.saidBy = time.Time{}
	s.playback.closeAnswers(q.active, s.playback.playing)
	q.closeAll(string(why))
	s.tools.refuseEarly()
	q.create = nil // the next session is asked
	s.playback.closeOpen(true)
	s.settings.takeBack()
	s.transcript.saveChanged() // for the next session
	s.up.gone = true
}

// switchOver lets the next session replace the active one.
func (s *State) switchOver() {
	r, old := &s.renewal, s.up
	if !old.gone {
		s.detach(r.reason)
		old.gone = false // it is hung up below
	}
	s.transcript.saveChanged()
	s.transcript.rebase()
	s.up, r.next = r.next, nil
	s.up.began = s.now
	r.catchUp()
	s.answers.switched()
	s.view.ofSession(&s.up.updated, 0)
	s.settings.switched()
	s.do(Switch{Gen: s.up.gen})
	r.releasing = true
	if !old.gone {
		old.gone = true
		s.do(HangUp{Gen: old.gen, Reason: r.reason})
	}
	before := s.record.Upstream
	s.adopt()
	gap, waited := time.Duration(0), time.Duration(0)
	counter := CountRenewedPlanned
	if !r.lostAt.IsZero() {
		gap, waited = s.now.Sub(r.lostAt), s.now.Sub(r.heldSince)
		counter = CountRenewedLost
	}
	// That a connection is lost shows only seconds later: what was said in them was sent, too.
	renewed := renewedEvent{
		Type: "bridge.upstream.renewed", Reason: r.reason, GapMS: gap.Milliseconds(),
		Images: s.up.can.Images, Duplex: s.up.can.Duplex,
		Unheard: s.answers.questionLost || !s.away && (waited > heldSpeech || r.reason == EndUpstreamLost),
	}
	if s.record.Upstream != before {
		renewed.Upstream, renewed.Voice = s.record.Upstream, s.record.Voice
	}
	s.notify(renewed)
	s.do(Count{What: counter})
	r.attempt, s.answers.questionLost = attempt{}, false
	r.schedule()
	s.flushBacklog()
}

// heldSent takes that a new session has got what the caller had said before: now it can be committed.
func (s *State) heldSent(gen int) {
	if gen == s.up.gen && s.phase == live {
		s.renewal.releasing, s.renewal.heldSince = false, time.Time{}
		s.flushBacklog()
	}
}
