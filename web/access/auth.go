package access

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"voicebridge/web/problem"
)

// LocalOwner owns everything if no authentication is configured.
const LocalOwner = "local"

const maxOwner = 255 // bytes

// MaxToken limits the size of a token, in bytes.
const MaxToken = 16 << 10

// Auth says how clients authenticate. The zero value requires no authentication: there is one local
// user.
type Auth struct {
	Tokens []StaticToken
	// JWTSecret verifies tokens signed with HS256. It needs at least [MinJWTSecret] bytes.
	JWTSecret Secret
	// JWKSURL has the public keys that verify tokens signed with RSA, ECDSA or
	// Ed25519 (RFC 7517).
	JWKSURL string
	// JWTIssuer and JWTAudience are the required iss and aud of a JWT. Both are needed with
	// JWKSURL, whose issuer also signs tokens for others.
	JWTIssuer, JWTAudience string
	// JWTMayClaim names owners that a JWT may name although they are [LocalOwner] or have a static
	// token.
	JWTMayClaim []string
	// Secret signs page sessions and client secrets. All instances on one database need the same
	// one.
	Secret Secret
	// HTTP fetches the keys; nil uses a client with a time limit.
	HTTP *http.Client
}

// Minimum lengths of secrets, in bytes, to prevent guessing.
const (
	MinToken     = 16
	MinJWTSecret = 32
)

// Validate reports everything that is wrong.
func (a Auth) Validate() error {
	var problems []error
	for _, t := range a.Tokens {
		if !validOwner(t.Owner) {
			problems = append(problems, fmt.Errorf("the owner %.50q of a token is not valid", t.Owner))
		}
		if len(t.Token.Reveal()) < MinToken {
			problems = append(problems, fmt.Errorf("the token of %q has less than %d characters: it could be guessed", t.Owner, MinToken))
		}
	}
	if n := len(a.JWTSecret.Reveal()); a.JWTSecret.IsSet() && n < MinJWTSecret {
		problems = append(problems, fmt.Errorf("the JWT secret has less than %d bytes: it could be guessed", MinJWTSecret))
	}
	if a.JWKSURL != "" && (a.JWTIssuer == "" || a.JWTAudience == "") {
		problems = append(problems, errors.New("a JWKS address needs JWT issuer and audience: its issuer also signs tokens for others"))
	}
	if !a.Secret.IsSet() {
		problems = append(problems, errors.New("the secret that signs sessions is missing"))
	}
	return errors.Join(problems...)
}

// StaticToken is a token that does not expire, and its owner. It needs at least [MinToken]
// characters.
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
	// Name is the user's name: the owner of a static token, or a JWT's claim name; empty if
	// unknown.
	Name string
	// Secret is set if the client presented a client secret.
	Secret *ClientSecret
	// when its credential expires; zero for never
	Until   time.Time
	session string // id of the page session
	program bool
}

// IsProgram reports whether the client presented one of the operator's tokens or a JWT: it is an
// application's server and not a page.
func (i Identity) IsProgram() bool { return i.program }

// Authenticator finds the Identity of a request. It is safe for concurrent use.
type Authenticator struct {
	tokens  []hashedToken
	guesses *Guesses
	jwt     *jwtVerifier // nil if none are accepted

	// Required reports whether any authentication is configured.
	Required bool
	Secrets  *Secrets
	sessions *mint
	prints   map[string]bool // fingerprints of the static tokens
	held     *held
}

type hashedToken struct {
	hash  [sha256.Size]byte
	owner string
}

