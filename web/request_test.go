package web

import (
	"strings"
	"testing"

	"voicebridge/internal/testkit"
)

// TestLoggedPaths: the log has no path that opens something.
func TestLoggedPaths(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"/api/threads":                 "/api/threads",
		"/s/secret-token":              "/s/…",
		"/s/secret-token/images/id":    "/s/…/images/id",
		"/s/":                          "/s/…",
		"/s//secret-token":             "/s/…/secret-token", // no token
		"/" + strings.Repeat("x", 300): "/" + strings.Repeat("x", maxLoggedPath-1) + "…",
	} {
		testkit.Equal(t, shortPath(path), want, "shortPath(%s)", path)
	}
}
