package persistence_test

import (
	"testing"

	"voicebridge/persistence"
	"voicebridge/persistence/persistencetest"
	"voicebridge/thread"
)

// bothEngines runs a test with a store on each engine.
func bothEngines(t *testing.T, run func(t *testing.T, s *persistence.Store)) {
	t.Helper()
	for name, url := range persistencetest.URLs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t, persistencetest.Open(t, url(t), persistence.Options{}))
		})
	}
}

// answering begins a thread with an answer of which "One" was saved whole, and ", two" as a draft.
func answering(t *testing.T, s *persistence.Store) (thread.Key, thread.Message) {
	t.Helper()
	key := persistencetest.NewThread(t, s, "anna", "")
	answer := thread.Message{
		ID: "answer", Role: thread.RoleAssistant, Parts: []thread.Part{thread.TextPart("One")},
		Metadata: thread.Metadata{Source: thread.SourceText, Status: thread.StatusInProgress},
	}
	if _, err := persistencetest.AppendMessage(t.Context(), s, key, answer); err != nil {
		t.Fatalf("AppendMessage() = %v", err)
	}
	err := s.Batch(t.Context(), key, func(b *persistence.Batch) error {
		return b.SaveDraft(persistence.Draft{MessageID: answer.ID, Start: 3, Text: ", two"})
	})
	must(t, err)
	return key, answer
}

// TestAnswerChangedWhileRead changes an answer, which deletes its drafts, after its row was read and
// before its drafts are.
func TestAnswerChangedWhileRead(t *testing.T) {
	t.Parallel()
	user := thread.Message{Role: thread.RoleUser, Parts: []thread.Part{thread.TextPart("Count!")}}
	for name, c := range map[string]struct {
		// The answer says text with this status, and then more.
		status     thread.Status
		text, more string
		moved      bool
	}{
		"finished":           {status: thread.StatusCompleted, text: "One, two."},
		"moved":              {status: thread.StatusInProgress, text: "One, two", moved: true},
		"moved and finished": {status: thread.StatusCompleted, text: "One, two.", moved: true},
		"saved and grown":    {status: thread.StatusInProgress, text: "One, two", more: ", three"},
	} {
		change := func(b *persistence.Batch, answer thread.Message) error {
			if c.moved {
				if _, err := b.InsertMessage(user, ""); err != nil {
					return err
				}
			}
			answer.Parts = []thread.Part{thread.TextPart(c.text)}
			answer.Metadata.Status = c.status
			if _, err := b.UpdateMessage(answer); err != nil || c.more == "" {
				return err
			}
			return b.SaveDraft(persistence.Draft{MessageID: answer.ID, Start: len(c.text), Text: c.more})
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bothEngines(t, func(t *testing.T, s *persistence.Store) {
				key, answer := answering(t, s)
				persistence.BeforeDrafts(s, func() {
					if err := s.Batch(t.Context(), key, func(b *persistence.Batch) error { return change(b, answer) }); err != nil {
						t.Errorf("change the answer: %v", err)
					}
				})
				all, err := s.Messages(t.Context(), key, 0, 0)
				if err != nil || len(all) != 1 || all[0].Text() != c.text+c.more || all[0].Metadata.Status != c.status {
					t.Fatalf("Messages() = %+v, %v, want the whole answer", all, err)
				}
				// What comes after the number that it had is what has moved since, and what is new.
				after, err := s.Messages(t.Context(), key, all[0].Seq, 0)
				if moved := len(after) == 2 && after[1].ID == answer.ID; err != nil || moved != c.moved {
					t.Errorf("Messages() after %d = %+v, %v", all[0].Seq, after, err)
				}
			})
		})
	}
}

// finishBeforeDrafts calls first and finishes an answer, just before its drafts are read.
func finishBeforeDrafts(t *testing.T, s *persistence.Store, key thread.Key, answer thread.Message, first func()) {
	t.Helper()
	persistence.BeforeDrafts(s, func() {
		first()
		answer.Parts, answer.Metadata.Status = []thread.Part{thread.TextPart("One, two.")}, thread.StatusCompleted
		if _, err := persistencetest.UpdateMessage(t.Context(), s, key, answer); err != nil {
			t.Errorf("UpdateMessage() = %v", err)
		}
	})
}

// TestWatchBeginsWhileAnswered has a message said and an answer finished while a watch reads the
// thread: it gets both, in this order.
func TestWatchBeginsWhileAnswered(t *testing.T) {
	t.Parallel()
	bothEngines(t, func(t *testing.T, s *persistence.Store) {
		key, answer := answering(t, s)
		finishBeforeDrafts(t, s, key, answer, func() { say(t, s, key, "Thanks") })
		next := pull(t, s, key)
		want(t, next, "message Thanks", "message One, two.")
		s.Publish(t.Context(), key, persistence.Event{Type: "draft"})
		want(t, next, "draft {}")
	})
}
