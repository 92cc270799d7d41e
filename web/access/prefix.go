package access

import (
	"net/http"
	"net/netip"
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
	if len(prefix) > 256 || !pathPrefix.MatchString(prefix) {
		return ""
	}
	ip, err := netip.ParseAddr(Remote(r))
	if err != nil {
		return ""
	}
	ip = ip.Unmap().WithZone("")
	if !ip.IsLoopback() && !slices.ContainsFunc(proxies, func(p netip.Prefix) bool { return p.Contains(ip) }) {
		return ""
	}
	return prefix
}
