package doctor

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"voicebridge/realtime/rtc"
)

// Limits of the checks of the network.
const (
	answerPatience = 5 * time.Second
	mediaPatience  = 10 * time.Second
	maxModelList   = 4 << 20 // bytes
)

// ask sends one request and returns the status and the body. The key goes to the
// address alone: redirects are not followed.
func ask(ctx context.Context, address, header, key string) (status int, body []byte, err error) {
	client := &http.Client{
		Timeout: answerPatience, Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return 0, nil, err
	}
	switch {
	case key == "":
	case strings.EqualFold(header, "Authorization"):
		req.Header.Set(header, "Bearer "+key)
	default:
		req.Header.Set(header, key)
	}
	res, err := client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = res.Body.Close() }() // it was read
	body, err = io.ReadAll(io.LimitReader(res.Body, maxModelList))
	return res.StatusCode, body, err
}

const aboutListening = "web address"

// listening says whether the page could be served.
func (d *doctor) listening(ctx context.Context) {
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", d.cfg.Listen)
	if err == nil {
		if err := ln.Close(); err != nil {
			d.say(problem, aboutListening, "%v", err)
			return
		}
		d.say(fine, aboutListening, "%s is free", d.cfg.Listen)
		return
	}
	host, port, _ := net.SplitHostPort(d.cfg.Listen) // checked by validate
	if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	status, body, errAsked := ask(ctx, "http://"+net.JoinHostPort(host, port)+"/healthz", "", "")
	if errAsked == nil && status == http.StatusOK && strings.TrimSpace(string(body)) == `{"status":"ok"}` {
		d.running = true
		d.say(fine, aboutListening, "a voicebridge runs on %s already", d.cfg.Listen)
		return
	}
	d.say(problem, aboutListening, "%s cannot be used: choose another with --listen or VOICEBRIDGE_LISTEN (%v)", d.cfg.Listen, err)
}

const aboutMedia = "media (UDP)"

// media says whether the port for sound can be used, and can be reached.
func (d *doctor) media(context.Context) {
	c := &d.cfg
	if c.UDPPort != 0 {
		api, err := rtc.New(rtc.Config{UDPPort: c.UDPPort, Loopback: true})
		if err == nil {
			err = api.Close()
		}
		switch {
		case err == nil:
			d.say(fine, aboutMedia, "port %d can be used", c.UDPPort)
		case d.running:
			d.say(fine, aboutMedia, "port %d is taken, by the voicebridge that runs, it seems", c.UDPPort)
		default:
			d.say(problem, aboutMedia, "port %d cannot be used: choose another with VOICEBRIDGE_UDP_PORT (%v)", c.UDPPort, err)
		}
	}
	switch {
	case c.Loopback():
		if c.UDPPort == 0 {
			d.say(fine, aboutMedia, "every call takes a free port")
		}
		return // nobody else is to reach it
	case c.UDPPort == 0:
		d.say(warning, aboutMedia, "every call takes a port of its own: with a firewall or in a container set VOICEBRIDGE_UDP_PORT, and let that port through")
	}
	if addresses, err := net.InterfaceAddrs(); err == nil && len(c.PublicIPs) == 0 && len(c.Secrets.ICEServers) == 0 && !slices.ContainsFunc(addresses, isPublic) {
		d.say(warning, aboutMedia, "this machine has private addresses only, so browsers outside of its network hear nothing: "+
			"set VOICEBRIDGE_PUBLIC_IPS to the address that they reach it by, or VOICEBRIDGE_ICE_SERVERS")
	}
}

// isPublic reports whether an address of an interface can be reached from the
// internet.
func isPublic(address net.Addr) bool {
	prefix, err := netip.ParsePrefix(address.String())
	if err != nil {
		return false
	}
	ip := prefix.Addr().Unmap()
	shared := netip.MustParsePrefix("100.64.0.0/10") // RFC 6598
	return ip.IsGlobalUnicast() && !ip.IsPrivate() && !shared.Contains(ip)
}

const aboutICE = "ICE"

