package web

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"
)

// pyodidePath is where the files of a Pyodide distribution are served.
const pyodidePath = "/pyodide/"

const (
	// maxPyodideFiles is how many files of a folder are served; a full
	// distribution has some hundreds.
	maxPyodideFiles = 2000
	maxPyodideFile  = 512 << 20 // bytes of one
)

// pyodideTypes are the files of a distribution that a browser loads.
var pyodideTypes = map[string]string{
	".mjs": "text/javascript; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".wasm": "application/wasm", ".json": "application/json",
	".zip": "application/zip", ".whl": "application/zip", ".tar": "application/x-tar", ".gz": "application/gzip", ".tgz": "application/gzip",
	".data": "application/octet-stream",
}

// pyodideNeeds are the files without which Python does not start.
var pyodideNeeds = []string{"pyodide.mjs", "pyodide.asm.wasm", "pyodide-lock.json", "python_stdlib.zip"}

// Pyodide is where the page gets Python from, which it runs as WebAssembly
// (https://pyodide.org). The zero value is nowhere.
type Pyodide struct {
	address *url.URL // elsewhere
	root    *os.Root // a folder of this machine
	files   map[string]bool
}

// OpenPyodide takes a folder of this machine or an https address with a Pyodide
// distribution; an empty place is none. The error says what is wrong with it. Close
// must be called.
func OpenPyodide(place string) (*Pyodide, error) {
	switch {
	case place == "":
		return &Pyodide{}, nil
	case strings.Contains(place, "://"):
		return pyodideElsewhere(place)
	}
	root, err := os.OpenRoot(place)
	if err != nil {
		return nil, fmt.Errorf("open Pyodide: %w", err)
	}
	p := &Pyodide{root: root}
	if p.files, err = pyodideFiles(root); err != nil {
		return nil, errors.Join(fmt.Errorf("open Pyodide: %w", err), root.Close())
	}
	return p, nil
}

// sourceList is what a part of a content security policy may hold without
// becoming two parts.
var sourceList = regexp.MustCompile(`^[A-Za-z0-9.:/_~%@+=\[\]-]+$`)

func pyodideElsewhere(place string) (*Pyodide, error) {
	u, err := url.Parse(place)
	if err != nil || u.Scheme != "https" || u.Hostname() == "" {
		return nil, errors.New("open Pyodide: the address must be of the form https://host/folder/")
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" || !sourceList.MatchString(u.String()) {
		return nil, errors.New("open Pyodide: the address must not hold a user, a query, a fragment or odd characters")
	}
	if !strings.HasSuffix(u.Path, "/") {
		u = u.JoinPath("/")
	}
	return &Pyodide{address: u}, nil
}

// pyodideFiles lists the plain files that are served.
func pyodideFiles(root *os.Root) (map[string]bool, error) {
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return nil, err
	}
	files := make(map[string]bool)
	for _, e := range entries {
		if !e.Type().IsRegular() || pyodideTypes[path.Ext(e.Name())] == "" {
			continue
		}
		if info, err := e.Info(); err != nil || info.Size() > maxPyodideFile {
			continue
		}
		if files[e.Name()] = true; len(files) > maxPyodideFiles {
			return nil, fmt.Errorf("%s has more than %d files", root.Name(), maxPyodideFiles)
		}
	}
	for _, name := range pyodideNeeds {
		if !files[name] {
			return nil, fmt.Errorf("%s has no %s: it is no Pyodide distribution", root.Name(), name)
		}
	}
	return files, nil
}

// Close closes the folder.
func (p *Pyodide) Close() error {
	if p == nil || p.root == nil {
		return nil
	}
	return p.root.Close()
}

// Offered says whether there is one.
func (p *Pyodide) Offered() bool { return p != nil && (p.address != nil || p.root != nil) }

// base is what the page appends file names to: an address, or a path of ours.
func (p *Pyodide) base() string {
	switch {
	case p == nil:
		return ""
	case p.address != nil:
		return p.address.String()
	case p.root != nil:
		return strings.TrimPrefix(pyodidePath, "/") // the page may live below a prefix
	}
	return ""
}

// sources are the places that the worker may load from, for its policy. A policy
// names hosts, so those by which browsers may know this server stand in it: that of
// the request and those of the operator's origins.
func (p *Pyodide) sources(host string, origins []string) string {
	if p == nil || p.root == nil {
		return p.base()
	}
	var list []string
	for _, o := range append([]string{host}, origins...) {
		if o = strings.ToLower(o) + pyodidePath; sourceList.MatchString(o) && !slices.Contains(list, o) {
			list = append(list, o)
		}
	}
	return strings.Join(list, " ")
}

// serve serves one file of the distribution, to the worker only: that has
// an origin of its own, hence the access for all.
func (p *Pyodide) serve(c echo.Context) error {
	name := c.Param("file")
	if p == nil || p.root == nil || !p.files[name] {
		return echo.ErrNotFound
	}
	f, err := p.root.Open(name)
	if err != nil {
		return fmt.Errorf("open %s: %w", name, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxPyodideFile {
		return echo.ErrNotFound
	}
	h := c.Response().Header()
	h.Set(echo.HeaderAccessControlAllowOrigin, "*")
	h.Del(echo.HeaderAccessControlAllowCredentials)
	h.Set("Cross-Origin-Resource-Policy", "cross-origin")
	h.Set(echo.HeaderContentType, pyodideTypes[path.Ext(name)])
	h.Set(echo.HeaderCacheControl, "no-cache")
	h.Set("Etag", fmt.Sprintf(`"%x-%x"`, info.ModTime().UnixNano(), info.Size()))
	http.ServeContent(c.Response(), c.Request(), "", info.ModTime(), io.ReadSeeker(f))
	return nil
}
