package web

import (
	"compress/gzip"
	"io"
	"io/fs"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"voicebridge/internal/testkit"
	"voicebridge/web/access"
	"voicebridge/web/ui"
)

func TestPage(t *testing.T) {
	t.Parallel()
	b := setup(t, tokens) // the page itself needs no token
	for path, contentType := range map[string]string{
		"/": "text/html; charset=utf-8", "/favicon.svg": "image/svg+xml", "/assets/app.js": "text/javascript; charset=utf-8",
	} {
		r := b.do(t, "GET", path, "")
		wantStatus(t, r, 200)
		h := r.Header
		document := !strings.HasSuffix(path, ".js")
		if h.Get("Content-Type") != contentType || h.Get("Cache-Control") != "no-cache" || h.Get("X-Content-Type-Options") != "nosniff" ||
			strings.Contains(h.Get("Permissions-Policy"), "microphone=(self)") != document || h.Get("Referrer-Policy") != "no-referrer" {
			t.Errorf("%s: headers %v", path, h)
		}
		for _, rule := range []string{"default-src 'none'", "script-src 'self';", "connect-src 'self' ws://localhost:8080 wss://localhost:8080", "base-uri 'none'", "frame-ancestors 'none'"} {
			if strings.Contains(h.Get("Content-Security-Policy"), rule) != document {
				t.Errorf("%s: the policy is %q: %q", path, h.Get("Content-Security-Policy"), rule)
			}
		}
		body := r.body
		r = b.do(t, "GET", path, "", header("If-None-Match", h.Get("Etag")))
		if r.StatusCode != http.StatusNotModified || r.body != "" {
			t.Errorf("%s: status %d for a known file", path, r.StatusCode)
		}
		r = b.do(t, "HEAD", path, "")
		if r.StatusCode != http.StatusOK || r.Header.Get("Etag") != h.Get("Etag") {
			t.Errorf("%s: HEAD: status %d", path, r.StatusCode)
		}
		testkit.Equal(t, body, string(testPage[strings.TrimPrefix(strings.Replace(path, "/", "/index.html", map[bool]int{true: 1}[path == "/"]), "/")].Data), "%s: body", path)
	}
}

func TestNoSuchPage(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	for _, path := range []string{
		"/nope", "/index.html", "/assets/app.js.br", "/assets/", "/assets", "/threads/x", "/../web/auth.go", "/..%2f..%2fetc%2fpasswd", "/assets/../index.html",
		"/assets/%2e%2e/favicon.svg", "//favicon.svg", "/favicon.svg%00", "/api", "/api/", "/api/nope", "/v1/nope", "/.git/config",
	} {
		r := b.do(t, "GET", path, "")
		if r.StatusCode != http.StatusNotFound || strings.Contains(r.body, "<title>") {
			t.Errorf("GET %s: status %d", path, r.StatusCode)
		}
	}
	for _, c := range []struct{ method, path string }{{"POST", "/"}, {"DELETE", "/healthz"}, {"PUT", "/api/threads/x"}, {"POST", "/api/config"}} {
		r := b.do(t, c.method, c.path, "")
		if r.Header.Get("Allow") == "" {
			t.Errorf("%s %s: Allow is missing", c.method, c.path)
		}
		wantError(t, r, 405, "method_not_allowed")
	}
}

// TestBrotli asks for a file that the build has compressed.
func TestBrotli(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	for codings, want := range map[string]string{"gzip, deflate, br": "1 in Brotli", "gzip, br;q=0": "export default 1", "": "export default 1"} {
		r := b.do(t, "GET", "/assets/app.js", "", header("Accept-Encoding", codings))
		wantStatus(t, r, 200)
		if compressed := want == "1 in Brotli"; r.body != want || (r.Header.Get("Content-Encoding") == "br") != compressed ||
			r.Header.Get("Vary") == "" || r.Header.Get("Content-Type") != "text/javascript; charset=utf-8" {
			t.Errorf("%q: %q, headers %v", codings, r.body, r.Header)
		}
	}
}

func TestGzip(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	r := b.do(t, "GET", "/", "", header("Accept-Encoding", "gzip"))
	wantStatus(t, r, 200)
	z, err := gzip.NewReader(strings.NewReader(r.body))
	must(t, err)
	if body, err := io.ReadAll(z); err != nil || string(body) != string(testPage["index.html"].Data) {
		t.Errorf("body %q, err %v", body, err)
	}
	// A socket opens even if its client accepts gzip.
	address, _ := b.run(t)
	key := b.thread(t, access.LocalOwner)
	wantHello(t, open(t, "ws://"+address+"/api/threads/"+key.Thread+"/ws", "Accept-Encoding", "gzip"), key.Thread, 0)
	// The answer to a call is not compressed, whatever its length, nor the stream that useChat reads.
	for _, r := range []*answer{
		b.do(t, "POST", "/v1/realtime/calls", "", header("Accept-Encoding", "gzip")),
		b.do(t, "POST", messagesPath(key), uiSaid("mine", "hello"), header("Accept", "*/*"), header("Accept-Encoding", "gzip")),
	} {
		if slices.Contains(r.Header.Values("Vary"), "Accept-Encoding") {
			t.Errorf("headers %v", r.Header)
		}
	}
}

func TestPageMustBeThere(t *testing.T) {
	t.Parallel()
	for name, files := range map[string]fstest.MapFS{"empty": {}, "pattern": {"index.html": {}, "a:b.js": {}}} {
		if _, err := newPage(files); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := newPage(ui.Dist()); err != nil {
		t.Errorf("the built page: %v", err)
	}
}

// The built page must work under the policy that it is served with.
func TestBuiltPageHasNoInlineScript(t *testing.T) {
	t.Parallel()
	body, err := fs.ReadFile(ui.Dist(), indexFile)
	must(t, err)
	index := string(body)
	for rest := index; ; {
		_, after, ok := strings.Cut(rest, "<script")
		if !ok {
			break
		}
		tag, body, _ := strings.Cut(after, ">")
		if !strings.Contains(tag, "src=") || !strings.HasPrefix(body, "</script>") {
			t.Errorf("inline script: <script%s>%.40s", tag, body)
		}
		rest = body
	}
	if strings.Contains(index, "http://") || strings.Contains(index, "https://") {
		t.Error("the page loads something from elsewhere")
	}
}

func TestAPIHeaders(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	for _, r := range []*answer{b.do(t, "GET", "/api/threads", ""), b.do(t, "GET", "/api/nope", ""), b.do(t, "POST", callsPath, "")} {
		if r.Header.Get("Cache-Control") != "no-store" || r.Header.Get("X-Content-Type-Options") != "nosniff" || r.Header.Get("X-Request-Id") == "" ||
			!strings.Contains(r.Header.Get("Content-Security-Policy"), "default-src 'none'") {
			t.Errorf("headers %v", r.Header)
		}
	}
}
