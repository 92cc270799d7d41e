package doctor

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"voicebridge/realtime/media"
	"voicebridge/realtime/rtc"
)

// hairpinTimeout is how long a packet to this machine's public address may be under way.
const hairpinTimeout = 2 * time.Second

// mediaSocket opens the port for audio, or any if it is not set or taken.
func (d *doctor) mediaSocket() (*net.UDPConn, error) {
	conn, err := net.ListenUDP("udp", &net.UDPAddr{Port: d.cfg.Media.UDPPort})
	if err != nil && d.cfg.Media.UDPPort != 0 {
		return net.ListenUDP("udp", nil)
	}
	return conn, err
}

// publicAddresses reports whether what is sent to the addresses that browsers are told arrives at the port for audio.
func (d *doctor) publicAddresses(ctx context.Context) {
	c := &d.cfg
	if c.Media.UDPPort == 0 || len(c.Media.PublicIPs) == 0 {
		return
	}
	conn, err := d.mediaSocket()
	if err != nil {
		d.say(problem, aboutMedia, "%v", err)
		return
	}
	defer func() { _ = conn.Close() }() // nothing is lost
	if conn.LocalAddr().(*net.UDPAddr).Port != c.Media.UDPPort {
		return // the running voicebridge has it
	}
	for _, ip := range c.Media.PublicIPs {
		to := net.JoinHostPort(ip, strconv.Itoa(c.Media.UDPPort))
		ctx, cancel := context.WithTimeoutCause(ctx, hairpinTimeout, errors.New("no packet in "+hairpinTimeout.String()))
		if err := arrives(ctx, conn, to); err != nil {
			d.say(warning, aboutMedia,
				"what this machine sends to %s by UDP does not arrive here: if browsers elsewhere hear nothing, open that port "+
					"in the firewall and forward it to this machine; some routers lose only what comes from within (%v)", to, err)
		} else {
			d.say(fine, aboutMedia, "what is sent to %s by UDP arrives here", to)
		}
		cancel()
	}
}

// arrives returns why what is sent to an address, host:port, does not arrive at conn.
func arrives(ctx context.Context, conn net.PacketConn, address string) error {
	to, err := net.ResolveUDPAddr("udp", address)
	if err != nil {
		return err
	}
	token := []byte(rand.Text())
	_, err = rtc.Exchange(ctx, conn, to, token, func(packet []byte) bool { return bytes.Equal(packet, token) })
	return err
}

// iceServers asks each STUN and TURN server for an address.
func (d *doctor) iceServers(ctx context.Context) {
	for _, s := range slices.Concat(d.cfg.ICEServers, d.cfg.TURNServers("doctor", time.Now())) {
		for _, address := range s.URLs {
			about := "ICE server " + address
			ctx, cancel := context.WithTimeoutCause(ctx, mediaTimeout, errors.New("no answer in "+mediaTimeout.String()))
			if host, ok := strings.CutPrefix(address, "stun:"); ok {
				d.stun(ctx, about, host)
			} else {
				d.relay(ctx, about, rtc.ICEServer{URLs: []string{address}, Username: s.Username, Credential: s.Credential.Reveal()})
			}
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

// relay reports whether a TURN server relays, or a STUN server that needs TLS answers.
func (d *doctor) relay(ctx context.Context, about string, server rtc.ICEServer) {
	answer, err := gather(ctx, server)
	relays := strings.HasPrefix(server.URLs[0], "turn")
	switch {
	case err != nil:
		d.say(problem, about, "%v", err)
	case strings.Contains(answer, " typ relay"):
		d.say(fine, about, "it relays")
	case strings.Contains(answer, " typ srflx") && !relays:
		d.say(fine, about, "it answers")
	case relays:
		d.say(problem, about, "it provides no relay: are the address and the password right, and is it reachable?")
	default:
		d.say(warning, about,
			"it returned no address: it is unreachable, or this machine has a public address and needs none")
	}
}

// gather returns an answer with the candidates that a server provides.
func gather(ctx context.Context, server rtc.ICEServer) (answer string, err error) {
	api, err := rtc.New(rtc.Config{ICEServers: []rtc.ICEServer{server}})
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, api.Close()) }()
	_, offer, err := api.Offer(ctx, media.Handlers{})
	if err != nil {
		return "", err
	}
	_, answer, err = api.Answer(ctx, offer, media.Handlers{})
	return answer, err
}
