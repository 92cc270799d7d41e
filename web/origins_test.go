package web

import (
	"net/http"
	"testing"

	"voicebridge/internal/testkit"
	"voicebridge/web/access"
)

func TestHost(t *testing.T) {
	t.Parallel()
	onLoopback := setup(t, func(c *Config) { c.AllowedOrigins = []string{"https://Voice.example.org:8443"} })
	elsewhere := setup(t, func(c *Config) { tokens(c); c.Loopback = false })
	for name, ok := range map[string]bool{
		"localhost": true, "localhost:8080": true, "LOCALHOST:1": true, "127.0.0.1": true, "127.0.0.1:8080": true, "[::1]:8080": true, "[::1]": true,
		"voice.example.org": true, "voice.example.org:443": true,
		"evil.example": false, "evil.example:8080": false, "localhost.evil.example": false, "127.0.0.1.evil.example": false,
		"localhost:evil": false, "localhost:": false, "localhost:80x": false, "[localhost]": false, "a@localhost": false, "localhost/x": false, "::1": false,
		"": false, "0.0.0.0:8080": false, "127.0.0.2": false, "localhost:8080:evil": false,
	} {
		r := onLoopback.do(t, "GET", "/api/threads", "", host(name))
		testkit.Equal(t, r.StatusCode, map[bool]int{true: 200, false: 403}[ok], "host %q: status", name)
		if r := elsewhere.do(t, "GET", "/api/threads", "", host(name), as("alice-token-of-tests")); r.StatusCode != http.StatusOK {
			t.Errorf("host %q off loopback: status %d", name, r.StatusCode)
		}
	}
	wantError(t, onLoopback.do(t, "GET", "/", "", host("evil.example")), 403, "host_not_allowed")
	wantError(t, onLoopback.do(t, "POST", callsPath, sdpOffer, sdpType, host("evil.example")), 403, "host_not_allowed")
}

func TestCrossOrigin(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *Config) { c.AllowedOrigins = []string{"https://app.example.org:443"} })
	for name, c := range map[string]struct {
		options []option
		ok      bool
	}{
		"no browser":              {nil, true},
		"the page":                {[]option{header("Origin", "http://localhost:8080"), header("Sec-Fetch-Site", "same-origin")}, true},
		"the page, old browser":   {[]option{header("Origin", "http://localhost:8080")}, true},
		"an allowed page":         {[]option{header("Origin", "https://app.example.org"), header("Sec-Fetch-Site", "cross-site")}, true},
		"a foreign page":          {[]option{header("Origin", "https://evil.example"), header("Sec-Fetch-Site", "cross-site")}, false},
		"a foreign page, old":     {[]option{header("Origin", "https://evil.example")}, false},
		"a page without origin":   {[]option{header("Origin", "null")}, false},
		"a neighbour":             {[]option{header("Origin", "http://other.localhost"), header("Sec-Fetch-Site", "same-site")}, false},
		"another port":            {[]option{header("Origin", "http://localhost:9"), header("Sec-Fetch-Site", "same-site")}, false},
		"an allowed name by HTTP": {[]option{header("Origin", "http://app.example.org")}, false},
		"a longer name":           {[]option{header("Origin", "https://app.example.org.evil.example")}, false},
	} {
		for target, body := range map[string]string{"/api/threads": `{"title":"x"}`, callsPath: sdpOffer} {
			options := c.options
			if target == callsPath {
				options = append(options[:len(options):len(options)], sdpType)
			}
			r := b.do(t, "POST", target, body, options...)
			testkit.Equal(t, r.StatusCode, map[bool]int{true: 201, false: 403}[c.ok], "%s: POST %s: status", name, target)
		}
	}
}

func TestCORS(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *Config) { c.AllowedOrigins = []string{"https://app.example.org", "capacitor://localhost"} })
	preflight := func(origin string) *answer {
		return b.do(t, "OPTIONS", callsPath, "", header("Origin", origin), header("Access-Control-Request-Method", "POST"),
			header("Access-Control-Request-Headers", "authorization,content-type,x-openai-agents-sdk"))
	}
	r := preflight("https://app.example.org")
	wantStatus(t, r, http.StatusNoContent)
	for name, want := range map[string]string{
		"Access-Control-Allow-Origin":  "https://app.example.org",
		"Access-Control-Allow-Headers": "authorization,content-type,x-openai-agents-sdk",
		"Access-Control-Allow-Methods": "GET,HEAD,POST,PATCH,DELETE",
	} {
		testkit.Equal(t, r.Header.Get(name), want, "%s", name)
	}
	r = b.do(t, "POST", callsPath, sdpOffer, sdpType, header("Origin", "https://app.example.org"))
	wantStatus(t, r, 201)
	testkit.Equal(t, r.Header.Get("Access-Control-Expose-Headers"), "Location,X-Thread-Id,X-Request-Id,Retry-After,Content-Disposition", "exposed")
	r = b.do(t, "GET", "/api/threads", "", header("Origin", "https://app.example.org"), host("elsewhere.example"))
	wantError(t, r, 403, "host_not_allowed")
	testkit.Equal(t, r.Header.Get("Access-Control-Allow-Origin"), "https://app.example.org", "a page cannot read why it is refused")
	testkit.Equal(t, preflight("capacitor://localhost").Header.Get("Access-Control-Allow-Origin"), "capacitor://localhost", "a page in an app")
	wantStatus(t, b.do(t, "POST", callsPath, sdpOffer, sdpType, header("Origin", "capacitor://localhost"), header("Sec-Fetch-Site", "cross-site")), 201)
	for _, origin := range []string{"https://evil.example", "null", "tauri://localhost", "https://app.example.org.evil.example", "https://appXexample.org"} {
		testkit.Equal(t, preflight(origin).Header.Get("Access-Control-Allow-Origin"), "", "origin %s is allowed", origin)
	}
}

func TestParseOrigin(t *testing.T) {
	t.Parallel()
	for origin, ok := range map[string]bool{
		"https://a.example": true, "http://localhost:5173": true, "http://[::1]:80": true, "capacitor://localhost": true, "tauri://localhost": true,
		"": false, "*": false, "https://*.a.example": false, "a.example": false, "https://": false, "https://a.example/": false,
		"https://a.example/x": false, "https://u:p@a.example": false, "ftp://a.example": false, "https://a.example?x": false, "https://:80": false,
	} {
		if _, err := access.ParseOrigin(origin); (err == nil) != ok {
			t.Errorf("%q: err %v, want ok %v", origin, err, ok)
		}
	}
}
