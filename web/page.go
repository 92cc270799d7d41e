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
	etag        func() (string, error)
}

// pageTypes are the types that must be known in a scratch image without a MIME table.
var pageTypes = map[string]string{
	".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".mjs": "text/javascript; charset=utf-8",
	".css": "text/css; charset=utf-8", ".json": "application/json", ".map": "application/json", ".svg": "image/svg+xml",
	".png": "image/png", ".ico": "image/x-icon", ".woff2": "font/woff2", ".wasm": "application/wasm",
	".txt": "text/plain; charset=utf-8", ".md": "text/markdown; charset=utf-8", ".webmanifest": "application/manifest+json",
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

// paths are the page's routes: its files, with / for index.html. The page keeps its own location
// after #, so no other path serves it.
func (p *page) paths() []string {
	out := []string{"/"}
	for name := range p.files {
		if name != indexFile {
			out = append(out, "/"+name)
		}
	}
	return out
}

func (p *page) has(name string) bool {
	_, ok := p.files[name]
	return ok
}

// pageFiles serves the page's files.
type pageFiles struct {
	page *page
}

func (h *pageFiles) routes(r router) {
	for _, path := range h.page.paths() {
		r.GET(path, h.serve)
	}
}

func (h *pageFiles) serve(c echo.Context) error {
	return h.page.serve(c, cmp.Or(strings.TrimPrefix(c.Path(), "/"), indexFile))
}

func (p *page) serve(c echo.Context, name string) error {
	f, h := p.files[name], c.Response().Header()
	etag, err := f.etag()
	if err != nil {
		return err
	}
	h.Set(echo.HeaderContentSecurityPolicy, fmt.Sprintf(pageCSP, socketSources(c.Request().Host)))
	h.Set("Etag", etag)
	// File names do not change with their content, so browsers revalidate each time; unchanged
	// files are not sent again.
	h.Set(echo.HeaderCacheControl, "no-cache")
	if strings.Contains(c.Request().Header.Get("If-None-Match"), etag) {
		return c.NoContent(http.StatusNotModified)
	}
	body, err := fs.ReadFile(p.fs, name)
	if err != nil {
		return err
	}
	return c.Blob(http.StatusOK, f.contentType, body)
}
