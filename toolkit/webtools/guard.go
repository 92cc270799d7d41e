package webtools

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strings"

	"voicebridge/toolkit"
	"voicebridge/toolkit/guard"
)

const (
	maxRedirects      = 5
	maxResponseHeader = 64 << 10
)

// client is the one for everything that a model requests. It is safe for concurrent use.
type client struct {
	addresses *guard.Addresses
	http      *http.Client
	slots     chan struct{}
}

func newGuard(c Config) *client {
	g := &client{addresses: newAddresses(c), slots: make(chan struct{}, c.maxConcurrent)}
	g.http = &http.Client{
		CheckRedirect: g.checkRedirect,
		Transport:     g.addresses.Transport(c.connectTimeout, c.resolver),
	}
	return g
}

// request is one request of a model.
type request struct {
	method string
	url    string
	header http.Header
	body   []byte
	limit  int // bytes of the body to read
}

// response is the answer to a request.
type response struct {
	url    *url.URL // after redirects
	status int
	reason string
	header http.Header
	body   []byte
	cut    bool // the body is longer
}

// fetch makes one request with its redirects. Errors are in words for the model, or wrap
// [context.Canceled].
func (g *client) fetch(ctx context.Context, r request) (*response, error) {
	target, err := g.addresses.ParseURL(r.url)
	if err != nil {
		return nil, err
	}
	select {
	case g.slots <- struct{}{}:
		defer func() { <-g.slots }()
	case <-ctx.Done():
		return nil, explain(ctx.Err(), target.Hostname())
	}
	req, err := http.NewRequestWithContext(ctx, r.method, target.String(), bytes.NewReader(r.body))
	if err != nil {
		return nil, refuse("the request cannot be made")
	}
	if len(r.body) == 0 {
		req.Body, req.GetBody = http.NoBody, nil
	}
	if r.header != nil {
		req.Header = r.header.Clone()
	}
	if req.Header.Get("User-Agent") == "" {
		req.Header.Set("User-Agent", userAgent)
	}
	resp, err := g.http.Do(req)
	if err != nil {
		return nil, explain(err, target.Hostname())
	}
	defer resp.Body.Close()
	body, cut, err := readUpTo(resp.Body, r.limit)
	if err != nil {
		return nil, explain(err, resp.Request.URL.Hostname())
	}
	_, reason, _ := strings.Cut(resp.Status, " ")
	return &response{
		url: resp.Request.URL, status: resp.StatusCode, reason: reason, header: resp.Header, body: body, cut: cut,
	}, nil
}

// readUpTo reads at most limit bytes, and reports whether there are more.
func readUpTo(r io.Reader, limit int) (data []byte, more bool, err error) {
	data, err = io.ReadAll(io.LimitReader(r, int64(limit)+1))
	if len(data) > limit {
		return data[:limit], true, nil
	}
	return data, false, err
}

// harmless are the request headers that may be sent to other origins.
var harmless = map[string]bool{"Accept": true, "Accept-Language": true, "User-Agent": true}

// checkRedirect is the client's hook before it follows a redirect.
func (g *client) checkRedirect(req *http.Request, via []*http.Request) error {
	if len(via) > maxRedirects {
		return refuse("it redirects more than %d times", maxRedirects)
	}
	if err := g.addresses.CheckURL(req.URL); err != nil {
		return refuse("it redirects to a place that is not allowed: %v", err)
	}
	req.Header.Del("Referer") // its query may hold a secret
	if !leaves(append(via[:len(via):len(via)], req)) {
		return nil
	}
	if req.Body != nil && req.Body != http.NoBody {
		// What was meant for one origin is not sent to another. The model gets the redirect and can
		// decide.
		return http.ErrUseLastResponse
	}
	maps.DeleteFunc(req.Header, func(name string, _ []string) bool { return !harmless[name] })
	return nil
}

// leaves reports whether a chain of requests ever leaves its first origin.
func leaves(chain []*http.Request) bool {
	for i := range chain[1:] {
		if !sameOrigin(chain[i].URL, chain[i+1].URL) {
			return true
		}
	}
	return false
}

// sameOrigin reports whether two URLs have the same origin. It also accepts the step from http to
// https on the default ports.
func sameOrigin(from, to *url.URL) bool {
	if !strings.EqualFold(from.Hostname(), to.Hostname()) {
		return false
	}
	upgrade := from.Scheme == "http" && to.Scheme == "https" && portOf(from) == "80" && portOf(to) == "443"
	return upgrade || from.Scheme == to.Scheme && portOf(from) == portOf(to)
}

func portOf(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "https":
		return "443"
	default:
		return "80"
	}
}

// failure says why an allowed request failed, in words for the model. Its cause is kept for
// errors.Is but not shown: it may contain the URL with a secret in its query, or the address of a
// name server.
type failure struct {
	words string
	cause error
}

func (f *failure) Error() string { return f.words }
func (f *failure) Unwrap() error { return f.cause }

// explain turns an error of the client into words.
func explain(err error, host string) error {
	if r, ok := errors.AsType[*refusal](err); ok {
		return refuse("the request to %.100s was refused: %s", host, r.Error())
	}
	fail := func(words string) error { return &failure{words, err} }
	if errors.Is(err, context.DeadlineExceeded) {
		return fail(host + " did not answer in time")
	}
	if errors.Is(err, context.Canceled) {
		return fail("the request to " + host + " was cancelled")
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		if dns.IsNotFound {
			return fail("there is no host named " + host)
		}
		return fail("the name " + host + " cannot be resolved")
	}
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		return fail(host + " did not answer in time")
	}
	return fail(reasonOf(err, host))
}

func reasonOf(err error, host string) string {
	if op, ok := errors.AsType[*net.OpError](err); ok { // its text contains addresses
		if op.Op == "dial" {
			return "no connection to " + host + " could be made"
		}
		return "the connection to " + host + " broke off"
	}
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return host + " closed the connection in the middle of its answer"
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	return "the request to " + host + " failed: " + toolkit.First(plainLine(err.Error()), 200)
}

// refusal says why something is not done, in words for the model.
type refusal = guard.Refusal

func refuse(format string, args ...any) error { return guard.Refuse(format, args...) }

// newAddresses returns what decides which addresses a model's requests may reach.
func newAddresses(c Config) *guard.Addresses {
	return guard.New(guard.Rules{
		Allow: c.AllowPrefixes, Deny: c.DenyPrefixes, Ports: c.AllowPorts, Own: c.ownAddresses,
	})
}
