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
	"net/http"
	"strings"
	"time"

	"voicebridge/persistence"
	"voicebridge/web/problem"
)

// tokenStore stores the tokens that this server issues, for all instances of the database;
// *persistence.Store implements it.
type tokenStore interface {
	SaveAccessToken(ctx context.Context, t persistence.AccessToken, keep int) error
	AccessToken(ctx context.Context, kind, id string) (persistence.AccessToken, error)
	CountAccessTokens(ctx context.Context, owner, kind string) (int, error)
	DeleteAccessToken(ctx context.Context, owner, kind, id string) error
	DeleteAccessTokens(ctx context.Context, owner string) (int, error)
}

// The kinds of tokens that this server issues.
const (
	kindSession = "session"
	kindSecret  = "client_secret"
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
	store tokenStore
	now   func() time.Time
}

func newMint(kind string, secret Secret, store tokenStore, now func() time.Time) (*mint, error) {
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
	err = m.store.SaveAccessToken(ctx, persistence.AccessToken{
		ID: base64.RawURLEncoding.EncodeToString(id[:]), Kind: m.kind, Owner: owner, Data: string(encoded), CreatedAt: m.now(), ExpiresAt: expires,
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
func (m *mint) read(ctx context.Context, token string, data any) (persistence.AccessToken, error) {
	id, err := m.id(token)
	if err != nil {
		return persistence.AccessToken{}, err
	}
	saved, err := m.store.AccessToken(ctx, m.kind, id)
	if err != nil {
		return persistence.AccessToken{}, err
	}
	if !saved.ExpiresAt.After(m.now()) {
		return persistence.AccessToken{}, persistence.ErrNotFound
	}
	if err := json.Unmarshal([]byte(saved.Data), data); err != nil {
		return persistence.AccessToken{}, fmt.Errorf("read token: %w", err)
	}
	return saved, nil
}

func opensNothing(err error) bool {
	return errors.Is(err, errForged) || errors.Is(err, persistence.ErrNotFound)
}

// SecretPrefix is how a client secret begins.
const SecretPrefix = "ek_"

// MaxSecretsPerOwner limits one owner's valid client secrets.
const MaxSecretsPerOwner = 1_000

// ClientSecret is a short-lived token with which a browser opens calls on one thread of one owner,
// several one after the other, until it expires. Expiry does not end a call.
type ClientSecret struct {
	Owner   string    `json:"-"`
	Expires time.Time `json:"-"`
	// Session is the session of calls made with the secret; may be nil.
	Session json.RawMessage `json:"session,omitempty"`
	// Fixed means that an authenticated client set the session: other clients may change only what
	// MayChange names.
	Fixed     bool     `json:"fixed,omitempty"`
	MayChange []string `json:"may_change,omitempty"`
	// Thread is the only thread that the secret opens. A leaked secret opens no other thread of its
	// owner.
	Thread string `json:"thread"`
	// MakesThread means that the first call creates the thread.
	MakesThread bool `json:"makes_thread,omitempty"`
}

// Secrets issues, reads and revokes client secrets. It is safe for concurrent use.
type Secrets struct{ mint *mint }

// Add issues a token for the secret. Too many valid ones of its owner are a 429.
func (s *Secrets) Add(ctx context.Context, secret ClientSecret) (string, error) {
	n, err := s.mint.store.CountAccessTokens(ctx, secret.Owner, kindSecret)
	if err != nil {
		return "", err
	}
	if n >= MaxSecretsPerOwner {
		return "", problem.TooMany("too_many_secrets", "You have too many valid client secrets. Wait for some to expire.", problem.RetryFull)
	}
	token, err := s.mint.issue(ctx, secret.Owner, secret, secret.Expires, MaxSecretsPerOwner)
	return SecretPrefix + token, err
}

// Revoke revokes a secret of the owner; persistence.ErrNotFound if there is none.
func (s *Secrets) Revoke(ctx context.Context, owner, token string) error {
	id, err := s.mint.id(strings.TrimPrefix(token, SecretPrefix))
	if err != nil {
		return persistence.ErrNotFound
	}
	return s.mint.store.DeleteAccessToken(ctx, owner, kindSecret, id)
}

func (s *Secrets) identify(ctx context.Context, token string) (Identity, error) {
	var secret ClientSecret
	saved, err := s.mint.read(ctx, strings.TrimPrefix(token, SecretPrefix), &secret)
	if opensNothing(err) {
		return Identity{}, problem.Unauthorized("This client secret is unknown or has expired.")
	}
	if err != nil {
		return Identity{}, err
	}
	secret.Owner, secret.Expires = saved.Owner, saved.ExpiresAt
	return Identity{Owner: saved.Owner, Secret: &secret, Until: saved.ExpiresAt}, nil
}

// Limits of page sessions.
const (
	SessionCookie       = "voicebridge_session"
	SessionLifetime     = 7 * 24 * time.Hour
	maxSessionsPerOwner = 100
)

// sessionData is what is saved with a page session.
type sessionData struct {
	// Token is the fingerprint of the static token used to sign in: if that token is removed, the
	// session ends.
	Token string `json:"token,omitempty"`
}

func (a *Authenticator) session(r *http.Request) (Identity, error) {
	refused := problem.Unauthorized("Authentication is required: send Authorization: Bearer, or sign in on the page.")
	cookie, err := r.Cookie(SessionCookie)
	if err != nil {
		return Identity{}, refused
	}
	var data sessionData
	saved, err := a.sessions.read(r.Context(), cookie.Value, &data)
	if opensNothing(err) || err == nil && data.Token != "" && !a.prints[data.Token] {
		return Identity{}, refused
	}
	if err != nil {
		return Identity{}, err
	}
	return Identity{Owner: saved.Owner, Until: saved.ExpiresAt, session: saved.ID}, nil
}

// SignIn exchanges one of the operator's tokens for a page session: the value of [SessionCookie].
func (a *Authenticator) SignIn(ctx context.Context, by Caller, token string) (value, owner string, expires time.Time, err error) {
	owner, until, err := a.Owner(ctx, by, token)
	if err != nil {
		return "", "", time.Time{}, err
	}
	var data sessionData
	if until.IsZero() {
		data.Token = a.sessions.fingerprint(token)
	}
	expires = a.sessions.now().Add(SessionLifetime)
	if !until.IsZero() && until.Before(expires) {
		expires = until
	}
	value, err = a.sessions.issue(ctx, owner, data, expires, maxSessionsPerOwner)
	return value, owner, expires, err
}

// SignOut ends the session of a request, if it has one, and everything that it holds open. With
// everywhere it ends all sessions and client secrets of the owner. It returns the session's owner.
func (a *Authenticator) SignOut(r *http.Request, everywhere bool) (owner string, err error) {
	who, err := a.session(r)
	if isRefusal(err) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	if everywhere {
		return who.Owner, a.RevokeAll(r.Context(), who.Owner)
	}
	err = a.sessions.store.DeleteAccessToken(r.Context(), who.Owner, kindSession, who.session)
	if err != nil && !errors.Is(err, persistence.ErrNotFound) {
		return "", err
	}
	a.held.end(func(session string, _ string) bool { return session == who.session })
	return who.Owner, nil
}

// RevokeAll ends all sessions and client secrets of an owner.
func (a *Authenticator) RevokeAll(ctx context.Context, owner string) error {
	if _, err := a.sessions.store.DeleteAccessTokens(ctx, owner); err != nil {
		return err
	}
	a.held.end(func(session, of string) bool { return session != "" && of == owner })
	return nil
}
