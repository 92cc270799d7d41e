package persistencetest

import (
	"errors"
	"testing"
	"time"

	"voicebridge/internal/testkit"
	"voicebridge/persistence"
	"voicebridge/persistence/queued"
	"voicebridge/persistence/records"
	"voicebridge/thread"
)

func (s suite) queueClaims(t *testing.T) {
	b := s.setup(t)
	one, two := b.enqueue(t, "one"), b.enqueue(t, "two")
	m, _ := claimQueued(t, b.store, b.key, queued.ClaimOptions{})
	if m.ID != one.ID || m.State != queued.Sending || m.Attempts != 1 {
		t.Fatalf("Claim() = %+v", m)
	}
	// While it is being sent, nothing else is sent and nobody can remove it.
	other := Open(t, b.url, persistence.Options{})
	if next, _ := claimQueued(t, other, b.key, queued.ClaimOptions{}); next.ID != "" {
		t.Errorf("Claim() beside another = %q", next.Text)
	}
	for _, m := range []queued.Message{one, two} {
		wantErr(t, "Claim() by hand beside another", errOf(other.Queued.Claim(t.Context(), b.key, queued.ClaimOptions{ID: m.ID})), persistence.ErrBusy)
	}
	wantErr(t, "Remove() of what is being sent", errOf(b.store.Queued.Remove(t.Context(), b.key, one.ID)), persistence.ErrConflict)
	wantErr(t, "Edit() of what is being sent", errOf(b.store.Queued.Edit(t.Context(), b.key, one.ID, "x")), persistence.ErrConflict)
	if n, err := b.store.Queued.Clear(t.Context(), b.key); n != 1 || err != nil {
		t.Errorf("Clear() = %d, %v", n, err)
	}
	b.wantQueue(t, "one")
	// A batch that fails does not send the message.
	broken := errors.New("broken")
	err := b.store.Batch(t.Context(), b.key, func(w *persistence.Batch) error {
		_, err := w.Queued.Send(m.ID, m.Attempts, false)
		return errors.Join(err, broken)
	})
	wantErr(t, "Batch()", err, broken)
	b.wantQueue(t, "one")
	if !send(t, b.store, b.key, m) {
		t.Fatal("Send() = false")
	}
	b.wantQueue(t, "")
	if held, err := answered(t, b, m); !held || err != nil {
		t.Errorf("Answered() = %v, %v", held, err)
	}
	sent, err := b.store.Queued.Message(t.Context(), b.key, one.ID)
	if err != nil || sent.State != queued.Sent || sent.SentAt == nil {
		t.Errorf("Message() = %+v, %v", sent, err)
	}
	wantErr(t, "Remove() of what was sent", errOf(b.store.Queued.Remove(t.Context(), b.key, one.ID)), persistence.ErrNotFound)
	// The key is still known: the same message is not added twice.
	keyed := b.enqueueAll(t, queued.Message{Text: "keyed", IdempotencyKey: "k"})
	m, _ = claimQueued(t, b.store, b.key, queued.ClaimOptions{})
	send(t, b.store, b.key, m)
	again, added, err := b.store.Queued.Add(t.Context(), b.key, queued.Message{Text: "keyed", IdempotencyKey: "k"}, 0)
	if added || err != nil || again.ID != keyed.ID || again.State != queued.Sent {
		t.Errorf("Add() of a sent key = %+v, %v, %v", again, added, err)
	}
}

