package doctor

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"voicebridge/cmd/voicebridge/internal/certificate"
	"voicebridge/realtime/media"
	"voicebridge/realtime/rtc"
	"voicebridge/web/access"
)

// Limits of the network checks.
const (
	answerTimeout = 5 * time.Second
	mediaTimeout  = 10 * time.Second
	maxModelList  = 4 << 20 // bytes
)

// get sends one request and returns the status and the body. Redirects are not followed, so that
// the key goes to no other address.
func get(ctx context.Context, address string, header http.Header) (status int, body []byte, err error) {
	return askBy(ctx, &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true}, address, header)
}

// withKey returns a header with a key; none if there is no key.
func withKey(name string, key access.Secret) http.Header {
	out := http.Header{}
	switch {
	case !key.IsSet():
	case strings.EqualFold(name, "Authorization"):
		out.Set(name, "Bearer "+key.Reveal())
	default:
		out.Set(name, key.Reveal())
	}
	return out
}

// askBy is ask through the given transport.
func askBy(
	ctx context.Context, by *http.Transport, address string, header http.Header,
) (status int, body []byte, err error) {
	client := &http.Client{
		Timeout: answerTimeout, Transport: by,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return 0, nil, err
	}
	maps.Copy(req.Header, header)
	res, err := client.Do(req)
	if err != nil {
		if e, ok := errors.AsType[*url.Error](err); ok {
			err = e.Err // without the address, whose query may hold a key
		}
		return 0, nil, err
	}
	defer func() { _ = res.Body.Close() }() // it has been read
	body, err = io.ReadAll(io.LimitReader(res.Body, maxModelList))
	return res.StatusCode, body, err
}

const aboutListening = "web address"

// listening reports whether the page could be served.
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
	if d.runs(ctx, net.JoinHostPort(host, port)) {
		d.running = true
		d.say(fine, aboutListening, "a voicebridge is already running on %s", d.cfg.Listen)
		return
	}
	d.say(problem, aboutListening,
		"%s cannot be used: choose another with --listen or VOICEBRIDGE_LISTEN (%v)", d.cfg.Listen, err)
}

// runs reports whether a voicebridge with these settings answers at address, host:port.
func (d *doctor) runs(ctx context.Context, address string) bool {
	scheme, by := "http://", &http.Transport{DisableKeepAlives: true}
	if d.cfg.TLS.On() {
		// Its certificate is for the name that browsers use, not for this address; the request contains
		// no secret.
		scheme, by.TLSClientConfig = "https://", &tls.Config{InsecureSkipVerify: true} //nolint:gosec // see above
	}
	status, body, err := askBy(ctx, by, scheme+address+"/healthz", nil)
	return err == nil && status == http.StatusOK && strings.TrimSpace(string(body)) == `{"status":"ok"}`
}

const aboutMedia = "media (UDP)"

// media reports whether the port for audio can be used and reached.
func (d *doctor) media(context.Context) {
	c := &d.cfg
	if c.Media.UDPPort != 0 {
		api, err := rtc.New(rtc.Config{UDPPort: c.Media.UDPPort, Loopback: true})
		if err == nil {
			err = api.Close()
		}
		switch {
		case err == nil:
			d.say(fine, aboutMedia, "port %d can be used", c.Media.UDPPort)
		case d.running:
			d.say(fine, aboutMedia, "port %d is taken, apparently by the running voicebridge", c.Media.UDPPort)
		default:
			d.say(problem, aboutMedia,
				"port %d cannot be used: choose another with VOICEBRIDGE_UDP_PORT (%v)", c.Media.UDPPort, err)
		}
	}
	switch {
	case c.Loopback() && !d.proxied():
		if c.Media.UDPPort == 0 {
			d.say(fine, aboutMedia, "every call takes a free port")
		}
		return // only this machine needs to reach it
	case c.Media.UDPPort == 0:
		d.say(warning, aboutMedia,
			"every call takes a port of its own: behind a firewall or in a container, set VOICEBRIDGE_UDP_PORT and open that "+
				"port")
	}
	addresses, err := net.InterfaceAddrs()
	helped := len(c.Media.PublicIPs)+len(c.ICEServers)+len(c.TURN.URLs) > 0
	if err == nil && !helped && !slices.ContainsFunc(addresses, isPublic) {
		d.say(warning, aboutMedia, "this machine has private addresses only, so browsers outside its network hear nothing: "+
			"set VOICEBRIDGE_PUBLIC_IPS to the address at which they reach it, or VOICEBRIDGE_ICE_SERVERS")
	}
}

