package web

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"voicebridge/persistence"
)

const (
	secretPrefix       = "ek_"
	secretDefaultTTL   = 600  // seconds
	secretMinTTL       = 10   // seconds
	secretMaxTTL       = 7200 // seconds
	maxSecrets         = 10_000
	maxSecretsPerOwner = 1_000
	maxSecretBytes     = 32 << 20 // of all sessions that living secrets hold
)

// clientSecret is a short-lived token with which a browser opens calls on one
// thread of one owner. It may open several calls, one after the other, until it
// expires; its end does not end a call.
//
// Without a thread it makes one with its first call and stays bound to it: a
// secret that leaks never opens another thread of its owner.
type clientSecret struct {
	owner   string
	session json.RawMessage // applied to calls made with the secret; may be nil
	expires time.Time

	// binding holds one token. Whoever takes it owns thread until it is put back:
	// of two first calls at the same time, the second waits and then finds the
	// thread that the first has made.
	binding chan struct{}
	thread  string
}

// bind waits for the right to read and set the secret's thread. The returned
// function sets it, when it got one, and gives the right back.
func (s *clientSecret) bind(ctx context.Context) (thread string, release func(thread string), err error) {
	select {
	case <-s.binding:
	case <-ctx.Done():
		return "", nil, ctx.Err()
	}
	if s.thread != "" {
		thread = s.thread
		s.binding <- struct{}{}
		return thread, func(string) {}, nil
	}
	return "", func(made string) {
		s.thread = made
		s.binding <- struct{}{}
	}, nil
}

// secretStore keeps the secrets in memory by their hash. They end with the
// process. Safe for concurrent use.
type secretStore struct {
	now func() time.Time
	mu  sync.Mutex
	all map[[sha256.Size]byte]*clientSecret
}

func newSecretStore(now func() time.Time) *secretStore {
	return &secretStore{now: now, all: make(map[[sha256.Size]byte]*clientSecret)}
}

// add mints a token for the secret. Too many living secrets, of this owner or in
// all, are a 429.
func (s *secretStore) add(secret *clientSecret) (string, error) {
	secret.binding = make(chan struct{}, 1)
	secret.binding <- struct{}{}
	s.mu.Lock()
	defer s.mu.Unlock()
	mine, held, now := 0, len(secret.session), s.now()
	for id, other := range s.all {
		if !other.expires.After(now) {
			delete(s.all, id)
			continue
		}
		held += len(other.session)
		if other.owner == secret.owner {
			mine++
		}
	}
	if len(s.all) >= maxSecrets || mine >= maxSecretsPerOwner || held > maxSecretBytes {
		return "", tooMany("too_many_secrets", "Too many client secrets are alive. They end by themselves.", retryFull)
	}
	token := secretPrefix + randomToken()
	s.all[sha256.Sum256([]byte(token))] = secret
	return token, nil
}

func (s *secretStore) identify(token string) (identity, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	secret, ok := s.all[sha256.Sum256([]byte(token))]
	if !ok || !secret.expires.After(s.now()) {
		return identity{}, unauthorized("This client secret is not known or has expired.")
	}
	return identity{Owner: secret.owner, secret: secret}, nil
}

type secretRequest struct {
	ExpiresAfter *struct {
		Anchor  string `json:"anchor"`
		Seconds *int64 `json:"seconds"`
	} `json:"expires_after"`
	Session  json.RawMessage `json:"session"`
	ThreadID *string         `json:"thread_id"`
}

type secretAnswer struct {
	Value     string          `json:"value"`
	ExpiresAt int64           `json:"expires_at"` // Unix seconds
	Session   json.RawMessage `json:"session"`
	ThreadID  *string         `json:"thread_id"`
}

// createSecret mints a client secret for the caller.
func (s *Server) createSecret(c echo.Context) error {
	var body secretRequest
	if err := readJSON(c, &body, true); err != nil {
		return err
	}
	ttl, err := body.ttl()
	if err != nil {
		return err
	}
	secret := &clientSecret{owner: caller(c).Owner, expires: s.now().Add(ttl)}
	if secret.session, err = sessionObject(body.Session); err != nil {
		return err
	}
	if body.ThreadID != nil {
		if secret.thread, err = s.ownThread(c, secret.owner, *body.ThreadID); err != nil {
			return err
		}
	}
	shown, err := s.shownSession(secret.session)
	if err != nil {
		return err
	}
	token, err := s.auth.secrets.add(secret)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, secretAnswer{Value: token, ExpiresAt: secret.expires.Unix(), Session: shown, ThreadID: body.ThreadID})
}

func (r secretRequest) ttl() (time.Duration, error) {
	if r.ExpiresAfter == nil {
		return secretDefaultTTL * time.Second, nil
	}
	if a := r.ExpiresAfter.Anchor; a != "" && a != "created_at" {
		return 0, badRequest("invalid_value", "expires_after.anchor", "expires_after.anchor must be created_at.")
	}
	if r.ExpiresAfter.Seconds == nil {
		return secretDefaultTTL * time.Second, nil
	}
	n := *r.ExpiresAfter.Seconds
	if n < secretMinTTL || n > secretMaxTTL {
		return 0, badRequest("invalid_value", "expires_after.seconds",
			fmt.Sprintf("expires_after.seconds must be from %d to %d.", secretMinTTL, secretMaxTTL))
	}
	return time.Duration(n) * time.Second, nil
}

// ownThread checks that the thread is the caller's.
func (s *Server) ownThread(c echo.Context, owner, id string) (string, error) {
	if !validID(id, maxThreadID) {
		return "", errNoThread
	}
	_, err := s.store.Thread(c.Request().Context(), persistence.Key{Owner: owner, Thread: id})
	return id, orThread(err)
}

// sessionObject checks a client's session object. A missing one and null are nil.
func sessionObject(raw json.RawMessage) (json.RawMessage, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	if len(raw) > maxSession {
		return nil, tooLarge("session", fmt.Sprintf("session is larger than %d bytes.", maxSession))
	}
	if !isObject(raw) {
		return nil, badRequest("invalid_value", "session", "session must be a JSON object.")
	}
	var head struct {
		Type json.RawMessage `json:"type"`
	}
	if err := json.Unmarshal(raw, &head); err != nil || (len(head.Type) > 0 && string(head.Type) != `"realtime"`) {
		return nil, badRequest("invalid_value", "session.type", `session.type must be "realtime".`)
	}
	return raw, nil
}

// shownSession is the session as the answer shows it: what was asked for, with
// the model that this server uses.
func (s *Server) shownSession(session json.RawMessage) (json.RawMessage, error) {
	fields := map[string]json.RawMessage{}
	if session != nil {
		if err := json.Unmarshal(session, &fields); err != nil {
			return nil, badRequest("invalid_value", "session", "session must be a JSON object.")
		}
	}
	model, err := json.Marshal(s.cfg.Upstream.Model)
	if err != nil {
		return nil, fmt.Errorf("encode model: %w", err)
	}
	fields["type"], fields["object"], fields["model"] = json.RawMessage(`"realtime"`), json.RawMessage(`"realtime.session"`), model
	return json.Marshal(fields)
}
