package access

import (
	"net/http"
	"net/netip"
	"regexp"
	"slices"
)

// pathPrefix is a path that may stand before one of ours.
var pathPrefix = regexp.MustCompile(`^(/[A-Za-z0-9_~][A-Za-z0-9._~-]*){1,16}$`)

// Prefix returns the path below which the caller reaches us, as the proxy that sent
// the request says in X-Forwarded-Prefix; empty when it says nothing, or nothing that
// could be a path, or is neither on this machine nor one of the proxies.
func Prefix(r *http.Request, proxies []netip.Prefix) string {
	said := r.Header.Get("X-Forwarded-Prefix")
	if len(said) > 256 || !pathPrefix.MatchString(said) {
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
	return said
}
