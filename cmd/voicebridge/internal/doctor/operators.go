package doctor

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"time"

	"voicebridge/cmd/voicebridge/internal/config"
	"voicebridge/cmd/voicebridge/internal/telemetry"
	"voicebridge/web/access"
)

// metrics reports whether the operators' port is free, and whether others could reach it.
func (d *doctor) metrics(ctx context.Context) {
	const about = "metrics"
	address := d.cfg.MetricsAddress()
	if address == "" {
		return
	}
	d.port(ctx, about, address, "VOICEBRIDGE_METRICS_LISTEN")
	if host, _, err := net.SplitHostPort(address); err == nil && !config.IsLoopback(host) {
		d.say(warning, about,
			"other machines can reach %s, which requires no token and exposes profiles of the process: let only your "+
				"Prometheus through the firewall", address)
	}
}

// port reports whether the server could listen on an address, which setting chooses.
func (d *doctor) port(ctx context.Context, about, address, setting string) {
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	switch {
	case err == nil:
		_ = ln.Close()
		d.say(fine, about, "%s is free", address)
	case d.running:
		d.say(fine, about, "%s is taken, apparently by the running voicebridge", address)
	default:
		d.say(problem, about, "%s cannot be used: choose another with %s (%v)", address, setting, err)
	}
}

// traces sends an empty list of traces to the receiver.
func (d *doctor) traces(ctx context.Context) {
	const about = "traces"
	if d.cfg.Traces.Endpoint == "" {
		return
	}
	address := telemetry.TracesURL(d.cfg.Traces.Endpoint)
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(nil))
	if err != nil {
		d.say(problem, about, "%v", err)
		return
	}
	r.Header.Set("Content-Type", "application/x-protobuf")
	for name, value := range d.cfg.Secrets.TraceHeaders {
		r.Header.Set(name, value.Reveal())
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	defer client.CloseIdleConnections()
	res, err := client.Do(r)
	if err != nil {
		d.say(problem, about,
			"%s does not answer: is OTEL_EXPORTER_OTLP_ENDPOINT right, and does the receiver take OTLP by HTTP (its usual "+
				"port is 4318; 4317 is gRPC)? (%v)", address, err)
		return
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, maxModelList))
	_ = res.Body.Close()
	switch code := res.StatusCode; {
	case code == http.StatusOK || code == http.StatusAccepted:
		d.say(fine, about, "%s accepts them", address)
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		d.say(problem, about, "%s rejects the key (%d): check OTEL_EXPORTER_OTLP_HEADERS", address, code)
	default:
		d.say(problem, about,
			"%s answers %d: is OTEL_EXPORTER_OTLP_ENDPOINT the base address of a receiver of OTLP by HTTP?", address, code)
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

// certificates reports whether the certificate in files can be used.
func (d *doctor) certificates(context.Context) {
	const about, soon = "certificates", 14 * 24 * time.Hour
	t := d.cfg.TLS
	if !t.On() {
		return
	}
	pair, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
	if err != nil {
		d.say(problem, about, "tls.cert_file and tls.key_file cannot be read: %v", err)
		return
	}
	ends := pair.Leaf.NotAfter.UTC().Format("2006-01-02")
	switch now := time.Now(); {
	case now.Before(pair.Leaf.NotBefore):
		d.say(problem, about, "browsers refuse the one in %s: it is not valid yet", t.CertFile)
	case now.After(pair.Leaf.NotAfter):
		d.say(problem, about, "browsers refuse the one in %s: it expired on %s", t.CertFile, ends)
	case now.Add(soon).After(pair.Leaf.NotAfter):
		d.say(warning, about, "the one in %s expires on %s: renew it; no restart is needed", t.CertFile, ends)
	default:
		d.say(fine, about, "the one in %s is valid until %s", t.CertFile, ends)
	}
}
