package session

import (
	"cmp"
	"fmt"
	"time"

	"voicebridge/persistence/records"
	"voicebridge/toolkit"
)

// New returns the state of a call whose first upstream session is being dialled. server are the server's tools.
func New(cfg Config, record records.Call, server *toolkit.Registry, now time.Time) *State {
	registry := server.Clone() // what runs the tools follows it by ReplaceTools
	cfg.Setup, cfg.FirstWord = cmp.Or(cfg.Setup, 20*time.Second), cmp.Or(cfg.FirstWord, 20*time.Second)
	c := &core{Config: cfg, now: now, record: record, clients: []*told{{welcomed: true}}}
	client := &clientTools{core: c, registry: registry, deny: cfg.Deny}
	l := &line{core: c, up: c.newUpstream(1)}
	l.up.id = record.UpstreamCallID
	t := &transcript{
		line: l, items: make(map[string]*item), next: make(map[string]*item),
		memory: newMemory(l.History, l.ReplayMessages), pace: defaultPace, speed: 1,
	}
	q := &responses{generated: &generated{line: l, transcript: t, byID: make(map[string]*response)}}
	sound := &recording{core: c}
	s := &State{
		line: l, known: make(firstUse), transcript: t, answers: q, browserLeg: browserLeg{gen: 1},
		limiter: newLimiter(c), recording: sound,
		settings: &settings{line: l, client: client},
		playback: &playback{line: l, transcript: t, answers: q, recording: sound},
		tools: &tools{
			line: l, transcript: t, answers: q, registry: registry, client: client, byID: make(map[string]*toolRun),
			handed: make(map[string]int),
		},
	}
	s.speech = speech{
		line: l, transcript: t, answers: q, playback: s.playback, settings: s.settings, limiter: s.limiter,
		recording: sound,
		judge:     &interruption{line: l, transcript: t, answers: q, settings: s.settings, playback: s.playback},
	}
	s.view = &view{line: l, transcript: t, tools: s.tools, client: client}
	s.texts = texts{
		line: l, transcript: t, answers: q, limiter: s.limiter, view: s.view, delivered: make(map[string]*message),
	}
	s.renewal = renewal{line: l, transcript: t, tools: s.tools, settings: s.settings}
	if cfg.MaxDuration > 0 {
		s.endBy = now.Add(cfg.MaxDuration)
	}
	return s
}

// Reduce takes what happened and returns what to do, in a slice that is valid until the next call of Reduce. It does no
// I/O and knows no time but now.
func (s *State) Reduce(now time.Time, in Input) []Effect {
	clear(s.effects) // they may hold large events
	s.now, s.effects = now, s.effects[:0]
	if s.phase == ended {
		return nil
	}
	s.apply(in)
	s.endIfAsked()
	s.onTime()
	s.leave()
	s.noticed()
	if s.phase != ended {
		s.transcript.saveChanged()
		s.answers.askForAnswer()
		s.tone()
		s.publishTurn()
	}
	return s.effects
}

// Abort ends a call whose state is broken, and saves what it can.
func (s *State) Abort(now time.Time) []Effect {
	s.now, s.effects = now, nil
	s.reason = EndInternal
	s.finish()
	return s.effects
}

func (s *State) apply(in Input) {
	switch in := in.(type) {
	case UpstreamEvent:
		s.upstreamEvent(in)
	case BrowserEvent, BrowserTooLarge, SidebandJoined, SidebandGone:
		s.client(in)
	case UpstreamState:
		s.upstreamIs(in.Gen, in.State)
	case UpstreamDialed:
		s.dialed(in)
	case UpstreamDialFailed:
		s.dialFailed(in)
	case BrowserState:
		s.browserIs(in.Gen, in.State)
	case BrowserJoined:
		s.browserJoined(in)
	case BrowserRestarted:
		s.browserRestarted(in.Gen)
	case HeldSent:
		s.heldSent(in.Gen)
	case SoundSent:
		s.answers.soundSent(in.ResponseID, in.At)
	case ToolProgress:
		s.tools.progressed(in.CallID, in.Chunk)
	case ToolEnd:
		s.tools.ended(in)
		s.limiter.active() // its result is to be spoken
	case Transfer:
		s.tools.transfer(in)
	case ApprovalDecided:
		s.tools.approvalDecided(in.Approval)
	case ServerText:
		s.texts.say(in)
	case Written:
		s.written(in)
	case SetRecording:
		s.recording.set(in)
	case RecordingFailed:
		s.recording.failed()
	case Interrupt:
		s.interruptTurn(in)
	case ContextReset:
		s.forget()
	case NewTools:
		s.settings.replaceTools(in.Entries)
	case StorageDelayed:
		s.storage(in.Pending)
	case SessionEnded:
		s.limiter.charge(s.limiter.more(in.Gen, in.CostUSD))
	case OwnerSpent:
		s.limiter.ownerSpent(in)
	case Begun:
		s.configureEarly()
	case Stop:
		s.end(in.Reason)
	case Tick:
	}
}

