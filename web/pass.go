package web

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
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
	"voicebridge/persistence"
	"voicebridge/persistence/records"
	"voicebridge/thread"
	"voicebridge/web/access"
	"voicebridge/web/input"
	"voicebridge/web/problem"
)

// What belongs to a live call or a running turn is in one process. Another one that gets a request about it passes the
// request on, once: with a signed pass in place of what the client has shown.

// headerPass has the pass.
const headerPass = "Voicebridge-Pass"

const (
	passKey     = "pass"
	closedKey   = "closed"        // what the request is about was closed for it
	passTimeout = 5 * time.Second // for the connection to the other process
	// goneEvery is how often to look whether the other process is alive: one whose machine is gone says nothing.
	goneEvery = time.Second
)

// holder returns the instance that has what a request is about; empty if this one has it, or none.
type holder func(c echo.Context) (instance string, err error)

// holderOfCall is for requests about one of the owner's calls.
func (a *api) holderOfCall(c echo.Context) (instance string, err error) {
	id := cmp.Or(c.Param("call_id"), c.QueryParam("call_id"))
	owner := identity(c).Owner
	if !input.ValidID(id, maxCallID) || a.Calls.Has(owner, id) {
		return "", nil
	}
	call, err := a.Store.Records.Call(c.Request().Context(), owner, id)
	if errors.Is(err, persistence.ErrNotFound) || err == nil && call.EndedAt != nil {
		return "", nil
	}
	return call.Instance, err
}

// holderOfThread is for requests about one of the owner's threads, which may have a call or a turn.
func (a *api) holderOfThread(c echo.Context) (instance string, err error) {
	key, err := threadOf(c, errNoThread)
	if err != nil {
		return "", nil //nolint:nilerr // which the handler says
	}
	return a.holderOf(c.Request().Context(), key)
}

// holderOf returns the instance that has a thread's call or turn.
func (a *api) holderOf(ctx context.Context, key thread.Key) (instance string, err error) {
	if _, here := a.Calls.Live(key.Owner, key.Thread); here {
		return "", nil
	}
	if t := a.Chat.Running(key); t != nil && !t.Ended() {
		return "", nil
	}
	call, err := a.Store.Records.LiveCall(ctx, key)
	if !errors.Is(err, persistence.ErrNotFound) {
		return call.Instance, err
	}
	turn, err := a.Store.RunningTurn(ctx, key)
	if errors.Is(err, persistence.ErrNotFound) {
		return "", nil
	}
	return turn.Instance, err
}

// nobody is for requests that only other processes make of others.
func nobody(echo.Context) (string, error) { return "", nil }

// passed reports whether another process has passed the request on, or made it.
func passed(c echo.Context) bool { return c.Get(passKey) != nil }

// passes passes requests on to the process that has what they are about, and admits those that others pass on.
func (a *api) passes(of holder, secretsToo bool) echo.MiddlewareFunc {
	identified := a.identified(secretsToo)
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		ofClient := identified(func(c echo.Context) error {
			if instance, err := of(c); err != nil {
				return err
			} else if instance != "" && instance != a.Store.Instance() {
				return a.passOn(c, instance, next)
			}
			return next(c)
		})
		return func(c echo.Context) error {
			header := c.Request().Header.Get(headerPass)
			if header == "" {
				return ofClient(c)
			}
			pass, err := a.passed.Read(header, c.Request(), a.Store.Instance())
			if err != nil {
				a.events.refused(c, "pass refused", err)
				return errPassRefused
			}
			c.Request().Header.Del(echo.HeaderXForwardedFor) // of a proxy between the processes
			c.Request().RemoteAddr = net.JoinHostPort(pass.IP, "0")
			c.Set(passKey, pass)
			return a.admit(c, pass.Identity(), next)
		}
	}
}

// errPassRefused is also for what was signed for an instance that this process was before.
var errPassRefused = problem.Unauthorized(
	"This pass is not from a process of this server, or for another request, or was used.")

