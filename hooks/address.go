package hooks

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"voicebridge/toolkit/guard"
)

const (
	// answerTimeout limits an attempt, from the name's resolution to the answer's headers.
	answerTimeout  = 10 * time.Second
	connectTimeout = 5 * time.Second
)

// Addresses says where hooks may be, and posts to them. It is safe for concurrent use.
type Addresses struct {
	allow          map[string]bool
	public, named  *guard.Addresses
	publicly, open *http.Client
}

// NewAddresses returns the rules: https and public addresses only, or whatever hosts allow names, as host or host:port.
func NewAddresses(allow []string) (*Addresses, error) { return newAddresses(allow, nil, nil) }

// newAddresses is NewAddresses with another resolver and own addresses, for tests.
func newAddresses(allow []string, resolver *net.Resolver, own func() ([]net.Addr, error)) (*Addresses, error) {
	a := &Addresses{allow: map[string]bool{}}
	for _, host := range allow {
		name, port, err := net.SplitHostPort(host)
		if err != nil {
			name, port = strings.Trim(host, "[]"), ""
		}
		_, errPort := strconv.ParseUint(cmp.Or(port, "1"), 10, 16)
		if _, err := netip.ParseAddr(name); errPort != nil || err != nil && !guard.PlainHost.MatchString(name) {
			return nil, fmt.Errorf("%q is not a host, nor host:port", host)
		}
		a.allow[allowKey(name, port)] = true
	}
	a.public = guard.New(guard.Rules{HighPorts: true, Own: own})
	everywhere := []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}
	a.named = guard.New(guard.Rules{HighPorts: true, Allow: everywhere})
	a.publicly, a.open = client(a.public, resolver), client(a.named, resolver)
	return a, nil
}

func allowKey(host, port string) string { return strings.ToLower(host) + "\n" + port }

func client(g *guard.Addresses, resolver *net.Resolver) *http.Client {
	return &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport:     g.Transport(connectTimeout, resolver),
	}
}

// Check returns a hook's URL as it is saved. The error says, in words for the hook's owner, why it may not be called.
func (a *Addresses) Check(raw string) (string, error) {
	u, _, err := a.parse(raw)
	if err != nil {
		return "", err
	}
	return u.String(), nil
}

func (a *Addresses) parse(raw string) (*url.URL, *http.Client, error) {
	if u, err := a.named.ParseURL(raw); err == nil &&
		(a.allow[allowKey(u.Hostname(), "")] || a.allow[allowKey(u.Hostname(), portOf(u))]) {
		return u, a.open, nil
	}
	u, err := a.public.ParseURL(raw)
	if err == nil && u.Scheme != "https" {
		err = guard.Refuse("the URL must begin with https://")
	}
	return u, a.publicly, err
}

func portOf(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "https":
		return "443"
	}
	return "80"
}

// post sends one request, and returns the status of its answer. The error says, in words for the hook's owner, why
// there is none; it contains no address that a name has resolved to. A redirect is an answer like any other, and no
// answer's body is read.
func (a *Addresses) post(ctx context.Context, to string, header http.Header, body []byte) (int, error) {
	u, client, err := a.parse(to)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, answerTimeout, errTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), bytes.NewReader(body))
	if err != nil {
		return 0, errors.New("the request cannot be made")
	}
	r.Header = header
	resp, err := client.Do(r)
	if err != nil {
		return 0, explain(err)
	}
	_ = resp.Body.Close() // unread
	return resp.StatusCode, nil
}

var errTimeout = fmt.Errorf("no answer within %v", answerTimeout)

// explain says why there is no answer.
func explain(err error) error {
	if r, ok := errors.AsType[*guard.Refusal](err); ok {
		return r
	}
	// the latter is the context's cause
	if t, ok := errors.AsType[net.Error](err); ok && t.Timeout() || errors.Is(err, errTimeout) {
		return errTimeout
	}
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return errors.New("the host's name cannot be resolved")
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return errors.New("the host's certificate is not valid")
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return errors.New("no connection could be made")
	}
	return errors.New("the connection broke off")
}
