package access

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"voicebridge/persistence"
	"voicebridge/persistence/admission"
	"voicebridge/web/problem"
)

// SecretPrefix is how a client secret begins.
const SecretPrefix = "ek_"

// MaxSecretsPerOwner limits one owner's valid client secrets.
const MaxSecretsPerOwner = 1_000

// What is remembered of the calls that a secret has opened.
const (
	// callsPerSecret is how many of them: they are all on one thread, where only one can be live.
	callsPerSecret = 10
	// callLifetime is for how long: longer than nearly all calls last. For the others an application makes another
	// secret of the thread. A secret that leaked is good for no longer, and rows of ended calls stay no longer.
	callLifetime = 24 * time.Hour
)

// Secrets issues, reads and revokes client secrets. It is safe for concurrent use.
type Secrets struct {
	mint *mint
	max  int // valid ones of one owner
}

// Add issues a token for the secret. Too many valid ones of its owner are a 429.
func (s *Secrets) Add(ctx context.Context, secret ClientSecret) (string, error) {
	n, err := s.mint.store.CountTokens(ctx, secret.Owner, kindSecret, s.mint.now())
	if err != nil {
		return "", err
	}
	if n >= s.max {
		return "", problem.TooMany("too_many_secrets",
			"You have too many valid client secrets. Wait for some to expire.", problem.RetryFull)
	}
	token, err := s.mint.issue(ctx, secret.Owner, secret, secret.Expires, s.max)
	return SecretPrefix + token, err
}

// Opened records that a secret has opened a call: for the routes of that call, and for nothing else, it
// stays good after it has expired.
func (s *Secrets) Opened(ctx context.Context, secret *ClientSecret, callID string) error {
	kind, now := kindCallOf+secret.id, s.mint.now()
	data, err := json.Marshal(ClientSecret{Thread: secret.Thread})
	if err != nil {
		return fmt.Errorf("encode call of secret: %w", err)
	}
	err = s.mint.store.SaveToken(ctx, admission.Token{
		ID: callID, Kind: kind, Owner: secret.Owner, Data: string(data), CreatedAt: now,
		ExpiresAt: now.Add(callLifetime),
	}, callsPerSecret)
	if err != nil {
		return err
	}
	// It may have been revoked while the call was being set up.
	_, err = s.mint.store.Token(ctx, kindSecret, secret.id)
	if errors.Is(err, persistence.ErrNotFound) {
		err = s.mint.store.TrimTokens(ctx, secret.Owner, kind, 0)
	}
	return err
}

// HasOpened reports whether a secret has opened a call, whose thread therefore exists, or was deleted.
func (s *Secrets) HasOpened(ctx context.Context, secret *ClientSecret) (bool, error) {
	n, err := s.mint.store.CountTokens(ctx, secret.Owner, kindCallOf+secret.id, s.mint.now())
	return n > 0, err
}

// Revoke revokes a secret of the owner; persistence.ErrNotFound if there is none. In any case, it is no longer good
// for the calls that it opened.
func (s *Secrets) Revoke(ctx context.Context, owner, token string) error {
	id, err := s.mint.id(strings.TrimPrefix(token, SecretPrefix))
	if err != nil {
		return persistence.ErrNotFound
	}
	err = s.mint.store.DeleteToken(ctx, owner, kindSecret, id)
	if err != nil && !errors.Is(err, persistence.ErrNotFound) {
		return err
	}
	return errors.Join(err, s.mint.store.TrimTokens(ctx, owner, kindCallOf+id, 0))
}

// identify returns who presents a secret. callID is the call that the request is about, empty for none:
// for a call that it has opened, an expired secret is still good.
func (s *Secrets) identify(ctx context.Context, token, callID string) (Identity, error) {
	var secret ClientSecret
	var saved admission.Token
	id, err := s.mint.id(strings.TrimPrefix(token, SecretPrefix))
	if err == nil {
		saved, err = s.mint.saved(ctx, kindSecret, id, &secret)
	}
	if errors.Is(err, persistence.ErrNotFound) && callID != "" {
		saved, err = s.mint.saved(ctx, kindCallOf+id, callID, &secret)
	}
	switch {
	case errors.Is(err, errForged):
		return Identity{}, problem.Unauthorized("This client secret is unknown or has expired.")
	case errors.Is(err, persistence.ErrNotFound):
		return Identity{}, errSecretOver
	case err != nil:
		return Identity{}, err
	}
	secret.id, secret.Owner, secret.Expires = id, saved.Owner, saved.ExpiresAt
	return Identity{Owner: saved.Owner, Secret: &secret, Until: saved.ExpiresAt}, nil
}