// New checks the configuration and returns an authenticator. now is its clock.
func New(a Auth, guesses *Guesses, store tokenStore, now func() time.Time) (*Authenticator, error) {
	if err := a.Validate(); err != nil {
		return nil, err
	}
	out := &Authenticator{Required: a.Required(), guesses: guesses, held: newHeld(), prints: make(map[string]bool)}
	for _, t := range a.Tokens {
		out.tokens = append(out.tokens, hashedToken{sha256.Sum256([]byte(t.Token.Reveal())), t.Owner})
	}
	var err error
	if out.sessions, err = newMint(kindSession, a.Secret, store, now); err != nil {
		return nil, err
	}
	secrets, err := newMint(kindSecret, a.Secret, store, now)
	if err != nil {
		return nil, err
	}
	out.Secrets = &Secrets{secrets}
	for _, t := range a.Tokens {
		out.prints[out.sessions.fingerprint(t.Token.Reveal())] = true
	}
	if out.jwt, err = newJWTVerifier(a, now); err != nil {
		return nil, err
	}
	return out, nil
}

// validOwner reports whether s can be an owner: text that databases can store.
func validOwner(s string) bool {
	return s != "" && len(s) <= maxOwner && utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl)
}

// Identify returns who a request comes from. Client secrets are accepted only if secretsToo is set.
// Errors are *problem.Error with status 401.
func (a *Authenticator) Identify(r *http.Request, by Caller, secretsToo bool) (Identity, error) {
	who, err := a.identify(r, by, secretsToo)
	if err == nil && who.Name == "" && slices.ContainsFunc(a.tokens, func(t hashedToken) bool { return t.owner == who.Owner }) {
		who.Name = who.Owner
	}
	return who, err
}

func (a *Authenticator) identify(r *http.Request, by Caller, secretsToo bool) (Identity, error) {
	token, shown, err := bearer(r)
	if err != nil {
		return Identity{}, err
	}
	switch {
	case shown && strings.HasPrefix(token, SecretPrefix):
		if !secretsToo {
			return Identity{}, problem.Unauthorized("A client secret can only open and end calls.")
		}
		who, err := a.Secrets.identify(r.Context(), token)
		if isRefusal(err) {
			err = a.guesses.wrong(by, err)
		}
		return who, err
	case !a.Required:
		// Clients of the Realtime API always send a key; it means nothing here.
		return Identity{Owner: LocalOwner, program: true}, nil
	case shown:
		owner, until, err := a.Owner(r.Context(), by, token)
		return Identity{Owner: owner, Name: nameIn(token), Until: until, program: err == nil}, err
	}
	return a.session(r)
}

// bearer returns the token of the Authorization header and whether there is one.
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

// Owner returns the owner of a static token or a JWT, and when it expires (zero for static ones).
// Wrong tokens are counted. A caller with too many of them is refused with any token that could be
// a guess; JWTs and tokens that worked before could not.
func (a *Authenticator) Owner(ctx context.Context, by Caller, token string) (string, time.Time, error) {
	if strings.Count(token, ".") == 2 && a.jwt != nil {
		owner, until, err := a.jwt.owner(ctx, token)
		if isRefusal(err) && !errors.Is(err, errExpired) {
			err = a.guesses.wrong(by, err)
		}
		return owner, until, err
	}
	unknown := problem.Unauthorized("This token is not known.")
	if token == "" || len(token) > MaxToken || strings.HasPrefix(token, SecretPrefix) {
		return "", time.Time{}, a.guesses.wrong(by, unknown)
	}
	hash, owner := sha256.Sum256([]byte(token)), ""
	for _, t := range a.tokens {
		// All are compared, so that the time taken reveals nothing.
		if subtle.ConstantTimeCompare(hash[:], t.hash[:]) == 1 {
			owner = t.owner
		}
	}
	if owner != "" {
		return owner, time.Time{}, a.guesses.right(by, owner)
	}
	return "", time.Time{}, a.guesses.wrong(by, unknown)
}

// errExpired is the answer to a token that was once valid.
var errExpired = problem.Unauthorized("This token has expired.")

// isRefusal reports whether err means that a token is wrong.
func isRefusal(err error) bool {
	e, ok := errors.AsType[*problem.Error](err)
	return ok && e.Status == http.StatusUnauthorized
}