// queueSpooled saves a queued message that was said in a call but had to wait for the database, while its row changed.
func (s suite) queueSpooled(t *testing.T) {
	for name, tt := range map[string]struct {
		meanwhile func(t *testing.T, b bundle, m queued.Message)
		want      string // how the row is then, empty if it is gone
		unsent    string // what is in the queue
	}{
		"nothing": {want: "sent", meanwhile: func(*testing.T, bundle, queued.Message) {}},
		"claimed again": {want: "sent", meanwhile: func(t *testing.T, b bundle, m queued.Message) {
			t.Helper()
			if again, _ := claimQueued(t, b.store, b.key, queued.ClaimOptions{}); again.ID != m.ID {
				t.Errorf("Claim() = %+v", again)
			}
		}},
		"removed": {meanwhile: func(t *testing.T, b bundle, m queued.Message) {
			t.Helper()
			must(t, errOf(b.store.Queued.Remove(t.Context(), b.key, m.ID)))
		}},
		"edited": {want: "queued", unsent: "said, no, not said", meanwhile: func(t *testing.T, b bundle, m queued.Message) {
			t.Helper()
			must(t, errOf(b.store.Queued.Edit(t.Context(), b.key, m.ID, "said, no, not said")))
		}},
		"being answered": {want: "answering", meanwhile: func(t *testing.T, b bundle, m queued.Message) {
			t.Helper()
			again, _ := claimQueued(t, b.store, b.key, queued.ClaimOptions{})
			must(t, b.store.Batch(t.Context(), b.key, func(w *persistence.Batch) error {
				sent := text(thread.RoleUser, m.Text)
				sent.ID = m.MessageID
				_, err := w.AppendMessage(sent)
				return errors.Join(err, errOf(w.Queued.Send(again.ID, again.Attempts, true)))
			}))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := s.setup(t)
			b.enqueue(t, "said")
			m, _ := claimQueued(t, b.store, b.key, queued.ClaimOptions{})
			if back, err := b.store.Queued.Requeue(t.Context(), b.key, m.ID, m.Attempts, queued.Requeue{Error: "It took too long."}); !back || err != nil {
				t.Errorf("Requeue() = %v, %v", back, err)
			}
			tt.meanwhile(t, b, m)
			put := putText(m.MessageID, m.Text, last)
			put.Queued = m.ID
			for range 2 { // the second time changes nothing
				applied, err := Apply(t.Context(), b.store, b.key, throughJSON(t, put))
				if err != nil || len(applied.Lost) != 0 {
					t.Fatalf("Apply() = %+v, %v", applied, err)
				}
				testkit.Equal(t, words(b.all(t)), "said", "the thread")
				rows := []string{}
				if tt.want != "" {
					rows = append(rows, tt.want)
				}
				wantRows(t, b.url, "SELECT state FROM queued_messages", rows...)
				b.wantQueue(t, tt.unsent)
			}
		})
	}
}

// queueLost gives up a claim, and puts messages back.
func (s suite) queueLost(t *testing.T) {
	b := s.setup(t)
	b.enqueueAll(t, queued.Message{Text: "timed", ScheduledAt: new(time.Now().Add(-time.Minute))})
	lost, _ := claimQueued(t, b.store, b.key, queued.ClaimOptions{})
	b.enqueue(t, "later")
	b.wantQueue(t, "timed later") // the one already begun is at the head
	m, _ := claimQueued(t, b.store, b.key, queued.ClaimOptions{})
	if m.ID != lost.ID || m.Attempts != 2 {
		t.Fatalf("Claim() of what this process has given up = %+v", m)
	}
	if send(t, b.store, b.key, lost) {
		t.Error("Send() of a lost claim = true")
	}
	if back, err := b.store.Queued.Requeue(t.Context(), b.key, lost.ID, lost.Attempts, queued.Requeue{}); back || err != nil {
		t.Errorf("Requeue() of a lost claim = %v, %v", back, err)
	}
	requeue := func(m queued.Message, r queued.Requeue) {
		t.Helper()
		if back, err := b.store.Queued.Requeue(t.Context(), b.key, m.ID, m.Attempts, r); !back || err != nil {
			t.Fatalf("Requeue() = %v, %v", back, err)
		}
	}
	requeue(m, queued.Requeue{}) // no attempt was made
	m, _ = claimQueued(t, b.store, b.key, queued.ClaimOptions{})
	testkit.Equal(t, m.Attempts, 2, "Claim() = attempt")
	// Sent but not answered: it waits, and so do all messages behind it.
	if !send(t, b.store, b.key, m) {
		t.Fatal("Send() = false")
	}
	if back, err := b.store.Queued.Requeue(t.Context(), b.key, m.ID, m.Attempts, queued.Requeue{}); back || err != nil {
		t.Errorf("Requeue() of what was sent = %v, %v", back, err)
	}
	until := time.Now().Add(time.Hour).UTC().Truncate(time.Microsecond)
	must(t, b.store.Batch(t.Context(), b.key, func(w *persistence.Batch) error {
		return errOf(w.Queued.Requeue(m.ID, m.Attempts, queued.Requeue{Error: "overloaded", NotBefore: until}))
	}))
	none, c := claimQueued(t, b.store, b.key, queued.ClaimOptions{})
	if none.ID != "" || !c.Wait.Equal(until) {
		t.Errorf("Claim() = %q, wait until %v, want %v", none.Text, c.Wait, until)
	}
	got, err := b.store.Queued.Message(t.Context(), b.key, m.ID)
	if err != nil || got.Error != "overloaded" || got.SentAt == nil || got.State != queued.Waiting {
		t.Errorf("Message() = %+v, %v", got, err)
	}
	// When sent by hand it goes at once; with an edited text it is a new message.
	edited, err := b.store.Queued.Edit(t.Context(), b.key, m.ID, "timed, better")
	if err != nil || edited.MessageID == m.MessageID || edited.SentAt != nil || edited.NotBefore != nil || edited.Error != "" {
		t.Errorf("Edit() = %+v, %v", edited, err)
	}
	m, _ = claimQueued(t, b.store, b.key, queued.ClaimOptions{ID: m.ID})
	if m.Text != "timed, better" || !send(t, b.store, b.key, m) {
		t.Errorf("Claim() by hand = %+v", m)
	}
	b.wantQueue(t, "later")
	if got, want := words(b.all(t)), "timed timed, better"; got != want {
		t.Errorf("the thread is %q, want %q", got, want)
	}
}