// endIfAsked ends the call if a part wants that, unless it has not begun and another upstream may take the session.
func (s *State) endIfAsked() {
	why := s.mustEnd
	s.mustEnd = EndNone
	if why != EndNone && (why != EndSessionRejected || !s.startOver(why)) {
		s.end(why)
	}
}

// client takes what comes from the browser and the sidebands.
func (s *State) client(in Input) {
	switch in := in.(type) {
	case BrowserEvent:
		if s.present(in.Side, in.Gen) {
			s.browser(in)
		}
	case BrowserTooLarge:
		if !s.present(in.Side, in.Gen) {
			return
		}
		what := fmt.Sprintf("%d bytes, which is too large", in.Size)
		if in.Values > 0 {
			what = fmt.Sprintf("%d values, which are too many", in.Values)
		}
		s.refuse(asker(in.Side, ""), "event_too_large", "The event has "+what+"; it was not read.", "")
	case SidebandJoined:
		s.sidebandJoined(in.ID)
	case SidebandGone:
		s.sidebandGone(in.ID)
	}
}

// present reports whether an event comes from a connection of the call as it is now.
func (s *State) present(side, gen int) bool {
	if side != 0 {
		return s.joined(side)
	}
	return gen == s.browserLeg.gen
}

// Deadline is when the state needs a Tick; zero means never.
func (s *State) Deadline() time.Time {
	at := until(s.drainBy, s.transcript.deadline())
	at = until(at, s.answers.deadline())
	at = until(at, s.settings.deadline())
	at = until(at, s.speech.judge.deadline())
	at = until(at, s.tools.deadline())
	at = until(at, s.playback.end())
	at = until(at, s.renewal.deadline())
	if s.phase < draining {
		at = until(at, s.endBy)
		at = until(at, s.browserLeg.by)
		at = until(at, s.limiter.idleAt())
		at = until(at, s.limiter.silentBy(s.playback.stoppedAt))
	}
	switch {
	case s.phase < live:
		at = until(at, s.up.by)
	case s.listening():
		at = until(at, s.up.wordBy)
	}
	return at
}

func (s *State) onTime() {
	switch {
	case s.phase < live && s.due(s.up.by):
		if !s.startOver(EndUpstreamSetup) {
			s.end(EndUpstreamSetup)
		}
	case s.due(s.endBy):
		s.end(EndMaxDuration)
	case s.phase < draining && s.due(s.limiter.idleAt()):
		s.idle()
	case s.phase < draining && s.due(s.limiter.silentBy(s.playback.stoppedAt)):
		s.silent()
	case s.phase < draining && s.due(s.browserLeg.by):
		s.end(s.browserLeg.why)
	}
	s.transcript.onTime()
	if s.listening() && s.due(s.up.wordBy) {
		s.lost(EndUpstreamLost)
	}
	if s.due(s.answers.stallsBy()) {
		s.responseLost()
	}
	s.speech.judge.onTime()
	s.answers.onTime()
	s.playback.onTime()
	s.settings.onTime()
	s.tools.onTime(s.playback.lastHeard())
	s.renewOnTime()
	if s.phase == draining && (s.due(s.drainBy) || !s.transcript.awaitsTranscription()) {
		s.finish()
	}
}

// idle ends the call unless something is going on.
func (s *State) idle() {
	if s.answers.active != "" || s.now.Before(s.answers.saidBy) || s.playback.playing != "" || s.tools.running() {
		s.limiter.active()
		return
	}
	s.end(EndIdle)
}

// silent asks the caller, once, whether they are there, and later ends the call, unless something is going on.
func (s *State) silent() {
	l, q := s.limiter, s.answers
	busy := s.saying() || q.busy() || s.tools.running()
	switch {
	case busy && l.askedFrom.IsZero():
		l.active()
	case busy:
		l.askedFrom = l.askedFrom.Add(time.Second) // the question is not over
	case l.askedFrom.IsZero() && l.AskAfter > 0:
		l.askedFrom = s.now.Add(-l.AskAfter)
		if s.listening() && s.up.can.ResponseSettings {
			q.request(creation{filler: true}, says("The caller has said nothing for a while. Ask in one short sentence, in the "+
				"language of the conversation, whether they are still there. Do not say anything else."))
		}
	default:
		s.end(EndNoSpeech)
	}
}

// storage tells the browser when changes begin or cease to wait for the database.
func (s *State) storage(pending int) {
	before := s.pending
	s.pending = pending
	switch {
	case pending > 0:
		s.notify(storageEvent{Type: "bridge.storage.delayed", Pending: pending})
	case before > 0:
		s.notify(storageEvent{Type: "bridge.storage.recovered"})
	}
}
