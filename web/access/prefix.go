package access

import (
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// pathPrefix matches a path that may precede one of ours.
var pathPrefix = regexp.MustCompile(`^(/[A-Za-z0-9_~][A-Za-z0-9._~-]*){1,16}$`)

// Prefix returns the path below which the client reaches this server, from the proxy's
// X-Forwarded-Prefix. It is empty if the header is missing or not a path, or if the sender is
// neither on this machine nor a trusted proxy.
func Prefix(r *http.Request, proxies []netip.Prefix) string {
	prefix := strings.TrimSuffix(r.Header.Get("X-Forwarded-Prefix"), "/")
	if len(prefix) > 256 || !pathPrefix.MatchString(prefix) || !fromProxy(r, proxies) {
		return ""
	}
	return prefix
}

// fromProxy reports whether the sender is on this machine or a trusted proxy.
func fromProxy(r *http.Request, proxies []netip.Prefix) bool {
	ip, err := netip.ParseAddr(Remote(r))
	if err != nil {
		return false
	}
	ip = ip.Unmap().WithZone("")
	return ip.IsLoopback() || slices.ContainsFunc(proxies, func(p netip.Prefix) bool { return p.Contains(ip) })
}

// Base returns the address at which the client reaches this server, without a / at the end. Behind a proxy that
// terminates TLS, the browser's Origin shows that, or the proxy's X-Forwarded-Proto.
func Base(r *http.Request, proxies []netip.Prefix) string {
	scheme := "http"
	origin, err := url.Parse(r.Header.Get("Origin"))
	if r.TLS != nil || err == nil && origin.Scheme == "https" && strings.EqualFold(origin.Host, r.Host) ||
		strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https") && fromProxy(r, proxies) {
		scheme = "https"
	}
	return scheme + "://" + r.Host + Prefix(r, proxies)
}
