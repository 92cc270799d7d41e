package access

import (
	"context"
	"errors"
	"net/http"
	"time"

	"voicebridge/persistence"
	"voicebridge/web/problem"
)

// lookEvery is how often sessions that hold something open are checked: another instance may have
// ended them.
const lookEvery = 5 * time.Second

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

// Sessions opens, checks and ends page sessions, and tracks the sockets and streams that end with
// them. It is safe for concurrent use.
type Sessions struct {
	mint   *mint
	prints map[string]bool // fingerprints of the static tokens
	held   *held
}

func newSessions(m *mint, tokens []StaticToken) *Sessions {
	s := &Sessions{mint: m, prints: make(map[string]bool), held: newHeld()}
	for _, t := range tokens {
		s.prints[m.fingerprint(t.Token.Reveal())] = true
	}
	return s
}

func (s *Sessions) identify(r *http.Request) (Identity, error) {
	refused := problem.Unauthorized("Authentication is needed: send Authorization: Bearer, or sign in on the page.")
	cookie, err := r.Cookie(SessionCookie)
	if err != nil {
		return Identity{}, refused
	}
	var data sessionData
	saved, err := s.mint.read(r.Context(), cookie.Value, &data)
	if isUnknown(err) || err == nil && data.Token != "" && !s.prints[data.Token] {
		return Identity{}, refused
	}
	if err != nil {
		return Identity{}, err
	}
	return Identity{Owner: saved.Owner, Until: saved.ExpiresAt, session: saved.ID}, nil
}

// open creates a session for the owner of a token and returns the value of [SessionCookie]. The
// session ends with the token.
func (s *Sessions) open(
	ctx context.Context, owner, token string, until time.Time,
) (value string, expires time.Time, err error) {
	var data sessionData
	if until.IsZero() {
		data.Token = s.mint.fingerprint(token)
	}
	expires = s.mint.now().Add(SessionLifetime)
	if !until.IsZero() && until.Before(expires) {
		expires = until
	}
	value, err = s.mint.issue(ctx, owner, data, expires, maxSessionsPerOwner)
	return value, expires, err
}

// SignOut ends the session of a request, if it has one, and everything that it holds open. With
// everywhere it ends all sessions and client secrets of the owner. It returns the session's owner.
func (s *Sessions) SignOut(r *http.Request, everywhere bool) (owner string, err error) {
	who, err := s.identify(r)
	if isRefusal(err) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	if everywhere {
		return who.Owner, s.RevokeAll(r.Context(), who.Owner)
	}
	err = s.mint.store.DeleteToken(r.Context(), who.Owner, kindSession, who.session)
	if err != nil && !errors.Is(err, persistence.ErrNotFound) {
		return "", err
	}
	s.held.end(func(session string, _ string) bool { return session == who.session })
	return who.Owner, nil
}

// RevokeAll ends all sessions and client secrets of an owner.
func (s *Sessions) RevokeAll(ctx context.Context, owner string) error {
	if _, err := s.mint.store.DeleteTokens(ctx, owner); err != nil {
		return err
	}
	s.held.end(func(session, of string) bool { return session != "" && of == owner })
	return nil
}

// Hold returns a context that ends, with the cause [ErrEnded], when the identity's credential expires
// or its session ends. release must be called.
func (s *Sessions) Hold(parent context.Context, who Identity) (ctx context.Context, release func()) {
	ctx, end := context.WithCancelCause(parent)
	id := s.held.add(holding{who.session, who.Owner, end})
	var timer *time.Timer
	if !who.Until.IsZero() {
		timer = time.AfterFunc(who.Until.Sub(s.mint.now()), func() { end(ErrEnded) })
	}
	return ctx, func() {
		if timer != nil {
			timer.Stop()
		}
		s.held.remove(id)
		end(nil)
	}
}

// Run ends what is held open by sessions that another instance has ended, until ctx ends. If the
// database does not answer, it ends nothing.
func (s *Sessions) Run(ctx context.Context) {
	ticker := time.Tick(lookEvery)
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker:
			s.Look(ctx)
		}
	}
}

// Look ends what is held open by sessions that are gone.
func (s *Sessions) Look(ctx context.Context) {
	for id := range s.held.sessions() {
		if _, err := s.mint.store.Token(ctx, kindSession, id); errors.Is(err, persistence.ErrNotFound) {
			s.held.end(func(session, _ string) bool { return session == id })
		}
	}
}
