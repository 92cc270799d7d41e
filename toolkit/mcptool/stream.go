package mcptool

import (
	"bytes"
	"encoding/json"
	"io"
	"mime"
	"net/http"
	"time"
)

// longStream is how long a stream must have lasted to be opened again at once.
const longStream = 10 * time.Second

// stream is the stream on which a server of streamable HTTP sends notifications outside of calls: the
// answer to a GET or, from MCP 2026-07-28 on, to subscriptions/listen. Proxies cut it when nothing has been
// sent for a minute or so. The SDK counts each such cut of the former, and after a few of them ends the
// session with its running calls; the latter it never asks for again. So the stream is opened again before
// the SDK sees its end. If it has event ids, the SDK does better: it asks for the events that were missed.
type stream struct {
	io.ReadCloser
	again func() (io.ReadCloser, error)
	since time.Time
	ids   bool  // there are event ids
	err   error // why it has ended for good: the SDK reads on after an error, and discards what comes
	over  bool  // the server has ended it itself, by an answer
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

// repeat returns a request with a body that can be read once more.
func repeat(request *http.Request) (*http.Request, error) {
	again := request.Clone(request.Context())
	if request.GetBody == nil {
		return again, nil
	}
	body, err := request.GetBody()
	again.Body = body
	return again, err
}

// Read implements [io.Reader].
func (s *stream) Read(p []byte) (int, error) {
	if s.err != nil {
		return 0, s.err
	}
	n, err := s.ReadCloser.Read(p)
	s.ids = s.ids || bytes.Contains(p[:n], []byte("id:"))
	switch {
	case n > 0:
		return n, nil // an error comes again
	case err == nil:
		return 0, nil
	case s.ids, s.over, time.Since(s.since) < longStream:
		s.err = err
		return 0, err
	}
	body, againErr := s.again()
	if againErr != nil {
		s.err = err
		return 0, err
	}
	s.ReadCloser.Close()
	s.ReadCloser, s.since = body, time.Now()
	return copy(p, "\n\n"), nil // the end of whatever was cut
}

// watch returns a function that reads messages like another one, and notes the server's answer.
func (s *stream) watch(read func([]byte) []byte) func([]byte) []byte {
	return func(message []byte) []byte {
		var answer struct {
			Method string          `json:"method"`
			ID     json.RawMessage `json:"id"`
		}
		if json.Unmarshal(message, &answer) == nil && answer.Method == "" && answer.ID != nil {
			s.over = true
		}
		return read(message)
	}
}

// openLater answers a request for the stream at once, and makes it when the stream is read. Some servers,
// and proxies before them, send the head of their answer with the first event only; the SDK would wait for
// it before it does anything else, and without end. If there is no stream, the answer is one on which
// nothing ever comes.
func openLater(request *http.Request, do func(*http.Request) (*http.Response, error)) *http.Response {
	if request.Body != nil {
		request.Body.Close()
	}
	return &http.Response{
		Status: "200 OK", StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, ContentLength: -1, Request: request,
		Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: &laterStream{request: request, do: do},
	}
}

// laterStream is the body of such an answer.
type laterStream struct {
	request *http.Request
	do      func(*http.Request) (*http.Response, error)
	body    io.ReadCloser
	err     error // why there is none
}

// Read implements [io.Reader].
func (l *laterStream) Read(p []byte) (int, error) {
	if l.body == nil && l.err == nil {
		l.body, l.err = l.open()
	}
	if l.err != nil {
		return 0, l.err
	}
	return l.body.Read(p)
}

// open returns the stream, or waits for the end of the session if there is none.
func (l *laterStream) open() (io.ReadCloser, error) {
	request, err := repeat(l.request)
	if err != nil {
		return nil, err
	}
	response, err := l.do(request)
	if err != nil {
		return nil, err
	}
	if isStream(response) {
		return response.Body, nil
	}
	response.Body.Close()
	<-request.Context().Done()
	return nil, request.Context().Err()
}

// Close implements [io.Closer].
func (l *laterStream) Close() error {
	if l.body == nil {
		return nil
	}
	return l.body.Close()
}
