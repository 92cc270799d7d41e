package web

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"voicebridge/internal/testkit"
	"voicebridge/persistence/records"
	"voicebridge/thread"
)

// took saves a response with the given token counts.
func (b *bundle) took(t *testing.T, key thread.Key, id string, at time.Time, tokens int64, cost *float64) {
	t.Helper()
	err := b.db.Records.SaveResponse(t.Context(), key, records.Response{
		ID: id, Model: "m", Status: "completed", CreatedAt: at, CostUSD: cost,
		Usage: thread.Usage{InputTokens: tokens, OutputTokens: 2 * tokens, CachedTokens: 1},
	})
	must(t, err)
}

func TestUsage(t *testing.T) {
	t.Parallel()
	b := setup(t, tokens)
	if got, want := b.do(t, "GET", "/api/usage", "", as("alice-token-of-tests")).body, `{"from":"2026-04-05","to":"2026-05-04","usage":[],`+
		`"total":{"responses":0,"input_tokens":0,"output_tokens":0,"cached_tokens":0,"cost_usd":null,"unpriced_responses":0}}`+"\n"; got != want {
		t.Errorf("with nothing used: got %s, want %s", got, want)
	}
	alice, bob := b.thread(t, "alice"), b.thread(t, "bob")
	today := b.clock.now()
	b.took(t, alice, "r1", today, 10, nil)
	b.took(t, alice, "r2", today.AddDate(0, 0, -29), 100, new(0.1))
	b.took(t, alice, "r3", today.AddDate(0, 0, -29), 100, new(0.2))
	b.took(t, alice, "r4", today.AddDate(0, 0, -30), 1000, new(0.4))
	b.took(t, bob, "r5", today, 5, new(7.0))
	row := func(id, day, rest string) string {
		return fmt.Sprintf(`{"thread_id":%q,"title":"","day":%q,%s}`, id, day, rest)
	}
	first := row(alice.Thread, "2026-05-04", `"responses":1,"input_tokens":10,"output_tokens":20,"cached_tokens":1,"cost_usd":null,"unpriced_responses":1`)
	second := row(alice.Thread, "2026-04-05", `"responses":2,"input_tokens":200,"output_tokens":400,"cached_tokens":2,"cost_usd":0.3,"unpriced_responses":0`)
	third := row(alice.Thread, "2026-04-04", `"responses":1,"input_tokens":1000,"output_tokens":2000,"cached_tokens":1,"cost_usd":0.4,"unpriced_responses":0`)
	for name, c := range map[string]struct{ query, want string }{
		"the last 30 days": {"", `{"from":"2026-04-05","to":"2026-05-04","usage":[` + first + "," + second + `],"total":{"responses":3,"input_tokens":210,` +
			`"output_tokens":420,"cached_tokens":3,"cost_usd":0.3,"unpriced_responses":1}}`},
		"from": {"?from=2026-04-04", `{"from":"2026-04-04","to":"2026-05-04","usage":[` + first + "," + second + "," + third + `],"total":{"responses":4,` +
			`"input_tokens":1210,"output_tokens":2420,"cached_tokens":4,"cost_usd":0.7,"unpriced_responses":1}}`},
		"one day": {"?from=2026-04-04&to=2026-04-04", `{"from":"2026-04-04","to":"2026-04-04","usage":[` + third + `],"total":{"responses":1,` +
			`"input_tokens":1000,"output_tokens":2000,"cached_tokens":1,"cost_usd":0.4,"unpriced_responses":0}}`},
	} {
		testkit.Equal(t, b.do(t, "GET", "/api/usage"+c.query, "", as("alice-token-of-tests")).body, c.want+"\n", "%s", name)
	}
	if body := b.do(t, "GET", "/api/usage", "", as("bob-token-of-tests")).body; strings.Contains(body, alice.Thread) || !strings.Contains(body, `"cost_usd":7,`) {
		t.Errorf("the other owner sees %s", body)
	}
	wantError(t, b.do(t, "GET", "/api/usage", ""), 401, "invalid_api_key")
}

func TestUsageRefusesBadRanges(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	for _, query := range []string{
		"from=x", "from=2026-02-30", "to=2026-1-1", "to=2026-01-01T00:00:00Z", "to=9999-12-31", "from=0001-01-01", "from=-001-01-01", "from=2026-01-01%00",
		"from=" + url.QueryEscape(strings.Repeat("9", 5000)), "from=2026-05-05", "from=2026-05-05&to=2026-05-04", "from=2025-01-01&to=2026-01-02",
	} {
		wantError(t, b.do(t, "GET", "/api/usage?"+query, ""), 400, "invalid_value")
	}
	for _, query := range []string{"from=2025-01-01&to=2026-01-01", "to=1970-01-01", "from=1970-01-01&to=1970-01-01", "from=&to="} {
		wantStatus(t, b.do(t, "GET", "/api/usage?"+query, ""), 200)
	}
}

func TestModels(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *Config) {
		tokens(c)
		list := []Model{{Provider: "simulator", Model: "model-1", Kind: ModelRealtime, Default: true, Voice: "voice-1"}, {Provider: "ollama", Model: "m", Kind: ModelText, Default: true}, {Provider: "simulator", Model: "s", Kind: ModelText}}
		c.Models = func(context.Context) []Model { return list }
	})
	want := `{"models":[{"provider":"simulator","model":"model-1","kind":"realtime","default":true,"voice":"voice-1"},` +
		`{"provider":"ollama","model":"m","kind":"text","default":true},{"provider":"simulator","model":"s","kind":"text","default":false}]}` + "\n"
	testkit.Equal(t, b.do(t, "GET", "/api/models", "", as("alice-token-of-tests")).body, want, "b.do")
	wantError(t, b.do(t, "GET", "/api/models", ""), 401, "invalid_api_key")
}
