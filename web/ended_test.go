package web

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/golang-jwt/jwt/v5"

	"voicebridge/web/access"
)

// signIn returns the Cookie header of a new session.
func signIn(t *testing.T, b *bundle, token string) string {
	t.Helper()
	return access.SessionCookie + "=" + cookieOf(t, b.do(t, "POST", "/api/session", `{"token":"`+token+`"}`)).Value
}

// TestSessionsAndSecretsOnEveryInstance has two servers on one database.
func TestSessionsAndSecretsOnEveryInstance(t *testing.T) {
	t.Parallel()
	one := setup(t, tokens)
	two := one.neighbour(t, nil)
	cookie := signIn(t, one, "alice-token-of-tests")
	wantStatus(t, two.do(t, "GET", "/api/config", "", header("Cookie", cookie)), 200)
	ek := mint(t, one, `{}`, header("Cookie", cookie)).Value
	r := two.do(t, "POST", callsPath, sdpOffer, sdpType, as(ek))
	wantStatus(t, r, 201)
	// Its calls share one thread, whichever instance takes them.
	again := one.do(t, "POST", callsPath+"?takeover=true", sdpOffer, sdpType, as(ek))
	wantStatus(t, again, 201)
	if a, b := r.Header.Get("X-Thread-Id"), again.Header.Get("X-Thread-Id"); a != b || a == "" {
		t.Errorf("threads %q and %q", a, b)
	}

	wantStatus(t, two.do(t, "DELETE", secretsPath, `{"value":"`+ek+`"}`, as("bob-token-of-tests")), 404)
	wantStatus(t, two.do(t, "DELETE", secretsPath, `{"value":"`+ek+`"}`, as("alice-token-of-tests")), 204)
	wantError(t, one.do(t, "POST", callsPath, sdpOffer, sdpType, as(ek)), 401, "invalid_api_key")
	wantStatus(t, two.do(t, "DELETE", "/api/session", "", header("Cookie", cookie)), 204)
	wantError(t, one.do(t, "GET", "/api/config", "", header("Cookie", cookie)), 401, "invalid_api_key")

	// Sessions signed with another secret, and sessions of a token that was removed, are
	// refused.
	cookie = signIn(t, one, "alice-token-of-tests")
	for name, change := range map[string]func(*Config){
		"another secret":    func(c *Config) { c.Auth.Secret = access.NewSecret("another") },
		"without the token": func(c *Config) { c.Auth.Tokens = c.Auth.Tokens[1:] },
	} {
		wantStatus(t, one.do(t, "GET", "/api/config", "", header("Cookie", cookie)), 200)
		if r := one.neighbour(t, change).do(t, "GET", "/api/config", "", header("Cookie", cookie)); r.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s: status %d", name, r.StatusCode)
		}
	}
	if log := one.log.String(); strings.Contains(log, ek) || strings.Contains(log, cookie) || !strings.Contains(log, `event="signed in" owner=alice`) ||
		!strings.Contains(log, `event="client secret revoked" owner=alice`) {
		t.Errorf("the log is %s", log)
	}
}

func TestForgedTokensOpenNothing(t *testing.T) {
	t.Parallel()
	b := setup(t, tokens)
	ek := mint(t, b, `{}`, as("alice-token-of-tests")).Value
	cookie := signIn(t, b, "alice-token-of-tests")
	value := strings.TrimPrefix(cookie, access.SessionCookie+"=")
	last := map[byte]string{'A': "E"}[value[len(value)-1]]
	if last == "" {
		last = "A"
	}
	for name, forged := range map[string]string{
		"a secret as a session": strings.TrimPrefix(ek, "ek_"), "changed": value[:len(value)-1] + last, "cut": value[:20], "empty": "", "padded": value + "=",
		"odd": "a b\x00",
	} {
		if r := b.do(t, "GET", "/api/config", "", header("Cookie", access.SessionCookie+"="+forged)); r.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s: status %d", name, r.StatusCode)
		}
	}
	wantError(t, b.do(t, "POST", callsPath, sdpOffer, sdpType, as("ek_"+value)), 401, "invalid_api_key")
}

// TestSocketsEndWithWhatOpenedThem signs out the user of an open socket.
func TestSocketsEndWithWhatOpenedThem(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(t *testing.T, b, neighbour *bundle, cookie string){
		"signed out": func(t *testing.T, b, _ *bundle, cookie string) {
			wantStatus(t, b.do(t, "DELETE", "/api/session", "", header("Cookie", cookie)), 204)
		},
		"signed out everywhere": func(t *testing.T, b, _ *bundle, _ string) {
			other := signIn(t, b, "alice-token-of-tests")
			wantStatus(t, b.do(t, "DELETE", "/api/session?everywhere=true", "", header("Cookie", other)), 204)
		},
		"signed out elsewhere": func(t *testing.T, b, neighbour *bundle, cookie string) {
			wantStatus(t, neighbour.do(t, "DELETE", "/api/session", "", header("Cookie", cookie)), 204)
			b.auth.Sessions.Look(t.Context())
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, tokens)
			key, bobs := b.thread(t, "alice"), b.thread(t, "bob")
			address, _ := b.run(t)
			cookie := signIn(t, b, "alice-token-of-tests")
			path := "/api/threads/" + key.Thread + "/ws"
			ends := open(t, "ws://"+address+path, "Cookie", cookie)
			next(t, ends)
			stays := open(t, "ws://"+address+path, "Authorization", "Bearer alice-token-of-tests")
			next(t, stays)
			bob := open(t, "ws://"+address+"/api/threads/"+bobs.Thread+"/ws", "Cookie", signIn(t, b, "bob-token-of-tests"))
			next(t, bob)
			end(t, b, b.neighbour(t, nil), cookie)
			wantClosed(t, ends, websocket.StatusPolicyViolation, "signed out")
			for _, conn := range []*websocket.Conn{stays, bob} {
				if err := conn.Write(within(t), websocket.MessageText, []byte(`{}`)); err != nil {
					t.Error(err)
				}
				if e := next(t, conn); e.Type != "error" {
					t.Errorf("event %+v", e)
				}
			}
		})
	}
	t.Run("expired", func(t *testing.T) {
		t.Parallel()
		b := setup(t, tokens)
		key := b.thread(t, "alice")
		address, _ := b.run(t)
		cookie := signIn(t, b, "alice-token-of-tests")
		b.clock.advance(access.SessionLifetime - 50*time.Millisecond)
		ends := open(t, "ws://"+address+"/api/threads/"+key.Thread+"/ws", "Cookie", cookie) // accepted, though a busy machine may greet it too late
		wantClosed(t, ends, websocket.StatusPolicyViolation, "signed out or expired")
	})
	t.Run("accepted after its end", func(t *testing.T) {
		t.Parallel()
		const secret = "a secret of at least thirty-two bytes"
		b := setup(t, func(c *Config) { c.Auth.JWTSecret = access.NewSecret(secret) })
		key := b.thread(t, "carol")
		address, _ := b.run(t)
		claims := jwt.MapClaims{"sub": "carol", "exp": b.clock.now().Add(-10 * time.Second).Unix()}
		stays := open(t, "ws://"+address+"/api/threads/"+key.Thread+"/ws", "Authorization", "Bearer "+signed(t, jwt.SigningMethodHS256, []byte(secret), "", claims))
		next(t, stays)
		send(t, stays, `{}`)
		if e := next(t, stays); e.Type != "error" {
			t.Errorf("event %+v", e)
		}
	})
}
