package persistence

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"time"

	"voicebridge/persistence/internal/dbtype"
	"voicebridge/persistence/internal/pgdb"
	"voicebridge/thread"
)

// AccessToken is a saved page session or client secret. Its id alone grants no access.
type AccessToken struct {
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
	err := s.write(ctx, func(q queries) (err error) {
		err = q.KeepSharedSecret(ctx, pgdb.KeepSharedSecretParams{
			Name: name, Value: base64.RawURLEncoding.EncodeToString(made[:]), CreatedAt: dbtype.At(s.now()),
		})
		if err != nil {
			return err
		}
		row, err = q.GetSharedSecret(ctx, pgdb.GetSharedSecretParams{Name: name})
		return err
	})
	return row.Value, s.fail("read signing secret", err)
}

// SaveAccessToken saves a new token and keeps only the newest keep tokens of its owner and kind. It
// also deletes all owners' tokens that had expired by t.CreatedAt.
func (s *Store) SaveAccessToken(ctx context.Context, t AccessToken, keep int) error {
	if !thread.ValidID(t.ID) || !thread.ValidID(t.Owner) {
		return fmt.Errorf("save access token: %w", Invalid("id or owner"))
	}
	return s.fail("save access token", s.write(ctx, func(q queries) error {
		if err := q.DeleteExpiredAccessTokens(ctx, pgdb.DeleteExpiredAccessTokensParams{ExpiredAt: dbtype.At(s.clock.stored(t.CreatedAt))}); err != nil {
			return err
		}
		if err := q.InsertAccessToken(ctx, pgdb.InsertAccessTokenParams{
			ID: t.ID, Kind: t.Kind, Owner: t.Owner, Data: t.Data, CreatedAt: dbtype.At(s.clock.stored(t.CreatedAt)), ExpiresAt: dbtype.At(s.clock.stored(t.ExpiresAt)),
		}); err != nil {
			return err
		}
		return q.TrimAccessTokens(ctx, pgdb.TrimAccessTokensParams{Owner: t.Owner, Kind: t.Kind, Keep: int64(keep)})
	}))
}

// AccessToken reads a token, even an expired one; ErrNotFound if there is none of that kind and id.
func (s *Store) AccessToken(ctx context.Context, kind, id string) (AccessToken, error) {
	if !thread.ValidID(id) {
		return AccessToken{}, fmt.Errorf("read access token: %w", ErrNotFound)
	}
	r, err := s.eng.read().GetAccessToken(ctx, pgdb.GetAccessTokenParams{ID: id, Kind: kind})
	return AccessToken{ID: r.ID, Kind: r.Kind, Owner: r.Owner, Data: r.Data, CreatedAt: s.clock.local(r.CreatedAt.Time), ExpiresAt: s.clock.local(r.ExpiresAt.Time)}, s.fail("read access token", err)
}

// CountAccessTokens returns how many tokens of a kind an owner has that are valid at a time.
func (s *Store) CountAccessTokens(ctx context.Context, owner, kind string, at time.Time) (int, error) {
	n, err := s.eng.read().CountAccessTokens(ctx, pgdb.CountAccessTokensParams{Owner: owner, Kind: kind, Now: dbtype.At(s.clock.stored(at))})
	return int(n), s.fail("count access tokens", err)
}

// DeleteAccessToken revokes a token of the owner; ErrNotFound if there is none.
func (s *Store) DeleteAccessToken(ctx context.Context, owner, kind, id string) error {
	if !thread.ValidID(id) || !thread.ValidID(owner) {
		return fmt.Errorf("revoke access token: %w", ErrNotFound)
	}
	return s.fail("revoke access token", s.write(ctx, func(q queries) error {
		n, err := q.DeleteAccessToken(ctx, pgdb.DeleteAccessTokenParams{ID: id, Kind: kind, Owner: owner})
		if err == nil && n == 0 {
			return ErrNotFound
		}
		return err
	}))
}

// TrimAccessTokens revokes all but the newest keep tokens of an owner and kind.
func (s *Store) TrimAccessTokens(ctx context.Context, owner, kind string, keep int) error {
	return s.fail("revoke access tokens", s.write(ctx, func(q queries) error {
		return q.TrimAccessTokens(ctx, pgdb.TrimAccessTokensParams{Owner: owner, Kind: kind, Keep: int64(keep)})
	}))
}

// DeleteAccessTokens revokes all tokens of an owner and returns how many there were.
func (s *Store) DeleteAccessTokens(ctx context.Context, owner string) (int, error) {
	var n int64
	err := s.write(ctx, func(q queries) (err error) {
		n, err = q.DeleteAccessTokensOf(ctx, pgdb.DeleteAccessTokensOfParams{Owner: owner})
		return err
	})
	return int(n), s.fail("revoke access tokens", err)
}

// EnsureThread creates an empty thread with key's id unless the owner already has it. ErrNotFound
// means that another owner has it.
func (s *Store) EnsureThread(ctx context.Context, key thread.Key) (created bool, err error) {
	if err := checkKey(key); err != nil {
		return false, fmt.Errorf("ensure thread: %w", err)
	}
	for {
		created, err = s.ensureThread(ctx, key)
		if !s.isMissing(err) || !s.isDeleted(ctx, key.Thread) {
			break
		}
		// A deleted thread still has the id. Erase the rest of it, then try again.
		if err := s.erase(ctx, key.Thread, neverStop); err != nil {
			return false, s.fail("ensure thread", err)
		}
	}
	if created && err == nil {
		s.tellOwner(ctx, EventThreadCreated, key)
	}
	return created, s.fail("ensure thread", err)
}

func (s *Store) ensureThread(ctx context.Context, key thread.Key) (created bool, err error) {
	err = s.write(ctx, func(q queries) error {
		n, err := q.EnsureThread(ctx, pgdb.EnsureThreadParams{ID: key.Thread, Owner: key.Owner, CreatedAt: dbtype.At(s.now())})
		if err != nil {
			return err
		}
		if created = n > 0; created {
			return nil
		}
		_, err = q.GetThread(ctx, pgdb.GetThreadParams{ID: key.Thread, Owner: key.Owner})
		return err
	})
	return created, err
}

// isDeleted reports whether the id belongs to a deleted thread that is not completely erased yet.
func (s *Store) isDeleted(ctx context.Context, thread string) bool {
	owner, err := s.eng.read().GetOwner(ctx, pgdb.GetOwnerParams{ID: thread})
	return err == nil && owner == ""
}
