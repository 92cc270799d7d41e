package web

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/big"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"voicebridge/internal/testkit"
	"voicebridge/web/access"

	"github.com/golang-jwt/jwt/v5"
)

func TestStaticTokens(t *testing.T) {
	t.Parallel()
	b := setup(t, tokens)
	b.thread(t, "alice")
	for name, c := range map[string]struct {
		header string
		status int
	}{
		"alice":          {"Bearer alice-token-of-tests", 200},
		"lower case":     {"bearer  alice-token-of-tests ", 200},
		"nothing":        {"", 401},
		"wrong":          {"Bearer alice-tokem", 401},
		"longer":         {"Bearer alice-token-of-tests1", 401},
		"another scheme": {"Digest YWxpY2U6eA==", 401},
		"a password":     {"Basic YWxpY2U6eA==", 401},
		"no token":       {"Bearer", 401},
		"huge":           {"Bearer " + strings.Repeat("a", access.MaxToken+1), 401},
		"not a JWT":      {"Bearer a.b.c", 401},
	} {
		t.Run(name, func(t *testing.T) {
			r := b.do(t, "GET", "/api/threads", "", header("Authorization", c.header))
			wantStatus(t, r, c.status)
			if c.status == 401 && r.Header.Get("WWW-Authenticate") == "" {
				t.Error("WWW-Authenticate is missing")
			}
		})
	}
}

// TestStaticTokenWithDots has one that looks like a JWT, where JWTs are accepted.
func TestStaticTokenWithDots(t *testing.T) {
	t.Parallel()
	const token = "alice.token-of.tests"
	b := setup(t, func(c *Config) {
		c.Auth.JWTSecret = access.NewSecret("a secret of at least thirty-two bytes")
		c.Auth.Tokens = []access.StaticToken{{Owner: "alice", Token: access.NewSecret(token)}}
	})
	r := b.do(t, "GET", "/api/config", "", as(token))
	wantStatus(t, r, 200)
	if got := decode[configAnswer](t, r); got.Owner != "alice" {
		t.Errorf("owner %q", got.Owner)
	}
	wantStatus(t, b.do(t, "GET", "/api/config", "", header("Cookie", signIn(t, b, token))), 200)
}

// TestTokenInProtocols has clients that can set no headers show their token among the subprotocols of a socket.
func TestTokenInProtocols(t *testing.T) {
	t.Parallel()
	b := setup(t, tokens)
	shown := func(token string) []option {
		return append(slices.Clone(upgrade), header("Sec-WebSocket-Protocol", "realtime, openai-insecure-api-key."+token+", openai-beta.realtime-v1"))
	}
	for _, c := range []struct {
		query   string
		options []option
		status  int
	}{
		{"?call_id=none", upgrade, 401},
		{"?call_id=none", shown("wrong"), 401},
		{"?intent=transcription", shown("alice-token-of-tests"), 400},
		{"?call_id=none", shown("alice-token-of-tests"), 404},
		{"?call_id=none", shown(mint(t, b, "{}", alice).Value), 403},
	} {
		if got := b.do(t, "GET", "/v1/realtime"+c.query, "", c.options...); got.StatusCode != c.status {
			t.Errorf("%q: %d %s, want %d", c.query, got.StatusCode, got.body, c.status)
		}
	}
}

func TestEveryRouteThatHoldsDataNeedsAuthentication(t *testing.T) {
	t.Parallel()
	b := setup(t, tokens)
	open := map[string]bool{"/healthz": true, "/readyz": true, "/openapi.json": true, "/v1": true, "/v1/realtime": true, "/api/session": true, "/api/mcp/callback": true, "/phone/:carrier/:line": true, "/phone/:carrier/:line/status": true, "/phone/:carrier/:line/:token": true, "/s/:token": true, "/s/:token/images/:image_id": true, "/s/:token/messages/:message_id/audio": true}
	for i, r := range b.echo.Routes() {
		if open[r.Path] || r.Path == "/" || b.pipeline.page.has(strings.TrimPrefix(r.Path, "/")) {
			continue
		}
		target := strings.NewReplacer(":id", "x", ":call_id", "x", ":hook_id", "x", ":name", "x").Replace(r.Path)
		for name, options := range map[string][]option{"without a token": nil, "with a wrong one": {as("wrong")}, "with a wrong cookie": {header("Cookie", access.SessionCookie+"=x")}} {
			from := from(fmt.Sprintf("10.0.%d.%d:1", i, len(options)))
			t.Run(r.Method+" "+r.Path+" "+name, func(t *testing.T) {
				wantError(t, b.do(t, r.Method, target, "", append(options, from)...), 401, "invalid_api_key")
			})
		}
	}
}

