package access

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"sync"
	"time"
)

const (
	SessionCookie   = "voicebridge_session"
	SessionLifetime = 7 * 24 * time.Hour
	maxSessions     = 10_000
)

// SessionStore keeps the page's sessions in memory, by the hash of their
// cookie. They end with the process. Safe for concurrent use.
type SessionStore struct {
	now func() time.Time
	mu  sync.Mutex
	all map[[sha256.Size]byte]pageSession
}

type pageSession struct {
	owner   string
	expires time.Time
}

func newSessionStore(now func() time.Time) *SessionStore {
	return &SessionStore{now: now, all: make(map[[sha256.Size]byte]pageSession)}
}

// Add starts a session and returns its cookie's value. A full store forgets the
// sessions that have ended, and then the one that ends first.
func (s *SessionStore) Add(owner string, expires time.Time) string {
	value := randomToken()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.all) >= maxSessions {
		s.makeRoom()
	}
	s.all[sha256.Sum256([]byte(value))] = pageSession{owner, expires}
	return value
}

func (s *SessionStore) makeRoom() {
	now := s.now()
	var first [sha256.Size]byte
	var firstEnds time.Time
	for id, session := range s.all {
		if !session.expires.After(now) {
			delete(s.all, id)
			continue
		}
		if firstEnds.IsZero() || session.expires.Before(firstEnds) {
			first, firstEnds = id, session.expires
		}
	}
	if len(s.all) >= maxSessions {
		delete(s.all, first)
	}
}

// owner returns whom the request's session belongs to.
func (s *SessionStore) owner(r *http.Request) (string, bool) {
	cookie, err := r.Cookie(SessionCookie)
	if err != nil {
		return "", false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	session, ok := s.all[sha256.Sum256([]byte(cookie.Value))]
	if !ok || !session.expires.After(s.now()) {
		return "", false
	}
	return session.owner, true
}

// Remove ends the session of a request.
func (s *SessionStore) Remove(r *http.Request) {
	if cookie, err := r.Cookie(SessionCookie); err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.all, sha256.Sum256([]byte(cookie.Value)))
	}
}

// randomToken returns 256 random bits as text.
func randomToken() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	return base64.RawURLEncoding.EncodeToString(b[:])
}
