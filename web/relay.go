package web

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"voicebridge/bridge"
	"voicebridge/web/access"
	"voicebridge/web/problem"
)

// A socket for a call that another process has is relayed: this process has checked who connects, and asks that one,
// through the database, for a ticket and its address. Then it passes bytes on, both ways.

// headerTicket lets in a socket that another process relays.
const headerTicket = "Voicebridge-Ticket"

// headerServer says beside a ticket that the client is an application's server.
const headerServer = "Voicebridge-Server"

const (
	relayedKey   = "relayed"
	relayTimeout = 5 * time.Second // for the connection to the other process
	// goneEvery is how often a relay looks whether the other process is alive: one whose machine is gone says nothing.
	goneEvery = time.Second
)

// admitsRelayed admits the sockets that other processes relay, each for one call, and the requests that others admits.
func (a *api) admitsRelayed(others echo.MiddlewareFunc) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		direct := others(next)
		return func(c echo.Context) error {
			ticket := c.Request().Header.Get(headerTicket)
			if ticket == "" {
				return direct(c)
			}
			owner, callID, ok := a.Calls.Redeem(ticket)
			if !ok || callID != c.QueryParam("call_id") && callID != c.Param("call_id") {
				return problem.Unauthorized("This ticket is not known, or is for another call.")
			}
			c.Set(identityKey, access.Relayed(owner, c.Request().Header.Get(headerServer) != ""))
			c.Set(relayedKey, true)
			return next(c)
		}
	}
}

// errNotRelayed is for a call of a process that this one cannot connect to.
var errNotRelayed = &problem.Error{
	Status: http.StatusServiceUnavailable, Code: string(bridge.CodeUnreachable),
	RetryAfter: problem.ErrShuttingDown.RetryAfter,
	Message: "Another process of this server has the call and cannot be reached. Try again, which may reach it, " +
		"or start a call with takeover.",
}

func isRelayed(c echo.Context) bool { return c.Get(relayedKey) != nil }

// pass passes a client's socket on to another process, until either side or what opened it ends.
func (a *api) pass(c echo.Context, way bridge.Way, path string) error {
	target, err := url.Parse(strings.TrimSuffix(way.URL, "/") + path)
	if err != nil {
		return errNotRelayed
	}
	ctx, leave, err := a.door.enter(c)
	if err != nil {
		return err
	}
	defer leave()
	if identity(c).IsProgram() {
		var release func()
		ctx, release = a.door.auth.Sessions.Hold(ctx, identity(c))
		defer release()
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go endWith(ctx, way.Gone, cancel)
	var failed error
	answer := c.Response().Header()
	proxy := httputil.ReverseProxy{
		Transport: relayTransport(way.Certificate),
		Rewrite:   func(r *httputil.ProxyRequest) { readdress(r, target, way.Ticket, identity(c).IsServer()) },
		ModifyResponse: func(res *http.Response) error {
			for name := range answer { // those of this process
				res.Header.Del(name)
			}
			return nil
		},
		ErrorHandler: func(_ http.ResponseWriter, _ *http.Request, err error) { failed = err },
		ErrorLog:     slog.NewLogLogger(a.Logger.Handler(), slog.LevelDebug),
	}
	proxy.ServeHTTP(c.Response(), c.Request().WithContext(ctx))
	if failed != nil && !c.Response().Committed {
		a.Logger.Warn("socket not relayed", "error", failed, "to", way.URL, "request_id", requestID(c))
		return errNotRelayed
	}
	return nil
}

// endWith calls end when gone returns true, unless ctx ends before.
func endWith(ctx context.Context, gone func() bool, end func()) {
	tick := time.NewTicker(goneEvery)
	defer tick.Stop()
	for !gone() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
	end()
}

// passedOn are the headers of a handshake that the other process needs.
var passedOn = []string{
	"Connection", "Upgrade", "Sec-Websocket-Key", "Sec-Websocket-Version", "Traceparent", "Tracestate",
}

// readdress makes a client's handshake one of this process: what the client has shown stays here.
func readdress(r *httputil.ProxyRequest, target *url.URL, ticket string, server bool) {
	r.Out.URL, r.Out.Host = target, target.Host
	header := make(http.Header)
	for _, name := range passedOn {
		if values := r.Out.Header.Values(name); len(values) > 0 {
			header[name] = values
		}
	}
	if slices.ContainsFunc(r.In.Header.Values("Sec-Websocket-Protocol"), offersRealtime) {
		header.Set("Sec-Websocket-Protocol", "realtime")
	}
	header.Set(headerTicket, ticket)
	if server {
		header.Set(headerServer, "yes")
	}
	r.Out.Header = header
}

func offersRealtime(list string) bool {
	return slices.ContainsFunc(strings.Split(list, ","),
		func(name string) bool { return strings.EqualFold(strings.TrimSpace(name), "realtime") })
}

// relayTransport connects to a process that shows the certificate with that SHA-256, or one that is valid for its
// address.
func relayTransport(certificate string) http.RoundTripper {
	t := &http.Transport{
		DisableKeepAlives: true, TLSHandshakeTimeout: relayTimeout, ResponseHeaderTimeout: relayTimeout,
		DialContext: (&net.Dialer{Timeout: relayTimeout}).DialContext,
	}
	if certificate != "" {
		t.TLSClientConfig = &tls.Config{
			MinVersion:         tls.VersionTLS12,
			InsecureSkipVerify: true, //nolint:gosec // it is checked below
			VerifyConnection: func(s tls.ConnectionState) error {
				if sum := sha256.Sum256(s.PeerCertificates[0].Raw); hex.EncodeToString(sum[:]) == certificate {
					return nil
				}
				return verify(s) // perhaps that of a proxy
			},
		}
	}
	return t
}

// verify checks a certificate as crypto/tls does by itself.
func verify(s tls.ConnectionState) error {
	options := x509.VerifyOptions{DNSName: s.ServerName, Intermediates: x509.NewCertPool()}
	for _, one := range s.PeerCertificates[1:] {
		options.Intermediates.AddCert(one)
	}
	_, err := s.PeerCertificates[0].Verify(options)
	return err
}