func signed(t *testing.T, method jwt.SigningMethod, key any, kid string, claims jwt.MapClaims) string {
	t.Helper()
	token := jwt.NewWithClaims(method, claims)
	if kid != "" {
		token.Header["kid"] = kid
	}
	out, err := token.SignedString(key)
	must(t, err)
	return out
}

func TestJWTSecret(t *testing.T) {
	t.Parallel()
	const secret = "a secret of at least thirty-two bytes"
	b := setup(t, func(c *Config) { c.Auth.JWTSecret = access.NewSecret(secret) })
	later := b.clock.now().Add(time.Hour).Unix()
	key := []byte(secret)
	for name, c := range map[string]struct {
		token string
		ok    bool
	}{
		"good":          {signed(t, jwt.SigningMethodHS256, key, "", jwt.MapClaims{"sub": "carol", "exp": later}), true},
		"within leeway": {signed(t, jwt.SigningMethodHS256, key, "", jwt.MapClaims{"sub": "carol", "exp": b.clock.now().Add(-10 * time.Second).Unix()}), true},
		"expired":       {signed(t, jwt.SigningMethodHS256, key, "", jwt.MapClaims{"sub": "carol", "exp": b.clock.now().Add(-time.Minute).Unix()}), false},
		"no end":        {signed(t, jwt.SigningMethodHS256, key, "", jwt.MapClaims{"sub": "carol"}), false},
		"odd end":       {signed(t, jwt.SigningMethodHS256, key, "", jwt.MapClaims{"sub": "carol", "exp": "never"}), false},
		"end at zero":   {signed(t, jwt.SigningMethodHS256, key, "", jwt.MapClaims{"sub": "carol", "exp": 0}), false},
		"not yet":       {signed(t, jwt.SigningMethodHS256, key, "", jwt.MapClaims{"sub": "carol", "exp": later, "nbf": later}), false},
		"nobody":        {signed(t, jwt.SigningMethodHS256, key, "", jwt.MapClaims{"exp": later}), false},
		"odd sub":       {signed(t, jwt.SigningMethodHS256, key, "", jwt.MapClaims{"sub": "a\x00b", "exp": later}), false},
		"long sub":      {signed(t, jwt.SigningMethodHS256, key, "", jwt.MapClaims{"sub": strings.Repeat("a", 256), "exp": later}), false},
		"number as sub": {signed(t, jwt.SigningMethodHS256, key, "", jwt.MapClaims{"sub": 7, "exp": later}), false},
		"other secret":  {signed(t, jwt.SigningMethodHS256, []byte("other"), "", jwt.MapClaims{"sub": "carol", "exp": later}), false},
		"other method":  {signed(t, jwt.SigningMethodHS512, key, "", jwt.MapClaims{"sub": "carol", "exp": later}), false},
		"unsigned":      {signed(t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, "", jwt.MapClaims{"sub": "carol", "exp": later}), false},
	} {
		t.Run(name, func(t *testing.T) {
			r := b.do(t, "GET", "/api/config", "", as(c.token), from(fmt.Sprintf("10.0.0.%d:1", len(name))))
			if !c.ok {
				wantError(t, r, 401, "invalid_api_key")
				if mentioned := strings.Contains(r.body, "This token has expired."); mentioned != (name == "expired") {
					t.Errorf("it is told %s", r.body)
				}
				return
			}
			wantStatus(t, r, 200)
			if got := decode[configAnswer](t, r); got.Owner != "carol" {
				t.Errorf("owner %q", got.Owner)
			}
		})
	}
}

// keyServer is a RoundTripper that serves a key set.
type keyServer struct {
	body    atomic.Pointer[string]
	fetched atomic.Int32
}

func (k *keyServer) RoundTrip(r *http.Request) (*http.Response, error) {
	k.fetched.Add(1)
	body := k.body.Load()
	if body == nil {
		return nil, errors.New("no network")
	}
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(*body)), Request: r}, nil
}

