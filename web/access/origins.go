package access

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"voicebridge/web/problem"
)

// Origins knows which pages may use the API and which names this server has.
type Origins struct {
	allowed map[string]bool // "scheme://host[:port]", lower case
	// hosts are the Host names that are served; nil means any.
	hosts map[string]bool
	cross *http.CrossOriginProtection
}

// NewOrigins checks the allowed origins. With loopback set, only loopback names and the hosts of
// allowed origins are served; otherwise a page on a foreign name that resolves to this machine (DNS
// rebinding) would count as ours.
func NewOrigins(allowed []string, loopback bool) (*Origins, error) {
	o := &Origins{allowed: make(map[string]bool, len(allowed)), cross: http.NewCrossOriginProtection()}
	if loopback {
		o.hosts = map[string]bool{"localhost": true, "127.0.0.1": true, "::1": true}
	}
	for _, origin := range allowed {
		u, err := ParseOrigin(origin)
		if err != nil {
			return nil, err
		}
		canonical := strings.ToLower(u.Scheme + "://" + u.Host)
		if err := o.cross.AddTrustedOrigin(canonical); err != nil {
			return nil, fmt.Errorf("allowed origin %q: %w", origin, err)
		}
		o.allowed[canonical] = true
		if o.hosts != nil {
			o.hosts[strings.ToLower(u.Hostname())] = true
		}
	}
	return o, nil
}

// schemes are those of pages, among them pages in apps (Capacitor, Ionic, Tauri) and in browsers' extensions.
var schemes = []string{"http", "https", "capacitor", "ionic", "tauri", "chrome-extension", "moz-extension"}

// ParseOrigin checks that s is an origin: only a scheme and a host, with a port or without. It returns the
// origin as browsers send it, without a port that is the scheme's default.
func ParseOrigin(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	if err != nil || !slices.Contains(schemes, u.Scheme) || u.Host == "" || u.Hostname() == "" {
		return nil, fmt.Errorf("allowed origin %q is not of the form https://host[:port]", s)
	}
	if u.User != nil || u.Path != "" || u.RawQuery != "" || u.Fragment != "" || strings.ContainsAny(u.Host, "*?\\") {
		return nil, fmt.Errorf("allowed origin %q must be only a scheme and a host, without path or wildcard", s)
	}
	if port := u.Port(); u.Scheme == "https" && port == "443" || u.Scheme == "http" && port == "80" {
		u.Host = strings.TrimSuffix(u.Host, ":"+port)
	}
	return u, nil
}

// Allowed reports whether the operator allowed the origin.
func (o *Origins) Allowed(origin string) bool { return o.allowed[strings.ToLower(origin)] }

// CheckSocket rejects a WebSocket handshake from a foreign page (RFC 6455, section 10.2). Clients
// other than browsers send no Origin.
func (o *Origins) CheckSocket(r *http.Request) error {
	origin := r.Header.Get("Origin")
	if origin == "" || o.Allowed(origin) {
		return nil
	}
	if u, err := url.Parse(origin); err == nil && u.Host != "" && strings.EqualFold(u.Host, r.Host) {
		return nil
	}
	return problem.Forbidden("origin_not_allowed", "Pages from this origin may not use the API. The operator can "+
		"allow it with VOICEBRIDGE_ALLOWED_ORIGINS.")
}

// Patterns returns the allowed origins for the WebSocket library's own check, which uses
// path.Match: brackets of IPv6 hosts are escaped.
func (o *Origins) Patterns() []string {
	escape := strings.NewReplacer("[", `\[`, "]", `\]`)
	out := make([]string, 0, len(o.allowed))
	for origin := range o.allowed {
		out = append(out, escape.Replace(origin))
	}
	return out
}

// CheckHost rejects names that are not ours.
func (o *Origins) CheckHost(r *http.Request) error {
	if o.hosts == nil || o.hosts[hostname(r.Host)] {
		return nil
	}
	return problem.Forbidden("host_not_allowed", "This server does not have that name. Behind a proxy, set "+
		"VOICEBRIDGE_ALLOWED_ORIGINS to the address that browsers use.")
}

// hostname returns the name in a Host header (RFC 9110, section 7.2) in lower case, without port
// and IPv6 brackets; empty if the header is malformed.
func hostname(host string) string {
	u, err := url.Parse("http://" + host)
	if err != nil || u.Host != host || u.User != nil || strings.HasSuffix(host, ":") {
		return ""
	}
	return strings.ToLower(u.Hostname())
}

// CheckCross rejects changing requests from a foreign page.
func (o *Origins) CheckCross(r *http.Request) error {
	if origin := r.Header.Get("Origin"); o.Allowed(origin) { // in any case
		return nil
	}
	if err := o.cross.Check(r); err != nil {
		return problem.Forbidden("origin_not_allowed",
			"Pages from other origins may not do this. The operator can allow it with VOICEBRIDGE_ALLOWED_ORIGINS.")
	}
	return nil
}
