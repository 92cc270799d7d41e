package web

import (
	"testing"

	"voicebridge/chat"
)

func TestConductorIsBusyElsewhere(t *testing.T) {
	t.Parallel()
	st := newStage(t, nil, held("One.", nil), words("Yes."))
	app := st.connect(t, st.key, "")
	turn, err := st.chat.Turn(t.Context(), chat.TurnRequest{Key: st.key, Text: "typed"})
	if err != nil {
		t.Fatal(err)
	}
	for e, err := range turn.Events(within(t), 0) { // until the model is asked
		if err != nil {
			t.Fatal(err)
		}
		if e.Type == chat.EventTextDelta {
			break
		}
	}
	app.say("hi")
	app.want("error agent_busy\nstate idle")
	turn.Interrupt()
	<-turn.Done()
	app.say("hi")
	app.want(answered("hi", "Yes."))
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
	app.want("error call_active") // the turn that runs ends by itself
	close(more)
	app.want("partial \"One. More.\"\n" + ending("One. More."))
	st.conductors.mu.Lock()
	session := st.conductors.sessions[st.key]
	st.conductors.mu.Unlock()
	for st.conductors.untold(session) > 0 && within(t).Err() == nil {
		app.sync() // each round takes a few messages of time
	}
	app.say("two")
	app.want("error call_active\nstate idle")
	if n := len(st.script.requests); n != 1 {
		t.Errorf("the provider got %d requests", n)
	}
	callID, _ := st.calls.Live(st.key.Owner, st.key.Thread)
	wantStatus(t, st.do(t, "POST", callsPath+"/"+callID+"/hangup", ""), 200)
	app.say("three")
	app.want(answered("three", "Yes."))
}

// TestConductorLosesItsAppBeforeTheLastPartial has a turn whose end is known just
// when nothing can be told any more.
func TestConductorLosesItsAppBeforeTheLastPartial(t *testing.T) {
	t.Parallel()
	st := newStage(t, nil, words("Yes."), words("Two."))
	turn, err := st.chat.Turn(t.Context(), chat.TurnRequest{Key: st.key, Text: "hi"})
	if err != nil {
		t.Fatal(err)
	}
	gone := open(t, "ws://"+st.address+"/conductor?session_id="+st.thread(t, LocalOwner).Thread)
	_ = gone.CloseNow()
	first := &app{key: st.key, server: st.Server, socket: &socket{conn: gone, timing: st.socketTiming}}
	told := first.newTurn(turn, "hi")
	told.done = len(told.facts)
	for e, err := range turn.Events(within(t), 0) {
		// What cannot be written now is told to the app that comes back.
		_ = first.apply(t.Context(), told, turnStep{e, err})
	}
	st.conductors.mu.Lock()
	st.conductors.sessions[st.key] = &conductorSession{leftAt: st.clock.now(), turns: []*conductorTurn{told}}
	st.conductors.mu.Unlock()
	second := st.connect(t, st.key, "")
	second.want(`partial "Yes."` + "\n" + ending("Yes."))
	second.say("next")
	second.want(answered("next", "Two."))
}
