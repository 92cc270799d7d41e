package web

import (
	"testing"

	"voicebridge/chat"
	"voicebridge/internal/testkit"
)

// TestConductorIsBusyElsewhere has another turn on the thread, or as many on others as the owner may have.
func TestConductorIsBusyElsewhere(t *testing.T) {
	t.Parallel()
	for code, turnsPerOwner := range map[string]int{"agent_busy": 0, "too_many_turns": 1} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			st := newStage(t, func(c *chat.Config) { c.TurnsPerOwner = turnsPerOwner }, held("One.", nil), words("Yes."))
			app := st.connect(t, st.key, "")
			key := st.key
			if turnsPerOwner > 0 {
				key = st.thread(t, key.Owner)
			}
			turn, err := st.chat.Turn(t.Context(), chat.TurnRequest{Key: key, Text: "typed"})
			must(t, err)
			for e, err := range turn.Events(within(t), 0) { // until the model has been asked
				must(t, err)
				if e.Type == chat.EventTextDelta {
					break
				}
			}
			app.say("hi")
			app.want("error " + code + "\nstate idle")
			turn.Interrupt()
			testkit.Take(t, "the end of turn", turn.Done())
			app.say("hi")
			app.want(answered("hi", "Yes."))
			wantStatus(t, st.do(t, "DELETE", "/api/threads/"+st.key.Thread, ""), 204)
			st.untilDelivered(t, app)
			app.say("hi")
			app.want("error thread_not_found\nstate idle")
		})
	}
}

// untilDelivered waits until the app has the end of its turn, as the server knows.
func (st *stage) untilDelivered(t *testing.T, app *client) {
	t.Helper()
	for ctx := within(t); ctx.Err() == nil; {
		if _, undelivered := st.conductors.Session(st.key); undelivered == 0 {
			return
		}
		app.sync() // each round takes the time of a few messages
	}
}

func TestConductorGivesWayToACall(t *testing.T) {
	t.Parallel()
	more := make(chan struct{})
	st := newStage(t, nil, held("One.", more), words("Yes."))
	app := st.connect(t, st.key, "")
	app.say("one")
	app.want("state thinking\nappend user \"one\"\npartial \"One.\"")
	wantStatus(t, st.do(t, "POST", callsPath+"?thread_id="+st.key.Thread, sdpOffer, sdpType), 201)
	app.say("two")
	app.want("error call_active") // the running turn ends by itself
	close(more)
	app.want("partial \"One. More.\"\n" + ending("One. More."))
	st.untilDelivered(t, app)
	app.say("two")
	app.want("error call_active\nstate idle")
	testkit.Equal(t, len(st.script.requests), 1, "the provider got requests")
	callID, _ := st.calls.Live(st.key.Owner, st.key.Thread)
	wantStatus(t, st.do(t, "POST", callsPath+"/"+callID+"/hangup", ""), 200)
	app.say("three")
	app.want(answered("three", "Yes."))
}
