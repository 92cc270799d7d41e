package web

import (
	"regexp"
	"strings"
)

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
