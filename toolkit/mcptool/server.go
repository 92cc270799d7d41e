package mcptool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

var (
	errClosed     = errors.New("the server was closed")
	errNeverTried = errors.New("not connected yet")
)

// server is one configured server and its connection, if there is one.
type server struct {
	name    string
	config  Server
	options Options
	log     *slog.Logger
	secrets *strings.Replacer
	closing context.Context // done when all servers are closed

	// old means that the next attempt begins with the older handshake. Only one attempt runs at a
	// time.
	old bool

	tasks taskTools

	changed chan struct{} // the tool list has changed; capacity 1
	suspect chan struct{} // a call failed in a way that may mean a dead connection; capacity 1

	mu    sync.Mutex
	link  *link // nil while not connected
	offer []*tool
	held  []Held // tools that are not offered as they are
	err   error  // why link is nil
}

func newServer(closing context.Context, name string, config Server, options Options) *server {
	return &server{
		name: name, config: config, options: options, closing: closing,
		log:     options.Logger.With("server", name),
		secrets: secretsOf(config),
		changed: make(chan struct{}, 1), suspect: make(chan struct{}, 1),
		err: errNeverTried,
	}
}

// secretName matches the names of variables with secrets. Others contain words that occur in many
// messages.
var secretName = regexp.MustCompile(`(?i)key|token|secret|pass|pwd|auth|cred|jwt|dsn|connection`)

// withPassword finds the password of an address, as in postgres://user:password@host/.
var withPassword = regexp.MustCompile(`://[^/\s@:]*:([^/\s@]+)@`)

// Shorter texts are words such as "true", and parts of a path such as "streamable".
const (
	minSecret  = 6
	minSegment = 16
)

// secretsOf returns a replacer that removes possible secrets from a text: values of env that are
// named like secrets or are URLs with a password, the values of headers, and the part of the URL
// after the host.
func secretsOf(config Server) *strings.Replacer {
	var secrets []string
	for name, value := range config.Env {
		password := withPassword.FindStringSubmatch(value)
		if password != nil {
			secrets = append(secrets, password[1])
		}
		if password != nil || secretName.MatchString(name) {
			secrets = append(secrets, value)
		}
	}
	for _, value := range config.Headers {
		_, token, _ := strings.Cut(value, " ") // of "Bearer …"
		secrets = append(secrets, value, token)
	}
	secrets = append(secrets, secretsOfURL(config.URL)...)
	secrets = slices.DeleteFunc(secrets, func(secret string) bool { return len(secret) < minSecret })
	// Of two that begin alike the first counts.
	slices.SortFunc(secrets, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	var pairs []string
	for _, secret := range slices.Compact(secrets) {
		pairs = append(pairs, secret, "[secret]")
	}
	return strings.NewReplacer(pairs...)
}

// secretsOfURL returns the parts of a URL that may be secret, as written and as errors quote them:
// a token may be the password, a part of the path, or in the query.
func secretsOfURL(address string) []string {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return nil
	}
	secrets := []string{strings.TrimPrefix(u.RequestURI(), "/"), u.RawQuery, u.Fragment}
	if password, ok := u.User.Password(); ok {
		secrets = append(secrets, password)
	}
	for _, path := range []string{u.Path, u.EscapedPath()} {
		secrets = append(secrets, strings.TrimPrefix(path, "/"))
		for segment := range strings.SplitSeq(path, "/") { // the server may name others below it
			if len(segment) >= minSegment {
				secrets = append(secrets, segment)
			}
		}
	}
	for _, values := range u.Query() {
		secrets = append(secrets, values...)
	}
	return secrets
}

// explain returns the text of an error without secrets.
func (s *server) explain(err error) string { return s.secrets.Replace(err.Error()) }

// current returns the connection, or why there is none.
func (s *server) current() (*link, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.link, s.err
}

func (s *server) tools() []*tool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.link == nil {
		return nil
	}
	return s.offer
}

func (s *server) status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	status := Status{Name: s.name, Connected: s.link != nil}
	if s.link != nil {
		status.Tools, status.Held = len(s.offer), s.held
	} else {
		status.Error = s.explain(s.err)
	}
	return status
}

// connect makes one attempt. On success the connection and its tools are in place.
func (s *server) connect(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, s.options.ConnectTimeout)
	defer cancel()
	defer context.AfterFunc(s.closing, cancel)()
	l, err := s.reach(ctx)
	if err == nil {
		var offer []*tool
		if offer, err = s.list(ctx, l); err == nil {
			s.mu.Lock()
			s.link, s.offer, s.err = l, offer, nil
			s.mu.Unlock()
			s.log.Info("MCP server connected", "type", s.config.Type, "tools", len(offer))
			if s.closing.Err() != nil { // Close came first
				s.disconnect(errClosed)
			}
			return true
		}
		l.close(err)
	}
	// The newer handshake begins with a request that old servers may not answer.
	if errors.Is(err, context.DeadlineExceeded) {
		s.old = !s.old
	}
	s.mu.Lock()
	s.err = err
	s.mu.Unlock()
	s.log.Warn("MCP server not connected", "type", s.config.Type, "error", s.explain(err))
	return false
}

