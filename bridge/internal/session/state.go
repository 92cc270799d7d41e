package session

import (
	"cmp"
	"time"

	"voicebridge/persistence"
)

// State is everything that is known of a call and decides about it. It has one user
// at a time: the call's loop.
type State struct {
	*line
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

// Ending says that the call will end soon, whatever comes.
func (s *State) Ending() bool { return s.phase >= draining }

// Waiting says that the call waits for its browser to come back.
func (s *State) Waiting() bool { return s.away && s.phase < draining }

// Over says that the call has ended: nothing changes it now.
func (s *State) Over() bool { return s.phase == ended }

// Record is the record of the call as it is now.
func (s *State) Record() persistence.CallRecord { return s.record }

// EndOfThread are the thread's last messages as a model is told them, and the id of the
// newest, empty where the thread is.
func (s *State) EndOfThread() (history []persistence.Message, last string) {
	return s.script.memory.last(), cmp.Or(s.script.memory.newest(), s.LastMessage)
}

// Turns is how often the user has spoken or typed.
func (s *State) Turns() int64 { return s.record.Turns }

// The events that tell the thread's watchers of turns.
const (
	TurnStarted  persistence.EventType = "turn_started"
	TurnFinished persistence.EventType = "turn_finished"
	// CallEnded is to be told when the thread is free.
	CallEnded persistence.EventType = "call_ended"
)

// publishTurn tells the thread's watchers when a turn begins and ends.
func (s *State) publishTurn() {
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

// browserLeg is the connection of the caller's browser. A call outlives it for a while.
type browserLeg struct {
	gen       int
	connected bool // it has been connected once
	// by is when a call without its browser ends, because of why.
	by  time.Time
	why EndReason
}

// renewal is the replacement of the upstream session of a call that goes on. The new
// session is made ready first; then, at a silence, it takes the old one's place.
type renewal struct {
	reason EndReason // EndNone: none is under way
	// lostAt is when the old session was lost; zero while it is still heard.
	lostAt  time.Time
	retryAt time.Time
	tries   int
	losses  []time.Time
	// planAt is when a renewal is wanted, forceAt when it may interrupt.
	planAt, forceAt time.Time
	gen             int // the newest generation
	// told are the messages that the next session knows from its history; open are the
	// tool calls that had no result then.
	told map[string]bool
	open []*toolRun
	// unheard says that something of what the caller said is lost.
	unheard bool
}

// session finds the upstream session of that generation, nil when it is over.
func (s *State) session(gen int) *upstream {
	switch {
	case gen == s.up.gen:
		return s.up
	case s.next != nil && gen == s.next.gen:
		return s.next
	}
	return nil
}
