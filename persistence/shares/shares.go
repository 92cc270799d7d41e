// Package shares keeps which threads anybody may read who knows an unguessable link.
package shares

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"

	"voicebridge/persistence/internal/database"
	"voicebridge/persistence/internal/dbtype"
	"voicebridge/persistence/internal/pgdb"
	"voicebridge/thread"
)

// tokenBytes is how many random bytes a token has.
const tokenBytes = 24

// Store keeps them in the database. It is safe for concurrent use.
type Store struct{ db database.DB }

// New returns the Store of a database.
func New(db database.DB) *Store { return &Store{db} }

// Share returns the token by which the thread can be read until Withdraw. It is the same for as long as the thread is
// shared.
func (s *Store) Share(ctx context.Context, key thread.Key) (token string, err error) {
	if err := database.CheckKey(key); err != nil {
		return "", fmt.Errorf("share thread: %w", err)
	}
	made := make([]byte, tokenBytes)
	_, _ = rand.Read(made) // never fails (crypto/rand)
	err = s.db.Write(ctx, func(q database.Queries) error {
		err := q.KeepShare(ctx, pgdb.KeepShareParams{
			ThreadID: key.Thread, Owner: key.Owner, Token: base64.RawURLEncoding.EncodeToString(made),
			CreatedAt: dbtype.At(s.db.Now()),
		})
		if err == nil {
			token, err = q.GetShare(ctx, key.Thread, key.Owner)
		}
		return err
	})
	return token, s.db.Fail("share thread", err)
}

// Shared returns the token of a thread that is shared. ErrNotFound means that it is not.
func (s *Store) Shared(ctx context.Context, key thread.Key) (string, error) {
	if err := database.CheckKey(key); err != nil {
		return "", fmt.Errorf("read share: %w", err)
	}
	token, err := s.db.Read().GetShare(ctx, key.Thread, key.Owner)
	return token, s.db.Fail("read share", err)
}

// Withdraw ends the sharing of a thread. ErrNotFound means that it is not shared.
func (s *Store) Withdraw(ctx context.Context, key thread.Key) error {
	return s.db.Fail("withdraw thread", database.ChangeOne(ctx, s.db, key, func(q database.Queries) (int64, error) {
		return q.DeleteShare(ctx, key.Thread, key.Owner)
	}))
}

// Find returns the thread that is shared by a token.
func (s *Store) Find(ctx context.Context, token string) (thread.Key, error) {
	if !thread.ValidID(token) {
		return thread.Key{}, fmt.Errorf("read shared thread: %w", database.ErrNotFound)
	}
	r, err := s.db.Read().FindShared(ctx, token)
	return thread.Key{Owner: r.Owner, Thread: r.ID}, s.db.Fail("read shared thread", err)
}
