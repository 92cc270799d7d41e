package access

import (
	"context"
	"strings"
	"voicebridge/persistence"
	"voicebridge/web/problem"
)

// SecretPrefix is how a client secret begins.
const SecretPrefix = "ek_"

// MaxSecretsPerOwner limits one owner's valid client secrets.
const MaxSecretsPerOwner = 1_000

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
	if isUnknown(err) {
		return Identity{}, problem.Unauthorized("This client secret is unknown or has expired.")
	}
	if err != nil {
		return Identity{}, err
	}
	secret.Owner, secret.Expires = saved.Owner, saved.ExpiresAt
	return Identity{Owner: saved.Owner, Secret: &secret, Until: saved.ExpiresAt}, nil
}