// errUnreachable is for what belongs to a process that this one cannot connect to.
var errUnreachable = &problem.Error{
	Status: http.StatusServiceUnavailable, Code: string(bridge.CodeUnreachable),
	RetryAfter: problem.ErrShuttingDown.RetryAfter,
	Message: "Another process of this server has the call or the answer and cannot be reached. Try again, which may " +
		"reach it, or start a call with takeover.",
}

// passOn passes a request on to an instance. What a dead one had is closed first, and then next serves the request.
func (a *api) passOn(c echo.Context, instance string, next echo.HandlerFunc) error {
	to, err := a.Store.Cluster.Reach(c.Request().Context(), instance)
	if errors.Is(err, persistence.ErrGone) {
		if _, err = a.Store.Recover(c.Request().Context()); err == nil {
			c.Set(closedKey, true)
			err = next(c)
		}
		return err
	}
	if err != nil {
		return err
	}
	ctx, leave, err := a.enterPass(c)
	if err != nil {
		return err
	}
	defer leave()
	body, err := bodyToPass(c)
	if err != nil {
		return err
	}
	waitLong(c)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go endWith(ctx, func() bool { _, dead := a.Store.Cluster.Dead(instance); return dead }, cancel)
	r := c.Request().WithContext(ctx)
	r.Body, r.ContentLength, r.TransferEncoding = io.NopCloser(bytes.NewReader(body)), int64(len(body)), nil
	var failed error
	answer := c.Response().Header()
	proxy := httputil.ReverseProxy{
		Transport: passTransport(to.Certificate),
		Rewrite: func(r *httputil.ProxyRequest) {
			a.readdress(r, to.URL, instance, identity(c).Pass(c.RealIP()), body)
		},
		ModifyResponse: func(res *http.Response) error {
			if res.StatusCode == http.StatusUnauthorized { // which who passed it on has checked
				return errPassRefused
			}
			for name := range answer { // those of this process
				res.Header.Del(name)
			}
			return nil
		},
		ErrorHandler: func(_ http.ResponseWriter, _ *http.Request, err error) { failed = err },
		ErrorLog:     slog.NewLogLogger(a.Logger.Handler(), slog.LevelDebug),
	}
	proxy.ServeHTTP(patient{c.Response(), a.streaming.Write}, r)
	if failed != nil && !c.Response().Committed {
		a.Logger.Warn("request not passed on", "error", failed, "to", to.URL, "request_id", requestID(c))
		return errUnreachable
	}
	return nil
}

// bodyToPass reads the body of a request; of a conversation only what is taken of it.
func bodyToPass(c echo.Context) ([]byte, error) {
	if c.Path() == "/api/threads/:id/messages" {
		return chatBody(c)
	}
	return input.Body(c, input.MaxBody, "")
}

// wasClosed reports whether a dead process had what the request is about, so that it has just been closed.
func wasClosed(c echo.Context) bool { return c.Get(closedKey) != nil }

// enterPass lets a request take the time of the other process. The context ends with this one, and with what has
// opened a stream or a sideband; a call's own connection outlives that.
func (a *api) enterPass(c echo.Context) (_ context.Context, end func(), err error) {
	var ctx context.Context
	var leave func()
	if c.IsWebSocket() {
		if err := a.door.check(c); err != nil {
			return nil, nil, err
		}
		if ctx, leave, err = a.door.enter(c); err != nil || !identity(c).IsProgram() {
			return ctx, leave, err
		}
	} else {
		var open bool
		if ctx, leave, open = a.door.open.Enter(c.Request().Context()); !open {
			return nil, nil, problem.ErrShuttingDown
		}
	}
	ctx, release := a.auth.Sessions.Hold(ctx, identity(c))
	return ctx, func() { release(); leave() }, nil
}

// patient gives a client time for each piece of an answer, instead of for the whole.
type patient struct {
	http.ResponseWriter

	each time.Duration
}

func (p patient) Write(data []byte) (int, error) {
	_ = http.NewResponseController(p.ResponseWriter).SetWriteDeadline(time.Now().Add(p.each))
	return p.ResponseWriter.Write(data)
}

func (p patient) Unwrap() http.ResponseWriter { return p.ResponseWriter }

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

