package llmtest

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/hex"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// exchange is an answer as a server sends it.
type exchange struct {
	status int
	header http.Header
	body   []byte
	mark   string // how the body ends: "cut", "hang", or empty if complete
	piece  int    // bytes sent at once; 0: all; -1: a line
}

var directive = regexp.MustCompile(`<<(cut|hang|long \d+|[0-9a-f]{2})>>`)

// exchange reads one of the adapter's exchanges.
func (w Wire) exchange(t *testing.T, name string) exchange {
	t.Helper()
	if reason := w.Without[name]; reason != "" {
		if _, err := os.Stat(w.file("exchanges", name+".http")); err == nil {
			t.Errorf("the exchange %s exists, but is declared not to: %s", name, reason)
		}
		return exchange{}
	}
	text, err := os.ReadFile(w.file("exchanges", name+".http"))
	if err != nil {
		t.Fatalf("read exchange: %v", err)
	}
	return parse(t, text)
}

// file returns the path of one of the adapter's files.
func (w Wire) file(folder, name string) string {
	return filepath.Join(cmp.Or(w.Dir, "testdata"), folder, name)
}

// parse reads an exchange.
func parse(t *testing.T, text []byte) exchange {
	t.Helper()
	resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(text)), nil)
	if err != nil {
		t.Fatalf("read exchange: %v", err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("read exchange: %v", err)
	}
	x := exchange{status: resp.StatusCode, header: resp.Header}
	for {
		at := directive.FindSubmatchIndex(body)
		if at == nil {
			x.body = append(x.body, body...)
			return x
		}
		x.body = append(x.body, body[:at[0]]...)
		word := string(body[at[2]:at[3]])
		body = body[at[1]:]
		count, long := strings.CutPrefix(word, "long ")
		switch {
		case word == "cut" || word == "hang":
			x.mark = word
			return x
		case long:
			n, _ := strconv.Atoi(count) // digits only
			x.body = append(x.body, bytes.Repeat([]byte("x"), n)...)
		default:
			raw, _ := hex.DecodeString(word) // two digits
			x.body = append(x.body, raw...)
		}
	}
}

// server answers every request with one exchange and records the requests.
type server struct {
	*httptest.Server
	gone chan struct{} // closed when a client has disconnected during <<hang>>

	mu       sync.Mutex
	requests []*http.Request
	bodies   [][]byte
}

// serve starts a server. It ends with the test, after its last request.
func serve(t *testing.T, x exchange) *server {
	t.Helper()
	s := &server{gone: make(chan struct{})}
	var once sync.Once
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Errorf("the server read the request: %v", err)
		}
		s.mu.Lock()
		s.requests, s.bodies = append(s.requests, r), append(s.bodies, body)
		s.mu.Unlock()
		maps.Copy(w.Header(), x.header)
		w.WriteHeader(x.status)
		_ = http.NewResponseController(w).Flush()
		send(w, x.body, x.piece)
		switch x.mark {
		case "cut":
			panic(http.ErrAbortHandler)
		case "hang":
			<-r.Context().Done()
			once.Do(func() { close(s.gone) })
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// send writes bytes in pieces, each of which reaches the client separately.
func send(w http.ResponseWriter, body []byte, piece int) {
	flusher := http.NewResponseController(w)
	for len(body) > 0 {
		n := len(body)
		switch {
		case piece > 0:
			n = min(n, piece)
		case piece < 0:
			n = bytes.IndexByte(body, '\n') + 1
			if n == 0 {
				n = len(body)
			}
		}
		if _, err := w.Write(body[:n]); err != nil {
			return // the client may have disconnected
		}
		_ = flusher.Flush()
		body = body[n:]
	}
}

// client returns a client with its own connections, which end with the test.
func (s *server) client(t *testing.T) *http.Client {
	t.Helper()
	transport := &http.Transport{DisableCompression: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// seen returns the recorded requests.
func (s *server) seen() ([]*http.Request, [][]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests, s.bodies
}
