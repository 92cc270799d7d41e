package input

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/labstack/echo/v4"

	"voicebridge/internal/testkit"
)

// requestOf is a request with a body and a query.
func requestOf(t *testing.T, body, query string) echo.Context {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/?"+query, strings.NewReader(body))
	return echo.New().NewContext(r, httptest.NewRecorder())
}

func TestBodyLimit(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]int{"": 200, "1234": 200, "12345": 413} {
		got, err := Body(requestOf(t, body, ""), 4, "x")
		if status(err) != want || err == nil && string(got) != body {
			t.Errorf("%q: %q, %v, want %d", body, got, err, want)
		}
	}
}

func TestInt(t *testing.T) {
	t.Parallel()
	for query, want := range map[string]int64{"": 7, "n=": 7, "n=2": 2, "n=9": 9, "n=1": -1, "n=10": -1, "n=x": -1, "n=1e1": -1, "n=99999999999999999999": -1} {
		got, err := Int(requestOf(t, "", query), "n", 7, 2, 9)
		if err != nil && status(err) == http.StatusBadRequest {
			got = -1
		}
		testkit.Equal(t, got, want, "%q: %v", query, err)
	}
}

func TestValidID(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]bool{"": false, "a": true, "abcd": true, "abcde": false, "~a.b": true, "a b": false, "a/b": false, `a\b`: false, "ä": false, "a\x00": false, "a\x7f": false} {
		if got := ValidID(id, 4); got != want {
			t.Errorf("%q: %v", id, got)
		}
	}
}