// What another process needs of a request. Clients put secrets into all the rest.
var (
	passedHeaders = []string{
		"Connection", "Upgrade", "Sec-Websocket-Key", "Sec-Websocket-Version", "Traceparent", "Tracestate", "Accept",
		"Content-Type", "Idempotency-Key", "Last-Event-Id",
	}
	passedQuery = []string{"call_id", "dcid", "after", "sdk"}
)

// readdress makes a client's request one of this process: what the client has shown stays here.
func (a *api) readdress(r *httputil.ProxyRequest, base, instance string, pass access.Pass, body []byte) {
	header, query := make(http.Header), make(url.Values)
	for _, name := range passedHeaders {
		if values := r.Out.Header.Values(name); len(values) > 0 {
			header[name] = values
		}
	}
	if slices.ContainsFunc(r.In.Header.Values("Sec-Websocket-Protocol"), offersRealtime) {
		header.Set("Sec-Websocket-Protocol", "realtime")
	}
	for _, name := range passedQuery {
		if values := r.In.URL.Query()[name]; len(values) > 0 {
			query[name] = values
		}
	}
	uri := url.URL{Path: r.In.URL.Path, RawPath: r.In.URL.RawPath, RawQuery: query.Encode()}
	header.Set(headerPass, a.passed.Sign(pass, instance, r.In.Method+" "+uri.RequestURI(), body))
	r.Out.Header = header
	to, err := url.Parse(strings.TrimSuffix(base, "/") + uri.RequestURI())
	if err != nil || base == "" {
		to = &url.URL{} // to which there is no way
	}
	r.Out.URL, r.Out.Host = to, to.Host
}

func offersRealtime(list string) bool {
	return slices.ContainsFunc(strings.Split(list, ","),
		func(name string) bool { return strings.EqualFold(strings.TrimSpace(name), "realtime") })
}

// The reasons of requests that a process makes by itself.
const (
	whyTakeover = "takeover" // of the call's thread
	whyFree     = "free"     // the call's thread, if it waits for its client
)

// GiveUp has another process do what [bridge.Calls.GiveUp] does.
func (a *api) GiveUp(ctx context.Context, call records.Call, takeover bool) error {
	why := whyFree
	if takeover {
		why = whyTakeover
	}
	return a.ask(ctx, call.Instance, http.MethodPost, "/v1/realtime/calls/"+url.PathEscape(call.ID)+"/hangup",
		access.Pass{Owner: call.Owner, Thread: &call.ThreadID, Why: why})
}

// askTimeout is how long another process may take to do what this one asks.
const askTimeout = 30 * time.Second

// ask makes a request of this process to another one. persistence.ErrGone means that that is known to be dead,
// persistence.ErrNotFound that it has nothing such.
func (a *api) ask(ctx context.Context, instance, method, path string, pass access.Pass) error {
	to, err := a.Store.Cluster.Reach(ctx, instance)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	go endWith(ctx, func() bool { _, dead := a.Store.Cluster.Dead(instance); return dead }, cancel)
	r, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(to.URL, "/")+path, http.NoBody)
	if err != nil {
		return fmt.Errorf("ask another process: %w", err)
	}
	r.Header.Set(headerPass, a.passed.Sign(pass, instance, method+" "+path, nil))
	res, err := passTransport(to.Certificate).RoundTrip(r)
	if err != nil {
		a.Logger.Warn("another process not asked", "error", err, "to", to.URL)
		return errUnreachable
	}
	defer func() { _ = res.Body.Close() }()
	switch {
	case res.StatusCode == http.StatusNotFound:
		return persistence.ErrNotFound
	case res.StatusCode >= http.StatusMultipleChoices:
		return errUnreachable
	}
	return nil
}

// passTransport connects to a process that shows the certificate with that SHA-256, or one that is valid for its
// address.
func passTransport(certificate string) http.RoundTripper {
	t := &http.Transport{
		DisableKeepAlives: true, TLSHandshakeTimeout: passTimeout, DisableCompression: true,
		DialContext: (&net.Dialer{Timeout: passTimeout}).DialContext,
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
