package session

import (
	"fmt"
	"time"

	"voicebridge/persistence"
	"voicebridge/toolkit"
	"voicebridge/toolkit/clienttool"
)

// State is everything that is known of a call and decides about it. It has one user
// at a time: the call's loop.
type State struct {
	*core
	known    owners
	script   *transcript
	answers  *responses
	playback *playback
	tools    *tools
	settings *settings
	guard    *guard
	renewal  renewal
	// next is the upstream session that is to take the place of the one that is
	// heard; nil while there is none.
	next *upstream

	reason     EndReason
	endBy      time.Time
	drainBy    time.Time
	browserLeg browserLeg
	delayed    bool // the browser was told that the database is away
	turn       bool // watchers were told of a turn that goes on
	held       held
	delivered  map[string]*message // texts from elsewhere, by the id of their message
}

// New returns the state of a call whose first upstream session is dialled.
func New(cfg Config, record persistence.CallRecord, registry *toolkit.Registry, client *clienttool.Toolkit, now time.Time) *State {
	c := &core{Config: cfg, now: now, record: record}
	c.up = c.newUpstream(1)
	c.up.id = record.UpstreamCallID
	s := &State{delivered: make(map[string]*message), core: c, known: make(owners), browserLeg: browserLeg{gen: 1}}
	script := newTranscript(c)
	s.script = &script
	answers := newResponses(c, s.script)
	s.answers = &answers
	s.playback = &playback{core: c, script: s.script, answers: s.answers, rate: defaultRate}
	s.tools = &tools{core: c, script: s.script, answers: s.answers, registry: registry, client: client, byID: make(map[string]*toolRun)}
	s.guard = newGuard(c)
	s.settings = &settings{core: c, registry: registry, client: client}
	if cfg.MaxDuration > 0 {
		s.endBy = now.Add(cfg.MaxDuration)
	}
	return s
}

// Ending says that the call will end soon, whatever comes.
func (s *State) Ending() bool { return s.phase >= draining }

// Waiting says that the call waits for its browser to come back.
func (s *State) Waiting() bool { return s.away && s.phase < draining }

// Over says that the call has ended: nothing changes it any more.
func (s *State) Over() bool { return s.phase == ended }

// Turns is how often the user has spoken or typed.
func (s *State) Turns() int64 { return s.record.Turns }

// Reduce takes what happened and returns what is to be done. It does neither
// input nor output and knows no other time than now.
func (s *State) Reduce(now time.Time, in Input) []Effect {
	s.now, s.effects = now, nil
	if s.phase == ended {
		return nil
	}
	s.take(in)
	s.onTime()
	if s.phase != ended {
		s.answers.askForAnswer()
		s.tellTurn()
	}
	return s.effects
}

// Abort ends a call whose state is broken, and saves what it can.
func (s *State) Abort(now time.Time) []Effect {
	s.now, s.effects, s.reason = now, nil, EndInternal
	s.finish()
	return s.effects
}

func (s *State) take(in Input) {
	switch in := in.(type) {
	case UpstreamEvent:
		s.upstreamEvent(in.Gen, in.Data)
	case BrowserEvent:
		if in.Gen == s.browserLeg.gen {
			s.browser(in.Data)
		}
	case BrowserTooLarge:
		if in.Gen != s.browserLeg.gen {
			return
		}
		s.refuse("", "event_too_large", fmt.Sprintf("The event of %d bytes is too large and was not read.", in.Size), "")
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
	case ToolProgress:
		s.tools.progressed(in.CallID, in.Chunk)
	case ToolEnd:
		s.tools.ended(in.CallID, in.Result, in.Masked)
	case ApprovalSaved:
		s.tools.approvalSaved(in.Approval)
	case ServerText:
		s.say(in)
	case Written:
		s.written(in.Messages)
	case Interrupt:
		s.interruptTurn(in)
	case FreshStart:
		s.forget()
	case NewTools:
		s.settings.replaceTools(in.Entries)
	case StorageDelayed:
		s.storage(in.Pending)
	case Stop:
		s.end(in.Reason)
	case Tick:
	}
	if s.settings.rejected {
		s.settings.rejected = false
		s.end(EndSessionRejected)
	}
}

// Deadline is when the state wants a Tick; zero is never.
func (s *State) Deadline() time.Time {
	at := until(s.drainBy, s.script.deadline())
	at = until(at, s.answers.deadline())
	at = until(at, s.settings.deadline())
	at = until(at, s.tools.deadline())
	at = until(at, s.playback.guessedEnd())
	at = until(at, s.renewalDeadline())
	if s.phase < draining {
		at = until(at, s.endBy)
		at = until(at, s.browserLeg.by)
		at = until(at, s.guard.idleAt())
	}
	if s.phase < live {
		at = until(at, s.up.by)
	}
	return at
}

func (s *State) onTime() {
	switch {
	case s.phase < live && s.due(s.up.by):
		s.end(EndUpstreamSetup)
	case s.due(s.endBy):
		s.end(EndMaxDuration)
	case s.phase < draining && s.due(s.guard.idleAt()):
		s.idle()
	case s.phase < draining && s.due(s.browserLeg.by):
		s.end(s.browserLeg.why)
	}
	s.script.onTime()
	if s.due(s.answers.activeBy) {
		s.responseLost()
	}
	s.answers.onTime()
	s.playback.onTime()
	s.settings.onTime()
	s.tools.onTime(s.playback.playing == "")
	s.renewOnTime()
	if s.phase == draining && (s.due(s.drainBy) || !s.script.awaitsWords()) {
		s.finish()
	}
}

// idle ends the call, unless something goes on.
func (s *State) idle() {
	if s.answers.active != "" || s.playback.playing != "" || s.tools.running() {
		s.guard.active()
		return
	}
	s.end(EndIdle)
}

// The events that tell the thread's watchers of turns.
const (
	TurnStarted  persistence.EventType = "turn_started"
	TurnFinished persistence.EventType = "turn_finished"
	// CallEnded is to be told when the thread is free.
	CallEnded persistence.EventType = "call_ended"
)

// tellTurn tells the thread's watchers when a turn begins and ends.
func (s *State) tellTurn() {
	q := s.answers
	busy := s.phase == live && (q.active != "" || q.create != nil || len(q.needs) > 0 || s.tools.running())
	if busy == s.turn {
		return
	}
	s.turn = busy
	kind := TurnFinished
	if busy {
		kind = TurnStarted
	}
	s.do(Publish{kind, callEvent{CallID: s.CallID}})
}

// storage tells the browser that what is said waits for the database, or does not any
// more.
func (s *State) storage(pending int) {
	switch {
	case pending > 0:
		s.delayed = true
		s.tell(storageEvent{Type: "bridge.storage.delayed", Pending: pending})
	case s.delayed:
		s.delayed = false
		s.tell(storageEvent{Type: "bridge.storage.recovered"})
	}
}