// proxied reports whether browsers on other machines probably reach the server through a TLS proxy.
func (d *doctor) proxied() bool {
	return slices.ContainsFunc(d.cfg.AllowedOrigins, func(o string) bool { return strings.HasPrefix(o, "https://") })
}

// isPublic reports whether an interface's address is reachable from the internet.
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

// loopback connects two peers in this process as a call does: ICE, DTLS, and a message on the data
// channel.
func (d *doctor) loopback(ctx context.Context) {
	ctx, cancel := context.WithTimeoutCause(ctx, mediaTimeout, errors.New("no connection in "+mediaTimeout.String()))
	defer cancel()
	began := time.Now()
	if err := connectToSelf(ctx); err != nil {
		d.say(problem, aboutICE,
			"two peers on this machine cannot reach each other: does a firewall block UDP on loopback? (%v)", err)
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
	answered := make(chan struct{})
	caller, offer, err := api.Offer(ctx, media.Handlers{})
	if err != nil {
		return err
	}
	_, answer, err := api.Answer(ctx, offer, media.Handlers{Message: func([]byte) { close(answered) }})
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
	case <-answered:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// signIn reports whether callers can prove who they are: without authentication nobody gets through a proxy, and with
// JWTs the keys that verify them must be fetched.
func (d *doctor) signIn(ctx context.Context) {
	const about = "sign-in"
	if d.proxied() && !d.cfg.Auth().Required() {
		d.say(warning, about,
			"without authentication, what comes through a proxy is refused: set VOICEBRIDGE_API_TOKENS=owner:token")
	}
	address := d.cfg.JWT.JWKSURL
	if address == "" {
		if d.cfg.JWT.JWTIssuer+d.cfg.JWT.JWTAudience != "" && !d.cfg.Secrets.JWTSecret.IsSet() {
			d.say(warning, about,
				"no JWTs are accepted: set VOICEBRIDGE_JWT_JWKS_URL or VOICEBRIDGE_JWT_SECRET, without which "+
					"VOICEBRIDGE_JWT_ISSUER and VOICEBRIDGE_JWT_AUDIENCE have no effect")
		}
		return
	}
	if err := access.CheckKeys(ctx, address); err != nil {
		d.say(problem, about,
			"%s has no keys with which JWTs could be verified: is VOICEBRIDGE_JWT_JWKS_URL right? (%v)", address, err)
		return
	}
	d.say(fine, about, "%s has the keys that verify JWTs", address)
}

// microphone reports where browsers let a page use the microphone.
func (d *doctor) microphone(context.Context) {
	const about = "microphone"
	switch {
	case d.cfg.TLS.On():
		source, err := certificate.Open(d.cfg.TLS.CertFile, d.cfg.TLS.KeyFile, slog.New(slog.DiscardHandler))
		if err != nil {
			d.say(problem, about, "the page cannot be served by https: %v", err)
			return
		}
		for name, end := range source.Ends() {
			verdict := fine
			if time.Now().After(end) {
				verdict = problem
			}
			d.say(verdict, about, "browsers let the page use it, because it is served by https, until the certificate of %s "+
				"expires on %s", name, end.UTC().Format(time.DateOnly))
		}
	case d.proxied():
		d.say(fine, about,
			"browsers let the page use it at %s, provided that a TLS proxy answers there",
			strings.Join(d.cfg.AllowedOrigins, ", "))
	case d.cfg.Loopback():
		d.say(fine, about, "browsers on this machine let the page use it; others cannot reach the page")
	default:
		d.say(warning, about,
			"browsers allow it for https pages and localhost only: put a TLS proxy in front of %s, and the address of the "+
				"page in VOICEBRIDGE_ALLOWED_ORIGINS", d.cfg.Listen)
	}
}
