package access

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"sync"
	"time"

	"voicebridge/web/problem"
)

const (
	SecretPrefix       = "ek_"
	maxSecrets         = 10_000
	maxSecretsPerOwner = 1_000
	maxSecretBytes     = 32 << 20 // of all sessions that living secrets hold
)

// ClientSecret is a short-lived token with which a browser opens calls on one
// thread of one owner. It may open several calls, one after the other, until it
// expires; its end does not end a call.
//
// Without a thread it makes one with its first call and stays bound to it: a
// secret that leaks never opens another thread of its owner.
type ClientSecret struct {
	Owner   string
	Session json.RawMessage // applied to calls made with the secret; may be nil
	Expires time.Time

	// binding holds one token. Whoever takes it owns Thread until it is put back:
	// of two first calls at the same time, the second waits and then finds the
	// thread that the first has made.
	binding chan struct{}
	// Thread is the only one that the secret opens; empty until the first call.
	Thread string
}

// Bind waits for the right to read and set the secret's thread. The returned
// function sets it, when it got one, and gives the right back.
func (s *ClientSecret) Bind(ctx context.Context) (thread string, release func(thread string), err error) {
	select {
	case <-s.binding:
	case <-ctx.Done():
		return "", nil, ctx.Err()
	}
	if s.Thread != "" {
		thread = s.Thread
		s.binding <- struct{}{}
		return thread, func(string) {}, nil
	}
	return "", func(made string) {
		s.Thread = made
		s.binding <- struct{}{}
	}, nil
}

// SecretStore keeps the secrets in memory by their hash. They end with the
// process. Safe for concurrent use.
type SecretStore struct {
	now func() time.Time
	mu  sync.Mutex
	all map[[sha256.Size]byte]*ClientSecret
}

func newSecretStore(now func() time.Time) *SecretStore {
	return &SecretStore{now: now, all: make(map[[sha256.Size]byte]*ClientSecret)}
}

// Add mints a token for the secret. Too many living secrets, of this owner or in
// all, are a 429.
func (s *SecretStore) Add(secret *ClientSecret) (string, error) {
	secret.binding = make(chan struct{}, 1)
	secret.binding <- struct{}{}
	s.mu.Lock()
	defer s.mu.Unlock()
	mine, held, now := 0, len(secret.Session), s.now()
	for id, other := range s.all {
		if !other.Expires.After(now) {
			delete(s.all, id)
			continue
		}
		held += len(other.Session)
		if other.Owner == secret.Owner {
			mine++
		}
	}
	if len(s.all) >= maxSecrets || mine >= maxSecretsPerOwner || held > maxSecretBytes {
		return "", problem.TooMany("too_many_secrets", "Too many client secrets are alive. They end by themselves.", problem.RetryFull)
	}
	token := SecretPrefix + randomToken()
	s.all[sha256.Sum256([]byte(token))] = secret
	return token, nil
}

func (s *SecretStore) identify(token string) (Identity, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	secret, ok := s.all[sha256.Sum256([]byte(token))]
	if !ok || !secret.Expires.After(s.now()) {
		return Identity{}, problem.Unauthorized("This client secret is not known or has expired.")
	}
	return Identity{Owner: secret.Owner, Secret: secret}, nil
}
