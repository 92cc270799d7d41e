package mcptool

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const maxRedirects = 5

// streamHead limits how long a server may take to answer the request for its stream of notifications, for which the SDK waits
// before it does anything else. A server that sends the head of its answer with the first event only counts as one without a
// stream.
const streamHead = 5 * time.Second

// remote carries a session over HTTP.
type remote struct {
	config Server
	trace  func(context.Context, http.Header)
	read   func(message []byte) []byte
	token  func(ctx context.Context, refused string) (string, error) // server.token
	client *http.Client

	open   context.Context // until stop
	cancel context.CancelFunc
}

func (r *remote) connect() (mcp.Transport, error) {
	endpoint, err := url.Parse(r.config.URL)
	if err != nil {
		return nil, errors.New("the url is malformed") // the text may hold a token
	}
	t := &headerTransport{
		base: http.DefaultTransport.(*http.Transport).Clone(), streams: http.DefaultTransport.(*http.Transport).Clone(),
		host: endpoint.Host, scheme: endpoint.Scheme, remote: r,
	}
	t.streams.ResponseHeaderTimeout = streamHead
	r.client = &http.Client{Transport: t, CheckRedirect: checkRedirect}
	r.open, r.cancel = context.WithCancel(context.Background())
	if r.config.Type == TypeSSE {
		return lasting{&mcp.SSEClientTransport{Endpoint: r.config.URL, HTTPClient: r.client, MaxEventSize: maxMessage}, r}, nil
	}
	// Proxies cut streams that are silent for a minute or so. With a limit on retries, the SDK would end the session with its
	// calls after a few cuts; a server that is gone is noticed by what does not get an answer.
	return &mcp.StreamableClientTransport{Endpoint: r.config.URL, HTTPClient: r.client, MaxEventSize: maxMessage, MaxRetries: math.MaxInt}, nil
}

// checkRedirect refuses redirects after which a request would not arrive as it is: credentials go to no other
// place than the configured one, and some statuses turn a POST into a GET.
func checkRedirect(request *http.Request, before []*http.Request) error {
	first, to := before[0], *request.URL
	to.User, to.RawQuery = nil, ""
	switch {
	case len(before) > maxRedirects:
		return errors.New("the server redirects too often")
	case to.Host != first.URL.Host:
		return errors.New("the server redirects to another host")
	case to.Scheme != first.URL.Scheme && to.Scheme == "http":
		return errors.New("the server redirects from https to http; perhaps the path of its url lacks a / at the end, or has one too many")
	case to.Scheme != first.URL.Scheme, request.Method != first.Method:
		return fmt.Errorf("the server redirects; its url is %s now", &to)
	}
	return nil
}

func (r *remote) stop() {
	r.cancel()
	r.client.CloseIdleConnections()
}

// explain adds nothing: its errors hold what the server said.
func (*remote) explain(err error) error { return err }

// lasting keeps a transport connected after the ctx of its Connect has ended: the SDK's SSE
// transport reads its events under that ctx.
type lasting struct {
	mcp.Transport
	remote *remote
}

// Connect implements [mcp.Transport]. The end of ctx still ends the attempt.
func (l lasting) Connect(ctx context.Context) (mcp.Connection, error) {
	defer context.AfterFunc(ctx, l.remote.cancel)()
	return l.Transport.Connect(l.remote.open)
}

// headerTransport adds the configured headers, for the configured host only, and checks what is read.
type headerTransport struct {
	base, streams *http.Transport
	scheme, host  string
	remote        *remote
}

func (t *headerTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	r := t.remote
	if request.URL.Host == t.host && request.URL.Scheme == t.scheme {
		request = request.Clone(request.Context())
		for key, value := range r.config.Headers {
			request.Header.Set(key, value)
		}
		r.trace(request.Context(), request.Header)
		if r.token != nil {
			return t.authorized(request)
		}
	}
	return t.send(request)
}

// authorized sends a request with the owner's token, and once more with another if the server refuses that.
func (t *headerTransport) authorized(request *http.Request) (*http.Response, error) {
	ctx := request.Context()
	token, err := t.remote.token(ctx, "")
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := t.send(request)
	r, _ := errors.AsType[*refusal](err)
	unknown := r != nil && r.status == http.StatusUnauthorized || response != nil && response.StatusCode == http.StatusUnauthorized
	if !unknown || request.Body != nil && request.GetBody == nil {
		return response, err
	}
	if response != nil {
		_ = response.Body.Close()
	}
	if token, err = t.remote.token(ctx, token); err != nil {
		return nil, err
	}
	again := request.Clone(ctx)
	if request.GetBody != nil {
		if again.Body, err = request.GetBody(); err != nil {
			return nil, fmt.Errorf("send it again: %w", err)
		}
	}
	again.Header.Set("Authorization", "Bearer "+token)
	return t.send(again)
}

func (t *headerTransport) send(request *http.Request) (*http.Response, error) {
	r := t.remote
	if r.config.Type == TypeHTTP && (request.Method == http.MethodGet || request.Header.Get("Mcp-Method") == "subscriptions/listen") {
		return t.stream(request)
	}
	response, err := t.base.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode >= http.StatusBadRequest && request.Method != http.MethodDelete {
		return refused(request, response)
	}
	return r.checked(response)
}

// stream asks for the stream of notifications.
func (t *headerTransport) stream(request *http.Request) (*http.Response, error) {
	response, err := t.streams.RoundTrip(request)
	if late, ok := errors.AsType[net.Error](err); ok && late.Timeout() && request.Method == http.MethodGet {
		return &http.Response{StatusCode: http.StatusMethodNotAllowed, Header: http.Header{}, Body: http.NoBody, Request: request}, nil
	}
	if err != nil {
		return nil, err
	}
	return t.remote.checked(response)
}

// checked limits the body of a response, and checks the messages in it.
func (r *remote) checked(response *http.Response) (*http.Response, error) {
	// A stream of events lives as long as its session; the SDK limits each event.
	if kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type")); kind == "text/event-stream" {
		response.Body = eventsOf(response.Body, r.read)
		return response, nil
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxMessage+1))
	_ = response.Body.Close()
	switch {
	case err != nil:
		return nil, fmt.Errorf("read its answer: %w", err)
	case len(body) > maxMessage:
		return nil, fmt.Errorf("its answer is longer than %d bytes", maxMessage)
	}
	response.Body, response.ContentLength = io.NopCloser(bytes.NewReader(r.read(body))), -1
	return response, nil
}

// CloseIdleConnections is called by http.Client.
func (t *headerTransport) CloseIdleConnections() {
	t.base.CloseIdleConnections()
	t.streams.CloseIdleConnections()
}
