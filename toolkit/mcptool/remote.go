package mcptool

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"voicebridge/toolkit/mcptool/signin"
)

const maxRedirects = 5

// streamHead limits how long a server may take to answer the request for its stream of notifications, for which the SDK
// waits before it does anything else. A server that sends the head of its answer with the first event only counts as
// one without a stream.
const streamHead = 5 * time.Second

// remote carries a session over HTTP.
type remote struct {
	config Server // that of the server, but perhaps for its type
	server *server
	client *http.Client

	open   context.Context // until stop
	cancel context.CancelFunc

	streamed atomic.Bool             // the server has a stream of notifications
	last     atomic.Pointer[refusal] // of its latest answer; nil if that was none
}

// sessionHeader has the id of a session.
const sessionHeader = "Mcp-Session-Id"

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
		return lasting{&mcp.SSEClientTransport{Endpoint: r.config.URL, HTTPClient: r.client, MaxEventSize: -1}, r}, nil
	}
	// Proxies cut streams that are silent for a minute or so. With a limit on retries, the SDK would end the session
	// with its calls after a few cuts; a server that is gone is noticed by what does not get an answer.
	return &mcp.StreamableClientTransport{
		Endpoint: r.config.URL, HTTPClient: r.client, MaxEventSize: -1, MaxRetries: math.MaxInt,
	}, nil
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
		return errors.New("the server redirects from https to http; perhaps the path of its url lacks a / at the " +
			"end, or has one too many")
	case to.Scheme != first.URL.Scheme, request.Method != first.Method:
		return fmt.Errorf("the server redirects; its url is %s now", &to)
	}
	return nil
}

func (r *remote) stop() {
	r.cancel()
	r.client.CloseIdleConnections()
}

// explain adds what the server said last, if that was a refusal: the SDK may have ended the session for it while
// another request was under way.
func (r *remote) explain(err error) error {
	why := r.last.Load()
	if _, has := errors.AsType[*refusal](err); why == nil || has {
		return err
	}
	return fmt.Errorf("%w: %w", err, why)
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
	return posting{connection}, err
}

// posting keeps a connection when a message could not be sent, for which the SDK would end it.
type posting struct{ mcp.Connection }

func (p posting) Write(ctx context.Context, m jsonrpc.Message) error {
	err := p.Connection.Write(ctx, m)
	if err == nil || errors.Is(err, io.EOF) {
		return err
	}
	return fmt.Errorf("%w: %w", &jsonrpc.Error{Code: codeNoAnswer, Message: "not sent"}, err)
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
		if r.config.Auth == AuthOAuth {
			return t.authorized(request)
		}
	}
	return t.send(request)
}

// authorized sends a request with the owner's token, and once more with another if the server refuses that.
func (t *headerTransport) authorized(request *http.Request) (*http.Response, error) {
	ctx := request.Context()
	token, err := t.remote.server.token(ctx, "")
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := t.send(request)
	r, _ := errors.AsType[*refusal](err)
	if r == nil || r.status != http.StatusUnauthorized || request.Body != nil && request.GetBody == nil {
		return response, t.remote.wider(ctx, err)
	}
	if token, err = t.remote.server.token(ctx, token); err != nil {
		return nil, err
	}
	again := request.Clone(ctx)
	if request.GetBody != nil {
		if again.Body, err = request.GetBody(); err != nil {
			return nil, fmt.Errorf("send it again: %w", err)
		}
	}
	again.Header.Set("Authorization", "Bearer "+token)
	response, err = t.send(again)
	return response, t.remote.wider(ctx, err)
}

// target is the server as owners sign in to it.
func (s *server) target() signin.Server { return s.config.SignIn(s.name) }

// token returns the owner's token, but not the refused one. Without one there is nothing to connect with.
func (s *server) token(ctx context.Context, refused string) (string, error) {
	token, err := s.options.SignIn.Token(ctx, s.owner, s.target(), refused)
	if _, needs := errors.AsType[*signin.NeededError](err); needs {
		s.end(err)
	}
	return token, err
}

