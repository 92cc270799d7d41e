package mcptool

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
)

// TestReasons reads why a server refuses, as servers, gateways and OAuth write it.
func TestReasons(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ challenge, kind, body, want string }{
		"nothing":               {},
		"a challenge":           {`Bearer error="insufficient_scope", error_description="needs repo:read", scope="x"`, "application/json", `{"message":"no"}`, "needs repo:read"},
		"a short challenge":     {`Bearer realm="x", error="invalid_token"`, "", "", "invalid_token"},
		"a bare challenge":      {`Bearer resource_metadata="https://h.org/"`, "application/json", `{"error":"invalid_token"}`, "invalid_token"},
		"OAuth":                 {"", "application/json", `{"error":"invalid_token","error_description":"it has expired"}`, "it has expired"},
		"an object":             {"", "application/json", `{"error":{"code":7,"message":"quota"}}`, "quota"},
		"GitHub":                {"", "application/json", `{"message":"Bad credentials","status":"401"}`, "Bad credentials"},
		"FastAPI":               {"", "application/json", `{"detail":"Not authenticated"}`, "Not authenticated"},
		"a text":                {"", "text/plain", "no\n\n entry\x00\xff ", "no entry\x00\ufffd"},
		"a text without a kind": {"", "", "forbidden", "forbidden"},
		"a page":                {"", "text/html; charset=utf-8", "<html>no", ""},
		"other JSON":            {"", "application/json", `{"error":7,"message":["x"]}`, ""},
		"a long text":           {"", "text/plain", strings.Repeat("é", 5000), strings.Repeat("é", maxReason-1) + "…"},
	} {
		response := &http.Response{Header: http.Header{"Www-Authenticate": {c.challenge}, "Content-Type": {c.kind}}, Body: io.NopCloser(strings.NewReader(c.body))}
		if got := readReason(response, peek(response)); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		if all, err := io.ReadAll(response.Body); err != nil || string(all) != c.body {
			t.Errorf("%s: %q is left of the body (%v)", name, all, err)
		}
	}
}

func TestExplainRefusal(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status            int
		reason, err, want string
	}{
		{403, "not from here", "Forbidden", `Forbidden (HTTP 403: the server says "not from here")`},
		{403, "not from here", "HTTP 403: not from here", "HTTP 403: not from here"},
		{503, "", "Service Unavailable", "Service Unavailable"},
		{401, "expired", "Unauthorized", `Unauthorized (HTTP 401: the server says "expired"; it wants other credentials;`},
		{403, "", "Forbidden", "Forbidden (HTTP 403: it wants other credentials;"},
	} {
		if got := (&refusal{c.status, c.reason}).explain(errors.New(c.err)).Error(); !strings.HasPrefix(got, c.want) || !strings.HasSuffix(c.want, ";") && got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}