// loopback makes a connection as a call does, between two peers of this process:
// ICE, DTLS, and a message through the data channel.
func (d *doctor) loopback(ctx context.Context) {
	ctx, cancel := context.WithTimeoutCause(ctx, mediaPatience, errors.New("no connection in "+mediaPatience.String()))
	defer cancel()
	began := time.Now()
	if err := connectToSelf(ctx); err != nil {
		d.say(problem, aboutICE, "two peers on this machine do not reach each other: does a firewall stop UDP on loopback? (%v)", err)
		return
	}
	d.say(fine, aboutICE, "two peers on this machine reach each other (%d ms)", time.Since(began).Milliseconds())
}

func connectToSelf(ctx context.Context) (err error) {
	api, err := rtc.New(rtc.Config{Loopback: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, api.Close()) }() // ends the peers, too
	heard := make(chan struct{})
	caller, offer, err := api.Offer(ctx, rtc.Handlers{})
	if err != nil {
		return err
	}
	_, answer, err := api.Answer(ctx, offer, rtc.Handlers{Message: func([]byte) { close(heard) }})
	if err != nil {
		return err
	}
	if err := caller.Accept(ctx, answer); err != nil {
		return err
	}
	if err := caller.Send(ctx, []byte("{}")); err != nil {
		return err
	}
	select {
	case <-heard:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// iceServers asks the STUN and TURN servers for addresses, each by itself.
func (d *doctor) iceServers(ctx context.Context) {
	for _, s := range slices.Concat(d.cfg.Secrets.ICEServers, d.cfg.TURNServers("doctor", time.Now())) {
		for _, address := range s.URLs {
			about := "ICE server " + address
			ctx, cancel := context.WithTimeout(ctx, mediaPatience)
			answer, err := gather(ctx, rtc.ICEServer{URLs: []string{address}, Username: s.Username, Credential: s.Credential.Reveal()})
			cancel()
			relays := strings.HasPrefix(address, "turn")
			switch {
			case err != nil:
				d.say(problem, about, "%v", err)
			case strings.Contains(answer, " typ relay"):
				d.say(fine, about, "it relays")
			case strings.Contains(answer, " typ srflx") && !relays:
				d.say(fine, about, "it answers")
			case relays:
				d.say(problem, about, "it gives no relay: are the address and the password right, and is it reachable?")
			default:
				d.say(warning, about, "it gave no address: it cannot be reached, or this machine has a public address and needs none")
			}
		}
	}
}

// gather returns an answer that holds the candidates that a server gives.
func gather(ctx context.Context, server rtc.ICEServer) (answer string, err error) {
	api, err := rtc.New(rtc.Config{ICEServers: []rtc.ICEServer{server}})
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, api.Close()) }()
	_, offer, err := api.Offer(ctx, rtc.Handlers{})
	if err != nil {
		return "", err
	}
	_, answer, err = api.Answer(ctx, offer, rtc.Handlers{})
	return answer, err
}

// microphone says where browsers give a page the microphone.
func (d *doctor) microphone(context.Context) {
	const about = "microphone"
	if d.cfg.Loopback() {
		d.say(fine, about, "browsers on this machine give it to the page; others do not reach it")
		return
	}
	switch {
	case len(d.cfg.TLS.ACME.Domains) > 0:
		d.say(fine, about, "browsers give it to https://%s", strings.Join(d.cfg.TLS.ACME.Domains, " and https://"))
		return
	case d.cfg.TLS.On():
		if _, err := tls.LoadX509KeyPair(d.cfg.TLS.CertFile, d.cfg.TLS.KeyFile); err != nil {
			d.say(problem, about, "browsers give it to https pages only, and the certificate cannot be read: %v", err)
			return
		}
		d.say(fine, about, "browsers give it to the page, which is served by https")
		return
	case slices.ContainsFunc(d.cfg.AllowedOrigins, func(o string) bool { return strings.HasPrefix(o, "https://") }):
		d.say(fine, about, "browsers give it to the page behind %s, if a proxy with TLS stands there", strings.Join(d.cfg.AllowedOrigins, ", "))
		return
	}
	d.say(warning, about, "browsers give it to https pages and to localhost only: put a proxy with TLS in front of %s, and the address of the page in "+
		"VOICEBRIDGE_ALLOWED_ORIGINS", d.cfg.Listen)
}
