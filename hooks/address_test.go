package hooks

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"voicebridge/internal/testkit"
)

func TestHostileURLs(t *testing.T) {
	t.Parallel()
	a, err := NewAddresses([]string{"internal.example", "10.1.2.3:8080", "[fd00::1]"})
	must(t, err)
	for raw, want := range map[string]string{
		"https://example.com/hook?a=b":                   "https://example.com/hook?a=b",
		"https://example.com:8443/":                      "https://example.com:8443/",
		"https://bücher.example/":                        "https://xn--bcher-kva.example/",
		"https://8.8.8.8/":                               "https://8.8.8.8/",
		"http://internal.example:9000/":                  "http://internal.example:9000/",
		"https://INTERNAL.example/":                      "https://INTERNAL.example/",
		"http://10.1.2.3:8080/x":                         "http://10.1.2.3:8080/x",
		"http://[fd00::1]:1234/":                         "http://[fd00::1]:1234/",
		"http://example.com/":                            "",
		"http://10.1.2.3/":                               "",
		"https://10.1.2.4/":                              "",
		"https://10.1.2.3:8081/":                         "",
		"https://localhost/":                             "https://localhost/", // the name is resolved when it is called
		"https://127.0.0.1/":                             "",
		"https://127.1/":                                 "",
		"https://2130706433/":                            "",
		"https://[::1]/":                                 "",
		"https://[::ffff:10.0.0.1]/":                     "",
		"https://169.254.169.254/latest/":                "",
		"https://0x7f.1/":                                "",
		"https://user:pw@example.com/":                   "",
		"http://user@internal.example/":                  "",
		"https://example.com:22/":                        "",
		"https://internal.example:25/":                   "",
		"https://internal.example.evil:1":                "",
		"https://example.com:99999/":                     "",
		"ftp://internal.example/":                        "",
		"file:///etc/passwd":                             "",
		"javascript:alert(1)":                            "",
		"//example.com/":                                 "",
		"example.com":                                    "",
		"https:///x":                                     "",
		"https://":                                       "",
		"":                                               "",
		" ":                                              "",
		"https://exa mple.com/":                          "",
		"https://example.com\r\nX: y/":                   "",
		"https://" + strings.Repeat("a", 9000) + ".com/": "",
	} {
		got, err := a.Check(raw)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%.60q: %q, %v, want %q", raw, got, err, want)
		}
	}
	for _, allow := range []string{"", "a b", "https://x.example", "x.example/", "*"} {
		if _, err := NewAddresses([]string{allow}); err == nil {
			t.Errorf("hooks.allow takes %q", allow)
		}
	}
}

// TestPost reaches no private address by a name, follows no redirect, and says nothing of where a name leads.
func TestPost(t *testing.T) {
	t.Parallel()
	var hits atomic.Int64
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if hits.Add(1); r.URL.Path == "/away" {
			http.Redirect(w, r, "/other", http.StatusTemporaryRedirect)
		}
	}))
	defer receiver.Close()
	_, port, err := net.SplitHostPort(receiver.Listener.Addr().String())
	must(t, err)
	strict, err := NewAddresses(nil)
	must(t, err)
	if status, err := strict.post(t.Context(), "https://localhost:"+port+"/", http.Header{}, nil); err == nil || status != 0 || strings.Contains(err.Error(), "127.0.0.1") {
		t.Errorf("localhost answered %d, %v", status, err)
	}
	if hits.Load() != 0 {
		t.Error("a private address was reached")
	}
	named, err := NewAddresses([]string{"localhost:" + port})
	must(t, err)
	if status, err := named.post(t.Context(), "http://localhost:"+port+"/away", http.Header{}, nil); status != http.StatusTemporaryRedirect || err != nil {
		t.Errorf("got %d, %v, want the redirect itself", status, err)
	}
	testkit.Equal(t, hits.Load(), 1, "requests")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := named.post(ctx, "http://localhost:"+port+"/", http.Header{}, nil); err == nil {
		t.Error("a cancelled request was answered")
	}
	receiver.Close()
	if _, err := named.post(t.Context(), "http://localhost:"+port+"/", http.Header{}, nil); err == nil || strings.Contains(err.Error(), "127.0.0.1") {
		t.Errorf("a closed port: %v", err)
	}
}

// TestTimeout says that a receiver was too slow, whoever notices it first.
func TestTimeout(t *testing.T) {
	t.Parallel()
	receiver := httptest.NewServer(http.NotFoundHandler())
	defer receiver.Close()
	ctx, cancel := context.WithTimeoutCause(t.Context(), 0, errTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, receiver.URL, nil)
	must(t, err)
	resp, err := receiver.Client().Do(r)
	if err == nil {
		must(t, resp.Body.Close())
		t.Fatal("an answer came after the end")
	}
	if got := explain(err); !errors.Is(got, errTimeout) {
		t.Errorf("got %v, want %v", got, errTimeout)
	}
}
