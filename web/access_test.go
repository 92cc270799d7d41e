package web

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"voicebridge/internal/testkit"
	"voicebridge/web/access"

	"github.com/golang-jwt/jwt/v5"
)

// TestWrongTokensAreLimited has clients guess tokens.
func TestWrongTokensAreLimited(t *testing.T) {
	t.Parallel()
	limited := func(c *Config) { tokens(c); c.Limits.SignInsPerMinute = 3 }
	try := func(t *testing.T, b *bundle, token string, options ...option) int {
		t.Helper()
		return b.do(t, "GET", "/api/config", "", append(options, as(token))...).StatusCode
	}
	exhaust := func(t *testing.T, b *bundle, options ...option) {
		t.Helper()
		for i := range 3 {
			if status := try(t, b, fmt.Sprint("wrong", i), options...); status != 401 {
				t.Fatalf("status %d of guess %d", status, i)
			}
		}
		if status := try(t, b, "wrong", options...); status != 429 {
			t.Fatalf("status %d of a guess too many", status)
		}
	}
	t.Run("then a right one could be a guess", func(t *testing.T) {
		t.Parallel()
		b := setup(t, limited)
		here := from("10.0.0.1:1")
		exhaust(t, b, here)
		testkit.Equal(t, try(t, b, "alice-token-of-tests", here), 429, "status")
		wantStatus(t, b.do(t, "POST", "/api/session", `{"token":"alice-token-of-tests"}`, here), 429)
		testkit.Equal(t, try(t, b, "alice-token-of-tests", from("10.0.0.2:1")), 200, "status from elsewhere")
		b.clock.advance(21 * time.Second)
		testkit.Equal(t, try(t, b, "alice-token-of-tests", here), 200, "status later")
	})
	t.Run("but not one that was right before", func(t *testing.T) {
		t.Parallel()
		b := setup(t, limited)
		here := from("10.0.0.1:1")
		if status := try(t, b, "alice-token-of-tests", here); status != 200 {
			t.Fatalf("status %d", status)
		}
		exhaust(t, b, here)
		testkit.Equal(t, try(t, b, "alice-token-of-tests", here), 200, "status")
		testkit.Equal(t, try(t, b, "bob-token-of-tests", here), 429, "status of another")
	})
	t.Run("but right ones are not", func(t *testing.T) {
		t.Parallel()
		b := setup(t, limited)
		for range 5 {
			wantStatus(t, b.do(t, "POST", "/api/session", `{"token":"alice-token-of-tests"}`), 200)
		}
	})
	t.Run("IPv6 by its network", func(t *testing.T) {
		t.Parallel()
		b := setup(t, limited)
		for i := range 3 {
			_ = try(t, b, "wrong", from(fmt.Sprintf("[2001:db8::%d]:1", i+1)))
		}
		testkit.Equal(t, try(t, b, "wrong", from("[2001:db8::ffff]:1")), 429, "status from the same network")
		testkit.Equal(t, try(t, b, "wrong", from("[2001:db8:0:1::1]:1")), 401, "status from another network")
	})
	t.Run("behind a proxy that is not believed", func(t *testing.T) {
		t.Parallel()
		b := setup(t, limited)
		proxy := from("10.0.0.1:1")
		exhaust(t, b, proxy, header("X-Forwarded-For", "1.2.3.4, 9.9.9.9"))
		testkit.Equal(t, try(t, b, "alice-token-of-tests", proxy, header("X-Forwarded-For", "8.8.8.8")), 200, "status of another client behind it")
		refused := 0
		for i := range 200 { // inventing addresses does not help
			if try(t, b, "wrong", proxy, header("X-Forwarded-For", fmt.Sprintf("7.7.7.%d", i))) == 429 {
				refused++
			}
		}
		if refused == 0 {
			t.Error("a client that invents addresses may guess for ever")
		}
	})
	t.Run("an expired token is no guess", func(t *testing.T) {
		t.Parallel()
		key := strings.Repeat("k", 32)
		b := setup(t, func(c *Config) { limited(c); c.Auth.JWTSecret = access.NewSecret(key) })
		old := signed(t, jwt.SigningMethodHS256, []byte(key), "", jwt.MapClaims{"sub": "carol", "exp": b.clock.now().Add(-time.Hour).Unix()})
		for range 10 {
			if status := try(t, b, old); status != 401 {
				t.Fatalf("status %d", status)
			}
		}
	})
}

// TestNoAuthenticationBehindAProxy lets the whole world in as the one local user.
func TestNoAuthenticationBehindAProxy(t *testing.T) {
	t.Parallel()
	open, closed := setup(t, nil), setup(t, tokens)
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host", "x-forwarded-anything", "X-Real-IP"} {
		for _, path := range []string{"/", "/api/threads", "/healthz"} {
			wantError(t, open.do(t, "GET", path, "", header(name, "")), 403, "proxy_without_authentication")
		}
		wantStatus(t, closed.do(t, "GET", "/api/threads", "", header(name, "1.2.3.4"), as("alice-token-of-tests")), 200)
	}
	wantStatus(t, open.do(t, "GET", "/api/threads", ""), 200)
}

// TestWeakSecretsStopTheStart configures secrets that can be guessed.
func TestWeakSecretsStopTheStart(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		auth  access.Auth
		wants string
	}{
		"a short token":         {access.Auth{Tokens: []access.StaticToken{{Owner: "anna", Token: access.NewSecret("fifteen-letters")}}}, `token of "anna" has fewer than 16`},
		"a token without owner": {access.Auth{Tokens: []access.StaticToken{{Token: access.NewSecret("sixteen-letters-")}}}, "owner"},
		"a short JWT secret":    {access.Auth{JWTSecret: access.NewSecret(strings.Repeat("s", 31))}, "fewer than 32 bytes"},
		"keys without issuer":   {access.Auth{JWKSURL: "https://k.example", JWTAudience: "a"}, "issuer"},
		"keys without audience": {access.Auth{JWKSURL: "https://k.example", JWTIssuer: "i"}, "audience"},
		"long enough":           {access.Auth{Tokens: []access.StaticToken{{Owner: "anna", Token: access.NewSecret("sixteen-letters-")}}, JWTSecret: access.NewSecret(strings.Repeat("s", 32))}, ""},
	} {
		c.auth.Secret = access.NewSecret("s")
		err := c.auth.Validate()
		if c.wants == "" && err != nil || c.wants != "" && (err == nil || !strings.Contains(err.Error(), c.wants)) {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil && strings.Contains(err.Error(), "fifteen-letters") {
			t.Errorf("%s: the error shows the token", name)
		}
	}
}

// TestLoggedPathsAreBounded sends a path that would fill the log.
func TestLoggedPathsAreBounded(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	_ = b.do(t, http.MethodGet, "/"+strings.Repeat("a", 60_000), "")
	if n := len(b.log.String()); n > 2000 {
		t.Errorf("the log has %d bytes", n)
	}
}

func TestWarnsWithoutTLS(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]bool{"127.0.0.1:0": false, "0.0.0.0:0": true} {
		ln, err := net.Listen("tcp", address)
		must(t, err)
		proxies := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
		if isPlain(ln, nil) != want || isPlain(ln, proxies) || isPlain(tls.NewListener(ln, &tls.Config{MinVersion: tls.VersionTLS13}), nil) {
			t.Errorf("%s: wrong", address)
		}
		_ = ln.Close()
	}
}
