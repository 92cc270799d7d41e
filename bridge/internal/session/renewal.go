package session

import (
	"log/slog"
	"slices"
	"strings"
	"time"

	"voicebridge/realtime"
	"voicebridge/thread"
)

// Times and limits of a renewal.
const (
	// firstRetry and lastRetry bound the wait before a retry.
	firstRetry, lastRetry = 250 * time.Millisecond, 4 * time.Second
	// plannedRetry is the wait after a failed planned renewal.
	plannedRetry = 30 * time.Second
	// maxAsked is the longest wait that an upstream may ask for before a planned renewal is tried again.
	maxAsked = 2 * time.Minute
	// giveUpAfter is how long to try to replace a lost session.
	giveUpAfter = 30 * time.Second
	// maxLosses is how many losses within lossWindow a call survives. The end of a session by its time limit is none,
	// unless it came within renewalPause.
	maxLosses  = 6
	lossWindow = 10 * time.Minute
	// heldSpeech is how much of what the caller says without a session is kept for the next one.
	heldSpeech = 5 * time.Second
)

func (s *State) renewalDeadline() time.Time {
	r := &s.renewal
	if s.phase != live {
		return time.Time{}
	}
	switch {
	case s.next != nil:
		at := s.next.by
		if s.next.stage == ready {
			at = r.forceAt
		}
		return at
	case !r.retryAt.IsZero() && !s.due(r.retryAt):
		return r.retryAt
	case s.due(r.planAt):
		return r.forceAt // or sooner, when an input leaves the call quiet
	default:
		return r.planAt
	}
}

// quiet reports whether nothing would be lost if the upstream were replaced now.
func (s *State) quiet() bool {
	return s.listening() && !s.speaking() && !s.answers.busy() && len(s.answers.needs) == 0 && s.playback.playing == "" &&
		!s.tools.running() && s.settings.inFlight == nil
}

// speaking reports whether the caller is speaking, hands-free or in push to talk, or has words that are not transcribed
// yet: only the present upstream session has heard them.
func (s *State) speaking() bool {
	return s.held() || !s.answers.speechTill.IsZero() || s.transcript.awaitsTranscription()
}

// renewOnTime carries out the steps of a renewal that are due.
func (s *State) renewOnTime() {
	r := &s.renewal
	if s.phase != live {
		return
	}
	forced := s.due(r.forceAt)
	switch {
	case s.next != nil && s.next.stage == ready:
		if s.up.gone || forced || s.quiet() {
			s.switchOver()
		}
	case s.next != nil:
		if s.due(s.next.by) {
			s.tryFailed("not ready in time", 0)
		}
	case s.due(r.retryAt) && (s.up.gone || forced || s.quiet()):
		r.retryAt = time.Time{}
		s.dial()
	case r.reason == EndNone && s.due(r.planAt) && (forced || s.quiet()):
		s.renew(RenewPlanned)
	}
}

// renew begins a renewal.
func (s *State) renew(reason EndReason) {
	s.renewal.reason = reason
	s.notify(renewingEvent{Type: "bridge.upstream.renewing", Reason: reason})
	s.dial()
}

// dial makes the next upstream session.
func (s *State) dial() {
	s.renewal.gen = max(s.renewal.gen, s.up.gen) + 1
	u := s.newUpstream(s.renewal.gen)
	s.next = u
	history := s.transcript.memory.settled()
	s.renewal.replayed = make(map[string]bool)
	for _, m := range history {
		s.renewal.replayed[m.ID] = true
	}
	s.renewal.open = s.tools.unfinished()
	s.do(Dial{Gen: u.gen, History: history})
}

// dialed takes the success of a dial.
func (s *State) dialed(in UpstreamDialed) {
	if s.next == nil || in.Gen != s.next.gen {
		return // it is no longer wanted, and was hung up
	}
	s.next.id, s.next.limit = in.ID, in.Limit
}

func (s *State) dialFailed(in UpstreamDialFailed) {
	if s.next == nil || in.Gen != s.next.gen {
		return
	}
	s.log(slog.LevelWarn, "next upstream session not created", "error", in.Err, "fatal", in.Fatal)
	if in.Fatal && s.up.gone {
		s.giveUp(EndUpstreamRefused)
		return
	}
	s.tryFailed("dial failed", in.RetryAfter)
}

