package persistence_test

import (
	"testing"

	"voicebridge/persistence"
	"voicebridge/persistence/persistencetest"
)

// TestAnswerFinishedWhileRead finishes an answer, which deletes its drafts, after its row was read
// and before its drafts are.
func TestAnswerFinishedWhileRead(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]func(testing.TB) string{
		"sqlite": persistencetest.SQLiteURL, "postgres": persistencetest.PostgresURL,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := persistencetest.Open(t, url(t), persistence.Options{})
			thread, err := s.CreateThread(t.Context(), "anna", "")
			if err != nil {
				t.Fatalf("CreateThread() = %v", err)
			}
			key := persistence.Key{Owner: "anna", Thread: thread.ID}
			answer := persistence.Message{
				ID: "answer", Role: persistence.RoleAssistant, Parts: []persistence.Part{persistence.TextPart("One")},
				Metadata: persistence.Metadata{Source: persistence.SourceText, Status: persistence.StatusInProgress},
			}
			if _, err := s.AppendMessage(t.Context(), key, answer); err != nil {
				t.Fatalf("AppendMessage() = %v", err)
			}
			err = s.Batch(t.Context(), key, func(b *persistence.Batch) error {
				return b.SaveDraft(persistence.Draft{MessageID: answer.ID, Start: 3, Text: ", two"})
			})
			if err != nil {
				t.Fatalf("SaveDraft() = %v", err)
			}
			persistence.BeforeDrafts(s, func() {
				answer.Parts[0].Text, answer.Metadata.Status = "One, two.", persistence.StatusCompleted
				err := s.Batch(t.Context(), key, func(b *persistence.Batch) error {
					_, err := b.UpdateMessage(answer)
					return err
				})
				if err != nil {
					t.Errorf("UpdateMessage() = %v", err)
				}
			})
			if m, err := s.Answering(t.Context(), key); err != nil || m.Text() != "One, two." {
				t.Errorf("Answering() = %q, %v, want the whole answer", m.Text(), err)
			}
		})
	}
}
