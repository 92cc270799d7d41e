package admission

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"time"

	"voicebridge/persistence/internal/database"
	"voicebridge/persistence/internal/dbtype"
	"voicebridge/persistence/internal/pgdb"
	"voicebridge/thread"
)

// Token is a saved page session or client secret. Its id alone grants no access.
type Token struct {
	ID    string
	Kind  string
	Owner string
	// Data is JSON whose form depends on the kind.
	Data      string
	CreatedAt time.Time
	ExpiresAt time.Time
}

// SigningSecret returns the secret that all instances on this database share. The first to ask
// creates it at random.
func (s *Store) SigningSecret(ctx context.Context) (string, error) {
	const name = "signing"
	var made [32]byte
	_, _ = rand.Read(made[:]) // never fails (crypto/rand)
	var row pgdb.SharedSecret
	err := s.db.Write(ctx, func(q database.Queries) (err error) {
		err = q.KeepSharedSecret(ctx, name, base64.RawURLEncoding.EncodeToString(made[:]), dbtype.At(s.db.Now()))
		if err != nil {
			return err
		}
		row, err = q.GetSharedSecret(ctx, name)
		return err
	})
	return row.Value, s.db.Fail("read signing secret", err)
}

// SaveToken saves a new token and keeps only the newest keep tokens of its owner and kind. It
// also deletes all owners' tokens that had expired by t.CreatedAt.
func (s *Store) SaveToken(ctx context.Context, t Token, keep int) error {
	if !thread.ValidID(t.ID) || !thread.ValidID(t.Owner) {
		return fmt.Errorf("save access token: %w", database.Invalid("id or owner"))
	}
	return s.db.Fail("save access token", s.db.Write(ctx, func(q database.Queries) error {
		if err := q.DeleteExpiredAccessTokens(ctx, dbtype.At(s.db.Stored(t.CreatedAt))); err != nil {
			return err
		}
		if err := q.InsertAccessToken(ctx, pgdb.InsertAccessTokenParams{
			ID: t.ID, Kind: t.Kind, Owner: t.Owner, Data: t.Data, CreatedAt: dbtype.At(s.db.Stored(t.CreatedAt)),
			ExpiresAt: dbtype.At(s.db.Stored(t.ExpiresAt)),
		}); err != nil {
			return err
		}
		return q.TrimAccessTokens(ctx, t.Owner, t.Kind, int64(keep))
	}))
}

// Token reads a token, even an expired one; database.ErrNotFound if there is none of that kind and id.
func (s *Store) Token(ctx context.Context, kind, id string) (Token, error) {
	if !thread.ValidID(id) {
		return Token{}, fmt.Errorf("read access token: %w", database.ErrNotFound)
	}
	r, err := s.db.Read().GetAccessToken(ctx, id, kind)
	return Token{
		ID: r.ID, Kind: r.Kind, Owner: r.Owner, Data: r.Data, CreatedAt: s.db.Local(r.CreatedAt.Time),
		ExpiresAt: s.db.Local(r.ExpiresAt.Time),
	}, s.db.Fail("read access token", err)
}

// UseToken makes a token one of the kind used, without its data, and returns it as it was; database.ErrNotFound if it
// is not there or not younger than since. Of several at the same time, one gets it.
func (s *Store) UseToken(ctx context.Context, kind, used, id string, since time.Time) (Token, error) {
	t, err := s.Token(ctx, kind, id)
	if err != nil {
		return t, err
	}
	return t, s.db.Fail("use access token", s.db.Write(ctx, func(q database.Queries) error {
		n, err := q.UseAccessToken(ctx, pgdb.UseAccessTokenParams{
			Used: used, ID: id, Kind: kind, Since: dbtype.At(s.db.Stored(since)),
		})
		if err == nil && n == 0 {
			return database.ErrNotFound
		}
		return err
	}))
}

// CountTokens returns how many tokens of a kind an owner has that are valid at a time.
func (s *Store) CountTokens(ctx context.Context, owner, kind string, at time.Time) (int, error) {
	n, err := s.db.Read().CountAccessTokens(ctx, owner, kind, dbtype.At(s.db.Stored(at)))
	return int(n), s.db.Fail("count access tokens", err)
}

// DeleteToken revokes a token of the owner; database.ErrNotFound if there is none.
func (s *Store) DeleteToken(ctx context.Context, owner, kind, id string) error {
	if !thread.ValidID(id) || !thread.ValidID(owner) {
		return fmt.Errorf("revoke access token: %w", database.ErrNotFound)
	}
	return s.db.Fail("revoke access token", s.db.Write(ctx, func(q database.Queries) error {
		n, err := q.DeleteAccessToken(ctx, id, kind, owner)
		if err == nil && n == 0 {
			return database.ErrNotFound
		}
		return err
	}))
}

// TrimTokens revokes all but the newest keep tokens of an owner and kind.
func (s *Store) TrimTokens(ctx context.Context, owner, kind string, keep int) error {
	return s.db.Fail("revoke access tokens", s.db.Write(ctx, func(q database.Queries) error {
		return q.TrimAccessTokens(ctx, owner, kind, int64(keep))
	}))
}

// DeleteTokens revokes all tokens of an owner and returns how many there were.
func (s *Store) DeleteTokens(ctx context.Context, owner string) (int, error) {
	var n int64
	err := s.db.Write(ctx, func(q database.Queries) (err error) {
		n, err = q.DeleteAccessTokensOf(ctx, owner)
		return err
	})
	return int(n), s.db.Fail("revoke access tokens", err)
}
