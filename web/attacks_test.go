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

// TestAttacks tries what a stranger would, and prints what was tried (go test -v). The
// attacks_test.go at the root lists what else is tried, and where.
func TestAttacks(t *testing.T) {
	t.Parallel()
	const jwtKey = "secret-of-at-least-thirty-two-bytes"
	b := setup(t, func(c *Config) {
		tokens(c)
		c.Auth.JWTSecret, c.Auth.JWTIssuer, c.Auth.JWTAudience = access.NewSecret(jwtKey), "https://issuer.example", "voicebridge"
		c.Limits.SignInsPerMinute = 1000
	})
	open := setup(t, nil)
	alices := b.thread(t, "alice")
	b.say(t, alices, "canary")
	thread := "/api/threads/" + alices.Thread
	later := b.clock.now().Add(time.Hour).Unix()
	token := func(change func(header, claims map[string]any)) option {
		j := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{"sub": "carol", "iss": "https://issuer.example", "aud": "voicebridge", "exp": later})
		change(j.Header, j.Claims.(jwt.MapClaims))
		text, err := j.SignedString([]byte(jwtKey))
		must(t, err)
		return as(text)
	}
	wantStatus(t, b.do(t, "POST", "/api/assistants", `{"id":"alices","name":"x","instructions":"canary"}`, as("alice-token-of-tests")), 201)
	bob, ek := as("bob-token-of-tests"), as(mint(t, b, `{}`, as("alice-token-of-tests")).Value)
	evil := header("Origin", "https://evil.example")
	tried := 0
	for _, a := range []struct {
		name         string
		on           *bundle
		method, path string
		body         string
		options      []option
		refused      []int
	}{
		{"read a stranger's thread", b, "GET", thread, "", []option{bob}, []int{404}},
		{"read a stranger's messages", b, "GET", thread + "/messages", "", []option{bob}, []int{404}},
		{"export a stranger's thread", b, "GET", thread + "/export", "", []option{bob}, []int{404}},
		{"write into a stranger's thread", b, "POST", thread + "/messages", `{"content":"x"}`, []option{bob}, []int{404}},
		{"queue on a stranger's thread", b, "POST", thread + "/queue", `{"message":"x"}`, []option{bob}, []int{404}},
		{"delete a stranger's thread", b, "DELETE", thread, "", []option{bob}, []int{404}},
		{"reset a stranger's thread", b, "POST", thread + "/reset", "", []option{bob}, []int{404}},
		{"read a stranger's text session", b, "GET", "/text/session/" + alices.Thread, "", []option{bob}, []int{404}},
		{"call on a stranger's thread", b, "POST", callsPath + "?thread_id=" + alices.Thread, sdpOffer, []option{bob, sdpType}, []int{404}},
		{"mint a secret for a stranger's thread", b, "POST", secretsPath, `{"thread_id":"` + alices.Thread + `"}`, []option{bob}, []int{404}},
		{"read a stranger's assistant", b, "GET", "/api/assistants/alices", "", []option{bob}, []int{404}},
		{"change a stranger's assistant", b, "PATCH", "/api/assistants/alices", `{"shared":true}`, []option{bob}, []int{404}},
		{"delete a stranger's assistant", b, "DELETE", "/api/assistants/alices", "", []option{bob}, []int{404}},
		{"list a stranger's assistants", b, "GET", "/api/assistants", "", []option{bob}, nil},
		{"talk to a stranger's assistant", b, "POST", callsPath + "?assistant_id=alices", sdpOffer, []option{bob, sdpType}, []int{404}},
		{"write to a stranger's assistant", b, "POST", "/api/threads", `{"assistant_id":"alices"}`, []option{bob}, []int{404}},
		{"mint a secret for a stranger's assistant", b, "POST", secretsPath, `{"assistant_id":"alices"}`, []option{bob}, []int{404}},
		{"use a client secret for assistants", b, "GET", "/api/assistants/alices", "", []option{ek}, []int{401}},
		{"find a stranger's words", b, "GET", "/api/threads?q=canary", "", []option{bob}, nil},
		{"come without a token", b, "GET", thread, "", nil, []int{401}},
		{"come with an empty token", b, "GET", thread, "", []option{header("Authorization", "Bearer ")}, []int{401}},
		{"come with Basic", b, "GET", thread, "", []option{header("Authorization", "Basic YWxpY2U6eA==")}, []int{401}},
		{"put a token into the query", b, "GET", thread + "?token=alice-token-of-tests&access_token=alice-token-of-tests", "", nil, []int{401}},
		{"use a client secret for the API", b, "GET", thread, "", []option{ek}, []int{401}},
		{"mint a secret with a secret", b, "POST", secretsPath, `{}`, []option{ek}, []int{401}},
		{"call elsewhere with a secret", b, "POST", callsPath + "?thread_id=" + alices.Thread, sdpOffer, []option{ek, sdpType}, []int{404}},
		{"forge a session", b, "GET", thread, "", []option{header("Cookie", access.SessionCookie+"="+strings.Repeat("A", 43))}, []int{401}},
		{"JWT for another app", b, "GET", "/api/config", "", []option{token(func(_, c map[string]any) { c["aud"] = "another" })}, []int{401}},
		{"JWT of another issuer", b, "GET", "/api/config", "", []option{token(func(_, c map[string]any) { c["iss"] = "x" })}, []int{401}},
		{"JWT without an end", b, "GET", "/api/config", "", []option{token(func(_, c map[string]any) { delete(c, "exp") })}, []int{401}},
		{"JWT with SUB", b, "GET", "/api/config", "", []option{token(func(_, c map[string]any) { c["SUB"] = "carol"; delete(c, "sub") })}, []int{401}},
		{"JWT with crit", b, "GET", "/api/config", "", []option{token(func(h, _ map[string]any) { h["crit"] = []string{"x"} })}, []int{401}},
		{"JWT of the local user", b, "GET", "/api/config", "", []option{token(func(_, c map[string]any) { c["sub"] = access.LocalOwner })}, []int{401}},
		{"JWT of a token's owner", b, "GET", "/api/config", "", []option{token(func(_, c map[string]any) { c["sub"] = "alice" })}, []int{401}},
		{"JWT with a key of its own", b, "GET", "/api/config", "", []option{token(func(h, _ map[string]any) { h["jwk"] = map[string]string{"kty": "oct", "k": "AA"}; h["alg"] = "HS384" })}, []int{401}},
		{"a foreign page deletes", open, "DELETE", "/api/threads/x", "", []option{evil, header("Sec-Fetch-Site", "cross-site")}, []int{403}},
		{"a foreign form posts", open, "POST", "/api/threads", "title=x", []option{evil, header("Content-Type", "application/x-www-form-urlencoded")}, []int{403}},
		{"a foreign page opens a call", open, "POST", callsPath, sdpOffer, []option{evil, sdpType}, []int{403}},
		{"a foreign page opens a socket", open, "GET", "/api/ws", "", []option{evil, header("Connection", "Upgrade"), header("Upgrade", "websocket"), header("Sec-WebSocket-Version", "13"), header("Sec-WebSocket-Key", "AAAAAAAAAAAAAAAAAAAAAA==")}, []int{403}},
		{"rebind a name to loopback", open, "GET", "/api/threads", "", []option{host("evil.example")}, []int{403}},
		{"an odd port in Host", open, "GET", "/api/threads", "", []option{host("localhost:evil")}, []int{403}},
		{"a user in Host", open, "GET", "/api/threads", "", []option{host("evil@localhost")}, []int{403}},
		{"come through a proxy without authentication", open, "GET", "/api/threads", "", []option{header("X-Forwarded-For", "1.2.3.4")}, []int{403}},
		{"leave the page's folder", b, "GET", "/../../etc/passwd", "", nil, []int{404}},
		{"leave it by an encoded path", b, "GET", "/app/%2e%2e/%2e%2e/go.mod", "", nil, []int{404}},
		{"an SVG as an image", b, "POST", thread + "/images", "<svg onload=alert(1)>", []option{as("alice-token-of-tests"), header("Content-Type", "image/svg+xml")}, []int{415}},
		{"a huge body", b, "POST", "/api/threads", `{"title":"` + strings.Repeat("x", 2<<20) + `"}`, []option{as("alice-token-of-tests")}, []int{413}},
		{"deep JSON", b, "POST", "/api/threads", `{"x":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + `}`, []option{as("alice-token-of-tests")}, []int{400}},
		{"a NUL in an id", b, "GET", "/api/threads/a%00b", "", []option{as("alice-token-of-tests")}, []int{404}},
		{"a quote in an id", b, "GET", "/api/threads/x'%20OR%20'1'='1", "", []option{as("alice-token-of-tests")}, []int{404}},
		{"a header in a title", b, "POST", "/api/threads", `{"title":"a\r\nSet-Cookie: x=y"}`, []option{as("alice-token-of-tests")}, []int{400}},
		{"trace", b, "TRACE", "/api/threads", "", []option{as("alice-token-of-tests")}, []int{403, 405}},
		{"read the metrics", b, "GET", "/metrics", "", nil, []int{401}},
	} {
		tried++
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
	for _, forged := range []string{"alice-token-of-tests", "canary", jwtKey} {
		if forged != "canary" && strings.Contains(b.log.String(), forged) {
			t.Errorf("the log has %q", forged)
		}
	}
	t.Logf("%d attacks", tried)
}
