package access

import (
	"cmp"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
)

// Client returns the name under which limits count the client of a request: its address, or with
// IPv6 its /64 network, which usually belongs to one household. address is the client's as far as
// proxies are trusted.
//
// Behind an untrusted proxy all clients share one address. Each is then counted by what the proxy
// says about it, too, so that one that guesses tokens does not lock out the others. Clients can
// forge that, so [Guesses] also limits each connection's address.
func Client(r *http.Request, address string) string {
	name := network(address)
	last := r.Header.Values("X-Forwarded-For")
	if len(last) == 0 || address != Remote(r) {
		return name
	}
	said := last[len(last)-1]
	if i := strings.LastIndexByte(said, ','); i >= 0 {
		said = said[i+1:]
	}
	return name + " for " + network(strings.TrimSpace(said))
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
// its predecessors), or nothing.
func ForwardedHeader(h http.Header) string {
	for name := range h {
		if name == "Forwarded" || strings.HasPrefix(name, "X-Forwarded-") || name == "X-Real-Ip" {
			return name
		}
	}
	return ""
}

// Guesses limits how often a caller may present a wrong token. It is safe for concurrent use.
type Guesses struct {
	clients *RateLimit
	remotes *RateLimit

	mu sync.Mutex
	// proven are the owners whose token a client has presented, by both.
	proven map[[2]string]bool
}

// guessesPerRemote is how many callers of one connection's address may guess at once.
const guessesPerRemote = 50

func newGuesses(perMinute int, clients *RateLimit) *Guesses {
	return &Guesses{clients: clients, remotes: NewRateLimit(perMinute*guessesPerRemote, clients.now), proven: make(map[[2]string]bool)}
}

// Caller identifies who presents a token.
type Caller struct {
	Client string // as named by [Client]
	Remote string
}

// CallerOf identifies the caller of a request; address is as for [Client].
func CallerOf(r *http.Request, address string) Caller {
	return Caller{Client: Client(r, address), Remote: network(Remote(r))}
}

// right returns a 429 if the caller has guessed too often, unless it has presented this owner's
// token before: others at the same address must not lock it out.
func (g *Guesses) right(c Caller, owner string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	who := [2]string{c.Client, owner}
	if g.proven[who] {
		return nil
	}
	if err := cmp.Or(g.clients.check(c.Client), g.remotes.check(c.Remote)); err != nil {
		return err
	}
	if len(g.proven) >= maxAddresses {
		clear(g.proven)
	}
	g.proven[who] = true
	return nil
}

// wrong counts a wrong token and returns the error for it: a 401 or a 429.
func (g *Guesses) wrong(c Caller, refused error) error {
	if err := g.clients.Take(c.Client); err != nil {
		return err
	}
	if err := g.remotes.Take(c.Remote); err != nil {
		return err
	}
	return refused
}
