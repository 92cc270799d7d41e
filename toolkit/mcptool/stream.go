package mcptool

import (
	"context"
	"encoding/json"
	"io"
	"mime"
	"net/http"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// longStream is how long a stream must have lasted to be opened again at once.
const longStream = 10 * time.Second

// streams are the streams of events of a session.
type streams struct {
	do   func(*http.Request) (*http.Response, error)
	read func(message []byte) []byte
	// reopened is called when the stream of notifications has been opened again: some may have been missed.
	// suspect is called when a stream cannot be opened again: the session may be lost.
	reopened, suspect func()
	// pause and longest are the first and the longest pause before a stream is asked for again.
	pause, longest time.Duration
}

// stream is the stream on which a server of streamable HTTP sends notifications outside of calls: the
// answer to a GET or, from MCP 2026-07-28 on, to subscriptions/listen. The SDK gets it at once, and it is opened
// when the SDK reads: some servers, and proxies before them, send the head of their answer with the first event
// only, for which the SDK would wait without end before it does anything else. If there is no stream, nothing
// ever comes.
//
// Proxies cut streams when nothing has been sent for a minute or so. The SDK counts the cuts of a GET, and after a
// few of them ends the session with its running calls; the other stream it never asks for again. So the SDK does not
// learn of a cut: the stream is opened again, from the last event on if its events have ids.
//
// The answer to a call may be such a stream, too, which is opened again if its events have ids. Then the server may
// have cut it itself, to be asked for the result later (MCP specification 2025-11-25, transports).
type stream struct {
	request *http.Request // by which it is opened again
	streams *streams
	call    *pending // that it answers; nil for notifications
	pause   *backoff.ExponentialBackOff
	events  *messages // what the SDK reads

	body   io.ReadCloser // nil while it is not open
	opened time.Time     // when it was asked for last
	known  bool          // it has been open
	over   bool          // the server has ended the notifications itself, by an answer
}

// asksForStream reports whether a request is one for the stream.
func asksForStream(request *http.Request) bool {
	if request.Method == http.MethodGet {
		return request.Header.Get("Last-Event-Id") == ""
	}
	return request.Header.Get("Mcp-Method") == "subscriptions/listen"
}

// isStream reports whether an answer is a stream of events.
func isStream(response *http.Response) bool {
	kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	return response.StatusCode == http.StatusOK && kind == "text/event-stream"
}

// notices answers a request for the stream of notifications.
func (r *streams) notices(request *http.Request) *http.Response {
	if request.Body != nil {
		request.Body.Close()
	}
	return &http.Response{
		Status: "200 OK", StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, ContentLength: -1, Request: request,
		Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: r.stream(&stream{request: request}),
	}
}

// answer returns the stream that answers a call.
func (r *streams) answer(call *pending, request *http.Request, body io.ReadCloser) io.ReadCloser {
	again := request.Clone(request.Context())
	again.Method, again.Body, again.GetBody, again.ContentLength = http.MethodGet, nil, nil, 0
	for _, name := range []string{"Content-Type", "Mcp-Method", "Mcp-Name"} {
		again.Header.Del(name)
	}
	again.Header.Set("Accept", "text/event-stream")
	return r.stream(&stream{request: again, call: call, body: body, known: true, opened: time.Now()})
}

func (r *streams) stream(s *stream) *messages {
	s.streams, s.request = r, s.request.WithContext(context.WithValue(s.request.Context(), opening{}, true))
	s.pause = backoff.NewExponentialBackOff()
	s.pause.InitialInterval, s.pause.MaxInterval = r.pause, r.longest
	s.pause.Reset()
	s.events = messagesOf(s, s.read, false, s.call)
	return s.events
}

// opening is the key of a context for requests of a stream itself.
type opening struct{}

// Read implements [io.Reader].
func (s *stream) Read(p []byte) (int, error) {
	for s.body == nil {
		if err := s.open(); err != nil {
			return 0, err
		}
	}
	n, err := s.body.Read(p)
	switch {
	case n > 0 || err == nil: // an error comes again
		return n, nil
	case s.over, s.call != nil && (s.call.answered || s.events.id == ""):
		return 0, err
	}
	s.body.Close()
	s.body = nil
	return copy(p, "\n\n"), nil // the end of whatever was cut
}

// open asks for the stream once, after a pause if it was asked for just before. An error means that nothing follows.
func (s *stream) open() error {
	ctx := s.request.Context()
	if pause := s.events.retry; pause > 0 {
		sleep(ctx, pause)
	} else if time.Since(s.opened) > longStream {
		s.pause.Reset()
	} else {
		sleep(ctx, s.pause.NextBackOff())
	}
	s.opened = time.Now()
	response, err := s.ask()
	if err != nil {
		if ctx.Err() == nil {
			s.streams.suspect()
		}
		return ctx.Err() // nil: once more
	}
	if isStream(response) {
		if s.known && s.call == nil {
			s.streams.reopened()
		}
		s.body, s.known = response.Body, true
		return nil
	}
	response.Body.Close()
	switch {
	case !s.known:
	case response.StatusCode >= http.StatusInternalServerError:
		s.streams.suspect()
		return nil
	case s.call != nil:
		return io.EOF
	case s.events.id != "":
		s.events.id = "" // it may be unknown by now
		return nil
	default: // perhaps the session is unknown
		s.streams.suspect()
	}
	<-ctx.Done()
	return ctx.Err()
}

func (s *stream) ask() (*http.Response, error) {
	request := s.request.Clone(s.request.Context())
	if s.request.GetBody != nil {
		body, err := s.request.GetBody()
		if err != nil {
			return nil, err
		}
		request.Body = body
	}
	if s.events.id != "" {
		request.Header.Set("Last-Event-Id", s.events.id)
	}
	return s.streams.do(request)
}

// Close implements [io.Closer].
func (s *stream) Close() error {
	if s.body == nil {
		return nil
	}
	return s.body.Close()
}

// read reads a message, and notes the answer that ends notifications.
func (s *stream) read(message []byte) []byte {
	var answer struct {
		Method string          `json:"method"`
		ID     json.RawMessage `json:"id"`
	}
	if s.call == nil && json.Unmarshal(message, &answer) == nil && answer.Method == "" && answer.ID != nil {
		s.over = true
	}
	return s.streams.read(message)
}

// sleep waits, but no longer than ctx.
func sleep(ctx context.Context, pause time.Duration) {
	select {
	case <-time.After(pause):
	case <-ctx.Done():
	}
}
