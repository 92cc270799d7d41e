package conductor

import (
	"strings"
	"voicebridge/chat"
)

// turn is a turn as delivered to an app. All but told belongs to the connection that delivers it;
// there is one at a time.
type turn struct {
	turn *chat.Turn
	told bool // delivered to its end; guarded by the Conductors

	facts []envelope // that must be delivered, in order
	done  int        // how many of them are delivered
	end   int        // index of the first fact of the end; 0 while the turn runs

	next  int // the index of the next event
	text  strings.Builder
	fresh bool                // the text has grown since the last partial
	calls map[string]envelope // that were asked for, by id
}

// newTurn makes a turn with what the app is told first.
func newTurn(begun *chat.Turn, first ...envelope) *turn {
	return &turn{turn: begun, facts: first, calls: make(map[string]envelope)}
}

func (t *turn) running() bool {
	select {
	case <-t.turn.Done():
		return false
	default:
		return true
	}
}

// again makes the end be delivered once more, with the same ids.
func (t *turn) again() {
	t.told = false
	if t.end > 0 {
		t.done = min(t.done, t.end)
	}
}
