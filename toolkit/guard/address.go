// Package guard decides which addresses a request that a stranger has asked for may reach, and makes connections to no
// others.
package guard

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"code.dny.dev/ssrf"
	"golang.org/x/net/idna"
)

const (
	// MaxURL is how long a URL may be, in bytes.
	MaxURL  = 8 << 10
	maxHost = 253 // RFC 1035, section 2.3.4

	maxResponseHeader = 64 << 10
)

// closed are public addresses that must not be dialled either.
var closed = []netip.Prefix{
	// Metadata and agent endpoint on Azure: a public address that each virtual machine reaches
	// without leaving its host.
	netip.MustParsePrefix("168.63.129.16/32"),
}

// Rules say what may be dialled besides public addresses, and what may not. The zero value is the strictest.
type Rules struct {
	// Allow are networks that may be reached although they are not public, Deny those that may not although they are,
	// nor although they are allowed.
	Allow, Deny []netip.Prefix
	// Ports are allowed besides 80 and 443. With HighPorts so are those from 1024 on.
	Ports     []int
	HighPorts bool
	// Own lists the addresses of this machine; nil means those that it has.
	Own func() ([]net.Addr, error)
}

// Addresses decides which addresses may be dialled. It is safe for concurrent use.
type Addresses struct {
	Rules
	special *ssrf.Guardian // the special-purpose registries of IANA
}

// New returns what keeps the rules.
func New(r Rules) *Addresses {
	r.Ports = append([]int{80, 443}, r.Ports...)
	if r.Own == nil {
		r.Own = net.InterfaceAddrs
	}
	return &Addresses{Rules: r, special: ssrf.New(ssrf.WithAnyPort())}
}

// Transport returns a transport that connects to nothing else, without any proxy: one from the environment would
// connect in our place, unguarded. connect limits the time to connect and that of the TLS handshake; resolver may be
// nil.
func (a *Addresses) Transport(connect time.Duration, resolver *net.Resolver) *http.Transport {
	dialer := &net.Dialer{Timeout: connect, Control: a.Control, Resolver: resolver}
	return &http.Transport{
		Proxy:                  nil,
		DialContext:            dialer.DialContext,
		ForceAttemptHTTP2:      true,
		DisableKeepAlives:      true, // no connection to a stranger stays open, and none is shared between owners
		TLSHandshakeTimeout:    connect,
		MaxResponseHeaderBytes: maxResponseHeader,
	}
}

// Control is a [net.Dialer]'s hook: it sees each address after name resolution and before the
// connection, so that neither redirects nor changing DNS answers get around it.
func (a *Addresses) Control(network, address string, _ syscall.RawConn) error {
	if network != "tcp4" && network != "tcp6" {
		return Refuse("connections of the kind %s are not allowed", network)
	}
	target, err := netip.ParseAddrPort(address)
	if err != nil {
		return Refuse("the address cannot be read")
	}
	if err := a.checkPort(target.Port()); err != nil {
		return err
	}
	return a.Check(target.Addr())
}

func (a *Addresses) checkPort(port uint16) error {
	if !slices.Contains(a.Ports, int(port)) && (!a.HighPorts || port < 1024) {
		if a.HighPorts {
			return Refuse("the port %d is not allowed: 80, 443 and those from 1024 on are, and what hooks.allow names",
				port)
		}
		return Refuse("the port %d is not allowed: the setting tools.web.allow_ports can allow it", port)
	}
	return nil
}

// Check rejects addresses that are not public, unless the operator allows them.
func (a *Addresses) Check(addr netip.Addr) error {
	contains := func(p netip.Prefix) bool { return p.Contains(addr) }
	switch {
	case slices.ContainsFunc(a.Deny, contains):
		return errClosed
	case slices.ContainsFunc(a.Allow, contains):
		return nil
	case slices.ContainsFunc(closed, contains), a.special.SafeAddr(addr) != nil, a.isOwn(addr):
		return errClosed
	default:
		return nil
	}
}

var errClosed = &Refusal{"the address is not a public one, or is closed by the operator"}

// isOwn reports whether the address belongs to this machine, whose services may trust it, or to the
// machine's IPv6 network, where machines have public addresses behind a firewall.
func (a *Addresses) isOwn(addr netip.Addr) bool {
	interfaces, err := a.Own()
	if err != nil {
		return true // cannot be ruled out
	}
	for _, i := range interfaces {
		prefix, err := netip.ParsePrefix(i.String())
		if err != nil {
			continue
		}
		near := prefix.Addr().Is6() && prefix.Bits() >= 64 && prefix.Masked().Contains(addr)
		if near || prefix.Addr().Unmap() == addr {
			return true
		}
	}
	return false
}

// numeric matches a last label that makes a host an IPv4 address for some programs: 127.1,
// 2130706433, 0x7f.1, 0177.0.0.1 (WHATWG URL, "ends in a number").
var numeric = regexp.MustCompile(`^(0[xX][0-9a-fA-F]*|[0-9]+)$`)

