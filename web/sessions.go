package web

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/labstack/echo/v4"
)

const (
	sessionCookie   = "voicebridge_session"
	sessionLifetime = 7 * 24 * time.Hour
	maxSessions     = 10_000
)

// sessionStore keeps the page's sessions in memory, by the hash of their
// cookie. They end with the process. Safe for concurrent use.
type sessionStore struct {
	now func() time.Time
	mu  sync.Mutex
	all map[[sha256.Size]byte]pageSession
}

type pageSession struct {
	owner   string
	expires time.Time
}

func newSessionStore(now func() time.Time) *sessionStore {
	return &sessionStore{now: now, all: make(map[[sha256.Size]byte]pageSession)}
}

// add starts a session and returns its cookie's value. A full store forgets the
// sessions that have ended, and then the one that ends first.
func (s *sessionStore) add(owner string, expires time.Time) string {
	value := randomToken()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.all) >= maxSessions {
		s.makeRoom()
	}
	s.all[sha256.Sum256([]byte(value))] = pageSession{owner, expires}
	return value
}

func (s *sessionStore) makeRoom() {
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
func (s *sessionStore) owner(r *http.Request) (string, bool) {
	cookie, err := r.Cookie(sessionCookie)
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

func (s *sessionStore) remove(r *http.Request) {
	if cookie, err := r.Cookie(sessionCookie); err == nil {
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

// signIn exchanges a token for the page's session cookie.
func (s *Server) signIn(c echo.Context) error {
	if err := s.limits.signIns.take(c.RealIP()); err != nil {
		return err
	}
	var body struct {
		Token string `json:"token"`
	}
	if err := readJSON(c, &body, false); err != nil {
		return err
	}
	expires := s.now().Add(sessionLifetime)
	owner := LocalOwner
	if s.auth.required {
		if body.Token == "" || len(body.Token) > maxToken || strings.HasPrefix(body.Token, secretPrefix) {
			return unauthorized("This token is not known.")
		}
		var until time.Time
		var err error
		if owner, until, err = s.auth.owner(c.Request().Context(), body.Token); err != nil {
			return err
		}
		if !until.IsZero() && until.Before(expires) {
			expires = until
		}
	}
	s.auth.sessions.remove(c.Request())
	value := s.auth.sessions.add(owner, expires)
	c.SetCookie(newSessionCookie(c.Request(), value, int(expires.Sub(s.now()).Seconds())))
	return c.JSON(http.StatusOK, map[string]any{"owner": owner, "expires_at": expires.UTC().Truncate(time.Second)})
}

// signOut ends the page's session. Without one it does nothing.
func (s *Server) signOut(c echo.Context) error {
	s.auth.sessions.remove(c.Request())
	c.SetCookie(newSessionCookie(c.Request(), "", -1))
	return c.NoContent(http.StatusNoContent)
}

func newSessionCookie(r *http.Request, value string, maxAge int) *http.Cookie {
	return &http.Cookie{
		Name: sessionCookie, Value: value, Path: "/", MaxAge: maxAge,
		HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: overTLS(r),
	}
}

// overTLS reports whether the page came by HTTPS. Behind a proxy that ends TLS
// only the browser's own Origin says so.
func overTLS(r *http.Request) bool {
	if r.TLS != nil {
		return true
	}
	origin, err := url.Parse(r.Header.Get(echo.HeaderOrigin))
	return err == nil && origin.Scheme == "https"
}
