package bridge_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"voicebridge/bridge"
	"voicebridge/internal/testkit"
	"voicebridge/persistence"
	"voicebridge/persistence/persistencetest"
	"voicebridge/persistence/records"
	"voicebridge/realtime"
	"voicebridge/realtime/simulator"
	"voicebridge/thread"
)

// TestTextTurnEnds begins a call while a text turn is running. When the turn has ended,
// the model gets its answer once and in the thread's order, and the thread contains it
// once.
func TestTextTurnEnds(t *testing.T) {
	t.Parallel()
	all(t, testTextTurnEnds)
}

func testTextTurnEnds(t *testing.T, p pair) {
	t.Helper()
	b := newBench(t, sqlite(t), benchConfig{over: p})
	row, err := b.store.CreateThread(b.ctx, owner, "")
	must(t, err)
	key := thread.Key{Owner: owner, Thread: row.ID}
	answer := thread.Message{ID: "answer", Role: thread.RoleAssistant, Parts: []thread.Part{thread.TextPart("About")}}
	answer.Metadata.Source, answer.Metadata.Status = thread.SourceText, thread.StatusInProgress
	must(t, b.store.Batch(b.ctx, key, func(w *persistence.Batch) error {
		if err := w.ClaimTurn("turn"); err != nil {
			return err
		}
		if _, err := w.AppendMessage(thread.Message{ID: "question", Role: thread.RoleUser, Parts: []thread.Part{thread.TextPart("How tall is it?")}}); err != nil {
			return err
		}
		_, err := w.AppendMessage(answer)
		return err
	}))
	c := b.dial(bridge.Start{ThreadID: row.ID})
	c.next("bridge.ready")
	answer.Parts[0] = thread.TextPart("About eight metres.")
	answer.Metadata.Status = thread.StatusCompleted
	must(t, b.store.Batch(b.ctx, key, func(w *persistence.Batch) error {
		if _, err := w.UpdateMessage(answer); err != nil {
			return err
		}
		return w.Apply(persistence.PutTurn{ID: "turn"})
	}))
	b.heard(1, "eight metres")
	c.say("What did I say before?")
	c.next(realtime.TypeOutputBufferStopped)
	b.hangUp(c)
	var received []string
	for _, told := range b.told(1) {
		for _, words := range []string{"How tall", "About", "What did I"} {
			if strings.Contains(told, words) {
				received = append(received, words)
			}
		}
	}
	if p.upstream == duplex { // it and its backend are told what is typed
		received = slices.Compact(received)
	}
	testkit.Equal(t, strings.Join(received, ", "), "How tall, About, What did I", "the model received")
	if all := b.messages(key); len(all) < 4 || all[1].ID != "answer" || all[2].Text() != "What did I say before?" {
		t.Errorf("thread:\n%s", b.script(key))
	}
}

// TestEndOfTheLastCall begins a call while the end of the previous one waits for the
// database; it is saved during the new call's set-up. The model gets it, and what is said
// now follows it.
func TestEndOfTheLastCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, testEndOfTheLastCall)
}

func testEndOfTheLastCall(t *testing.T) {
	t.Helper()
	var save func() // the rest of the last call
	b := newBench(t, sqlite(t), benchConfig{simulator: simulator.Config{FaultsFor: func(int) simulator.Faults {
		save()
		return simulator.Faults{}
	}}})
	row, err := b.store.CreateThread(b.ctx, owner, "")
	must(t, err)
	key := thread.Key{Owner: owner, Thread: row.ID}
	call := records.Call{ID: "call-1", Owner: owner, ThreadID: row.ID, StartedAt: time.Now()}
	must(t, b.store.Batch(b.ctx, key, func(w *persistence.Batch) error {
		if err := w.Records.SaveCall(call); err != nil {
			return err
		}
		_, err := w.AppendMessage(callMessage("first", call.ID, "The first words."))
		return err
	}))
	save = func() {
		call.EndedAt, call.EndReason = new(time.Now()), string(bridge.EndHangup)
		if _, err := persistencetest.Apply(b.ctx, b.store, key, []persistence.Change{
			persistence.PutMessage{Message: callMessage("last", call.ID, "The last words."), Place: persistence.Place{How: persistence.PlaceAfter, After: "first"}},
			persistence.PutCall{Call: call},
		}); err != nil {
			t.Errorf("save the end of the last call: %v", err)
		}
	}
	c := b.dial(bridge.Start{ThreadID: row.ID})
	c.next("bridge.ready")
	c.say("The next words.")
	c.next(realtime.TypeResponseDone)
	session, err := b.sim.WaitSession(b.ctx, 1)
	must(t, err)
	b.hangUp(c)
	var received []string
	for _, r := range session.Received() {
		for _, words := range []string{"The first", "The last", "The next"} {
			if strings.Contains(string(r.Event.Raw), words) {
				received = append(received, words)
			}
		}
	}
	testkit.Equal(t, strings.Join(received, ", "), "The first, The last, The next", "the model received")
	if all := b.messages(key); len(all) != 4 || all[1].ID != "last" {
		t.Errorf("thread:\n%s", b.script(key))
	}
}

// callMessage is a message of a call.
func callMessage(id, callID, words string) thread.Message {
	m := thread.Message{ID: id, Role: thread.RoleUser, Parts: []thread.Part{thread.TextPart(words)}}
	m.Metadata.Source, m.Metadata.Status, m.Metadata.CallID = thread.SourceText, thread.StatusCompleted, callID
	return m
}