// nextEvent takes an event of the session that is being prepared. The browser sees nothing of it.
func (s *State) nextEvent(ev realtime.Event) {
	u := s.next
	switch ev.Type {
	case realtime.TypeSessionCreated:
		if u.stage != dialing {
			return
		}
		u.stage = configuring
		s.plan(u, ev)
		s.do(Replay{u.gen})
		s.settings.configureNext(u)
	case realtime.TypeSessionUpdated:
		u.updated = ev
		if u.stage == configuring {
			u.stage = ready // renewOnTime follows
		}
	case realtime.TypeItemAdded, realtime.TypeItemCreatedBeta:
		if raw, err := realtime.DecodeItem(ev.Item); err == nil && u.isSeed(raw.ID) {
			s.transcript.items[raw.ID] = &item{id: raw.ID, gen: u.gen, seeded: true, raw: raw}
		}
	case realtime.TypeError:
		s.nextError(ev.Error)
	}
}

func (s *State) nextError(e *realtime.Error) {
	switch {
	case e == nil:
	case e.Fatal() && s.up.gone:
		s.sendError(*e)
		s.giveUp(EndUpstreamRefused)
	case e.Fatal(), e.Code == codeSessionExpired, e.EventID == s.next.updateID, e.EventID == "" && strings.HasPrefix(e.Param, "session"):
		s.log(slog.LevelWarn, "next session refused by the upstream", "code", e.Code, "param", e.Param, "error", e.Message)
		s.tryFailed(e.Code, 0)
	default:
		s.log(slog.LevelWarn, "replayed item refused by the upstream", "code", e.Code, "param", e.Param, "error", e.Message)
	}
}

// upstreamIs takes the state of an upstream connection.
func (s *State) upstreamIs(gen int, state Connection) {
	u := s.session(gen)
	if u == nil || u.gone || state != Closed && state != Failed {
		return
	}
	switch {
	case u == s.next:
		s.tryFailed("connection lost", 0)
	case state == Closed:
		s.lost(EndUpstreamEndedIt)
	default:
		s.lost(EndUpstreamLost)
	}
}

// lost handles the loss of the active session. A call that was ready goes on with another one.
func (s *State) lost(reason EndReason) {
	r := &s.renewal
	for len(r.losses) > 0 && s.now.Sub(r.losses[0]) > lossWindow {
		r.losses = r.losses[1:]
	}
	if reason != EndSessionExpired || s.now.Sub(s.up.began) < renewalPause {
		r.losses = append(r.losses, s.now)
	}
	if s.phase != live || len(r.losses) > maxLosses {
		s.giveUp(reason)
		return
	}
	s.detach(EndUpstreamLost)
	r.lostAt = s.now
	if s.heldSince.IsZero() {
		s.heldSince = s.now
	}
	s.do(HangUp{Gen: s.up.gen, Reason: reason, Hold: true})
	switch {
	case s.next != nil:
		r.reason = reason // it takes over as soon as it can
		s.notify(renewingEvent{Type: "bridge.upstream.renewing", Reason: reason})
	case len(r.losses) > 1:
		r.reason, r.tries = reason, len(r.losses)-1
		s.notify(renewingEvent{Type: "bridge.upstream.renewing", Reason: reason})
		s.retryLater(0)
	default:
		r.tries = 0
		s.renew(reason)
	}
}

// tryFailed handles a failed attempt at a renewal; asked is how long the upstream asks to wait.
func (s *State) tryFailed(why string, asked time.Duration) {
	r := &s.renewal
	s.giveUpNext()
	s.do(Count{CountRenewalFailed})
	r.tries++
	s.log(slog.LevelWarn, "renewal failed", "reason", r.reason, "try", r.tries, "why", why)
	if s.up.gone && s.now.Sub(r.lostAt) >= giveUpAfter {
		s.giveUp(r.reason)
		return
	}
	s.retryLater(asked)
}

// retryLater plans the next attempt. A call without an upstream does not wait longer than until it
// would give up.
func (s *State) retryLater(asked time.Duration) {
	r := &s.renewal
	wait, most := plannedRetry, maxAsked
	if s.up.gone {
		wait, most = min(firstRetry<<min(r.tries, 8), lastRetry), r.lostAt.Add(giveUpAfter).Sub(s.now)
	}
	r.retryAt = s.now.Add(max(wait, min(asked, most)))
}