func (k *keyServer) serve(t *testing.T, keys ...jsonWebKey) {
	t.Helper()
	body, err := json.Marshal(map[string]any{"keys": keys})
	must(t, err)
	text := string(body)
	k.body.Store(&text)
}

var b64 = base64.RawURLEncoding.EncodeToString

func webKeyOf(t *testing.T, kid string, public crypto.PublicKey) jsonWebKey {
	t.Helper()
	switch p := public.(type) {
	case *rsa.PublicKey:
		return jsonWebKey{Kty: "RSA", Kid: kid, Use: "sig", N: b64(p.N.Bytes()), E: b64(big.NewInt(int64(p.E)).Bytes())}
	case *ecdsa.PublicKey:
		point, err := p.Bytes()
		must(t, err)
		half := (len(point) - 1) / 2
		return jsonWebKey{Kty: "EC", Kid: kid, Crv: p.Curve.Params().Name, X: b64(point[1 : 1+half]), Y: b64(point[1+half:])}
	case ed25519.PublicKey:
		return jsonWebKey{Kty: "OKP", Kid: kid, Crv: "Ed25519", X: b64(p)}
	default:
		t.Fatalf("no key: %T", public)
		return jsonWebKey{}
	}
}

func TestJWKS(t *testing.T) {
	t.Parallel()
	rsaKey, errRSA := rsa.GenerateKey(rand.Reader, 2048)
	ecKey, errEC := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	edPublic, edKey, errEd := ed25519.GenerateKey(rand.Reader)
	must(t, errors.Join(errRSA, errEC, errEd))
	keys := &keyServer{}
	b := setup(t, func(c *Config) {
		c.Auth = access.Auth{Secret: c.Auth.Secret, JWKSURL: "https://keys.example/jwks", JWTIssuer: "https://issuer.example", JWTAudience: "voicebridge", HTTP: &http.Client{Transport: keys}}
	})
	claims := jwt.MapClaims{"sub": "dave", "iss": "https://issuer.example", "aud": []string{"other", "voicebridge"}, "exp": b.clock.now().Add(24 * time.Hour).Unix()}
	get := func(token string) *answer { return b.do(t, "GET", "/api/config", "", as(token)) }
	good := signed(t, jwt.SigningMethodRS256, rsaKey, "rsa", claims)

	r := get(good)
	if r.Header.Get("Retry-After") == "" {
		t.Error("Retry-After is missing")
	}
	wantError(t, r, 503, "keys_unavailable")
	keys.serve(t, webKeyOf(t, "rsa", &rsaKey.PublicKey), webKeyOf(t, "ec", &ecKey.PublicKey), webKeyOf(t, "ed", edPublic),
		jsonWebKey{Kty: "oct", Kid: "oct"}, jsonWebKey{Kty: "RSA", Kid: "small", N: b64([]byte{1, 2, 3}), E: "AQAB"},
		jsonWebKey{Kty: "RSA", Kid: "enc", Use: "enc", N: b64(rsaKey.N.Bytes()), E: "AQAB"},
		jsonWebKey{Kty: "EC", Kid: "off", Crv: "P-256", X: b64(make([]byte, 32)), Y: b64(make([]byte, 32))},
		webKeyOf(t, "both", &rsaKey.PublicKey), webKeyOf(t, "both", &ecKey.PublicKey))
	wantStatus(t, get(good), 200)
	fetchedBefore := keys.fetched.Load()

	der, err := x509.MarshalPKIXPublicKey(&rsaKey.PublicKey)
	must(t, err)
	publicPEM := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	for name, c := range map[string]struct {
		token string
		ok    bool
	}{
		"RSA":                     {good, true},
		"PSS":                     {signed(t, jwt.SigningMethodPS384, rsaKey, "rsa", claims), true},
		"EC":                      {signed(t, jwt.SigningMethodES256, ecKey, "ec", claims), true},
		"Ed25519":                 {signed(t, jwt.SigningMethodEdDSA, edKey, "ed", claims), true},
		"one of two with an id":   {signed(t, jwt.SigningMethodRS256, rsaKey, "both", claims), true},
		"the other one":           {signed(t, jwt.SigningMethodES256, ecKey, "both", claims), true},
		"unknown key":             {signed(t, jwt.SigningMethodRS256, rsaKey, "none", claims), false},
		"no key id":               {signed(t, jwt.SigningMethodRS256, rsaKey, "", claims), false},
		"key of another kind":     {signed(t, jwt.SigningMethodRS256, rsaKey, "ec", claims), false},
		"key for encryption":      {signed(t, jwt.SigningMethodRS256, rsaKey, "enc", claims), false},
		"public key as a secret":  {signed(t, jwt.SigningMethodHS256, publicPEM, "rsa", claims), false},
		"unsigned":                {signed(t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, "rsa", claims), false},
		"point not on the curve":  {signed(t, jwt.SigningMethodES256, ecKey, "off", claims), false},
		"signature of a stranger": {good[:len(good)-8] + "AAAAAAAA", false},
	} {
		r := get(c.token)
		testkit.Equal(t, r.StatusCode, map[bool]int{true: 200, false: 401}[c.ok], "%s: status", name)
	}
	if n := keys.fetched.Load() - fetchedBefore; n != 3 { // the fifth time since the start
		t.Errorf("the keys were fetched %d times for a crowd of tokens", n)
	}

	// A new key is found, even if the keys have just been fetched.
	b.clock.advance(time.Minute)
	wantStatus(t, get(signed(t, jwt.SigningMethodES256, ecKey, "unknown", claims)), 401)
	keys.serve(t, webKeyOf(t, "new", &ecKey.PublicKey))
	wantStatus(t, get(signed(t, jwt.SigningMethodES256, ecKey, "new", claims)), 200)
	// A key that was withdrawn is refused after two hours at the latest, and a new one is
	// found.
	keys.serve(t, webKeyOf(t, "ec", &ecKey.PublicKey))
	b.clock.advance(2*time.Hour + time.Second)
	wantError(t, get(good), 401, "invalid_api_key")
	wantStatus(t, get(signed(t, jwt.SigningMethodES256, ecKey, "", claims)), 200) // a single key needs no id
	// A new key is found, even if it has the id of the old one.
	keys.serve(t, webKeyOf(t, "ec", &rsaKey.PublicKey))
	wantStatus(t, get(signed(t, jwt.SigningMethodRS256, rsaKey, "ec", claims)), 200)
	wantStatus(t, get(signed(t, jwt.SigningMethodES256, ecKey, "", claims)), 401)
	keys.serve(t, webKeyOf(t, "ec", &ecKey.PublicKey))
	wantStatus(t, get(signed(t, jwt.SigningMethodES256, ecKey, "", claims)), 200)
	// While the key server is away, clients whose keys are known are not locked out.
	keys.body.Store(nil)
	b.clock.advance(3 * time.Hour)
	wantStatus(t, get(signed(t, jwt.SigningMethodES256, ecKey, "ec", claims)), 200)
}

