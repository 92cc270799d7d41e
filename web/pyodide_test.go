package web

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// pyodideFolder makes a folder that looks like a distribution.
func pyodideFolder(t *testing.T, more map[string]string) string {
	t.Helper()
	folder := t.TempDir()
	for _, name := range pyodideNeeds {
		writeFile(t, filepath.Join(folder, name), "this is "+name)
	}
	for name, text := range more {
		writeFile(t, filepath.Join(folder, name), text)
	}
	return folder
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func openPyodide(t *testing.T, place string) *Pyodide {
	t.Helper()
	p, err := OpenPyodide(place)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func TestPyodideIsServed(t *testing.T) {
	t.Parallel()
	folder := pyodideFolder(t, map[string]string{
		"numpy-2.0-wasm32.whl": "PK", "secret.txt": "no", ".env": "no", "page.html": "<script>", "sub/inside.mjs": "no", "sub.mjs/x": "no",
	})
	outside := filepath.Join(t.TempDir(), "outside.json")
	writeFile(t, outside, "no")
	for _, link := range []string{"link.json", "dangling.json"} {
		if err := os.Symlink(map[bool]string{true: outside, false: "nowhere"}[link == "link.json"], filepath.Join(folder, link)); err != nil {
			t.Fatal(err)
		}
	}
	p := openPyodide(t, folder)
	if !p.Offered() || p.base() != "pyodide/" {
		t.Errorf("offered %v at %q", p.Offered(), p.base())
	}
	b := setup(t, func(c *Config) { tokens(c); c.Pyodide = p }) // its files are for everyone
	for name, contentType := range map[string]string{
		"pyodide.mjs": "text/javascript; charset=utf-8", "pyodide.asm.wasm": "application/wasm", "pyodide-lock.json": "application/json",
		"python_stdlib.zip": "application/zip", "numpy-2.0-wasm32.whl": "application/zip",
	} {
		r := b.do(t, "GET", "/pyodide/"+name, "", header("Origin", "null"), header("Accept-Encoding", "gzip"))
		wantStatus(t, r, 200)
		h := r.Header
		if h.Get("Content-Type") != contentType || h.Get("Access-Control-Allow-Origin") != "*" || h.Get("X-Content-Type-Options") != "nosniff" ||
			h.Get("Content-Encoding") != "" || h.Get("Content-Security-Policy") != apiCSP {
			t.Errorf("%s: headers %v", name, h)
		}
		r = b.do(t, "GET", "/pyodide/"+name, "", header("If-None-Match", h.Get("Etag")))
		wantStatus(t, r, 304)
	}
	for _, name := range []string{
		"", "nope.mjs", "secret.txt", ".env", "page.html", "sub/inside.mjs", "sub.mjs", "sub", "link.json", "dangling.json", ".", "..", "%2e%2e/page.go",
		"..%2f..%2fetc%2fpasswd", "pyodide.mjs%00", "pyodide.mjs/", "PYODIDE.MJS", "./pyodide.mjs",
	} {
		if r := b.do(t, "GET", "/pyodide/"+name, ""); r.StatusCode != http.StatusNotFound {
			t.Errorf("%q: status %d: %.100s", name, r.StatusCode, r.body)
		}
	}
	wantError(t, b.do(t, "PUT", "/pyodide/pyodide.mjs", "x", as("alice-token-of-tests")), 405, "method_not_allowed")

	// A file that has become something else is not followed.
	path := filepath.Join(folder, "pyodide-lock.json")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, path); err != nil {
		t.Fatal(err)
	}
	if r := b.do(t, "GET", "/pyodide/pyodide-lock.json", ""); r.StatusCode == http.StatusOK {
		t.Errorf("a link out of the folder was followed: %s", r.body)
	}
}

func TestNoPyodide(t *testing.T) {
	t.Parallel()
	for name, p := range map[string]*Pyodide{"nil": nil, "none": openPyodide(t, ""), "elsewhere": openPyodide(t, "https://cdn.example/pyodide/v1")} {
		b := setup(t, func(c *Config) { c.Pyodide = p })
		if r := b.do(t, "GET", "/pyodide/pyodide.mjs", ""); r.StatusCode != http.StatusNotFound {
			t.Errorf("%s: status %d", name, r.StatusCode)
		}
		if p.Offered() != (name == "elsewhere") {
			t.Errorf("%s: offered %v", name, p.Offered())
		}
	}
}

func TestPyodidePlaces(t *testing.T) {
	t.Parallel()
	empty, many := t.TempDir(), pyodideFolder(t, nil)
	for i := range maxPyodideFiles {
		writeFile(t, filepath.Join(many, fmt.Sprintf("p%d.whl", i)), "")
	}
	file := filepath.Join(empty, "file.mjs")
	writeFile(t, file, "")
	for place, want := range map[string]string{
		empty:                         "has no pyodide.mjs",
		many:                          "more than 2000 files",
		file:                          "file.mjs",
		filepath.Join(empty, "nope"):  "nope",
		"http://cdn.example/pyodide/": "https",
		"ftp://cdn.example/":          "https",
		"https://":                    "https",
		"https://user@cdn.example/":   "user",
		"https://cdn.example/?a=1":    "query",
		"https://cdn.example/#a":      "fragment",
		"https://cdn.example/a;b/":    "odd",
		"https://*.example/":          "odd",
		"https://cdn.example/'self'/": "odd",
	} {
		if p, err := OpenPyodide(place); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, %v; want %q", place, p, err, want)
		}
	}
}

func TestPolicyOfPython(t *testing.T) {
	t.Parallel()
	const around = "default-src 'none'; script-src 'wasm-unsafe-eval' %s; connect-src %[1]s; sandbox allow-scripts"
	own := openPyodide(t, pyodideFolder(t, nil))
	for _, c := range []struct {
		p       *Pyodide
		host    string
		origins []string
		want    string
	}{
		{openPyodide(t, "https://cdn.example/pyodide/v1/full"), "here.example", nil, "https://cdn.example/pyodide/v1/full/"},
		{own, "127.0.0.1:8080", nil, "127.0.0.1:8080/pyodide/"},
		{own, "[::1]:8080", nil, "[::1]:8080/pyodide/"},
		{own, "inside:8080", []string{"https://talk.example", "https://talk.example"}, "inside:8080/pyodide/ https://talk.example/pyodide/"},
		{own, "x; script-src *", []string{"https://talk.example"}, "https://talk.example/pyodide/"},
	} {
		s := pagePolicy{c.p, c.origins}
		if got, want := s.of("worker/python.js", c.host), fmt.Sprintf(around, c.want); got != want {
			t.Errorf("%s: got %q, want %q", c.host, got, want)
		}
		if got := s.of("worker/javascript.js", c.host); got != workerCSP {
			t.Errorf("JavaScript's policy is %q", got)
		}
		if got := s.of("index.html", c.host); !strings.HasPrefix(got, "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'") || strings.Contains(got, "unsafe") || strings.Contains(got, "*") {
			t.Errorf("the page's policy is %q", got)
		}
	}
	if got := (pagePolicy{}).of("worker/python.js", "x"); got != workerCSP {
		t.Errorf("without Pyodide the policy is %q", got)
	}
}
