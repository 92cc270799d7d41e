package persistencetest

import (
	"errors"
	"testing"
	"time"

	"voicebridge/persistence"
	"voicebridge/thread"
)

func (s suite) queueClaims(t *testing.T) {
	b := s.setup(t)
	one, two := b.enqueue(t, "one"), b.enqueue(t, "two")
	m, _ := claimQueued(t, b.store, b.key, persistence.ClaimOptions{})
	if m.ID != one.ID || m.State != persistence.QueueSending || m.Attempts != 1 {
		t.Fatalf("ClaimQueued() = %+v", m)
	}
	// While it is being sent, nothing else is sent and nobody can remove it.
	other := Open(t, b.url, persistence.Options{})
	for _, store := range []*persistence.Store{b.store, other} {
		if next, _ := claimQueued(t, store, b.key, persistence.ClaimOptions{}); next.ID != "" {
			t.Errorf("ClaimQueued() beside another = %q", next.Text)
		}
		wantErr(t, "ClaimQueued() by hand beside another", errOf(store.ClaimQueued(t.Context(), b.key, persistence.ClaimOptions{Lease: time.Hour, ID: two.ID})), persistence.ErrBusy)
	}
	wantErr(t, "Unqueue() of what is being sent", errOf(b.store.Unqueue(t.Context(), b.key, one.ID)), persistence.ErrConflict)
	wantErr(t, "EditQueued() of what is being sent", errOf(b.store.EditQueued(t.Context(), b.key, one.ID, "x")), persistence.ErrConflict)
	if n, err := b.store.ClearQueue(t.Context(), b.key); n != 1 || err != nil {
		t.Errorf("ClearQueue() = %d, %v", n, err)
	}
	b.wantQueue(t, "one")
	// A batch that fails does not send the message.
	broken := errors.New("broken")
	err := b.store.Batch(t.Context(), b.key, func(w *persistence.Batch) error {
		_, err := w.SendQueued(m.ID, m.Attempts, false)
		return errors.Join(err, broken)
	})
	wantErr(t, "Batch()", err, broken)
	b.wantQueue(t, "one")
	if !send(t, b.store, b.key, m) {
		t.Fatal("SendQueued() = false")
	}
	b.wantQueue(t, "")
	if held, err := answered(t, b, m); !held || err != nil {
		t.Errorf("AnsweredQueued() = %v, %v", held, err)
	}
	sent, err := b.store.QueuedMessage(t.Context(), b.key, one.ID)
	if err != nil || sent.State != persistence.QueueSent || sent.SentAt == nil {
		t.Errorf("QueuedMessage() = %+v, %v", sent, err)
	}
	wantErr(t, "Unqueue() of what was sent", errOf(b.store.Unqueue(t.Context(), b.key, one.ID)), persistence.ErrNotFound)
	// The key is still known: the same message is not added twice.
	keyed := b.enqueueAll(t, persistence.QueuedMessage{Text: "keyed", IdempotencyKey: "k"})
	m, _ = claimQueued(t, b.store, b.key, persistence.ClaimOptions{})
	send(t, b.store, b.key, m)
	again, added, err := b.store.Enqueue(t.Context(), b.key, persistence.QueuedMessage{Text: "keyed", IdempotencyKey: "k"}, 0)
	if added || err != nil || again.ID != keyed.ID || again.State != persistence.QueueSent {
		t.Errorf("Enqueue() of a sent key = %+v, %v, %v", again, added, err)
	}
}

