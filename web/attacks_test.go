package web

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"voicebridge/web/access"
)

// TestAttacks tries what a stranger would and no other test does, and prints what was tried (go test -v). The
// attacks_test.go at the root lists what else is tried, and where.
func TestAttacks(t *testing.T) {
	t.Parallel()
	const jwtKey = "secret-of-at-least-thirty-two-bytes"
	b := setup(t, func(c *Config) {
		tokens(c)
		c.Auth.JWTSecret = access.NewSecret(jwtKey)
		c.Limits.SignInsPerMinute = 1000
	})
	open := setup(t, nil)
	alices := b.thread(t, "alice")
	b.say(t, alices, "canary")
	thread := "/api/threads/" + alices.Thread
	own := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{"sub": "carol", "exp": b.clock.now().Add(time.Hour).Unix()})
	own.Header["jwk"], own.Header["alg"] = map[string]string{"kty": "oct", "k": "AA"}, "HS384"
	ownKey, err := own.SignedString([]byte(jwtKey))
	must(t, err)
	wantStatus(t, b.do(t, "POST", "/api/assistants", `{"id":"alices","name":"x","instructions":"canary"}`, as("alice-token-of-tests")), 201)
	bob, ek := as("bob-token-of-tests"), as(mint(t, b, `{}`, as("alice-token-of-tests")).Value)
	evil := header("Origin", "https://evil.example")
	for _, a := range []struct {
		name         string
		on           *bundle
		method, path string
		body         string
		options      []option
		refused      []int
	}{
		{"list a stranger's assistants", b, "GET", "/api/assistants", "", []option{bob}, nil},
		{"use a client secret for assistants", b, "GET", "/api/assistants/alices", "", []option{ek}, []int{401}},
		{"find a stranger's words", b, "GET", "/api/threads?q=canary", "", []option{bob}, nil},
		{"come with an empty token", b, "GET", thread, "", []option{header("Authorization", "Bearer ")}, []int{401}},
		{"put a token into the query", b, "GET", thread + "?token=alice-token-of-tests&access_token=alice-token-of-tests", "", nil, []int{401}},
		{"use a client secret for the API", b, "GET", thread, "", []option{ek}, []int{401}},
		{"mint a secret with a secret", b, "POST", secretsPath, `{}`, []option{ek}, []int{401}},
		{"JWT with a key of its own", b, "GET", "/api/config", "", []option{as(ownKey)}, []int{401}},
		{"a foreign page deletes", open, "DELETE", "/api/threads/x", "", []option{evil, header("Sec-Fetch-Site", "cross-site")}, []int{403}},
		{"a foreign form posts", open, "POST", "/api/threads", "title=x", []option{evil, header("Content-Type", "application/x-www-form-urlencoded")}, []int{403}},
		{"a foreign page opens a socket", open, "GET", "/api/ws", "", []option{evil, header("Connection", "Upgrade"), header("Upgrade", "websocket"), header("Sec-WebSocket-Version", "13"), header("Sec-WebSocket-Key", "AAAAAAAAAAAAAAAAAAAAAA==")}, []int{403}},
		{"leave it by an encoded path", b, "GET", "/app/%2e%2e/%2e%2e/go.mod", "", nil, []int{404}},
		{"deep JSON", b, "POST", "/api/threads", `{"x":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + `}`, []option{as("alice-token-of-tests")}, []int{400}},
		{"a NUL in an id", b, "GET", "/api/threads/a%00b", "", []option{as("alice-token-of-tests")}, []int{404}},
		{"a quote in an id", b, "GET", "/api/threads/x'%20OR%20'1'='1", "", []option{as("alice-token-of-tests")}, []int{404}},
		{"a header in a title", b, "POST", "/api/threads", `{"title":"a\r\nSet-Cookie: x=y"}`, []option{as("alice-token-of-tests")}, []int{400}},
		{"trace", b, "TRACE", "/api/threads", "", []option{as("alice-token-of-tests")}, []int{403, 405}},
		{"read the metrics", b, "GET", "/metrics", "", nil, []int{401}},
	} {
		r := a.on.do(t, a.method, a.path, a.body, a.options...)
		t.Logf("%-44s %s %.60s → %d", a.name, a.method, a.path, r.StatusCode)
		if a.refused != nil && !slices.Contains(a.refused, r.StatusCode) {
			t.Errorf("%s: status %d, want %v: %.200s", a.name, r.StatusCode, a.refused, r.body)
		}
		if strings.Contains(r.body, "canary") || strings.Contains(fmt.Sprint(r.Header), "canary") {
			t.Errorf("%s: the canary leaked: %.200s", a.name, r.body)
		}
		if r.Header.Get("Content-Security-Policy") == "" || r.Header.Get("X-Content-Type-Options") != "nosniff" || r.Header.Get("Cross-Origin-Resource-Policy") == "" {
			t.Errorf("%s: the headers are %v", a.name, r.Header)
		}
	}
}
