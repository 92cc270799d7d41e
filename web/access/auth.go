package access

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"
	"voicebridge/web/problem"
)

// MaxToken limits the size of a token, in bytes.
const MaxToken = 16 << 10

// Authenticator finds the Identity of a request. It is safe for concurrent use.
type Authenticator struct {
	tokens  []hashedToken
	guesses *Guesses
	jwt     *jwtVerifier // nil if none are accepted

	// Required reports whether any authentication is configured.
	Required bool
	Secrets  *Secrets
	Sessions *Sessions
}

type hashedToken struct {
	hash  [sha256.Size]byte
	owner string
}

// New checks the configuration and returns an authenticator. now is its clock.
func New(a Auth, guesses *Guesses, store TokenStore, now func() time.Time) (*Authenticator, error) {
	if err := a.Validate(); err != nil {
		return nil, err
	}
	out := &Authenticator{Required: a.Required(), guesses: guesses}
	for _, t := range a.Tokens {
		out.tokens = append(out.tokens, hashedToken{sha256.Sum256([]byte(t.Token.Reveal())), t.Owner})
	}
	sessions, err := newMint(kindSession, a.Secret, store, now)
	if err != nil {
		return nil, err
	}
	out.Sessions = newSessions(sessions, a.Tokens)
	secrets, err := newMint(kindSecret, a.Secret, store, now)
	if err != nil {
		return nil, err
	}
	out.Secrets, out.jwt = &Secrets{secrets, MaxSecretsPerOwner}, newJWTVerifier(a, now)
	return out, nil
}

// Identify returns who a request comes from. Client secrets are accepted only if secretsToo is set, and one that has
// expired only if it has opened callID, the call that the request is about. Errors are *problem.Error with status 401.
func (a *Authenticator) Identify(r *http.Request, by Peer, secretsToo bool, callID string) (Identity, error) {
	who, err := a.identify(r, by, secretsToo, callID)
	if err == nil && who.Name == "" && slices.ContainsFunc(a.tokens,
		func(t hashedToken) bool { return t.owner == who.Owner }) {
		who.Name = who.Owner
	}
	return who, err
}

func (a *Authenticator) identify(r *http.Request, by Peer, secretsToo bool, callID string) (Identity, error) {
	token, shown, err := bearer(r)
	if err != nil {
		return Identity{}, err
	}
	switch {
	case shown && strings.HasPrefix(token, SecretPrefix):
		if !secretsToo {
			return Identity{}, problem.Unauthorized("A client secret can only open and end calls.")
		}
		who, err := a.Secrets.identify(r.Context(), token, callID)
		if isRefusal(err) && !errors.Is(err, errSecretOver) {
			err = a.guesses.wrong(r.Context(), by, err)
		}
		return who, err
	case !a.Required:
		// Clients of the Realtime API always send a key; it means nothing here.
		return Identity{Owner: LocalOwner, program: true}, nil
	case shown:
		owner, until, err := a.Owner(r.Context(), by, token)
		return Identity{
			Owner: owner, Name: nameIn(token), Until: until, program: err == nil, static: err == nil && until.IsZero(),
		}, err
	}
	return a.Sessions.identify(r)
}

// tokenProtocol begins the subprotocol by which clients of the Realtime API show their token where they can set no
// headers, as in browsers.
const tokenProtocol = "openai-insecure-api-key."

// bearer returns the token of the Authorization header, or of a WebSocket's subprotocols, and whether there is one. A
// name and password are for a proxy in front, which passes them on: nobody signs in with them here.
func bearer(r *http.Request) (token string, shown bool, err error) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if scheme == "" || strings.EqualFold(scheme, "Basic") {
		token, shown = inProtocols(r)
		if len(token) > MaxToken {
			return "", false, problem.Unauthorized("The token is too long.")
		}
		return token, shown, nil
	}
	token = strings.TrimSpace(token)
	if !strings.EqualFold(scheme, "Bearer") || token == "" || len(token) > MaxToken {
		return "", false, problem.Unauthorized("The Authorization header must be: Bearer TOKEN.")
	}
	return token, true, nil
}

// inProtocols returns the token among the subprotocols of a WebSocket.
func inProtocols(r *http.Request) (token string, shown bool) {
	if !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		return "", false
	}
	for _, list := range r.Header.Values("Sec-WebSocket-Protocol") {
		for name := range strings.SplitSeq(list, ",") {
			if token, shown = strings.CutPrefix(strings.TrimSpace(name), tokenProtocol); shown {
				return token, true
			}
		}
	}
	return "", false
}

// Owner returns the owner of a static token or a JWT, and when it expires (zero for static ones).
// Wrong tokens are counted. A client that has presented too many is refused, unless its token cannot
// be a guess: a JWT, or a token that has worked before.
func (a *Authenticator) Owner(ctx context.Context, by Peer, token string) (string, time.Time, error) {
	hash, owner := sha256.Sum256([]byte(token)), ""
	for _, t := range a.tokens {
		// All are compared, so that the time taken reveals nothing.
		if subtle.ConstantTimeCompare(hash[:], t.hash[:]) == 1 {
			owner = t.owner
		}
	}
	switch {
	case owner != "": // first, since it may look like a JWT
		return owner, time.Time{}, a.guesses.right(by, owner)
	case a.jwt != nil && strings.Count(token, ".") == 2:
		owner, until, err := a.jwt.owner(ctx, token)
		if isRefusal(err) && !errors.Is(err, errExpired) {
			err = a.guesses.wrong(ctx, by, err)
		}
		return owner, until, err
	}
	return "", time.Time{}, a.guesses.wrong(ctx, by, problem.Unauthorized("This token is not known."))
}

// SignIn exchanges a static token or a JWT for a page session: the value of [SessionCookie].
func (a *Authenticator) SignIn(
	ctx context.Context, by Peer, token string,
) (value, owner string, expires time.Time, err error) {
	owner, until, err := a.Owner(ctx, by, token)
	if err != nil {
		return "", "", time.Time{}, err
	}
	value, expires, err = a.Sessions.open(ctx, owner, token, until)
	return value, owner, expires, err
}