// wider returns the error of a request. If the owner's token lacks scopes for it (RFC 6750, 3.1), the owner has to sign
// in for more.
func (r *remote) wider(ctx context.Context, err error) error {
	if why, ok := errors.AsType[*refusal](err); ok && len(why.scopes) > 0 {
		s := r.server
		return cmp.Or(s.options.SignIn.Widen(ctx, s.owner, s.target(), why.scopes), err)
	}
	return err
}

func (t *headerTransport) send(request *http.Request) (*http.Response, error) {
	if t.remote.config.Type == TypeHTTP && request.Method == http.MethodGet {
		return t.stream(request)
	}
	over, listens := t.base, request.Header.Get("Mcp-Method") == "subscriptions/listen"
	if listens {
		over = t.streams
	}
	response, err := over.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	failed := response.StatusCode < http.StatusOK || response.StatusCode >= http.StatusMultipleChoices
	switch {
	case redirects(response):
		return response, nil
	case failed && request.Method != http.MethodDelete:
		return t.remote.refused(request, response)
	}
	return t.remote.checked(request, response)
}

// redirects reports whether http.Client follows a response elsewhere.
func redirects(response *http.Response) bool {
	return response.StatusCode >= 300 && response.StatusCode < 400 && response.Header.Get("Location") != ""
}

// stream asks for the stream of notifications, or for the rest of one that broke. The SDK would end the session, with
// all its calls, for an answer that is no stream; so a server counts as one without a stream, or as a silent one.
func (t *headerTransport) stream(request *http.Request) (*http.Response, error) {
	call, last, resumes := strings.Cut(request.Header.Get("Last-Event-Id"), ":")
	if resumes {
		request = request.Clone(request.Context())
		request.Header.Set("Last-Event-Id", last)
	}
	answer := func(status int, body io.ReadCloser) *http.Response {
		header := http.Header{"Content-Type": {"text/event-stream"}}
		return &http.Response{StatusCode: status, Header: header, Body: body, Request: request}
	}
	response, err := t.streams.RoundTrip(request)
	late, _ := errors.AsType[net.Error](err)
	again := resumes || t.remote.streamed.Load()
	switch {
	case err != nil && late != nil && late.Timeout() && !again:
		return answer(http.StatusMethodNotAllowed, http.NoBody), nil
	case err != nil:
		return nil, err
	case response.StatusCode == http.StatusOK && kindOf(response) == "text/event-stream":
		t.remote.streamed.Store(true)
		stream := &events{read: t.remote.server.read}
		if call != "" {
			stream.call = json.RawMessage(call)
		}
		response.Body = stream.over(response.Body)
		return response, nil
	case redirects(response):
		return response, nil
	}
	_ = response.Body.Close()
	switch why := (&refusal{status: response.StatusCode}); {
	case !again:
		return answer(http.StatusMethodNotAllowed, http.NoBody), nil
	case why.status >= http.StatusInternalServerError, why.status == http.StatusTooManyRequests:
		return nil, why // the SDK asks again after a pause
	case call != "":
		data := fmt.Appendf(nil, "data: %s\n\n", noAnswer(json.RawMessage(call), why))
		return answer(http.StatusOK, io.NopCloser(bytes.NewReader(data))), nil
	}
	return answer(http.StatusOK, &silent{ctx: request.Context()}), nil
}

// silent is a stream without events until its request ends.
type silent struct {
	ctx context.Context //nolint:containedctx // of the request
}

func (s *silent) Read([]byte) (int, error) {
	<-s.ctx.Done()
	return 0, io.EOF
}

func (*silent) Close() error { return nil }

func kindOf(response *http.Response) string {
	kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	return kind
}

// callOf returns the id of the call that a request makes; nil if it makes none.
func callOf(request *http.Request) json.RawMessage {
	if request.GetBody == nil {
		return nil
	}
	body, err := request.GetBody()
	if err != nil {
		return nil
	}
	var call struct {
		ID     json.RawMessage
		Method string
	}
	if json.NewDecoder(body).Decode(&call) != nil || call.Method == "" {
		return nil
	}
	return call.ID
}