// queueAndTurns claims while turns and calls are running.
func (s suite) queueAndTurns(t *testing.T) {
	b := s.setup(t)
	began := time.Now()
	m := b.enqueue(t, "one")
	must(t, claim(t, b.store, b.key, "turn"))
	none, _ := claimQueued(t, b.store, b.key, queued.ClaimOptions{})
	_, err := b.store.Queued.Claim(t.Context(), b.key, queued.ClaimOptions{ID: m.ID})
	if wantErr(t, "Claim() by hand beside a turn", err, persistence.ErrBusy); none.ID != "" {
		t.Error("Claim() beside a turn gave a message")
	}
	must(t, b.store.Batch(t.Context(), b.key, func(w *persistence.Batch) error { return w.Apply(persistence.PutTurn{ID: "turn"}) }))
	none, c := claimQueued(t, b.store, b.key, queued.ClaimOptions{Distance: time.Hour, Since: began})
	if none.ID != "" || c.Wait.Before(began.Add(time.Hour-time.Minute)) {
		t.Errorf("Claim() within the pause = %q, wait until %v", none.Text, c.Wait)
	}
	// The pause does not count for a message that was just started by hand.
	got, _ := claimQueued(t, b.store, b.key, queued.ClaimOptions{Distance: time.Hour, Since: time.Now().Add(time.Minute)})
	if got.ID != m.ID {
		t.Errorf("Claim() after a start = %q", got.Text)
	}
	requeue := func() {
		t.Helper()
		if back, err := b.store.Queued.Requeue(t.Context(), b.key, got.ID, got.Attempts, queued.Requeue{}); !back || err != nil {
			t.Fatalf("Requeue() = %v, %v", back, err)
		}
	}
	requeue()
	b.answering(t, m)
	got, _ = claimQueued(t, b.store, b.key, queued.ClaimOptions{})
	requeue()
}

