package access

import (
	"errors"
	"fmt"
	"net/http"
)

// Auth says how clients authenticate. The zero value requires no authentication: there is one local
// user.
type Auth struct {
	Tokens []StaticToken
	// JWTSecret verifies tokens signed with HS256. It needs at least [MinJWTSecret] bytes.
	JWTSecret Secret
	// URL of the public keys that verify JWTs signed with RSA, ECDSA or Ed25519 (RFC 7517). A token's `sub` is the
	// owner; it must have `exp`. VOICEBRIDGE_JWT_SECRET (at least 32 bytes) verifies HS256 instead.
	JWKSURL string `yaml:"jwt_jwks_url" format:"url"`
	// Required value of `iss` in a JWT; needed with jwt_jwks_url, whose issuer also signs tokens for others.
	JWTIssuer string `yaml:"jwt_issuer"`
	// Required value of `aud` in a JWT; needed with jwt_jwks_url.
	JWTAudience string `yaml:"jwt_audience"`
	// Owners that a JWT may name although they also have a token in VOICEBRIDGE_API_TOKENS, or are `local`.
	JWTMayClaim []string `yaml:"jwt_may_claim"`
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
			problems = append(problems, fmt.Errorf("the token of %q has fewer than %d characters: it could be guessed",
				t.Owner, MinToken))
		}
	}
	if n := len(a.JWTSecret.Reveal()); a.JWTSecret.IsSet() && n < MinJWTSecret {
		problems = append(problems, fmt.Errorf("the JWT secret has fewer than %d bytes: it could be guessed",
			MinJWTSecret))
	}
	if a.JWKSURL != "" && (a.JWTIssuer == "" || a.JWTAudience == "") {
		problems = append(problems, errors.New("a JWKS address needs JWT issuer and audience: its issuer also "+
			"signs tokens for others"))
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
