package main

import (
	"cmp"
	"context"
	"net"
	"net/netip"
	"net/url"
	"time"

	"voicebridge/persistence/cluster"
)

// lookUp limits the look-up of the database's host.
const lookUp = 2 * time.Second

// reachedAt returns where other processes reach this one.
func (a *app) reachedAt() cluster.Address {
	out := cluster.Address{URL: a.privateURL}
	if a.certificate != nil {
		out.Certificate = a.certificate.Fingerprint() // which may have been renewed
	}
	return out
}

// findPrivateURL sets where other processes on the database reach this one, once it listens.
func (a *app) findPrivateURL(ctx context.Context) {
	a.privateURL = a.cfg.PrivateURL
	listens, err := netip.ParseAddrPort(a.ln.Addr().String())
	if a.privateURL != "" || err != nil {
		return
	}
	ip := listens.Addr().Unmap().WithZone("")
	if ip.IsUnspecified() {
		ip = cmp.Or(towards(ctx, a.cfg.Secrets.DatabaseURL.Reveal()), firstPrivate())
	}
	if !ip.IsValid() {
		a.log.Warn(
			"other processes cannot pass requests on to this one: no address of this machine found; set private_url")
		return
	}
	scheme := "http://"
	if a.cfg.TLS.On() {
		scheme = "https://"
	}
	a.privateURL = scheme + netip.AddrPortFrom(ip, listens.Port()).String()
}

// towards returns the address by which this machine reaches the database, if that is on another one.
func towards(ctx context.Context, database string) netip.Addr {
	u, err := url.Parse(database)
	if err != nil || u.Hostname() == "" {
		return netip.Addr{}
	}
	ctx, cancel := context.WithTimeout(ctx, lookUp)
	defer cancel()
	there := net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "5432"))
	conn, err := new(net.Dialer).DialContext(ctx, "udp", there) // sends nothing
	if err != nil {
		return netip.Addr{}
	}
	defer func() { _ = conn.Close() }()
	own, err := netip.ParseAddrPort(conn.LocalAddr().String())
	if err != nil || own.Addr().IsLoopback() {
		return netip.Addr{}
	}
	return own.Addr().Unmap().WithZone("")
}

// firstPrivate returns the first private address of this machine, or the first public one, or loopback.
func firstPrivate() (found netip.Addr) {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return netip.Addr{}
	}
	for _, one := range all {
		prefix, err := netip.ParsePrefix(one.String())
		ip := prefix.Addr().Unmap()
		switch {
		case err != nil, !ip.IsGlobalUnicast() && !ip.IsLoopback():
		case ip.IsPrivate():
			return ip
		case !found.IsValid(), found.IsLoopback() && !ip.IsLoopback():
			found = ip
		}
	}
	return found
}