// TestJWTClaims has well-signed tokens that are for another server, for another owner, or
// not understood.
func TestJWTClaims(t *testing.T) {
	t.Parallel()
	key := []byte("secret-of-at-least-thirty-two-bytes")
	b := setup(t, func(c *Config) {
		tokens(c)
		c.Auth.JWTSecret, c.Auth.JWTIssuer, c.Auth.JWTAudience = access.NewSecret(string(key)), "https://issuer.example", "voicebridge"
		c.Auth.JWTMayClaim = []string{"bob"}
	})
	for name, c := range map[string]struct {
		change func(jwt.MapClaims)
		header map[string]any
		status int
	}{
		"good":                    {func(jwt.MapClaims) {}, nil, 200},
		"one of several":          {func(c jwt.MapClaims) { c["aud"] = []string{"x", "voicebridge"} }, nil, 200},
		"for another app":         {func(c jwt.MapClaims) { c["aud"] = "another" }, nil, 401},
		"for nobody":              {func(c jwt.MapClaims) { delete(c, "aud") }, nil, 401},
		"of another issuer":       {func(c jwt.MapClaims) { c["iss"] = "https://evil.example" }, nil, 401},
		"of no issuer":            {func(c jwt.MapClaims) { delete(c, "iss") }, nil, 401},
		"SUB for sub":             {func(c jwt.MapClaims) { c["SUB"] = "carol"; delete(c, "sub") }, nil, 401},
		"EXP for exp":             {func(c jwt.MapClaims) { c["EXP"] = c["exp"]; delete(c, "exp") }, nil, 401},
		"AUD for aud":             {func(c jwt.MapClaims) { c["AUD"] = c["aud"]; delete(c, "aud") }, nil, 401},
		"critical":                {func(jwt.MapClaims) {}, map[string]any{"crit": []string{"b64"}, "b64": true}, 401},
		"critical with no name":   {func(jwt.MapClaims) {}, map[string]any{"crit": []string{}}, 401},
		"the local owner":         {func(c jwt.MapClaims) { c["sub"] = access.LocalOwner }, nil, 401},
		"owner of a token":        {func(c jwt.MapClaims) { c["sub"] = "alice" }, nil, 401},
		"owner that it may claim": {func(c jwt.MapClaims) { c["sub"] = "bob" }, nil, 200},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			claims := jwt.MapClaims{"sub": "carol", "iss": "https://issuer.example", "aud": "voicebridge", "exp": b.clock.now().Add(time.Hour).Unix()}
			c.change(claims)
			token := jwt.NewWithClaims(jwt.SigningMethodHS256, claims)
			maps.Copy(token.Header, c.header)
			text, err := token.SignedString(key)
			must(t, err)
			wantStatus(t, b.do(t, "GET", "/api/config", "", as(text), from(fmt.Sprintf("10.0.0.%d:1", len(name)))), c.status)
		})
	}
}

