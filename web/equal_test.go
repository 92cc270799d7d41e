package web

import (
	"net/http"
	"strings"
	"testing"
)

// TestEqualForms sends what RFCs call equal: percent-encoded unreserved characters (3986), whole numbers with a fraction
// or an exponent (8259), a patch by its own type (7396), a coding that is refused by q=0 (9110), origins in any case.
func TestEqualForms(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *Config) { tokens(c); c.AllowedOrigins = []string{"https://app.example.org"} })
	alice := as("alice-token-of-tests")
	key := b.thread(t, "alice")
	id := strings.ReplaceAll(key.Thread, "-", "%2D")
	wantStatus(t, b.do(t, "POST", "/api/assistants", `{"id":"desk","name":"D"}`, alice), 201)
	for name, c := range map[string]struct {
		method, target, body string
		header               option
		status               int
	}{
		"an encoded id":                {"GET", "/api/threads/" + id, "", alice, 200},
		"an encoded letter":            {"GET", "/api/assistants/%64esk", "", alice, 200},
		"an encoded slash is another":  {"GET", "/api/assistants%2Fdesk", "", alice, 404},
		"encoded steps":                {"GET", "/api/threads/%2E%2E", "", alice, 404},
		"a whole number":               {"PATCH", "/api/assistants/desk", `{"retention_days":30.0}`, alice, 200},
		"one with an exponent":         {"PATCH", "/api/assistants/desk", `{"retention_days":3e1}`, alice, 200},
		"none":                         {"PATCH", "/api/assistants/desk", `{"retention_days":30.5}`, alice, 400},
		"an absurd exponent":           {"PATCH", "/api/assistants/desk", `{"retention_days":1e999}`, alice, 400},
		"numbers in a text stay":       {"PATCH", "/api/assistants/desk", `{"name":"2.0 \"3.0\" 1e1"}`, alice, 200},
		"a merge patch":                {"PATCH", "/api/assistants/desk", `{}`, header("Content-Type", "application/merge-patch+json"), 200},
		"another type":                 {"PATCH", "/api/assistants/desk", `{}`, header("Content-Type", "text/plain"), 415},
		"an encoding that is unknown":  {"PATCH", "/api/assistants/desk", `{}`, header("Content-Encoding", "br"), 415},
		"identity":                     {"PATCH", "/api/assistants/desk", `{}`, header("Content-Encoding", "Identity"), 200},
		"an origin in capitals":        {"PATCH", "/api/assistants/desk", `{}`, header("Origin", "HTTPS://App.Example.ORG"), 200},
		"an origin that is not listed": {"PATCH", "/api/assistants/desk", `{}`, header("Origin", "https://other.example.org"), 403},
	} {
		if got := b.do(t, c.method, c.target, c.body, alice, c.header); got.StatusCode != c.status {
			t.Errorf("%s: status %d, want %d: %s", name, got.StatusCode, c.status, got.body)
		}
	}
	if got := b.do(t, "GET", "/api/assistants/desk", "", alice); !strings.Contains(got.body, `2.0 \"3.0\" 1e1`) {
		t.Errorf("the name has become another: %s", got.body)
	}
	for codings, want := range map[string]bool{
		"gzip": true, "": true, "br, GZIP;q=0.5": true, "gzip;q=0": false, "gzip; q=0.0, br": false, "identity, *": true,
	} {
		h := http.Header{}
		if codings != "" {
			h.Set("Accept-Encoding", codings)
		}
		if got := takes(h, "gzip", true); got != want {
			t.Errorf("%q takes gzip: %v", codings, got)
		}
		if got := takes(h, "br", false); got != (strings.HasPrefix(codings, "br") || strings.HasSuffix(codings, "br")) {
			t.Errorf("%q takes br: %v", codings, got)
		}
	}
}
