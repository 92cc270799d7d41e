// Package queued keeps the messages that wait until their thread is free.
package queued

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"

	"voicebridge/persistence/internal/database"
	"voicebridge/persistence/internal/dbtype"
	"voicebridge/persistence/internal/pgdb"
	"voicebridge/thread"
)

// Store keeps them in the database. It is safe for concurrent use.
type Store struct{ db database.DB }

// New returns the Store of a database.
func New(db database.DB) *Store { return &Store{db} }

// Tx changes the queue of a thread in a transaction that changes more of it.
type Tx struct{ tx *database.Tx }

// In returns what changes the queue in a transaction.
func In(tx *database.Tx) Tx { return Tx{tx} }

// locked runs a transaction with the thread's row locked, so that no instance changes what is read until the end.
func (s *Store) locked(ctx context.Context, key thread.Key, what string, fn func(Tx) error) error {
	return database.Begin(ctx, s.db, key, func(tx *database.Tx) error {
		return tx.Do(what, func() error {
			if err := tx.Lock(); err != nil {
				return err
			}
			return fn(Tx{tx})
		})
	})
}

// State is where a queued message stands.
type State string

// The states of a queued message.
const (
	Waiting State = "queued"
	Sending State = "sending"
	// Answering is a message of the thread whose turn has not ended. If the turn is lost, it
	// needs another one.
	Answering State = "answering"
	Sent      State = "sent" // it is a message of the thread
)

// Waits reports whether the message is in the queue from its user's point of view.
func (s State) Waits() bool { return s == Waiting || s == Sending }

// Message is a message that waits until the thread is free.
type Message struct {
	ID    string // q-<unix seconds>-<8 hex>
	State State
	Text  string
	Title string
	// ImageIDs are ids that the client knows; they are stored unchanged.
	ImageIDs []string
	ClientID string
	// IdempotencyKey makes it harmless to add the same message twice; empty for none.
	IdempotencyKey string
	// MessageID is the message's id in the thread.
	MessageID string
	// Attempts counts how often the message was claimed. With the process it identifies the claim.
	Attempts int
	// Error says why the last attempt failed.
	Error       string
	QueuedAt    time.Time
	ScheduledAt *time.Time // not before this time; nil means as soon as possible
	NotBefore   *time.Time // when a failed message may be retried
	SentAt      *time.Time // when it became a message of the thread
}

// newID makes an id: q-, Unix seconds, and 8 random hexadecimal digits.
func newID(at time.Time) string {
	return fmt.Sprintf("q-%d-%08x", at.Unix(), rand.Uint32())
}

// fromRow converts the result of a query, or returns the query's error.
func fromRow(r pgdb.QueuedMessage, err error) (Message, error) {
	if err != nil {
		return Message{}, err
	}
	m := Message{
		ID: r.ID, State: State(r.State), Text: r.Message, Title: r.Title, ClientID: r.ClientID, MessageID: r.MessageID,
		Attempts: int(r.Attempts), Error: r.Error, QueuedAt: r.QueuedAt.Time,
		ScheduledAt: r.ScheduledAt.Ptr(), NotBefore: r.NotBefore.Ptr(), SentAt: r.SentAt.Ptr(),
	}
	if r.IdempotencyKey != nil {
		m.IdempotencyKey = *r.IdempotencyKey
	}
	if err := json.Unmarshal(r.ImageIds, &m.ImageIDs); err != nil {
		return Message{}, fmt.Errorf("read queued message %s: %w", r.ID, err)
	}
	return m, nil
}

func toRow(key thread.Key, m Message, at time.Time) (pgdb.InsertQueuedParams, error) {
	images, err := json.Marshal(append([]string{}, m.ImageIDs...))
	if err != nil {
		return pgdb.InsertQueuedParams{}, database.Invalid("image_ids: %v", err)
	}
	row := pgdb.InsertQueuedParams{
		ID: newID(at), ThreadID: key.Thread, Owner: key.Owner, Message: thread.CleanText(m.Text), ImageIds: images,
		ClientID: m.ClientID, ScheduledAt: dbtype.AtPtr(m.ScheduledAt), QueuedAt: dbtype.At(at),
		MessageID: database.NewID(),
	}
	if m.IdempotencyKey != "" {
		row.IdempotencyKey = &m.IdempotencyKey
	}
	return row, nil
}
