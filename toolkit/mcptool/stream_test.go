package mcptool

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// TestCutStream has streams of notifications that a proxy cuts.
func TestCutStream(t *testing.T) {
	t.Parallel()
	const second = "data: []\nid: 2\n\n" // with an id its end is final
	long, soon := time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	for name, c := range map[string]struct {
		first string
		since time.Time
		gone  bool // it cannot be opened again
		want  string
	}{
		"silent":             {first: "", since: long, want: "\n\n" + second},
		"with an event":      {first: "data: {}\n\n", since: long, want: "data: {}\n\n\n\n" + second},
		"with event ids":     {first: "id: 1\ndata: {}\n\n", since: long, want: "id: 1\ndata: {}\n\n"},
		"cut at once":        {first: "data: {}\n\n", since: soon, want: "data: {}\n\n"},
		"ended by an answer": {first: "data: {\"id\":1,\"result\":{}}\n\n", since: long, want: "data: {\"id\":1,\"result\":{}}\n\n"},
		"no longer there":    {first: "data: {}\n\n", since: long, gone: true, want: "data: {}\n\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &stream{ReadCloser: io.NopCloser(strings.NewReader(c.first)), since: c.since, again: func() (io.ReadCloser, error) {
				if c.gone {
					return nil, errors.New("connection refused")
				}
				return io.NopCloser(strings.NewReader(second)), nil
			}}
			read := s.watch(func(message []byte) []byte { return message })
			if got, err := io.ReadAll(messagesOf(s, read, false, nil)); err != nil || string(got) != c.want {
				t.Errorf("got %q, %v, want %q", got, err, c.want)
			}
		})
	}
}

// TestStreamOfARequest opens a stream again that is the answer to a request with a body, once the server is
// back. What it missed is asked for. A server that refuses is not asked again.
func TestStreamOfARequest(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	h := serveHandler(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch asked.Add(1) {
		case 2, 3:
			w.WriteHeader(http.StatusBadGateway)
			return
		case 5:
			w.WriteHeader(http.StatusNotFound)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.Copy(w, r.Body)
	}))
	var reopened int
	r := &remote{
		config: Server{Type: TypeHTTP, URL: h.url}, reopened: func() { reopened++ },
		read: func(message []byte) []byte { return message }, trace: func(context.Context, http.Header) {}, pause: time.Millisecond, longest: time.Millisecond,
	}
	if _, err := r.connect(); err != nil {
		t.Fatal(err)
	}
	defer r.stop()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.url, strings.NewReader(": listen\n"))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Mcp-Method", "subscriptions/listen")
	response, err := r.client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	read := func(name string, stream io.Reader) {
		if got, err := io.ReadAll(stream); err != nil || string(got) != ": listen\n" {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
	}
	read("first", response.Body)
	transport := r.client.Transport.(*headerTransport)
	body, err := transport.again(request)
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	read("second", body)
	if _, err := transport.again(request); !errors.Is(err, errNoStream) {
		t.Errorf("got %v", err)
	}
	if n := asked.Load(); reopened != 1 || n != 5 {
		t.Errorf("asked %d times, reopened %d times", n, reopened)
	}
}

// TestStreamWithoutHead has a server that answers the request for its stream with the first event only,
// which never comes.
func TestStreamWithoutHead(t *testing.T) {
	t.Parallel()
	var asked atomic.Bool
	next := newHTTPHandler(t)
	h := serveHandler(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			asked.Store(true)
			<-r.Context().Done()
			return
		}
		next.ServeHTTP(w, r)
	}))
	b := open(t, map[string]Server{"s": {Type: TypeHTTP, URL: h.url}})
	for !asked.Load() {
		if result := b.call(t, "s__echo", `{"text":"x"}`); result.Model != "x" {
			t.Fatalf("got %+v\n%s", result, b.log)
		}
	}
}
