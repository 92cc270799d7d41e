package session

import (
	"slices"
	"time"

	"voicebridge/persistence"
	"voicebridge/persistence/records"
	"voicebridge/realtime"
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
	recording  *recording
	speech     speech
	texts      texts
	renewal    renewal
	view       *view

	// overs counts how often the first session was sought elsewhere. complaint is an error that the upstream has sent
	// before it was ready, and of which the browser does not know.
	overs     int
	complaint *realtime.Error

	reason     EndReason
	detail     string // what the upstream said of the end
	endBy      time.Time
	drainBy    time.Time
	browserLeg browserLeg
	pending    int  // changes that wait for the database
	busy       bool // watchers know that a turn is in progress
	sounds     bool // the tone of a tool that takes long
}

// Ending reports whether the call will end soon, whatever happens.
func (s *State) Ending() bool { return s.phase >= draining }

// Waiting reports whether the call is waiting for its browser to come back.
func (s *State) Waiting() bool { return s.away && s.phase < draining }

// Over reports whether the call has ended: nothing changes it now.
func (s *State) Over() bool { return s.phase == ended }

// Record returns the current record of the call.
func (s *State) Record() records.Call { return s.record }

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
	CallEnded                          = persistence.EventCallEnded
)

// publishTurn tells the thread's watchers when an answer is begun and made. The turn is over once it is also heard.
func (s *State) publishTurn() {
	q := s.answers
	busy := s.phase == live && (q.judging || q.active != "" || q.create != nil || len(q.needs) > 0 || s.tools.running())
	if s.phase == ended ||
		!busy && s.playback.playing == "" && !slices.ContainsFunc(q.turn.responses, (*response).awaitsSound) {
		q.turnOver()
	}
	if busy == s.busy {
		return
	}
	s.busy = busy
	kind := TurnFinished
	if busy {
		kind = TurnStarted
	}
	s.do(Tell{Kind: kind, Data: callEvent{CallID: s.CallID}})
}

// browserLeg is the connection of the caller's browser. A call outlives it for a while.
type browserLeg struct {
	gen       int
	connected bool // it has connected at least once
	// by is when a call without its browser ends, for the reason why.
	by  time.Time
	why EndReason
}
