package web

import (
	"strings"
	"testing"
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
		if got := shortPath(path); got != want {
			t.Errorf("shortPath(%s) = %s, want %s", path, got, want)
		}
	}
}
