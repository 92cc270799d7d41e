package web

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/golang-jwt/jwt/v5"
	"github.com/labstack/echo/v4"
)

// LocalOwner owns everything when no authentication is configured.
const LocalOwner = "local"

const (
	maxOwner = 255 // bytes
	maxToken = 16 << 10
)

// Auth says how callers prove who they are. The zero value has no
// authentication: there is one local user.
type Auth struct {
	Tokens []StaticToken
	// JWTSecret verifies tokens signed with HS256.
	JWTSecret Secret
	// JWKSURL has the public keys that verify tokens signed with RSA, ECDSA or
	// Ed25519 (RFC 7517).
	JWKSURL string
	// HTTP fetches the keys; nil uses a client with a time limit.
	HTTP *http.Client
}

// StaticToken is a token that does not expire and its owner.
type StaticToken struct {
	Owner string
	Token Secret
}

// Required reports whether any authentication is configured.
func (a Auth) Required() bool {
	return len(a.Tokens) > 0 || a.JWTSecret.IsSet() || a.JWKSURL != ""
}

// identity is who a request comes from.
type identity struct {
	Owner string
	// secret is set when the caller showed one of our short-lived secrets.
	secret *clientSecret
}

// authenticator finds the identity of a request. Safe for concurrent use.
type authenticator struct {
	required bool
	tokens   []hashedToken
	parser   *jwt.Parser
	hmacKey  []byte
	keys     *keySet // nil without a JWKS URL
	secrets  *secretStore
	sessions *sessionStore
}

type hashedToken struct {
	hash  [sha256.Size]byte
	owner string
}

func newAuthenticator(a Auth, now func() time.Time) (*authenticator, error) {
	out := &authenticator{required: a.Required(), secrets: newSecretStore(now), sessions: newSessionStore(now)}
	for _, t := range a.Tokens {
		if !validOwner(t.Owner) || !t.Token.IsSet() {
			return nil, errors.New("a static token needs an owner and a token")
		}
		out.tokens = append(out.tokens, hashedToken{sha256.Sum256([]byte(t.Token.Reveal())), t.Owner})
	}
	var methods []string
	if a.JWTSecret.IsSet() {
		out.hmacKey = []byte(a.JWTSecret.Reveal())
		methods = append(methods, "HS256")
	}
	if a.JWKSURL != "" {
		out.keys = newKeySet(a.JWKSURL, a.HTTP, now)
		methods = append(methods, asymmetricMethods...)
	}
	if len(methods) > 0 {
		// Whether tokens end is for whoever signs them to say: exp counts where it is.
		out.parser = jwt.NewParser(jwt.WithValidMethods(methods), jwt.WithLeeway(30*time.Second), jwt.WithTimeFunc(now))
	}
	return out, nil
}

// validOwner reports whether s can be an owner: what a database keeps as text.
func validOwner(s string) bool {
	return s != "" && len(s) <= maxOwner && utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl)
}

// identify returns who a request comes from. Client secrets count only where
// secretsToo is set. Errors are *apiError with status 401.
func (a *authenticator) identify(r *http.Request, secretsToo bool) (identity, error) {
	token, shown, err := bearer(r)
	if err != nil {
		return identity{}, err
	}
	switch {
	case shown && strings.HasPrefix(token, secretPrefix):
		if !secretsToo {
			return identity{}, unauthorized("A client secret opens and ends calls and nothing else.")
		}
		return a.secrets.identify(token)
	case !a.required:
		// Clients of the Realtime API always send some key: it means nothing here.
		return identity{Owner: LocalOwner}, nil
	case shown:
		owner, _, err := a.owner(r.Context(), token)
		return identity{Owner: owner}, err
	}
	if owner, ok := a.sessions.owner(r); ok {
		return identity{Owner: owner}, nil
	}
	return identity{}, unauthorized("Authentication is needed: send Authorization: Bearer, or sign in on the page.")
}

// bearer returns the token of the Authorization header and whether there was one.
func bearer(r *http.Request) (token string, shown bool, err error) {
	header := r.Header.Get(echo.HeaderAuthorization)
	if header == "" {
		return "", false, nil
	}
	scheme, token, _ := strings.Cut(header, " ")
	token = strings.TrimSpace(token)
	if !strings.EqualFold(scheme, "Bearer") || token == "" || len(token) > maxToken {
		return "", false, unauthorized("The Authorization header must be: Bearer TOKEN.")
	}
	return token, true, nil
}

// owner returns whom a static token or a JWT belongs to, and when it ends (zero
// for those that do not).
func (a *authenticator) owner(ctx context.Context, token string) (string, time.Time, error) {
	hash, owner := sha256.Sum256([]byte(token)), ""
	for _, t := range a.tokens {
		// All are compared, so that the time taken says nothing.
		if subtle.ConstantTimeCompare(hash[:], t.hash[:]) == 1 {
			owner = t.owner
		}
	}
	if owner != "" {
		return owner, time.Time{}, nil
	}
	if a.parser == nil {
		return "", time.Time{}, unauthorized("This token is not known.")
	}
	return a.jwtOwner(ctx, token)
}

func (a *authenticator) jwtOwner(ctx context.Context, token string) (string, time.Time, error) {
	var claims jwt.RegisteredClaims
	_, err := a.parser.ParseWithClaims(token, &claims, func(t *jwt.Token) (any, error) {
		if t.Method.Alg() == "HS256" {
			return a.hmacKey, nil
		}
		id, _ := t.Header["kid"].(string)
		return a.keys.key(ctx, id, t.Method.Alg())
	})
	switch {
	case errors.Is(err, errKeysUnavailable):
		return "", time.Time{}, &apiError{Status: http.StatusServiceUnavailable, Code: "keys_unavailable",
			Message: "The keys that verify tokens cannot be fetched now.", RetryAfter: 5 * time.Second}
	case errors.Is(err, jwt.ErrTokenExpired):
		return "", time.Time{}, unauthorized("This token has expired.")
	case err != nil:
		return "", time.Time{}, unauthorized("This token is not valid.")
	case !validOwner(claims.Subject):
		return "", time.Time{}, unauthorized("This token has no usable sub.")
	}
	if claims.ExpiresAt == nil {
		return claims.Subject, time.Time{}, nil
	}
	return claims.Subject, claims.ExpiresAt.Time, nil
}

const identityKey = "identity"

// authenticated lets a request through when its caller is known.
func (s *Server) authenticated(next echo.HandlerFunc) echo.HandlerFunc {
	return s.identified(next, false)
}

// authenticatedOrSecret also takes client secrets.
func (s *Server) authenticatedOrSecret(next echo.HandlerFunc) echo.HandlerFunc {
	return s.identified(next, true)
}

func (s *Server) identified(next echo.HandlerFunc, secretsToo bool) echo.HandlerFunc {
	return func(c echo.Context) error {
		who, err := s.auth.identify(c.Request(), secretsToo)
		if err != nil {
			return err
		}
		c.Set(identityKey, who)
		return next(c)
	}
}

// caller returns the identity of an authenticated request. A route that was
// registered without authentication has none: that is a defect, not a request.
func caller(c echo.Context) identity {
	who, ok := c.Get(identityKey).(identity)
	if !ok {
		panic(fmt.Sprintf("route %s has no authentication", c.Path()))
	}
	return who
}
