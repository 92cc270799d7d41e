package web

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"regexp"
	"strings"
	"sync"

	"github.com/labstack/echo/v4"
)

const indexFile = "index.html"

// page is the embedded page, whose files do not change. Each is read when somebody asks for it.
type page struct {
	fs    fs.FS
	files map[string]pageFile // by path without the leading slash
}

type pageFile struct {
	contentType string
	// brotli says that the file is there compressed, too, under its name and ".br".
	brotli bool
	etag   func() (string, error)
}

// pageTypes are the types that must be known in a scratch image without a MIME table.
var pageTypes = map[string]string{
	".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8",
	".mjs": "text/javascript; charset=utf-8",
	".css": "text/css; charset=utf-8", ".json": "application/json", ".map": "application/json", ".svg": "image/svg+xml",
	".png": "image/png", ".ico": "image/x-icon", ".woff2": "font/woff2", ".wasm": "application/wasm",
	".txt": "text/plain; charset=utf-8", ".md": "text/markdown; charset=utf-8",
	".webmanifest": "application/manifest+json",
}

func newPage(files fs.FS) (*page, error) {
	p := &page{fs: files, files: map[string]pageFile{}}
	err := fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if strings.ContainsAny(name, ":*") {
			return fmt.Errorf("%s: the router takes this name for a pattern", name)
		}
		if of, ok := strings.CutSuffix(name, ".br"); ok {
			f := p.files[of] // which comes before it
			f.brotli = true
			p.files[of] = f
			return nil
		}
		p.files[name] = pageFile{contentType: contentType(name), etag: sync.OnceValues(func() (string, error) {
			body, err := fs.ReadFile(files, name)
			sum := sha256.Sum256(body)
			return `"` + hex.EncodeToString(sum[:12]) + `"`, err
		})}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read page: %w", err)
	}
	if _, ok := p.files[indexFile]; !ok {
		return nil, fmt.Errorf("read page: "+indexFile+": %w", fs.ErrNotExist)
	}
	return p, nil
}

func contentType(name string) string {
	ext := path.Ext(name)
	if t, ok := pageTypes[ext]; ok {
		return t
	}
	if t := mime.TypeByExtension(ext); t != "" {
		return t
	}
	return "application/octet-stream"
}

// routes are the page's files, with / for index.html. The page keeps its own location after #, so no other path
// serves it.
func (p *page) routes(r router) {
	r.GET("/", p.serve)
	for name := range p.files {
		if name != indexFile {
			r.GET("/"+name, p.serve)
		}
	}
}

func (p *page) has(name string) bool {
	_, ok := p.files[name]
	return ok
}

// sendsBrotli reports whether a request is answered with a file as it was compressed by the build.
func (p *page) sendsBrotli(c echo.Context) bool {
	return p.files[fileOf(c)].brotli && takes(c.Request().Header, "br", false)
}

func fileOf(c echo.Context) string { return cmp.Or(strings.TrimPrefix(c.Path(), "/"), indexFile) }

func (p *page) serve(c echo.Context) error {
	name := fileOf(c)
	f, h := p.files[name], c.Response().Header()
	etag, err := f.etag()
	if err != nil {
		return err
	}
	switch path.Ext(name) {
	case ".js", ".css", ".png":
		// Only documents follow them, and they are longer than some of these files.
		h.Del(echo.HeaderContentSecurityPolicy)
		h.Del("Permissions-Policy")
	default:
		h.Set(echo.HeaderContentSecurityPolicy, fmt.Sprintf(pageCSP, socketSources(c.Request().Host)))
	}
	h.Set("Etag", etag)
	// File names do not change with their content, so browsers revalidate each time; unchanged
	// files are not sent again.
	h.Set(echo.HeaderCacheControl, "no-cache")
	if strings.Contains(c.Request().Header.Get("If-None-Match"), etag) {
		return c.NoContent(http.StatusNotModified)
	}
	if p.sendsBrotli(c) {
		name += ".br"
		h.Set(echo.HeaderContentEncoding, "br")
		h.Add(echo.HeaderVary, echo.HeaderAcceptEncoding)
	}
	body, err := fs.ReadFile(p.fs, name)
	if err != nil {
		return err
	}
	return c.Blob(http.StatusOK, f.contentType, body)
}

// pageCSP lets the page run its own scripts, use its own styles and talk to its own server, and
// nothing else. Its one argument extends connect-src: browsers before CSP 3 do not count a host's
// sockets as 'self'.
const pageCSP = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'%s; " +
	"img-src 'self' data: blob:; media-src 'self' blob:; font-src 'self'; manifest-src 'self'; " +
	"base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

// sourceList matches what may go into one part of a content security policy.
var sourceList = regexp.MustCompile(`^[A-Za-z0-9.:/_~%@+=\[\]-]+$`)

// socketSources returns the socket addresses of the host by which the browser knows this server.
func socketSources(host string) string {
	if hostname := strings.ToLower(host); sourceList.MatchString(hostname) {
		return " ws://" + hostname + " wss://" + hostname
	}
	return ""
}