// detach closes what depends on the active session, which is lost or is being replaced, perhaps in the middle of
// something. An answer that is cut off by this is asked for again.
func (s *State) detach(why EndReason) {
	q := s.answers
	s.renewal.speechLost = s.speaking()
	if !q.replyTill.IsZero() {
		s.retryAnswer() // an utterance that nobody has begun to answer
	}
	s.closeAnswers(q.active, s.playback.playing)
	q.closeAll(string(why))
	q.create = nil // the next session is asked
	s.closeOpen(true)
	s.settings.takeBack()
	s.up.gone = true
}

// retryAnswer asks the next session for an answer, if it knows the question.
func (s *State) retryAnswer() {
	n := need{id: againID}
	if !s.renewal.speechLost && !slices.ContainsFunc(s.answers.needs, func(o need) bool { return o.id == n.id }) {
		s.answers.need(n)
	}
}

// closeAnswers closes the answers that are being made and played, and those between them that wait to be played.
func (s *State) closeAnswers(making, playing string) {
	s.closeAnswer(making, true)
	if playing != making {
		s.closeAnswer(playing, false)
	}
	for _, r := range s.playback.queued() {
		if s.playback.cutOffQueued(r) && r.tools == 0 {
			s.retryAnswer()
		}
	}
	s.playback.reset()
}

// closeAnswer closes an answer that is being made or, if making is false, only played. It is asked for again unless it
// was complete or called tools.
func (s *State) closeAnswer(id string, making bool) {
	r := s.answers.byID[id]
	if r == nil {
		return
	}
	incomplete := s.playback.cutOff(id)
	if !making && !incomplete || r.tools > 0 {
		return // the outputs of its tools are answered
	}
	s.retryAnswer()
}

// switchOver lets the next session replace the active one.
func (s *State) switchOver() {
	r, old := &s.renewal, s.up
	if !old.gone {
		s.detach(r.reason)
		old.gone = false // it is hung up below
	}
	s.transcript.rebase()
	s.up, s.next = s.next, nil
	s.up.began = s.now
	s.catchUp()
	s.answers.switched()
	s.settings.switched()
	s.do(Switch{s.up.gen})
	s.releasing = true
	if !old.gone {
		old.gone = true
		s.do(HangUp{Gen: old.gen, Reason: r.reason})
	}
	s.record.UpstreamCallID = s.up.id
	s.saveCall()
	gap, held, counter := time.Duration(0), time.Duration(0), CountRenewedPlanned
	if !r.lostAt.IsZero() {
		gap, held, counter = s.now.Sub(r.lostAt), s.now.Sub(s.heldSince), CountRenewedLost
	}
	// That a connection is lost shows only seconds later: what was said in them was sent, too.
	s.notify(renewedEvent{Type: "bridge.upstream.renewed", Reason: r.reason, GapMS: gap.Milliseconds(), Unheard: r.speechLost || !s.away && (held > heldSpeech || r.reason == EndUpstreamLost)})
	s.do(Count{counter})
	*r = renewal{losses: r.losses, gen: r.gen}
	s.schedule()
	s.flushBacklog()
}

// heldSent takes that a new session has got what the caller had said before: now it can be committed.
func (s *State) heldSent(gen int) {
	if gen == s.up.gen {
		s.releasing, s.heldSince = false, time.Time{}
		s.flushBacklog()
	}
}

// catchUp sends the new session what was said after its history was read.
func (s *State) catchUp() {
	if missing := s.transcript.memory.missing(s.renewal.replayed); len(missing) > 0 {
		s.do(Append{Gen: s.up.gen, Messages: missing})
	}
	for _, run := range s.renewal.open {
		if !run.Done() {
			continue
		}
		s.tools.showImages(run) // unless the old session has been shown them
		if s.renewal.replayed[run.message.id] {
			s.tools.sendOutput(run, s.nextItemID())
		}
	}
	s.transcript.messages = openOnly(s.transcript.messages)
}

// openOnly drops the messages that can no longer change.
func openOnly(messages []*message) []*message {
	var kept []*message
	for _, m := range messages {
		if m.open() || !m.flushAt.IsZero() || m.role == thread.RoleAssistant && len(m.tools) > 0 {
			kept = append(kept, m)
		}
	}
	return kept
}