// queueAndCalls claims beside a live call: the call belongs to one process, and only that
// process speaks into it.
func (s suite) queueAndCalls(t *testing.T) {
	b := s.setup(t)
	// The first one is already in the thread; its answer failed.
	one := b.enqueue(t, "one")
	b.answering(t, one)
	two := b.enqueue(t, "two")
	got, _ := claimQueued(t, b.store, b.key, queued.ClaimOptions{})
	if back, err := b.store.Queued.Requeue(t.Context(), b.key, got.ID, got.Attempts, queued.Requeue{Error: "no"}); !back || err != nil {
		t.Fatalf("Requeue() = %v, %v", back, err)
	}
	must(t, b.store.Records.SaveCall(t.Context(), b.key, records.Call{ID: "call", StartedAt: start}))
	other := Open(t, b.url, persistence.Options{})
	if none, _ := claimQueued(t, other, b.key, queued.ClaimOptions{}); none.ID != "" {
		t.Error("Claim() gave a message for the call of another process")
	}
	if keys, err := other.Queued.Due(t.Context(), 10); len(keys) != 0 || err != nil {
		t.Errorf("Due() = %v, %v", keys, err)
	}
	// A turn comes first, even when a call has begun meanwhile.
	must(t, claim(t, b.store, b.key, "turn"))
	if none, _ := claimQueued(t, b.store, b.key, queued.ClaimOptions{Call: "call"}); none.ID != "" {
		t.Errorf("Claim() in a call and beside a turn = %q", none.Text)
	}
	must(t, b.store.Batch(t.Context(), b.key, func(w *persistence.Batch) error { return w.Apply(persistence.PutTurn{ID: "turn"}) }))
	// Nothing is said twice: the first waits for its answer until the call has ended.
	wantErr(t, "Claim() by hand of what was said", errOf(b.store.Queued.Claim(t.Context(), b.key, queued.ClaimOptions{Call: "call", ID: one.ID})), persistence.ErrBusy)
	got, c := claimQueued(t, b.store, b.key, queued.ClaimOptions{Call: "call", Distance: time.Hour})
	if got.ID != two.ID || !c.InCall || !send(t, b.store, b.key, got) {
		t.Errorf("Claim() in a call = %q, %+v", got.Text, c)
	}
	if none, _ := claimQueued(t, b.store, b.key, queued.ClaimOptions{Call: "call"}); none.ID != "" {
		t.Errorf("Claim() in a call = %q", none.Text)
	}
	// A call of this process that the process does not know is over.
	if got, c = claimQueued(t, b.store, b.key, queued.ClaimOptions{}); got.ID != one.ID || c.InCall {
		t.Errorf("Claim() after the call = %q, %+v", got.Text, c)
	}
}

// answering begins a turn that answers a message, and ends it without an outcome, as when
// its process dies.
func (b bundle) answering(t *testing.T, want queued.Message) {
	t.Helper()
	m, _ := claimQueued(t, b.store, b.key, queued.ClaimOptions{})
	err := b.store.Batch(t.Context(), b.key, func(w *persistence.Batch) error {
		err := w.ClaimTurn("answer")
		_, sendErr := w.Queued.Send(m.ID, m.Attempts, true)
		return errors.Join(err, sendErr)
	})
	if m.ID != want.ID || err != nil {
		t.Fatalf("%q is being answered, %v", m.Text, err)
	}
	b.wantQueue(t, "")
	if n, err := b.store.Queued.Length(t.Context(), b.key); n != 0 || err != nil {
		t.Errorf("Length() = %d, %v", n, err)
	}
	if some, err := b.store.Queued.Unsent(t.Context(), b.key); !some || err != nil {
		t.Errorf("Unsent() = %v, %v", some, err)
	}
	wantErr(t, "Remove() of what is answered", errOf(b.store.Queued.Remove(t.Context(), b.key, m.ID)), persistence.ErrNotFound)
	if none, _ := claimQueued(t, b.store, b.key, queued.ClaimOptions{}); none.ID != "" {
		t.Errorf("Claim() while it is answered = %q", none.Text)
	}
	end := func(id string) {
		t.Helper()
		must(t, b.store.Batch(t.Context(), b.key, func(w *persistence.Batch) error { return w.Apply(persistence.PutTurn{ID: id}) }))
	}
	end("answer")
	if keys, err := b.store.Queued.Due(t.Context(), 10); len(keys) != 1 || err != nil {
		t.Errorf("Due() = %v, %v", keys, err)
	}
	again, _ := claimQueued(t, b.store, b.key, queued.ClaimOptions{})
	if again.ID != m.ID || again.SentAt == nil || again.Attempts != m.Attempts+1 {
		t.Errorf("Claim() when its turn is gone = %+v", again)
	}
	var held, late bool
	err = b.store.Batch(t.Context(), b.key, func(w *persistence.Batch) (err error) {
		late, err = w.Queued.Answered(m.ID, m.Attempts)
		if err == nil {
			held, err = w.Queued.Requeue(again.ID, again.Attempts, queued.Requeue{})
		}
		return err
	})
	if late || !held || err != nil {
		t.Errorf("Answered() of the lost turn = %v; Requeue() = %v, %v", late, held, err)
	}
}