// PlainHost matches the characters of a host name; a URL allows others, which no name contains.
var PlainHost = regexp.MustCompile(`^[A-Za-z0-9._-]+$`)

// ParseURL parses and checks a URL of a stranger. The host of the result is in ASCII.
func (a *Addresses) ParseURL(raw string) (*url.URL, error) {
	raw = strings.TrimSpace(raw)
	if len(raw) > MaxURL {
		return nil, Refuse("the URL is longer than %d bytes", MaxURL)
	}
	u, err := url.Parse(raw)
	if err != nil {
		// The parser's message repeats the URL, which may contain a secret.
		if inner := errors.Unwrap(err); inner != nil && len(inner.Error()) < 100 {
			err = inner
		} else {
			err = errors.New("it is malformed")
		}
		return nil, Refuse("the URL cannot be read: %v", err)
	}
	if err := a.CheckURL(u); err != nil {
		return nil, err
	}
	u.Fragment, u.RawFragment = "", ""
	return u, nil
}

// CheckURL rejects what can be rejected before a name is resolved, and writes the host in ASCII. It
// is called for each redirect, too.
func (a *Addresses) CheckURL(u *url.URL) error {
	switch u.Scheme {
	case "http", "https": // whose own ports are always allowed
	case "":
		return Refuse("the URL must begin with https:// or http://")
	default:
		return Refuse("URLs of the scheme %.20q are not allowed, only http and https", u.Scheme)
	}
	if u.User != nil {
		return Refuse("the URL must not contain a user name or a password")
	}
	if u.Opaque != "" || u.Hostname() == "" {
		return Refuse("the URL has no host")
	}
	var port uint16
	if text := u.Port(); text != "" {
		n, err := strconv.ParseUint(text, 10, 16)
		if err != nil || n == 0 {
			return Refuse("the port %.10q is not valid", text)
		}
		port = uint16(n)
		if err := a.checkPort(port); err != nil {
			return err
		}
	}
	host, err := a.checkHost(u.Hostname())
	if err != nil {
		return err
	}
	u.RawQuery = escapeQuery(u.RawQuery)
	switch {
	case port != 0:
		u.Host = net.JoinHostPort(host, strconv.Itoa(int(port))) // 080 becomes 80
	case strings.Contains(host, ":"):
		u.Host = "[" + host + "]"
	default:
		u.Host = host
	}
	return nil
}

// escapeQuery escapes spaces, control characters and all but ASCII, which would otherwise be sent as
// they are in the first line of the request, where spaces separate fields.
func escapeQuery(raw string) string {
	var b strings.Builder
	for _, c := range []byte(raw) {
		if c <= ' ' || c >= 0x7f {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// checkHost returns the host in ASCII.
func (a *Addresses) checkHost(host string) (string, error) {
	if addr, err := netip.ParseAddr(host); err == nil {
		if addr.Zone() != "" {
			return "", Refuse("the host must not contain a zone")
		}
		return host, a.Check(addr)
	}
	if strings.ContainsFunc(host, func(r rune) bool { return r >= 0x80 }) {
		ascii, err := idna.Lookup.ToASCII(host)
		if err != nil {
			return "", Refuse("the host is not a valid name")
		}
		host = ascii
	}
	if len(host) > maxHost || !PlainHost.MatchString(host) {
		return "", Refuse("the host is not a valid name")
	}
	labels := strings.Split(strings.TrimSuffix(host, "."), ".")
	if numeric.MatchString(labels[len(labels)-1]) {
		return "", Refuse("IP addresses must be written in the usual form")
	}
	return host, nil
}

// Refusal says why a request is blocked, in words for whoever asked for it. It does not contain the
// address to which a name resolved, because that would reveal a private network.
type Refusal struct{ reason string } //nolint:errname // it is shown as a result, too

func (r *Refusal) Error() string { return r.reason }

// Refuse returns a Refusal with a reason, formatted as by fmt.Sprintf.
func Refuse(format string, args ...any) error { return &Refusal{fmt.Sprintf(format, args...)} }

// connectTimeout limits the time to connect and that of the TLS handshake.
const connectTimeout = 10 * time.Second

// RoundTripper returns what makes requests that keep the rules, with all that their URLs say, for clients that follow
// redirects by themselves.
func (a *Addresses) RoundTripper() http.RoundTripper {
	return roundTripper{a, a.Transport(connectTimeout, nil)}
}

type roundTripper struct {
	addresses *Addresses
	transport *http.Transport
}

// RoundTrip implements [http.RoundTripper].
func (r roundTripper) RoundTrip(request *http.Request) (*http.Response, error) {
	to := *request.URL
	if err := r.addresses.CheckURL(&to); err != nil {
		return nil, err
	}
	return r.transport.RoundTrip(request)
}

// CloseIdleConnections is called by [http.Client].
func (r roundTripper) CloseIdleConnections() { r.transport.CloseIdleConnections() }