// TestAnUnknownKeyHoldsUpNobody has a key server that does not answer a request for an
// unknown key.
func TestAnUnknownKeyHoldsUpNobody(t *testing.T) {
	t.Parallel()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	keys := &keyServer{}
	keys.serve(t, webKeyOf(t, "ec", &key.PublicKey))
	asked, answer := make(chan struct{}, 1), make(chan struct{})
	b := setup(t, func(c *Config) {
		c.Auth = access.Auth{Secret: c.Auth.Secret, JWKSURL: "https://keys.example/jwks", JWTIssuer: "i", JWTAudience: "a", HTTP: &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			if keys.fetched.Load() > 0 {
				asked <- struct{}{}
				<-answer
			}
			return keys.RoundTrip(r)
		})}}
	})
	claims := jwt.MapClaims{"sub": "dave", "iss": "i", "aud": "a", "exp": b.clock.now().Add(24 * time.Hour).Unix()}
	get := func(kid string) int {
		return b.do(t, "GET", "/api/config", "", as(signed(t, jwt.SigningMethodES256, key, kid, claims))).StatusCode
	}
	if status := get("ec"); status != 200 {
		t.Fatalf("status %d", status)
	}
	b.clock.advance(time.Minute)
	unknown := make(chan int, 1)
	go func() { unknown <- get("none") }()
	testkit.Take(t, "a request", asked)
	testkit.Equal(t, get("ec"), 200, "status while the keys are fetched")
	go func() { unknown <- get("other") }() // which may be in the same answer
	close(answer)
	for range 2 {
		testkit.Equal(t, testkit.Take(t, "the unknown", unknown), 401, "status of a key that is not in the answer")
	}
}

