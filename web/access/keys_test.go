package access

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestCheckKeys has servers of keys that no JWT can be verified with.
func TestCheckKeys(t *testing.T) {
	t.Parallel()
	const key = `{"keys":[{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}` // RFC 8037, A.2
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(key)) }))
	t.Cleanup(plain.Close)
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/moved":
			http.Redirect(w, r, "/", http.StatusFound)
		case "/unsafe":
			http.Redirect(w, r, plain.URL, http.StatusFound)
		case "/circle":
			http.Redirect(w, r, "/circle", http.StatusFound)
		case "/error":
			w.WriteHeader(http.StatusInternalServerError)
		case "/page":
			_, _ = w.Write([]byte("<html>"))
		case "/huge":
			_, _ = w.Write([]byte(strings.Repeat(" ", maxKeysBytes) + key))
		default:
			_, _ = w.Write([]byte(key))
		}
	}))
	t.Cleanup(s.Close)
	client := *keysClient
	client.Transport = s.Client().Transport
	for path, want := range map[string]string{
		"/": "", "/moved": "", "/unsafe": "it redirects to an address that is not https", "/circle": "it redirects too often", "/error": "status 500",
		"/page": "parse keys", "/huge": "more than 1048576 bytes",
	} {
		_, err := fetchKeys(t.Context(), &client, s.URL+path)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
}
