package mcptool

import (
	"context"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const maxRedirects = 5

// remote carries a session over HTTP.
type remote struct {
	streams
	config Server
	trace  func(context.Context, http.Header)
	client *http.Client
	// refused means that the server rejects the first request of streamable HTTP.
	refused atomic.Bool
	// refusal is what the server said with its last answer of an HTTP error, nil since a request has succeeded.
	refusal atomic.Pointer[refusal]

	open   context.Context // until stop
	cancel context.CancelFunc
}

func (r *remote) connect() (mcp.Transport, error) {
	endpoint, err := url.Parse(r.config.URL)
	if err != nil {
		return nil, errors.New("the url is malformed") // the text may hold a token
	}
	r.client = &http.Client{
		Transport: &headerTransport{
			base: http.DefaultTransport.(*http.Transport).Clone(), host: endpoint.Host, scheme: endpoint.Scheme, headers: r.config.Headers,
			remote: r,
		},
		CheckRedirect: checkRedirect,
	}
	r.do = r.client.Do
	r.open, r.cancel = context.WithCancel(context.Background())
	if r.config.Type == TypeSSE {
		return lasting{&mcp.SSEClientTransport{Endpoint: r.config.URL, HTTPClient: r.client, MaxEventSize: maxMessage}, r}, nil
	}
	return &mcp.StreamableClientTransport{Endpoint: r.config.URL, HTTPClient: r.client, MaxEventSize: maxMessage}, nil
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

// lasting keeps a transport connected after the ctx of its Connect has ended: the SDK's SSE
// transport reads its events under that ctx.
type lasting struct {
	mcp.Transport
	remote *remote
}

// Connect implements [mcp.Transport]. The end of ctx still ends the attempt.
func (l lasting) Connect(ctx context.Context) (mcp.Connection, error) {
	defer context.AfterFunc(ctx, l.remote.cancel)()
	connection, err := l.Transport.Connect(l.remote.open)
	return forgiving{connection}, err
}

// forgiving is a connection of the SDK's SSE transport. There, a message that the server refuses would end the
// session with all its calls.
type forgiving struct{ mcp.Connection }

// Write implements [mcp.Connection].
func (f forgiving) Write(ctx context.Context, message jsonrpc.Message) error {
	err := f.Connection.Write(ctx, message)
	if err != nil {
		err = fmt.Errorf("%w: %w", &jsonrpc.Error{Code: codeNoAnswer, Message: "send"}, err)
	}
	return err
}

// explain adds what the server said with an HTTP error, of which the SDK gives the status only.
func (r *remote) explain(err error) error {
	if refusal := r.refusal.Load(); refusal != nil {
		return refusal.explain(err)
	}
	return err
}

// headerTransport adds the configured headers, for the configured host only, and limits and mends what
// is read.
type headerTransport struct {
	base         *http.Transport
	scheme, host string
	headers      map[string]string
	remote       *remote
}

func (t *headerTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	opens := request.Context().Value(opening{}) != nil
	if !opens && t.remote.config.Type == TypeHTTP && asksForStream(request) {
		return t.remote.notices(request), nil
	}
	if request.URL.Host == t.host && request.URL.Scheme == t.scheme {
		request = request.Clone(request.Context())
		for key, value := range t.headers {
			request.Header.Set(key, value)
		}
		t.remote.trace(request.Context(), request.Header)
	}
	response, err := t.base.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	if request.Header.Get("Mcp-Session-Id") != "" { // only the answer to initialize names a session; the SDK would end it over another
		response.Header.Del("Mcp-Session-Id")
	}
	if opens { // it is optional, and its answer may come late
		return response, nil
	}
	switch {
	case response.StatusCode == http.StatusUnauthorized, response.StatusCode == http.StatusForbidden,
		response.StatusCode == http.StatusTooManyRequests, response.StatusCode >= http.StatusInternalServerError:
		t.remote.refusal.Store(&refusal{response.StatusCode, readReason(response, peek(response))})
	case response.StatusCode < http.StatusBadRequest:
		t.remote.refusal.Store(nil)
	}
	lost := forgotten(request, response)
	if lost {
		response.Body.Close()
		response.StatusCode, response.Body = http.StatusNotFound, http.NoBody
	}
	switch response.StatusCode {
	case http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotAcceptable, http.StatusUnsupportedMediaType:
		if request.Method == http.MethodPost {
			t.remote.refused.Store(true)
		}
	}
	var call *pending
	if t.remote.config.Type == TypeHTTP && !lost {
		call = await(request, response)
	}
	// A stream of events lives as long as its session; the SDK limits each event.
	kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	switch {
	case kind != "text/event-stream":
		response.Body = messagesOf(http.MaxBytesReader(nil, response.Body, maxMessage), t.remote.read, true, call)
	case call != nil:
		response.Body = t.remote.answer(call, request, response.Body)
	default:
		response.Body = messagesOf(response.Body, t.remote.read, false, nil)
	}
	return response, nil
}

// unknownSession is the key of a context for a pointer to a bool, which is set when the server no longer
// knows the session of a request with that context, and so has not acted on it.
type unknownSession struct{}

// noSession is what those servers say.
var noSession = regexp.MustCompile(`(?i)session|not initialized`)

// forgotten reports whether the server no longer knows the session of a request. It then answers 404
// (MCP specification 2025-11-25, transports, session management); servers made after examples of the
// SDKs answer 400, as others do for calls that they refuse. In the body may be an error of JSON-RPC, which
// the SDK would take for the server's answer to the call, and keep the session.
func forgotten(request *http.Request, response *http.Response) bool {
	if request.Method != http.MethodPost || request.Header.Get("Mcp-Session-Id") == "" {
		return false
	}
	switch response.StatusCode {
	case http.StatusNotFound:
	case http.StatusBadRequest:
		if !noSession.Match(peek(response)) {
			return false
		}
	default:
		return false
	}
	if unknown, ok := request.Context().Value(unknownSession{}).(*atomic.Bool); ok {
		unknown.Store(true)
	}
	return true
}

// CloseIdleConnections is called by http.Client.
func (t *headerTransport) CloseIdleConnections() { t.base.CloseIdleConnections() }
