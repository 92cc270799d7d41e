package webtools

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"code.dny.dev/ssrf"
	"golang.org/x/net/idna"
)

const (
	maxURL  = 8 << 10
	maxHost = 253 // RFC 1035, section 2.3.4
)

// closed are public addresses that must not be dialled either.
var closed = []netip.Prefix{
	// Metadata and agent endpoint on Azure: a public address that each virtual machine reaches
	// without leaving its host.
	netip.MustParsePrefix("168.63.129.16/32"),
}

// addresses decides which addresses may be dialled. It is safe for concurrent use.
type addresses struct {
	allow, deny []netip.Prefix
	ports       []int
	special     *ssrf.Guardian // the special-purpose registries of IANA
	own         func() ([]net.Addr, error)
}

func newAddresses(c Config) *addresses {
	return &addresses{
		allow: c.AllowPrefixes, deny: c.DenyPrefixes,
		ports:   append([]int{80, 443}, c.AllowPorts...),
		special: ssrf.New(ssrf.WithAnyPort()),
		own:     c.ownAddresses,
	}
}

// control is a [net.Dialer]'s hook: it sees each address after name resolution and before the
// connection, so that neither redirects nor changing DNS answers get around it.
func (a *addresses) control(network, address string, _ syscall.RawConn) error {
	if network != "tcp4" && network != "tcp6" {
		return refuse("connections of the kind %s are not allowed", network)
	}
	target, err := netip.ParseAddrPort(address)
	if err != nil {
		return refuse("the address cannot be read")
	}
	if err := a.checkPort(target.Port()); err != nil {
		return err
	}
	return a.check(target.Addr())
}

func (a *addresses) checkPort(port uint16) error {
	if !slices.Contains(a.ports, int(port)) {
		return refuse("the port %d is not allowed", port)
	}
	return nil
}

// check rejects addresses that are not public, unless the operator allows them.
func (a *addresses) check(addr netip.Addr) error {
	contains := func(p netip.Prefix) bool { return p.Contains(addr) }
	switch {
	case slices.ContainsFunc(a.deny, contains):
		return errClosed
	case slices.ContainsFunc(a.allow, contains):
		return nil
	case slices.ContainsFunc(closed, contains), a.special.SafeAddr(addr) != nil, a.isOwn(addr):
		return errClosed
	default:
		return nil
	}
}

var errClosed = &refusal{"the address is not a public one, or is closed by the operator"}

// isOwn reports whether the address belongs to this machine, whose services may trust it, or to the
// machine's IPv6 network, where machines have public addresses behind a firewall.
func (a *addresses) isOwn(addr netip.Addr) bool {
	interfaces, err := a.own()
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

// plainHost matches the characters of a host name; a URL allows others, which no name contains.
var plainHost = regexp.MustCompile(`^[A-Za-z0-9._-]+$`)

// parseURL parses and checks a model's URL. The host of the result is in ASCII.
func (a *addresses) parseURL(raw string) (*url.URL, error) {
	raw = strings.TrimSpace(raw)
	if len(raw) > maxURL {
		return nil, refuse("the URL is longer than %d bytes", maxURL)
	}
	u, err := url.Parse(raw)
	if err != nil {
		// The parser's message repeats the URL, which may contain a secret.
		if inner := errors.Unwrap(err); inner != nil && len(inner.Error()) < 100 {
			err = inner
		} else {
			err = errors.New("it is malformed")
		}
		return nil, refuse("the URL cannot be read: %v", err)
	}
	if err := a.checkURL(u); err != nil {
		return nil, err
	}
	u.Fragment, u.RawFragment = "", ""
	return u, nil
}

// checkURL rejects what can be rejected before a name is resolved, and writes the host in ASCII. It
// is called for each redirect, too.
func (a *addresses) checkURL(u *url.URL) error {
	var fallback uint16
	switch u.Scheme {
	case "http":
		fallback = 80
	case "https":
		fallback = 443
	case "":
		return refuse("the URL must begin with https:// or http://")
	default:
		return refuse("URLs of the scheme %.20q are not allowed, only http and https", u.Scheme)
	}
	if u.User != nil {
		return refuse("the URL must not contain a user name or a password")
	}
	if u.Opaque != "" || u.Hostname() == "" {
		return refuse("the URL has no host")
	}
	port := fallback
	if text := u.Port(); text != "" {
		n, err := strconv.ParseUint(text, 10, 16)
		if err != nil || n == 0 {
			return refuse("the port %.10q is not valid", text)
		}
		port = uint16(n)
	}
	if err := a.checkPort(port); err != nil {
		return err
	}
	host, err := a.checkHost(u.Hostname())
	if err != nil {
		return err
	}
	u.RawQuery = escapeQuery(u.RawQuery)
	switch {
	case u.Port() != "":
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
func (a *addresses) checkHost(host string) (string, error) {
	if addr, err := netip.ParseAddr(host); err == nil {
		if addr.Zone() != "" {
			return "", refuse("the host must not contain a zone")
		}
		return host, a.check(addr)
	}
	if strings.ContainsFunc(host, func(r rune) bool { return r >= 0x80 }) {
		ascii, err := idna.Lookup.ToASCII(host)
		if err != nil {
			return "", refuse("the host is not a valid name")
		}
		host = ascii
	}
	if len(host) > maxHost || !plainHost.MatchString(host) {
		return "", refuse("the host is not a valid name")
	}
	labels := strings.Split(strings.TrimSuffix(host, "."), ".")
	if numeric.MatchString(labels[len(labels)-1]) {
		return "", refuse("IP addresses must be written in the usual form")
	}
	return host, nil
}