// queueSpooled saves a queued message that was said in a call but had to wait for the database, while its row changed.
func (s suite) queueSpooled(t *testing.T) {
	for name, tt := range map[string]struct {
		meanwhile func(t *testing.T, b bundle, m persistence.QueuedMessage)
		want      string // how the row is then, empty if it is gone
		unsent    string // what is in the queue
	}{
		"nothing": {want: "sent", meanwhile: func(*testing.T, bundle, persistence.QueuedMessage) {}},
		"claimed again": {want: "sent", meanwhile: func(t *testing.T, b bundle, m persistence.QueuedMessage) {
			t.Helper()
			if again, _ := claimQueued(t, b.store, b.key, persistence.ClaimOptions{}); again.ID != m.ID {
				t.Errorf("ClaimQueued() = %+v", again)
			}
		}},
		"removed": {meanwhile: func(t *testing.T, b bundle, m persistence.QueuedMessage) {
			t.Helper()
			must(t, errOf(b.store.Unqueue(t.Context(), b.key, m.ID)))
		}},
		"edited": {want: "sending", unsent: "said, no, not said", meanwhile: func(t *testing.T, b bundle, m persistence.QueuedMessage) {
			t.Helper()
			must(t, errOf(b.store.EditQueued(t.Context(), b.key, m.ID, "said, no, not said")))
		}},
		"being answered": {want: "answering", meanwhile: func(t *testing.T, b bundle, m persistence.QueuedMessage) {
			t.Helper()
			again, _ := claimQueued(t, b.store, b.key, persistence.ClaimOptions{})
			must(t, b.store.Batch(t.Context(), b.key, func(w *persistence.Batch) error {
				sent := text(thread.RoleUser, m.Text)
				sent.ID = m.MessageID
				_, err := w.AppendMessage(sent)
				return errors.Join(err, errOf(w.SendQueued(again.ID, again.Attempts, true)))
			}))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := s.setup(t)
			b.enqueue(t, "said")
			m, _ := claimQueued(t, b.store, b.key, persistence.ClaimOptions{Lease: -time.Second})
			tt.meanwhile(t, b, m)
			put := putText(m.MessageID, m.Text, last)
			put.Queued = m.ID
			for range 2 { // the second time changes nothing
				applied, err := b.store.Apply(t.Context(), b.key, throughJSON(t, put))
				if err != nil || len(applied.Lost) != 0 {
					t.Fatalf("Apply() = %+v, %v", applied, err)
				}
				if got := words(b.all(t)); got != "said" {
					t.Errorf("the thread is %q", got)
				}
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

// queueLeases lets a lease expire, and puts messages back.
func (s suite) queueLeases(t *testing.T) {
	b := s.setup(t)
	b.enqueueAll(t, persistence.QueuedMessage{Text: "timed", ScheduledAt: new(time.Now().Add(-time.Minute))})
	lost, _ := claimQueued(t, b.store, b.key, persistence.ClaimOptions{Lease: -time.Second})
	b.enqueue(t, "later")
	b.wantQueue(t, "timed later") // the one already begun is at the head
	other := Open(t, b.url, persistence.Options{})
	m, _ := claimQueued(t, other, b.key, persistence.ClaimOptions{})
	if m.ID != lost.ID || m.Attempts != 2 {
		t.Fatalf("ClaimQueued() after a lease = %+v", m)
	}
	if send(t, b.store, b.key, lost) {
		t.Error("SendQueued() of a lost claim = true")
	}
	if back, err := b.store.RequeueQueued(t.Context(), b.key, lost.ID, lost.Attempts, persistence.Requeue{}); back || err != nil {
		t.Errorf("RequeueQueued() of a lost claim = %v, %v", back, err)
	}
	requeue := func(m persistence.QueuedMessage, r persistence.Requeue) {
		t.Helper()
		if back, err := other.RequeueQueued(t.Context(), b.key, m.ID, m.Attempts, r); !back || err != nil {
			t.Fatalf("RequeueQueued() = %v, %v", back, err)
		}
	}
	requeue(m, persistence.Requeue{}) // no attempt was made
	m, _ = claimQueued(t, other, b.key, persistence.ClaimOptions{})
	if m.Attempts != 2 {
		t.Errorf("ClaimQueued() = attempt %d, want 2", m.Attempts)
	}
	// Sent but not answered: it waits, and so do all messages behind it.
	if !send(t, other, b.key, m) {
		t.Fatal("SendQueued() = false")
	}
	until := time.Now().Add(time.Hour).UTC().Truncate(time.Microsecond)
	requeue(m, persistence.Requeue{Error: "overloaded", NotBefore: until})
	none, c := claimQueued(t, other, b.key, persistence.ClaimOptions{})
	if none.ID != "" || !c.Wait.Equal(until) {
		t.Errorf("ClaimQueued() = %q, wait until %v, want %v", none.Text, c.Wait, until)
	}
	got, err := b.store.QueuedMessage(t.Context(), b.key, m.ID)
	if err != nil || got.Error != "overloaded" || got.SentAt == nil || got.State != persistence.QueueWaiting {
		t.Errorf("QueuedMessage() = %+v, %v", got, err)
	}
	// When sent by hand it goes at once; with an edited text it is a new message.
	edited, err := b.store.EditQueued(t.Context(), b.key, m.ID, "timed, better")
	if err != nil || edited.MessageID == m.MessageID || edited.SentAt != nil || edited.NotBefore != nil || edited.Error != "" {
		t.Errorf("EditQueued() = %+v, %v", edited, err)
	}
	m, _ = claimQueued(t, other, b.key, persistence.ClaimOptions{ID: m.ID})
	if m.Text != "timed, better" || !send(t, other, b.key, m) {
		t.Errorf("ClaimQueued() by hand = %+v", m)
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
	must(t, claim(t, b.store, b.key, "turn", time.Hour))
	none, _ := claimQueued(t, b.store, b.key, persistence.ClaimOptions{})
	_, err := b.store.ClaimQueued(t.Context(), b.key, persistence.ClaimOptions{Lease: time.Hour, ID: m.ID})
	if wantErr(t, "ClaimQueued() by hand beside a turn", err, persistence.ErrBusy); none.ID != "" {
		t.Error("ClaimQueued() beside a turn gave a message")
	}
	must(t, b.store.Batch(t.Context(), b.key, func(w *persistence.Batch) error { return w.EndTurn("turn") }))
	none, c := claimQueued(t, b.store, b.key, persistence.ClaimOptions{Distance: time.Hour, Since: began})
	if none.ID != "" || c.Wait.Before(began.Add(time.Hour-time.Minute)) {
		t.Errorf("ClaimQueued() within the pause = %q, wait until %v", none.Text, c.Wait)
	}
	// The pause does not count for a message that was just started by hand.
	got, _ := claimQueued(t, b.store, b.key, persistence.ClaimOptions{Distance: time.Hour, Since: time.Now().Add(time.Minute)})
	if got.ID != m.ID {
		t.Errorf("ClaimQueued() after a start = %q", got.Text)
	}
	requeue := func() {
		t.Helper()
		if back, err := b.store.RequeueQueued(t.Context(), b.key, got.ID, got.Attempts, persistence.Requeue{}); !back || err != nil {
			t.Fatalf("RequeueQueued() = %v, %v", back, err)
		}
	}
	requeue()
	b.answering(t, m)
	got, _ = claimQueued(t, b.store, b.key, persistence.ClaimOptions{})
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
	got, _ := claimQueued(t, b.store, b.key, persistence.ClaimOptions{})
	if back, err := b.store.RequeueQueued(t.Context(), b.key, got.ID, got.Attempts, persistence.Requeue{Error: "no"}); !back || err != nil {
		t.Fatalf("RequeueQueued() = %v, %v", back, err)
	}
	must(t, b.store.SaveCall(t.Context(), b.key, persistence.CallRecord{ID: "call", StartedAt: start}))
	other := Open(t, b.url, persistence.Options{})
	if none, _ := claimQueued(t, other, b.key, persistence.ClaimOptions{}); none.ID != "" {
		t.Error("ClaimQueued() gave a message for the call of another process")
	}
	if keys, err := other.DueQueues(t.Context(), 10); len(keys) != 0 || err != nil {
		t.Errorf("DueQueues() = %v, %v", keys, err)
	}
	// A turn comes first, even when a call has begun meanwhile.
	must(t, claim(t, b.store, b.key, "turn", time.Hour))
	if none, _ := claimQueued(t, b.store, b.key, persistence.ClaimOptions{Call: "call"}); none.ID != "" {
		t.Errorf("ClaimQueued() in a call and beside a turn = %q", none.Text)
	}
	must(t, b.store.Batch(t.Context(), b.key, func(w *persistence.Batch) error { return w.EndTurn("turn") }))
	// Nothing is said twice: the first waits for its answer until the call has ended.
	wantErr(t, "ClaimQueued() by hand of what was said", errOf(b.store.ClaimQueued(t.Context(), b.key, persistence.ClaimOptions{Lease: time.Hour, Call: "call", ID: one.ID})), persistence.ErrBusy)
	got, c := claimQueued(t, b.store, b.key, persistence.ClaimOptions{Call: "call", Distance: time.Hour})
	if got.ID != two.ID || !c.InCall || !send(t, b.store, b.key, got) {
		t.Errorf("ClaimQueued() in a call = %q, %+v", got.Text, c)
	}
	if none, _ := claimQueued(t, b.store, b.key, persistence.ClaimOptions{Call: "call"}); none.ID != "" {
		t.Errorf("ClaimQueued() in a call = %q", none.Text)
	}
	// A call of this process that the process does not know is over.
	if got, c = claimQueued(t, b.store, b.key, persistence.ClaimOptions{}); got.ID != one.ID || c.InCall {
		t.Errorf("ClaimQueued() after the call = %q, %+v", got.Text, c)
	}
}

// answering begins a turn that answers a message, and ends it without an outcome, as when
// its process dies.
func (b bundle) answering(t *testing.T, want persistence.QueuedMessage) {
	t.Helper()
	m, _ := claimQueued(t, b.store, b.key, persistence.ClaimOptions{})
	err := b.store.Batch(t.Context(), b.key, func(w *persistence.Batch) error {
		err := w.ClaimTurn("answer", time.Hour)
		_, sendErr := w.SendQueued(m.ID, m.Attempts, true)
		return errors.Join(err, sendErr)
	})
	if m.ID != want.ID || err != nil {
		t.Fatalf("%q is being answered, %v", m.Text, err)
	}
	b.wantQueue(t, "")
	if n, err := b.store.QueueLength(t.Context(), b.key); n != 0 || err != nil {
		t.Errorf("QueueLength() = %d, %v", n, err)
	}
	if some, err := b.store.Unsent(t.Context(), b.key); !some || err != nil {
		t.Errorf("Unsent() = %v, %v", some, err)
	}
	wantErr(t, "Unqueue() of what is answered", errOf(b.store.Unqueue(t.Context(), b.key, m.ID)), persistence.ErrNotFound)
	if none, _ := claimQueued(t, b.store, b.key, persistence.ClaimOptions{}); none.ID != "" {
		t.Errorf("ClaimQueued() while it is answered = %q", none.Text)
	}
	end := func(id string) {
		t.Helper()
		must(t, b.store.Batch(t.Context(), b.key, func(w *persistence.Batch) error { return w.EndTurn(id) }))
	}
	end("answer")
	if keys, err := b.store.DueQueues(t.Context(), 10); len(keys) != 1 || err != nil {
		t.Errorf("DueQueues() = %v, %v", keys, err)
	}
	again, _ := claimQueued(t, b.store, b.key, persistence.ClaimOptions{})
	if again.ID != m.ID || again.SentAt == nil || again.Attempts != m.Attempts+1 {
		t.Errorf("ClaimQueued() when its turn is gone = %+v", again)
	}
	var held, late bool
	err = b.store.Batch(t.Context(), b.key, func(w *persistence.Batch) (err error) {
		late, err = w.AnsweredQueued(m.ID, m.Attempts)
		if err == nil {
			held, err = w.RequeueQueued(again.ID, again.Attempts, persistence.Requeue{})
		}
		return err
	})
	if late || !held || err != nil {
		t.Errorf("AnsweredQueued() of the lost turn = %v; RequeueQueued() = %v, %v", late, held, err)
	}
}

func (s suite) queuePauses(t *testing.T) {
	b := s.setup(t)
	m := b.enqueue(t, "one")
	got, _ := claimQueued(t, b.store, b.key, persistence.ClaimOptions{})
	pause := persistence.QueuePause{Reason: "quota", Message: "No money \x00left."}
	back, err := b.store.RequeueQueued(t.Context(), b.key, m.ID, got.Attempts, persistence.Requeue{Error: "no money", Pause: &pause})
	if !back || err != nil {
		t.Fatalf("RequeueQueued() = %v, %v", back, err)
	}
	list, p, err := b.store.Queue(t.Context(), b.key)
	if err != nil || len(list) != 1 || p == nil || p.Reason != "quota" || p.Message != "No money left." || p.At.IsZero() {
		t.Fatalf("Queue() = %+v, %+v, %v", list, p, err)
	}
	if none, _ := claimQueued(t, b.store, b.key, persistence.ClaimOptions{}); none.ID != "" {
		t.Error("ClaimQueued() of a paused queue gave a message")
	}
	if keys, err := b.store.DueQueues(t.Context(), 10); len(keys) != 0 || err != nil {
		t.Errorf("DueQueues() = %v, %v", keys, err)
	}
	must(t, b.store.PauseQueue(t.Context(), b.key, persistence.QueuePause{Reason: "auth", Message: "The key is wrong."}))
	for _, want := range []bool{true, false} {
		if paused, err := b.store.ResumeQueue(t.Context(), b.key); paused != want || err != nil {
			t.Errorf("ResumeQueue() = %v, %v, want %v", paused, err, want)
		}
	}
	if got, _ := claimQueued(t, b.store, b.key, persistence.ClaimOptions{}); got.ID != m.ID || got.Attempts != 2 {
		t.Errorf("ClaimQueued() = %+v", got)
	}
}
