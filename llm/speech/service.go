// Package speech has speech written down and texts spoken by servers with OpenAI's paths for both, over HTTP:
// https://platform.openai.com/docs/api-reference/audio. Among them are speaches, whisper.cpp, vLLM, LocalAI and Groq,
// Kokoro-FastAPI, Orpheus-FastAPI and chatterbox. What comes decides how it is read, not what was asked for. A [Cutter]
// cuts a text that grows into what is spoken at once.
package speech

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"voicebridge/llm"
	"voicebridge/llm/internal/wire"
)

// Server is one path of a server.
type Server struct {
	// URL is the address before the path, as http://127.0.0.1:8000/v1.
	URL string
	// Path begins with a slash; empty is OpenAI's.
	Path string
	// APIKey is sent as a bearer token, unless it is empty.
	APIKey string
	// Model is the server's name of it; empty leaves it out.
	Model string
	// HTTPClient sends the requests; nil for the default transport. Its Timeout and CheckRedirect are not used.
	HTTPClient *http.Client
}

// How long a server may take.
const (
	patience = 10 * time.Second // until the first byte
	loading  = 20 * time.Second // more for the first answer: servers load their model for it
	between  = 5 * time.Second  // between two bytes
	busy     = 30 * time.Second // until one that is busy takes a request
)

// service sends requests to a server.
type service struct {
	*wire.Client

	address, key string
	warm         atomic.Bool // it has answered
}

func newService(s Server, path string) (*service, error) {
	if err := wire.CheckURL(s.URL); err != nil {
		return nil, err
	}
	return &service{
		Client: wire.NewClient(s.HTTPClient, wire.SSE, wire.Failures{
			Provider: "speech", Label: wire.Label("OpenAI", "https://api.openai.com/v1", s.URL), Secrets: []string{s.APIKey},
			Kind: func(p wire.Problem) llm.ErrorKind { return wire.KindOfStatus(p.Status) },
		}),
		address: strings.TrimRight(s.URL, "/") + cmp.Or(s.Path, path), key: s.APIKey,
	}, nil
}

// post sends a request, again while the server is busy, and returns an answer with a status of 2xx and at most so many
// bytes, of which the first one comes within some time.
func (s *service) post(
	ctx context.Context, within time.Duration, limit int, kind string, body []byte,
) (*answer, error) {
	if !s.warm.Load() {
		within += loading
	}
	for until := time.Now().Add(busy); ; {
		a, err := s.try(ctx, within, limit, kind, body)
		e, ok := errors.AsType[*llm.Error](err)
		if !ok {
			return a, err
		}
		wait := cmp.Or(e.RetryAfter, time.Second)
		again := e.Status == http.StatusTooManyRequests || e.Status == http.StatusServiceUnavailable
		if !again || e.Kind == llm.KindQuota || time.Until(until) < wait {
			return nil, quoting(e)
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done(): // the next request fails
		}
	}
}

func (s *service) try(
	ctx context.Context, within time.Duration, limit int, kind string, body []byte,
) (*answer, error) {
	a := &answer{service: s, left: limit}
	a.ctx, a.cancel = context.WithCancelCause(ctx)
	a.timer = time.AfterFunc(within, func() { a.cancel(context.DeadlineExceeded) })
	r, err := http.NewRequestWithContext(a.ctx, http.MethodPost, s.address, bytes.NewReader(body))
	if err != nil {
		return nil, s.Failure(a.ctx, nil, err)
	}
	r.Header.Set("Content-Type", kind)
	if s.key != "" {
		r.Header.Set("Authorization", "Bearer "+s.key)
	}
	if a.Response, err = s.Do(r); err != nil { //nolint:bodyclose // Close does
		a.stop()
		return nil, err
	}
	return a, nil
}

// errEnough means that nobody reads on.
var errEnough = errors.New("enough")

// quoting returns an error whose message has the server's own words.
func quoting(e *llm.Error) *llm.Error {
	if e.Err != nil && !strings.Contains(e.Message, wire.Quote(e.Err.Error())) {
		e.Message += " It says: " + wire.Quote(e.Err.Error())
	}
	return e
}

// answer is the body of an answer, with its limits.
type answer struct {
	*service
	*http.Response

	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer
	left   int // bytes that may still come
	begun  bool
}

// Read returns io.EOF, or an error for users.
func (a *answer) Read(p []byte) (int, error) {
	if a.begun {
		a.timer.Reset(between)
	}
	n, err := a.Body.Read(p)
	a.timer.Stop()
	if n > 0 {
		a.begun = true
		a.warm.Store(true)
	}
	if a.left -= n; a.left < 0 {
		err = wire.ErrTooLarge
	}
	if err != nil && !errors.Is(err, io.EOF) {
		err = a.fail(err)
	}
	return n, err
}

// fail returns the error for an answer that broke off, unless err is one already.
func (a *answer) fail(err error) error {
	if _, ok := errors.AsType[*llm.Error](err); ok || errors.Is(err, errEnough) {
		return err
	}
	return a.Failure(a.ctx, a.Response, err)
}

// refuse returns the error for an answer that cannot be used.
func (a *answer) refuse(why string) error {
	return &llm.Error{Kind: llm.KindBadRequest, Provider: a.Provider, Message: a.Label + " " + why + "."}
}

// problem returns the error that an answer is. A status of 0 means an event.
func (a *answer) problem(body []byte, status int) error {
	p := wire.ParseProblem(body)
	p.Status = status
	return quoting(a.Problem(p))
}

func (a *answer) stop() {
	a.timer.Stop()
	a.cancel(nil)
}

// Close closes the connection, unless the answer was read to its end.
func (a *answer) Close() {
	a.stop()
	_ = a.Body.Close()
}
