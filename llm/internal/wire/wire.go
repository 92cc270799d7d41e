// Package wire is what the adapters to language models have in common below
// their vendors' clients: one HTTP exchange with limits and without retries or
// redirects, a stream of events that is clean whatever the server sends, and
// failures in words for users, without secrets.
package wire

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
)

// Limits of an answer, unless the adapter's configuration says otherwise.
const (
	// MaxAnswer is the size of a whole answer, in bytes.
	MaxAnswer = 64 << 20
	// MaxEvent is the size of one event or line of it, in bytes.
	MaxEvent = 4 << 20
	// maxProblem is how much of an error's body is read, in bytes.
	maxProblem = 256 << 10
)

// Form says how a streamed answer is written.
type Form int

// The forms of an answer.
const (
	SSE    Form = iota // server-sent events with JSON data
	NDJSON             // one JSON object to a line
)

// Options say what a client's exchanges have in common.
type Options struct {
	Form Form
	// Nameless takes the names off events, for a client that knows none.
	Nameless bool
	// Lines hands events on as lines of JSON, for an adapter that reads them itself.
	Lines bool
	// MaxAnswer limits an answer, in bytes; 0 is the package's MaxAnswer.
	MaxAnswer int64
}

// NewClient returns a client that sends through base (nil for the default
// transport) and watches the requests whose context has an [Exchange]. These
// follow no redirect, for keys in headers of their own would go along. It has no
// timeout: the request's context is the only one.
func NewClient(base *http.Client, o Options) *http.Client {
	client := http.Client{}
	if base != nil {
		client = *base
	}
	if client.Transport == nil {
		client.Transport = http.DefaultTransport
	}
	if o.MaxAnswer <= 0 {
		o.MaxAnswer = MaxAnswer
	}
	client.Transport = &transport{next: client.Transport, options: o}
	client.Timeout = 0
	return &client
}

// Post sends a value as JSON.
func Post(ctx context.Context, client *http.Client, address string, header http.Header, value any) (*http.Response, error) {
	var body bytes.Buffer
	encoder := json.NewEncoder(&body)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, fmt.Errorf("write request: %w", err)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, address, &body)
	if err != nil {
		return nil, fmt.Errorf("write request: %w", err)
	}
	r.Header = header.Clone()
	r.Header.Set("Content-Type", "application/json")
	return client.Do(r)
}

// CheckURL returns an error unless base is an absolute HTTP address.
func CheckURL(base string) error {
	u, err := url.Parse(base)
	if err != nil {
		return errors.New("parse base URL: it is not a URL") // err would quote a password
	}
	if (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return fmt.Errorf("parse base URL: %q is not an http or https address", u.Redacted())
	}
	return nil
}

// Exchange is one request with its answer.
type Exchange struct {
	filter func(data []byte) []byte

	mu      sync.Mutex
	status  int
	header  http.Header
	body    []byte // of an answer that is no stream
	failure error  // of reading the answer
}

type exchangeKey struct{}

// NewExchange returns an exchange and a context for the request that it is to
// watch. filter, if not nil, sees the JSON data of every event before the
// vendor's client does and returns what that gets instead; it must not keep its
// argument.
func NewExchange(ctx context.Context, filter func(data []byte) []byte) (context.Context, *Exchange) {
	x := &Exchange{filter: filter}
	return context.WithValue(ctx, exchangeKey{}, x), x
}

// Failure is why the answer could not be read to its end, nil if it could.
func (x *Exchange) Failure() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.failure
}

// Problem is what the server said instead of a stream; ok is false if it said
// nothing of the kind.
func (x *Exchange) Problem() (p Problem, ok bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.body == nil {
		return Problem{}, false
	}
	p = ParseProblem(x.body)
	p.Status, p.Header = x.status, x.header
	if p.Status/100 == 2 && p.Message != "" {
		p.Status = 0 // the status was that of the beginning
	}
	return p, true
}

func (x *Exchange) answered(status int, header http.Header) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.status, x.header = status, header
}

// refused keeps the body of an answer that is no stream.
func (x *Exchange) refused(body []byte) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.body = append([]byte{}, body...)
}

func (x *Exchange) fail(err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.failure == nil {
		x.failure = err
	}
}

// transport watches exchanges.
type transport struct {
	next    http.RoundTripper
	options Options
}

// RoundTrip sends one request.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	x, ok := r.Context().Value(exchangeKey{}).(*Exchange)
	if !ok {
		return t.next.RoundTrip(r)
	}
	resp, err := t.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	x.answered(resp.StatusCode, resp.Header)
	if resp.StatusCode/100 == 2 {
		resp.Body = newStream(resp.Body, x, t.options)
		return resp, nil
	}
	// What arrived of a refusal is worth more than the error that broke it off.
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxProblem))
	_ = resp.Body.Close()
	x.refused(body)
	if resp.StatusCode < http.StatusBadRequest {
		// Whoever follows a redirect takes the key along, and the vendors' clients
		// take every other status below 400 for a success.
		resp.StatusCode, resp.Status = http.StatusBadGateway, "502 Bad Gateway"
	}
	// They read it too, and one of them expects JSON.
	text := `{"error":{"message":"see the exchange"}}`
	resp.Header = resp.Header.Clone()
	resp.Header.Set("Content-Type", "application/json")
	resp.Header.Del("Content-Length")
	resp.ContentLength = int64(len(text))
	resp.Body = io.NopCloser(strings.NewReader(text))
	return resp, nil
}
