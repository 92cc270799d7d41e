package mcptool

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"net/http"
	"time"
)

// longStream is how long a stream must have lasted to be opened again at once.
const longStream = 10 * time.Second

// stream is the stream on which a server of streamable HTTP sends notifications outside of calls.
// Proxies cut it when nothing has been sent for a minute or so. The SDK counts each such cut, and after a
// few of them ends the session with its running calls; so the stream is opened again before the SDK sees
// its end. If it has event ids, the SDK does better: it asks for the events that were missed.
type stream struct {
	io.ReadCloser
	again func() (io.ReadCloser, error)
	since time.Time
	ids   bool // there are event ids
}

// streamOf returns the body of the answer to a request for the stream. ask makes the request again.
func streamOf(response *http.Response, ask func() (*http.Response, error)) io.ReadCloser {
	if !isStream(response) {
		return response.Body
	}
	again := func() (io.ReadCloser, error) {
		next, err := ask()
		if err != nil {
			return nil, err
		}
		if !isStream(next) {
			next.Body.Close()
			return nil, errors.New("the server has no stream any longer")
		}
		return next.Body, nil
	}
	return &stream{ReadCloser: response.Body, again: again, since: time.Now()}
}

// isStream reports whether an answer is a stream of events.
func isStream(response *http.Response) bool {
	kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	return response.StatusCode == http.StatusOK && kind == "text/event-stream"
}

// Read implements [io.Reader].
func (s *stream) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	s.ids = s.ids || bytes.Contains(p[:n], []byte("id:"))
	switch {
	case n > 0:
		return n, nil // an error comes again
	case err == nil, s.ids, time.Since(s.since) < longStream:
		return 0, err
	}
	body, againErr := s.again()
	if againErr != nil {
		return 0, err
	}
	s.ReadCloser.Close()
	s.ReadCloser, s.since = body, time.Now()
	return copy(p, "\n\n"), nil // the end of whatever was cut
}
