package access

import (
	"context"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"voicebridge/persistence"
	"voicebridge/persistence/admission"
)

// TokenStore stores the tokens that this server issues, for all instances of the database;
// *admission.Store implements it.
type TokenStore interface {
	SaveToken(ctx context.Context, t admission.Token, keep int) error
	Token(ctx context.Context, kind, id string) (admission.Token, error)
	CountTokens(ctx context.Context, owner, kind string, at time.Time) (int, error)
	DeleteToken(ctx context.Context, owner, kind, id string) error
	DeleteTokens(ctx context.Context, owner string) (int, error)
	TrimTokens(ctx context.Context, owner, kind string, keep int) error
}

// The kinds of tokens that this server issues.
const (
	kindSession = "session"
	kindSecret  = "client_secret"
	// kindCallOf and a secret's id are the kind of what is saved about the calls that the secret has
	// opened, under their ids. These are no tokens.
	kindCallOf = "call of "
)

const (
	idBytes  = 16
	macBytes = 16
)

var errForged = errors.New("not signed by this server")

// mint issues and reads tokens of one kind. A token is an id and its signature, so that forged ones
// cost no database query, and reading the database does not let anyone make one.
type mint struct {
	kind  string
	key   []byte
	store TokenStore
	now   func() time.Time
}

func newMint(kind string, secret Secret, store TokenStore, now func() time.Time) (*mint, error) {
	key, err := hkdf.Key(sha256.New, []byte(secret.Reveal()), nil, "voicebridge "+kind, 32)
	if err != nil {
		return nil, fmt.Errorf("derive key: %w", err)
	}
	return &mint{kind: kind, key: key, store: store, now: now}, nil
}

func (m *mint) sign(id []byte) []byte {
	h := hmac.New(sha256.New, m.key)
	h.Write(id)
	return h.Sum(nil)[:macBytes]
}

// fingerprint identifies a text without revealing it.
func (m *mint) fingerprint(text string) string {
	h := hmac.New(sha256.New, m.key)
	h.Write([]byte("fingerprint "))
	h.Write([]byte(text))
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:macBytes])
}

// issue saves a new token of the owner and returns it. Only the owner's newest keep tokens stay.
func (m *mint) issue(ctx context.Context, owner string, data any, expires time.Time, keep int) (string, error) {
	encoded, err := json.Marshal(data)
	if err != nil {
		return "", fmt.Errorf("encode token: %w", err)
	}
	var id [idBytes]byte
	_, _ = rand.Read(id[:]) // never fails (crypto/rand)
	err = m.store.SaveToken(ctx, admission.Token{
		ID: base64.RawURLEncoding.EncodeToString(id[:]), Kind: m.kind, Owner: owner, Data: string(encoded),
		CreatedAt: m.now(), ExpiresAt: expires,
	}, keep)
	if err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(append(id[:], m.sign(id[:])...)), nil
}

// id returns the id of a token signed by this server.
func (m *mint) id(token string) (string, error) {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil || len(raw) != idBytes+macBytes || !hmac.Equal(raw[idBytes:], m.sign(raw[:idBytes])) {
		return "", errForged
	}
	return base64.RawURLEncoding.EncodeToString(raw[:idBytes]), nil
}

// read returns what was saved with a token; persistence.ErrNotFound or errForged if the token is
// not valid (any longer).
func (m *mint) read(ctx context.Context, token string, data any) (admission.Token, error) {
	id, err := m.id(token)
	if err != nil {
		return admission.Token{}, err
	}
	return m.saved(ctx, m.kind, id, data)
}

// saved returns what was saved of a kind under an id; persistence.ErrNotFound if there is nothing, or if
// it has expired.
func (m *mint) saved(ctx context.Context, kind, id string, data any) (admission.Token, error) {
	saved, err := m.store.Token(ctx, kind, id)
	if err != nil {
		return admission.Token{}, err
	}
	if !saved.ExpiresAt.After(m.now()) {
		return admission.Token{}, persistence.ErrNotFound
	}
	if err := json.Unmarshal([]byte(saved.Data), data); err != nil {
		return admission.Token{}, fmt.Errorf("read token: %w", err)
	}
	return saved, nil
}

// isUnknown reports whether an error of read means that the token is not valid.
func isUnknown(err error) bool {
	return errors.Is(err, errForged) || errors.Is(err, persistence.ErrNotFound)
}