// answersOfTheDead: a message whose answer was in the spool of a process that died is not answered again.
func (s suite) answersOfTheDead(t *testing.T) {
	b := s.setup(t)
	dead := Open(t, b.url, persistence.Options{Instance: "dead"})
	b.enqueue(t, "one")
	m, _ := claimQueued(t, dead, b.key, queued.ClaimOptions{})
	must(t, dead.Batch(t.Context(), b.key, func(w *persistence.Batch) error {
		err := w.ClaimTurn("answer")
		_, sendErr := w.Queued.Send(m.ID, m.Attempts, true)
		return errors.Join(err, sendErr)
	}))
	end := []persistence.Change{
		persistence.PutMessage{Message: putText("said", "two", last).Message, Turn: "answer"},
		persistence.PutTurn{ID: "answer", Queued: &queued.Answer{Claimed: queued.Claimed{ID: m.ID, Attempt: m.Attempts}}},
	}
	for range 2 {
		must(t, errOf(b.store.ApplyAll(t.Context(), []persistence.ThreadChanges{{Key: b.key, Changes: end, Instance: "dead"}})))
		wantRows(t, b.url, "SELECT state FROM queued_messages", "sent")
	}
	if again, _ := claimQueued(t, b.store, b.key, queued.ClaimOptions{}); again.ID != "" {
		t.Errorf("Claim() of what was answered = %q", again.Text)
	}
}

func (s suite) queuePauses(t *testing.T) {
	b := s.setup(t)
	m := b.enqueue(t, "one")
	got, _ := claimQueued(t, b.store, b.key, queued.ClaimOptions{})
	pause := queued.Pause{Reason: "quota", Message: "No money \x00left."}
	later := queued.Requeue{Error: "no money", NotBefore: time.Now().Add(time.Hour), Pause: &pause}
	back, err := b.store.Queued.Requeue(t.Context(), b.key, m.ID, got.Attempts, later)
	if !back || err != nil {
		t.Fatalf("Requeue() = %v, %v", back, err)
	}
	list, p, err := b.store.Queued.List(t.Context(), b.key)
	if err != nil || len(list) != 1 || p == nil || p.Reason != "quota" || p.Message != "No money left." || p.At.IsZero() {
		t.Fatalf("Queue() = %+v, %+v, %v", list, p, err)
	}
	if none, _ := claimQueued(t, b.store, b.key, queued.ClaimOptions{}); none.ID != "" {
		t.Error("Claim() of a paused queue gave a message")
	}
	if keys, err := b.store.Queued.Due(t.Context(), 10); len(keys) != 0 || err != nil {
		t.Errorf("Due() = %v, %v", keys, err)
	}
	must(t, b.store.Queued.Pause(t.Context(), b.key, queued.Pause{Reason: "auth", Message: "The key is wrong."}))
	for _, want := range []bool{true, false} {
		if paused, err := b.store.Queued.Resume(t.Context(), b.key); paused != want || err != nil {
			t.Errorf("Resume() = %v, %v, want %v", paused, err, want)
		}
		if keys, err := b.store.Queued.Due(t.Context(), 10); len(keys) != 1 || err != nil {
			t.Errorf("Due() of a resumed queue = %v, %v", keys, err)
		}
	}
	if got, _ := claimQueued(t, b.store, b.key, queued.ClaimOptions{}); got.ID != m.ID || got.Attempts != 2 {
		t.Errorf("Claim() = %+v", got)
	}
}
