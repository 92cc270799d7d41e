package access

import (
	"net"
	"net/http"
	"net/netip"
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
