package access

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// Client returns the name under which limits count the client of a request: its address, or with
// IPv6 its /64 network, which usually belongs to one household. address is the client's address, as
// reported by trusted proxies only.
//
// Behind an untrusted proxy all clients share one address. The address that the proxy reports then
// becomes a part of the name, so that a client that guesses tokens does not lock out the others.
// Clients can forge that, so [Guesses] also limits each connection's address.
func Client(r *http.Request, address string) string {
	name := network(address)
	last := r.Header.Values("X-Forwarded-For")
	if len(last) == 0 || address != Remote(r) {
		return name
	}
	client := last[len(last)-1]
	if i := strings.LastIndexByte(client, ','); i >= 0 {
		client = client[i+1:]
	}
	return name + " for " + network(strings.TrimSpace(client))
}

// Remote returns the address that a request's connection comes from.
func Remote(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

// network returns an IPv4 address as it is, and the /64 of an IPv6 address. Anything else gets one
// common name.
func network(address string) string {
	ip, err := netip.ParseAddr(address)
	if err != nil {
		return "unknown"
	}
	ip = ip.Unmap().WithZone("")
	if ip.Is4() {
		return ip.String()
	}
	p, err := ip.Prefix(64)
	if err != nil {
		return "unknown"
	}
	return p.String()
}

// ForwardedHeader returns the header that shows that a request came through a proxy (RFC 7239 and
// its predecessors), or an empty string.
func ForwardedHeader(h http.Header) string {
	for name := range h {
		if name == "Forwarded" || strings.HasPrefix(name, "X-Forwarded-") || name == "X-Real-Ip" {
			return name
		}
	}
	return ""
}

// Peer identifies who presents a token.
type Peer struct {
	Client string // as [Client] names it
	Remote string
}

// PeerOf identifies the client of a request; address is as for [Client].
func PeerOf(r *http.Request, address string) Peer {
	return Peer{Client: Client(r, address), Remote: network(Remote(r))}
}

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
