package access

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net/http"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"voicebridge/web/problem"

	"github.com/golang-jwt/jwt/v5"
)

// LocalOwner owns everything when no authentication is configured.
const LocalOwner = "local"

const maxOwner = 255 // bytes

// MaxToken is the size of a token, in bytes.
const MaxToken = 16 << 10

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

// Identity is who a request comes from.
type Identity struct {
	Owner string
	// Secret is set when the caller showed one of our short-lived secrets.
	Secret *ClientSecret
}

// Authenticator finds the Identity of a request. Safe for concurrent use.
type Authenticator struct {
	tokens  []hashedToken
	parser  *jwt.Parser
	hmacKey []byte
	keys    *keySet // nil without a JWKS URL

	// Required says whether any authentication is configured.
	Required bool
	Secrets  *SecretStore
	Sessions *SessionStore
}

type hashedToken struct {
	hash  [sha256.Size]byte
	owner string
}

// New checks the configuration and returns an authenticator by the clock now.
func New(a Auth, now func() time.Time) (*Authenticator, error) {
	out := &Authenticator{Required: a.Required(), Secrets: newSecretStore(now), Sessions: newSessionStore(now)}
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

// Identify returns who a request comes from. Client secrets count only where
// secretsToo is set. Errors are *problem.Error with status 401.
func (a *Authenticator) Identify(r *http.Request, secretsToo bool) (Identity, error) {
	token, shown, err := bearer(r)
	if err != nil {
		return Identity{}, err
	}
	switch {
	case shown && strings.HasPrefix(token, SecretPrefix):
		if !secretsToo {
			return Identity{}, problem.Unauthorized("A client secret opens and ends calls and nothing else.")
		}
		return a.Secrets.identify(token)
	case !a.Required:
		// Clients of the Realtime API always send some key: it means nothing here.
		return Identity{Owner: LocalOwner}, nil
	case shown:
		owner, _, err := a.Owner(r.Context(), token)
		return Identity{Owner: owner}, err
	}
	if owner, ok := a.Sessions.owner(r); ok {
		return Identity{Owner: owner}, nil
	}
	return Identity{}, problem.Unauthorized("Authentication is needed: send Authorization: Bearer, or sign in on the page.")
}

// bearer returns the token of the Authorization header and whether there was one.
func bearer(r *http.Request) (token string, shown bool, err error) {
	header := r.Header.Get("Authorization")
	if header == "" {
		return "", false, nil
	}
	scheme, token, _ := strings.Cut(header, " ")
	token = strings.TrimSpace(token)
	if !strings.EqualFold(scheme, "Bearer") || token == "" || len(token) > MaxToken {
		return "", false, problem.Unauthorized("The Authorization header must be: Bearer TOKEN.")
	}
	return token, true, nil
}

// Owner returns whom a static token or a JWT belongs to, and when it ends (zero
// for those that do not).
func (a *Authenticator) Owner(ctx context.Context, token string) (string, time.Time, error) {
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
		return "", time.Time{}, problem.Unauthorized("This token is not known.")
	}
	return a.jwtOwner(ctx, token)
}

func (a *Authenticator) jwtOwner(ctx context.Context, token string) (string, time.Time, error) {
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
		return "", time.Time{}, &problem.Error{Status: http.StatusServiceUnavailable, Code: "keys_unavailable",
			Message: "The keys that verify tokens cannot be fetched now.", RetryAfter: 5 * time.Second}
	case errors.Is(err, jwt.ErrTokenExpired):
		return "", time.Time{}, problem.Unauthorized("This token has expired.")
	case err != nil:
		return "", time.Time{}, problem.Unauthorized("This token is not valid.")
	case !validOwner(claims.Subject):
		return "", time.Time{}, problem.Unauthorized("This token has no usable sub.")
	}
	if claims.ExpiresAt == nil {
		return claims.Subject, time.Time{}, nil
	}
	return claims.Subject, claims.ExpiresAt.Time, nil
}
