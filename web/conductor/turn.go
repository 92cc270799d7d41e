package conductor

import (
	"strings"
	"voicebridge/chat"
)

// turn is a turn as delivered to an app. All but delivered belongs to the connection that delivers
// it; there is one at a time.
type turn struct {
	turn      *chat.Turn
	delivered bool // delivered to its end; guarded by the mutex of sessions

	facts []envelope // that must be delivered, in order
	done  int        // how many of them are delivered
	end   int        // index of the first fact of the end; 0 while the turn runs

	next  int // the index of the next event
	text  strings.Builder
	grown bool                // the text has grown since the last partial
	calls map[string]envelope // that were asked for, by id
}

// newTurn makes a turn with the envelopes that the app receives first.
func newTurn(begun *chat.Turn, first ...envelope) *turn {
	return &turn{turn: begun, facts: first, calls: make(map[string]envelope)}
}

func (t *turn) running() bool { return !t.turn.Ended() }

// again causes the end to be delivered once more, with the same ids.
func (t *turn) again() {
	t.delivered = false
	if t.end > 0 {
		t.done = min(t.done, t.end)
	}
}
