package session

import (
	"slices"
	"time"

	"voicebridge/persistence"
	"voicebridge/persistence/records"
	"voicebridge/thread"
)

// Turn is an input of the user, or what began a call, with all that was made to answer it.
type Turn struct {
	// Responses have ended, in the order in which they began; Tools have, too, and are without arguments and results.
	Responses []records.Response
	Tools     []thread.ToolCall
	// Charges are what else was paid: transcriptions, and the length of sessions.
	Charges []records.Response
	// Asked is when the user's part ended, zero if there is none; Latency has the stages since then, in milliseconds.
	Asked   time.Time
	Latency map[string]int64
}

// turn is the present one, as far as it is made.
type turn struct {
	responses []*response
	tools     []thread.ToolCall
	charges   []records.Response
	asked     time.Time
}

// awaitsSound reports whether the caller has not heard anything yet of a response that will be spoken.
func (r *response) awaitsSound() bool {
	return r.heard.IsZero() && slices.ContainsFunc(r.messages, func(m *message) bool {
		return !m.silent && m.text() != "" && m.meta.Status == thread.StatusCompleted
	})
}

// turnOver reports the turn, if anything was made in it. What is still being made is of the next one.
func (q *responses) turnOver() {
	over, rest := Turn{Tools: q.turn.tools, Charges: q.turn.charges, Asked: q.turn.asked}, turn{}
	for _, r := range q.turn.responses {
		if !r.done {
			rest.responses, rest.asked = append(rest.responses, r), r.asked
			continue
		}
		over.Responses = append(over.Responses, r.record)
		if len(r.latency) > len(over.Latency) { // one that goes on from another has the stages of both
			over.Latency = r.latency
		}
	}
	if len(over.Responses)+len(over.Tools)+len(over.Charges) > 0 {
		q.do(TurnOver{over})
	}
	q.turn = rest
}

// joinTurn makes a response part of the turn, or the first of the next one if it answers something else.
func (q *responses) joinTurn(r *response) {
	if !r.asked.IsZero() && !r.asked.Equal(q.turn.asked) {
		q.turnOver()
		q.turn.asked = r.asked
	}
	if !r.free {
		q.turn.responses = append(q.turn.responses, r)
	}
}

// The events about turns for the thread's watchers.
const (
	TurnStarted  persistence.EventType = "turn_started"
	TurnFinished                       = persistence.EventTurnFinished
	CallEnded                          = persistence.EventCallEnded
)

// publishTurn tells the thread's watchers when an answer is begun and made. The turn is over once it is also heard.
func (s *State) publishTurn() {
	q := s.answers
	busy := s.phase == live && (q.active != "" || q.create != nil || len(q.needs) > 0 || s.tools.running())
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
	s.do(Tell{kind, callEvent{CallID: s.CallID}})
}