// TestFirstTokensAtOnce has several clients whose tokens are the first after the start: all wait for the keys.
func TestFirstTokensAtOnce(t *testing.T) {
	t.Parallel()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	const clients = 8
	keys := &keyServer{}
	keys.serve(t, webKeyOf(t, "ec", &key.PublicKey))
	asked, begun := make(chan struct{}, clients), make(chan struct{})
	b := setup(t, func(c *Config) {
		c.Auth = access.Auth{Secret: c.Auth.Secret, JWKSURL: "https://keys.example/jwks", JWTIssuer: "i", JWTAudience: "a", HTTP: &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			asked <- struct{}{}
			<-begun
			return keys.RoundTrip(r)
		})}}
	})
	claims := jwt.MapClaims{"sub": "dave", "iss": "i", "aud": "a", "exp": b.clock.now().Add(time.Hour).Unix()}
	statuses := make(chan int, clients)
	for i := range clients {
		kid := []string{"ec", ""}[i%2] // a single key needs no id, not even in the first token
		go func() {
			statuses <- b.do(t, "GET", "/api/config", "", as(signed(t, jwt.SigningMethodES256, key, kid, claims))).StatusCode
		}()
	}
	testkit.Take(t, "a request", asked)
	close(begun)
	for range clients {
		testkit.Equal(t, testkit.Take(t, "a status", statuses), 200, "status")
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func cookies(r *answer) []*http.Cookie { return (&http.Response{Header: r.Header}).Cookies() }

func cookieOf(t *testing.T, r *answer) *http.Cookie {
	t.Helper()
	for _, c := range cookies(r) {
		if c.Name == access.SessionCookie {
			return c
		}
	}
	t.Fatal("there is no cookie")
	return nil
}

func TestPageSession(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *Config) { tokens(c); c.Auth.JWTSecret = access.NewSecret("secret-of-at-least-thirty-two-bytes") })
	r := b.do(t, "POST", "/api/session", `{"token":"alice-token-of-tests"}`)
	wantStatus(t, r, 200)
	cookie := cookieOf(t, r)
	if !cookie.HttpOnly || cookie.SameSite != http.SameSiteStrictMode || cookie.Path != "/" || cookie.Secure || cookie.MaxAge != int(access.SessionLifetime.Seconds()) {
		t.Errorf("cookie %+v", cookie)
	}
	withCookie := header("Cookie", access.SessionCookie+"="+cookie.Value)
	r = b.do(t, "GET", "/api/config", "", withCookie)
	wantStatus(t, r, 200)
	if got := decode[configAnswer](t, r); got.Owner != "alice" || !got.Authentication {
		t.Errorf("config %+v", got)
	}
	wantStatus(t, b.do(t, "POST", callsPath, sdpOffer, sdpType, withCookie), 201)
	wantStatus(t, b.do(t, "GET", "/api/config", "", withCookie, header("Authorization", "Basic YWxpY2U6eA==")), 200) // from a proxy's own sign-in
	r = b.do(t, "POST", "/api/session", `{"token":"alice-token-of-tests"}`, header("Origin", "https://localhost:8080"))
	if !cookieOf(t, r).Secure {
		t.Error("the cookie of a page that came by HTTPS is not secure")
	}

	r = b.do(t, "DELETE", "/api/session", "", withCookie)
	wantStatus(t, r, 204)
	if c := cookieOf(t, r); c.MaxAge >= 0 || c.Value != "" {
		t.Errorf("cookie %+v", c)
	}
	wantError(t, b.do(t, "GET", "/api/config", "", withCookie), 401, "invalid_api_key")

	// A session does not outlive the token it was made from.
	token := signed(t, jwt.SigningMethodHS256, []byte("secret-of-at-least-thirty-two-bytes"), "", jwt.MapClaims{"sub": "erin", "exp": b.clock.now().Add(time.Hour).Unix()})
	cookie = cookieOf(t, b.do(t, "POST", "/api/session", `{"token":"`+token+`"}`))
	withCookie = header("Cookie", access.SessionCookie+"="+cookie.Value)
	wantStatus(t, b.do(t, "GET", "/api/config", "", withCookie), 200)
	b.clock.advance(time.Hour)
	wantError(t, b.do(t, "GET", "/api/config", "", withCookie), 401, "invalid_api_key")
	if log := b.log.String(); strings.Contains(log, "alice-token-of-tests") || strings.Contains(log, cookie.Value) {
		t.Error("a token is in the log")
	}
}

func TestSignInRefuses(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *Config) { tokens(c); c.Limits.SignInsPerMinute = 3 })
	for _, c := range []struct {
		body   string
		status int
		code   string
	}{
		{`{"token":"wrong"}`, 401, "invalid_api_key"},
		{`{}`, 401, "invalid_api_key"},
		{`{"token":7}`, 400, "invalid_value"},
		{``, 415, "unsupported_media_type"},
		{`{"token":"` + strings.Repeat("a", access.MaxToken+1) + `"}`, 401, "invalid_api_key"},
		{`{"token":"alice-token-of-tests"}`, 429, "rate_limit_exceeded"},
	} {
		r := b.do(t, "POST", "/api/session", c.body)
		if len(cookies(r)) > 0 {
			t.Errorf("%.20s: there is a cookie", c.body)
		}
		wantError(t, r, c.status, c.code)
	}
}

type jsonWebKey struct {
	Kty string `json:"kty"`
	Kid string `json:"kid"`
	Use string `json:"use"`
	Alg string `json:"alg"`
	Crv string `json:"crv"`
	N   string `json:"n"`
	E   string `json:"e"`
	X   string `json:"x"`
	Y   string `json:"y"`
}
