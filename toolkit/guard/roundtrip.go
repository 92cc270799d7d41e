package guard

import (
	"net/http"
	"time"
)

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
