package doctor

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"voicebridge/realtime/rtc"
)

// mediaSocket opens the port for audio, or any if it is not set or taken.
func (d *doctor) mediaSocket() (*net.UDPConn, error) {
	conn, err := net.ListenUDP("udp", &net.UDPAddr{Port: d.cfg.Media.UDPPort})
	if err != nil && d.cfg.Media.UDPPort != 0 {
		return net.ListenUDP("udp", nil)
	}
	return conn, err
}

// iceServers asks each STUN server for an address, and each TURN server that takes UDP, as it answers that, too.
func (d *doctor) iceServers(ctx context.Context) {
	for _, s := range slices.Concat(d.cfg.ICEServers, d.cfg.TURNServers("doctor", time.Now())) {
		for _, address := range s.URLs {
			scheme, host, _ := strings.Cut(address, ":")
			if strings.HasSuffix(scheme, "s") || strings.HasSuffix(host, "transport=tcp") {
				d.say(fine, "ICE server "+address, "it was not tried, as it is not asked by UDP")
				continue
			}
			ctx, cancel := context.WithTimeoutCause(ctx, mediaTimeout, errors.New("no answer in "+mediaTimeout.String()))
			d.stun(ctx, "ICE server "+address, host)
			cancel()
		}
	}
}

// stun reports whether UDP passes between here and a STUN server, host or host:port, and whether that sees this machine
// at an address that browsers are told.
func (d *doctor) stun(ctx context.Context, about, server string) {
	conn, err := d.mediaSocket()
	if err != nil {
		d.say(problem, about, "%v", err)
		return
	}
	defer func() { _ = conn.Close() }() // nothing is lost
	seen, err := rtc.PublicAddress(ctx, conn, stunAddress(server))
	told := slices.ContainsFunc(d.cfg.Media.PublicIPs, func(text string) bool {
		ip, err := netip.ParseAddr(text)
		return err == nil && ip.Unmap() == seen.Addr()
	})
	switch {
	case err != nil:
		d.say(problem, about,
			"it does not answer: it is down, or a firewall stops UDP between here and there, which may stop the audio of "+
				"calls, too (%v)", err)
	case len(d.cfg.Media.PublicIPs) > 0 && !told:
		d.say(warning, about,
			"it answers, but sees this machine at %s, which is not in VOICEBRIDGE_PUBLIC_IPS: browsers are told another "+
				"address", seen.Addr())
	default:
		d.say(fine, about, "it answers, and sees this machine at %s", seen.Addr())
	}
}

// stunAddress returns what follows stun: in a URL (RFC 7064) as host:port.
func stunAddress(server string) string {
	server, _, _ = strings.Cut(server, "?")
	if _, _, err := net.SplitHostPort(server); err == nil {
		return server
	}
	return net.JoinHostPort(strings.Trim(server, "[]"), "3478")
}
