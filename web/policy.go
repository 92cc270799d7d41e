package web

import (
	"fmt"
	"strings"
)

// pageCSP lets the page run its own scripts, have its own styles and talk to its own
// server, and nothing else. Its one argument is more of connect-src: browsers before
// CSP 3 do not count the sockets of a host as 'self'.
const pageCSP = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'%s; " +
	"img-src 'self' data: blob:; media-src 'self' blob:; worker-src 'self'; font-src 'self'; manifest-src 'self'; " +
	"base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

// workerFolder holds the page's worker scripts. A worker has the policy of its own
// script, not the page's, and these run programs that a model wrote: no request
// reaches anything, neither our API with the user's cookie nor another place, and
// the origin is nobody's, with no storage and no cookies. That of Python may load
// Python itself.
const workerFolder = "worker/"

const workerCSP = "default-src 'none'; script-src 'wasm-unsafe-eval'; sandbox allow-scripts"

// pagePolicy knows the content security policy of each file of the page.
type pagePolicy struct {
	pyodide *Pyodide
	origins []string // the operator's
}

// of is the content security policy of a file of the page.
func (p pagePolicy) of(name, host string) string {
	switch {
	case !strings.HasPrefix(name, workerFolder):
		return fmt.Sprintf(pageCSP, socketSources(host))
	case name == workerFolder+"python.js" && p.pyodide.Offered():
		from := p.pyodide.sources(host, p.origins)
		return "default-src 'none'; script-src 'wasm-unsafe-eval' " + from + "; connect-src " + from + "; sandbox allow-scripts"
	default:
		return workerCSP
	}
}

// socketSources are the sockets of the host by which the browser knows this server.
func socketSources(host string) string {
	if hostname := strings.ToLower(host); sourceList.MatchString(hostname) {
		return " ws://" + hostname + " wss://" + hostname
	}
	return ""
}