// checked makes of a response what the SDK can read: a stream of events, or one message. Whatever else answers a call
// is an error of that call; the SDK would end the session for it.
func (r *remote) checked(request *http.Request, response *http.Response) (*http.Response, error) {
	r.last.Store(nil)
	if request.Header.Get(sessionHeader) != "" {
		response.Header.Del(sessionHeader) // another one would end the session
	}
	call, older := callOf(request), r.config.Type == TypeSSE
	kind := kindOf(response)
	switch {
	case kind == "text/event-stream" && (call != nil && !older || older && request.Method == http.MethodGet):
		stream := &events{read: r.server.read, call: call, older: older}
		response.Body = stream.over(response.Body)
		return response, nil
	case call == nil || older:
		return response, nil
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxMessage+1))
	_ = response.Body.Close()
	switch {
	case err != nil:
		return nil, fmt.Errorf("read its answer: %w", err)
	case len(body) > maxMessage:
		return nil, errTooLong
	}
	return r.answered(response, call, body), nil
}

// answered returns a response with the answer in a body, or with an error in its place.
func (r *remote) answered(response *http.Response, call json.RawMessage, body []byte) *http.Response {
	messages, err := r.server.read(body, call)
	if i := slices.IndexFunc(messages, func(m message) bool { return m.answer }); i >= 0 {
		body = messages[i].data
	} else {
		kind := cmp.Or(kindOf(response), http.DetectContentType(body))
		body = noAnswer(call, fmt.Errorf("%w (HTTP %d, %.100s)", cmp.Or(err, errNoMessage), response.StatusCode, kind))
	}
	response.StatusCode = http.StatusOK
	response.Header.Set("Content-Type", "application/json")
	response.Body, response.ContentLength = io.NopCloser(bytes.NewReader(body)), -1
	return response
}

// refused reads an HTTP error. It becomes an error of the request, which costs the SDK one call; many a status would
// cost it the session, and all would lose the server's words. An error of JSON-RPC is the server's answer.
func (r *remote) refused(request *http.Request, response *http.Response) (*http.Response, error) {
	body, _ := io.ReadAll(io.LimitReader(response.Body, maxRefusal)) // as far as it comes
	_ = response.Body.Close()
	why := &refusal{status: response.StatusCode, reason: readReason(response.Header, body)}
	challenges, _ := oauthex.ParseWWWAuthenticate(response.Header.Values("WWW-Authenticate"))
	for _, c := range challenges {
		if why.status == http.StatusForbidden && c.Params["error"] == "insufficient_scope" {
			why.scopes = strings.Fields(c.Params["scope"])
		}
	}
	var answer struct {
		ID    any
		Error struct{ Code int }
	}
	_ = json.Unmarshal(body, &answer)
	if code := answer.Error.Code; answer.ID == nil || code <= -32000 && code >= -32099 {
		why.forgotten = why.status == http.StatusBadRequest && noSession.Match(body)
	}
	why.forgotten = r.inSession(request) && (why.forgotten || why.status == http.StatusNotFound)
	call := callOf(request)
	if answer.ID != nil && call != nil && why.status != http.StatusUnauthorized && !why.forgotten {
		return r.answered(response, call, body), nil
	}
	r.last.Store(why)
	return nil, why
}

// noSession is what servers say that do not know a session, as after a restart, and so have not run a call in it. They
// then answer 404 (MCP specification 2025-11-25, transports, session management), and Python's SDK, as in FastMCP,
// writes an error of JSON-RPC to it; server-everything, and others made after the example of the TypeScript SDK, answer
// 400 with one, of a code for servers. Taken for an answer, it would keep the session.
var noSession = regexp.MustCompile(`(?i)session|not initialized`)

// inSession reports whether a request is one of a session; the older transport names it in the address.
func (r *remote) inSession(request *http.Request) bool {
	return request.Header.Get(sessionHeader) != "" || r.config.Type == TypeSSE && request.Method == http.MethodPost
}

// CloseIdleConnections is called by http.Client.
func (t *headerTransport) CloseIdleConnections() {
	t.base.CloseIdleConnections()
	t.streams.CloseIdleConnections()
}