// disconnect closes the connection, if there is one.
func (s *server) disconnect(why error) {
	s.mu.Lock()
	l := s.link
	if l != nil {
		s.link, s.err = nil, why
	}
	s.mu.Unlock()
	if l != nil {
		l.close(why)
	}
}

// run connects, closes tried after the first attempt, and keeps the server connected until ctx ends
// or all servers are closed.
func (s *server) run(ctx context.Context, tried func()) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.closing, cancel)()
	wait := backoff.NewExponentialBackOff()
	wait.InitialInterval, wait.MaxInterval = s.options.MinBackoff, s.options.MaxBackoff
	wait.Reset()
	connected := time.Now()
	if s.connect(ctx) {
		s.options.Changed()
	}
	tried()
	for ctx.Err() == nil {
		if l, _ := s.current(); l != nil {
			why := s.watch(ctx, l)
			if ctx.Err() != nil {
				return
			}
			s.log.Warn("MCP server lost", "error", s.explain(why))
			s.disconnect(why)
			// A server that dies at once each time is not restarted without a pause.
			if time.Since(connected) > s.options.MaxBackoff {
				wait.Reset()
			}
		}
		timer := time.NewTimer(wait.NextBackOff())
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
		if s.connect(ctx) {
			connected = time.Now()
			s.options.Changed()
		}
	}
}

// refreshPause is the minimum time between two listings of a server's tools, however often they
// change.
const refreshPause = time.Second

// watch returns why the connection ended, or nil if ctx did.
func (s *server) watch(ctx context.Context, l *link) error {
	var listed time.Time
	var due <-chan time.Time // nil when the tools need not be listed
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-l.gone:
			return l.why()
		case <-s.changed:
			if due == nil {
				due = time.After(refreshPause - time.Since(listed))
			}
		case <-due:
			due = nil
			if err := s.refresh(ctx, l); err != nil {
				s.log.Warn("MCP tools not listed again", "error", s.explain(err))
				notify(s.suspect)
			}
			listed = time.Now()
		case <-s.suspect:
			if err := s.probe(ctx, l); err != nil && ctx.Err() == nil {
				return err
			}
		}
	}
}

// refresh lists the tools again. Unchanged lists are not reported, because a report reaches every
// call.
func (s *server) refresh(ctx context.Context, l *link) error {
	ctx, cancel := context.WithTimeout(ctx, s.options.ConnectTimeout)
	defer cancel()
	offer, err := ask(ctx, func() ([]*tool, error) { return s.list(ctx, l) })
	if err != nil {
		return err
	}
	s.mu.Lock()
	same := s.link != l || slices.EqualFunc(s.offer, offer, (*tool).equal)
	if !same {
		s.offer = offer
	}
	s.mu.Unlock()
	if same {
		return nil
	}
	s.options.Changed()
	s.log.Info("MCP tools changed", "tools", len(offer))
	return nil
}

// probe asks the server for a sign of life. Even an error is one.
func (s *server) probe(ctx context.Context, l *link) error {
	ctx, cancel := context.WithTimeout(ctx, s.options.ConnectTimeout)
	defer cancel()
	_, err := ask(ctx, func() (struct{}, error) { return struct{}{}, l.session.Ping(ctx, nil) })
	if err == nil || isAnswer(err) {
		return nil
	}
	select {
	case <-l.gone:
		return l.why()
	case <-time.After(moment):
	}
	return fmt.Errorf("it does not answer: %w", err)
}

// ask waits for the result of a request, but no longer than ctx. The request itself may wait
// longer: it hangs in a write to a child that does not read, until the connection is closed.
func ask[T any](ctx context.Context, request func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	results := make(chan result, 1)
	go func() {
		value, err := request()
		results <- result{value, err}
	}()
	select {
	case r := <-results:
		return r.value, r.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}

// notify sets a signal unless it is already set.
func notify(signal chan struct{}) {
	select {
	case signal <- struct{}{}:
	default:
	}
}

func (s *server) sessionOptions() *mcp.ClientSessionOptions {
	if s.old {
		return &mcp.ClientSessionOptions{ProtocolVersion: oldProtocol}
	}
	return nil
}

// clientOptions are the options of the SDK's client for one connection.
func (s *server) clientOptions(l *link) *mcp.ClientOptions {
	return &mcp.ClientOptions{
		// nil would advertise roots, which nobody here serves.
		Capabilities: &mcp.ClientCapabilities{},
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) {
			notify(s.changed)
		},
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
			l.progress.deliver(r.Params)
		},
	}
}
