package web

import "testing"

// TestQuotas has one owner who sends much, and another who does not.
func TestQuotas(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *Config) {
		tokens(c)
		c.Limits.TextsPerMinute = 3
		c.Limits.AllowedModels = []string{"simulator/*", "other/one"}
	})
	alice, bob := as("alice-token-of-tests"), as("bob-token-of-tests")
	for range 3 {
		wantStatus(t, b.do(t, "POST", "/api/threads", `{}`, alice), 201)
	}
	key := b.thread(t, "alice")
	for _, path := range []string{"/api/threads", "/text/session", "/api/threads/" + key.Thread + "/messages", "/api/threads/" + key.Thread + "/queue"} {
		r := b.do(t, "POST", path, `{}`, alice)
		wantError(t, r, 429, "rate_limit_exceeded")
		if r.Header.Get("Retry-After") == "" {
			t.Errorf("%s: Retry-After is missing", path)
		}
	}
	wantError(t, b.do(t, "POST", "/text/session", `{"provider":"simulator","model":"x","defaults":7}`, bob), 400, "invalid_value")
	wantError(t, b.do(t, "POST", "/text/session", `{"provider":"other","model":"two"}`, bob), 403, "model_not_allowed")
	wantError(t, b.do(t, "POST", "/text/session", `{"model":"two","provider":"another"}`, bob), 403, "model_not_allowed")
	local := setup(t, func(c *Config) { c.Limits.TextsPerMinute = 1 })
	for range 3 {
		wantStatus(t, local.do(t, "POST", "/api/threads", `{}`), 201)
	}
}
