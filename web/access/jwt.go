package access

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/golang-jwt/jwt/v5"

	"voicebridge/web/problem"
)

// leeway is how long before and after its time a token is accepted, because clocks differ.
const leeway = 30 * time.Second

// jwtVerifier verifies JSON Web Tokens (RFC 7519).
type jwtVerifier struct {
	parser  *jwt.Parser
	now     func() time.Time
	hmacKey []byte
	keys    *keySet // nil without a JWKS URL
	// reserved are owners that no token may name.
	reserved []string
}

// newJWTVerifier returns nil if no JWTs are accepted.
func newJWTVerifier(a Auth, now func() time.Time) *jwtVerifier {
	v := &jwtVerifier{now: now}
	var methods []string
	if a.JWTSecret.IsSet() {
		v.hmacKey = []byte(a.JWTSecret.Reveal())
		methods = append(methods, "HS256")
	}
	if a.JWKSURL != "" {
		v.keys = newKeySet(a.JWKSURL, a.HTTP, now)
		methods = append(methods, asymmetricMethods...)
	}
	if len(methods) == 0 {
		return nil
	}
	options := []jwt.ParserOption{
		jwt.WithValidMethods(methods), jwt.WithLeeway(leeway), jwt.WithTimeFunc(now), jwt.WithExpirationRequired(),
	}
	if a.JWTIssuer != "" {
		options = append(options, jwt.WithIssuer(a.JWTIssuer))
	}
	if a.JWTAudience != "" {
		options = append(options, jwt.WithAudience(a.JWTAudience))
	}
	v.parser = jwt.NewParser(options...)
	owners := []string{LocalOwner}
	for _, t := range a.Tokens {
		owners = append(owners, t.Owner)
	}
	for _, owner := range owners {
		if !slices.Contains(a.JWTMayClaim, owner) {
			v.reserved = append(v.reserved, owner)
		}
	}
	return v
}

// owner returns the owner that a token names, and when what it opens ends: when it expires or, if it already has,
// with the leeway.
func (v *jwtVerifier) owner(ctx context.Context, token string) (string, time.Time, error) {
	claims, err := v.verify(ctx, token)
	switch {
	case ctx.Err() != nil:
		return "", time.Time{}, ctx.Err()
	case errors.Is(err, errUnknownKey) && v.keys.unavailable() != nil: // it may be a new key
		return "", time.Time{}, fmt.Errorf("%w (%w)", &problem.Error{
			Status: http.StatusServiceUnavailable, Code: "keys_unavailable",
			Message: "The keys that verify tokens cannot be fetched at the moment.", RetryAfter: 5 * time.Second,
		}, v.keys.unavailable())
	case errors.Is(err, jwt.ErrTokenExpired):
		return "", time.Time{}, errExpired
	case errors.Is(err, jwt.ErrTokenInvalidAudience), errors.Is(err, jwt.ErrTokenInvalidIssuer):
		return "", time.Time{}, problem.Unauthorized("This token was issued for another server: its iss or aud " +
			"does not match.")
	case err != nil:
		return "", time.Time{}, problem.Unauthorized("This token is not valid.")
	}
	owner, _ := claims["sub"].(string)
	if !validOwner(owner) {
		return "", time.Time{}, problem.Unauthorized("This token has no usable sub.")
	}
	if slices.Contains(v.reserved, owner) {
		return "", time.Time{}, problem.Unauthorized("JWTs may not name this owner.")
	}
	expires, err := claims.GetExpirationTime()
	if err != nil || expires == nil { // the parser has checked it
		return "", time.Time{}, problem.Unauthorized("This token is not valid.")
	}
	if !expires.After(v.now()) {
		return owner, expires.Add(leeway), nil
	}
	return owner, expires.Time, nil
}

// verify returns the claims of a token. If none of the keys verifies it, they may have changed.
func (v *jwtVerifier) verify(ctx context.Context, token string) (jwt.MapClaims, error) {
	claims, public, err := v.parse(token)
	if !public {
		return claims, err
	}
	unverified := errors.Is(err, jwt.ErrTokenUnverifiable) || errors.Is(err, jwt.ErrTokenSignatureInvalid)
	if v.keys.renew(ctx, unverified) {
		claims, _, err = v.parse(token)
	}
	return claims, err
}

// parse checks a token against the keys that are known; public means that those are the JWKS's.
func (v *jwtVerifier) parse(token string) (claims jwt.MapClaims, public bool, err error) {
	claims = jwt.MapClaims{} // a map, because struct fields would also take SUB for sub
	_, err = v.parser.ParseWithClaims(token, claims, func(t *jwt.Token) (any, error) {
		if _, ok := t.Header["crit"]; ok {
			return nil, errors.New("unknown critical header parameters") // RFC 7515, section 4.1.11
		}
		if t.Method.Alg() == "HS256" {
			return v.hmacKey, nil
		}
		public = true
		return v.keys.of(t)
	})
	return claims, public, err
}

// maxUserName limits a user's name, in characters.
const maxUserName = 80

// nameIn returns the claim name (OpenID Connect Core, section 5.1) of a verified token; empty
// unless it is one line of text.
func nameIn(token string) string {
	claims := jwt.MapClaims{}
	if _, _, err := jwt.NewParser().ParseUnverified(token, claims); err != nil {
		return ""
	}
	name, _ := claims["name"].(string)
	if name = strings.TrimSpace(name); !validOwner(name) || utf8.RuneCountInString(name) > maxUserName {
		return ""
	}
	return name
}
