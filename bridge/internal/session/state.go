package session

import (
	"time"

	"voicebridge/persistence"
	"voicebridge/thread"
)

// State is everything that is known about a call, and its rules. Only the call's loop uses it.
type State struct {
	*line
	known      firstUse
	transcript *transcript
	answers    *responses
	playback   *playback
	tools      *tools
	settings   *settings
	limiter    *limiter
	renewal    renewal
	// next is the upstream session that will replace the active one; nil if there is none.
	next *upstream

	reason     EndReason
	endBy      time.Time
	drainBy    time.Time
	browserLeg browserLeg
	pending    int  // changes that wait for the database
	busy       bool // watchers know that a turn is in progress
	backlog    backlog
	delivered  map[string]*message // texts from elsewhere, by message id
	// releasing is set while a new session is sent what the caller had said before it was there. heldSince is since when
	// what the caller says has been held, for this one or the next.
	releasing bool
	heldSince time.Time
	// heldTill is set while the user of push to talk holds the button, and until the upstream has what was said.
	heldTill time.Time
}

// held reports whether the user of push to talk is speaking. A client clears the upstream's buffer when that begins and
// commits it at the end; the upstream says nothing.
func (s *State) held() bool { return s.settings.noReply && s.now.Before(s.heldTill) }

// Ending reports whether the call will end soon, whatever happens.
func (s *State) Ending() bool { return s.phase >= draining }

// Waiting reports whether the call is waiting for its browser to come back.
func (s *State) Waiting() bool { return s.away && s.phase < draining }

// Over reports whether the call has ended: nothing changes it now.
func (s *State) Over() bool { return s.phase == ended }

// Record returns the current record of the call.
func (s *State) Record() persistence.CallRecord { return s.record }

// EndOfThread returns the thread's last messages for a model, and the id of the last of all, which a model may not get;
// both are empty if the thread is.
func (s *State) EndOfThread() (history []thread.Message, last string) {
	return s.transcript.memory.last(), s.transcript.end()
}

// Turns returns the number of the user's turns: utterances and typed texts.
func (s *State) Turns() int64 { return s.record.Turns }

// The events about turns for the thread's watchers.
const (
	TurnStarted  persistence.EventType = "turn_started"
	TurnFinished                       = persistence.EventTurnFinished
	// CallEnded must be published once the thread is free.
	CallEnded = persistence.EventCallEnded
)

// publishTurn tells the thread's watchers when a turn begins and ends.
func (s *State) publishTurn() {
	q := s.answers
	busy := s.phase == live && (q.active != "" || q.create != nil || len(q.needs) > 0 || s.tools.running())
	if busy == s.busy {
		return
	}
	s.busy = busy
	kind := TurnFinished
	if busy {
		kind = TurnStarted
	}
	s.do(Publish{kind, callEvent{CallID: s.CallID}})
}

// browserLeg is the connection of the caller's browser. A call outlives it for a while.
type browserLeg struct {
	gen       int
	connected bool // it has connected at least once
	// by is when a call without its browser ends, for the reason why.
	by  time.Time
	why EndReason
}

// renewal is the replacement of the upstream session of a call that goes on. The new session is
// prepared first; then, at a silence, it replaces the old one.
type renewal struct {
	reason EndReason // EndNone: none is in progress
	// lostAt is when the old session was lost; zero while it is still active.
	lostAt  time.Time
	retryAt time.Time
	tries   int
	losses  []time.Time
	// planAt is when to renew, forceAt when the renewal may interrupt.
	planAt, forceAt time.Time
	gen             int // the newest generation
	// replayed are the messages that the next session knows from its history; open are the tool
	// calls that had no result then.
	replayed map[string]bool
	open     []*toolRun
	// speechLost means that some of what the caller said is lost.
	speechLost bool
}

// session finds the upstream session of that generation; nil if it is neither active nor being prepared.
func (s *State) session(gen int) *upstream {
	switch {
	case gen == s.up.gen:
		return s.up
	case s.next != nil && gen == s.next.gen:
		return s.next
	}
	return nil
}
