package webtools

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"voicebridge/internal/testkit"
	"voicebridge/toolkit"
)

func TestRedirects(t *testing.T) {
	t.Parallel()
	echo := func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s|%s|auth=%s cookie=%s key=%s lang=%s referer=%s", r.Method, body, r.Header.Get("Authorization"), r.Header.Get("Cookie"), r.Header.Get("X-Api-Key"), r.Header.Get("Accept-Language"), r.Referer())
	}
	other := serve(t, echo)
	otherHost := strings.Replace(other.URL, "127.0.0.1", "other.test", 1)
	var back string
	there := serve(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, back, http.StatusFound) })
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/echo":
			echo(w, r)
		case "/loop":
			http.Redirect(w, r, "/loop", http.StatusFound)
		case "/empty":
			w.WriteHeader(http.StatusFound)
		case "/bad":
			w.Header().Set("Location", "http://[::1")
			w.WriteHeader(http.StatusFound)
		default:
			code := http.StatusFound
			fmt.Sscanf(r.URL.Query().Get("code"), "%d", &code)
			w.Header().Set("Location", r.URL.Query().Get("to"))
			w.WriteHeader(code)
		}
	})
	back = s.URL + "/echo"
	c := loopback(t, s, other, there)
	c.resolver = (&names{answers: map[string][][]string{"other.test": {{"127.0.0.1"}}}}).resolver()
	router := newRouter(t, c)
	secrets := object{"Authorization": "Bearer secret", "Cookie": "a=secret", "X-Api-Key": "secret", "Accept-Language": "de"}
	to := func(target string, code int) string {
		return fmt.Sprintf("%s/?token=secret&code=%d&to=%s", s.URL, code, urlQuery(target))
	}
	const kept, dropped = "auth=Bearer secret cookie=a=secret key=secret lang=de referer=", "auth= cookie= key= lang=de referer="
	for name, tc := range map[string]struct {
		url, method, body, want string
		status                  int
	}{
		"same origin":              {to("/echo", 302), "GET", "", "GET||" + kept, 200},
		"same origin, post":        {to("/echo", 302), "POST", "x", "GET||" + kept, 200},
		"same origin, 307":         {to("/echo", 307), "POST", "x", "POST|x|" + kept, 200},
		"other port":               {to(other.URL, 302), "GET", "", "GET||" + dropped, 200},
		"other host":               {to(otherHost, 302), "GET", "", "GET||" + dropped, 200},
		"other host, post":         {to(otherHost, 303), "POST", "secret", "GET||" + dropped, 200},
		"other host, post, 307":    {to(otherHost, 307), "POST", "secret", "", 307},
		"other host, put, 308":     {to(otherHost, 308), "PUT", "secret", "", 308},
		"other host, delete, 307":  {to(otherHost, 307), "DELETE", "", "DELETE||" + dropped, 200},
		"there and back":           {to(there.URL, 302), "GET", "", "GET||" + dropped, 200},
		"not a redirect: location": {to("http://127.0.0.2/", 200), "GET", "", "", 200},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := get(t, router, object{"url": tc.url, "method": tc.method, "headers": secrets, "body": tc.body})
			if got.Body != tc.want || got.Status != tc.status {
				t.Errorf("got %d %q, want %d %q", got.Status, got.Body, tc.status, tc.want)
			}
			if tc.status >= 300 && got.Headers["location"] == "" {
				t.Error("the model does not see where to")
			}
		})
	}
	for path, want := range map[string]string{
		"/loop":  "redirects more than 5 times",
		"/empty": "",
		"/bad":   "failed to parse Location header",
	} {
		result := call(t, router, "http", object{"url": s.URL + path})
		if !strings.Contains(result.Error, want) || want == "" && result.Failed() {
			t.Errorf("%s: got %q, want %q", path, result.Error, want)
		}
	}
}

func TestSameOrigin(t *testing.T) {
	t.Parallel()
	a := newAddresses(Config{AllowPorts: []int{8080, 8443}, ownAddresses: func() ([]net.Addr, error) { return nil, nil }})
	for _, tc := range []struct {
		from, to string
		want     bool
	}{
		{"https://a.test/", "https://a.test:443/x", true},
		{"https://a.test/", "https://A.test/x", true},
		{"http://a.test/", "https://a.test/", true},
		{"https://a.test/", "http://a.test/", false},
		{"https://a.test/", "https://b.a.test/", false},
		{"https://a.test/", "https://a.test.b.test/", false},
		{"https://a.test/", "https://a.test:8443/", false},
		{"http://a.test:8080/", "https://a.test:8443/", false},
	} {
		from, err := a.ParseURL(tc.from)
		must(t, err)
		to, err := a.ParseURL(tc.to)
		must(t, err)
		if got := sameOrigin(from, to); got != tc.want {
			t.Errorf("%s to %s: got %v", tc.from, tc.to, got)
		}
	}
}

// endless writes chunks until the client stops reading, or to 1 GiB, and sends to full how
// many bytes were written.
func endless(w io.Writer, chunk []byte, full chan<- int) {
	total := 0
	for total < 1<<30 {
		n, err := w.Write(chunk)
		total += n
		if err != nil {
			break
		}
	}
	full <- total
}

// flushing sends at once what was written.
type flushing struct {
	*gzip.Writer
	flusher http.Flusher
}

func (f flushing) Write(p []byte) (int, error) {
	n, err := f.Writer.Write(p)
	if err == nil {
		err = f.Writer.Flush()
	}
	f.flusher.Flush()
	return n, err
}

func TestEndlessBodies(t *testing.T) {
	t.Parallel()
	sent := make(chan int, 2)
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		if r.URL.Path == "/gzip" {
			// Zeros, a thousand to a byte.
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			endless(flushing{z, w.(http.Flusher)}, []byte(strings.Repeat("0", 1<<20)), sent)
			return
		}
		endless(w, []byte(strings.Repeat("quote \" and more\n", 1<<12)), sent)
	})
	router := newRouter(t, loopback(t, s))
	for _, path := range []string{"/plain", "/gzip"} {
		result := call(t, router, "http", object{"url": s.URL + path})
		if result.Failed() {
			t.Fatal(result.Error)
		}
		got := parse[httpOutput](t, result.Output)
		if len(got.Body) != maxBody || !got.Truncated || !got.OK {
			t.Errorf("%s: got %d bytes, truncated %v", path, len(got.Body), got.Truncated)
		}
		model := parse[httpOutput](t, []byte(result.Model))
		if len(result.Model) > maxModelOutput || len(model.Body) < maxModelOutput/2 || !model.Truncated || model.Status != 200 {
			t.Errorf("%s: the model gets %d bytes, %d of the body", path, len(result.Model), len(model.Body))
		}
		if n := testkit.Take(t, "that it is sent", sent); n >= 1<<30 {
			t.Errorf("%s: all %d bytes were sent", path, n)
		}
	}
}

func TestBrokenServers(t *testing.T) {
	t.Parallel()
	flood := strings.Repeat("X-A: "+strings.Repeat("x", 1000)+"\r\n", 200)
	answers := map[string]struct{ say, want string }{
		"header flood":      {"HTTP/1.1 200 OK\r\n" + flood + "\r\n", "exceeded"},
		"endless header":    {"HTTP/1.1 200 OK\r\nX-A: " + strings.Repeat("x", 1<<20), "exceeded"},
		"endless status":    {"HTTP/1.1 200 " + strings.Repeat("x", 1<<20), "exceeded"},
		"hints":             {strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: "+strings.Repeat("x", 1000)+"\r\n\r\n", 500), "exceeded"},
		"not HTTP":          {"SSH-2.0-OpenSSH_9.9\r\n\r\n", "malformed HTTP"},
		"nothing":           {"", "closed the connection"},
		"short body":        {"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhello", "closed the connection in the middle"},
		"bad chunk":         {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "invalid byte in chunk length"},
		"two lengths":       {"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nhi", "Content-Length"},
		"negative length":   {"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\nhi", "Content-Length"},
		"bad gzip":          {"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 15\r\n\r\nhello and again", "invalid header"},
		"control in status": {"HTTP/1.1 200 \x1b[31m\r\nContent-Length: 0\r\n\r\n", ""},
	}
	for name, a := range answers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, err := net.Listen("tcp", "127.0.0.1:0")
			must(t, err)
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				conn, err := l.Accept()
				if err != nil {
					return
				}
				defer conn.Close()
				http.ReadRequest(bufio.NewReader(conn))
				io.WriteString(conn, a.say)
			}()
			t.Cleanup(func() { l.Close(); <-ended })
			c := Config{AllowPrefixes: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, AllowPorts: []int{l.Addr().(*net.TCPAddr).Port}}
			result := call(t, newRouter(t, c), "http", object{"url": "http://" + l.Addr().String()})
			if a.want == "" {
				if got := parse[httpOutput](t, result.Output); got.StatusText != "\uFFFD[31m" {
					t.Errorf("got %+v", got)
				}
				return
			}
			if !strings.Contains(result.Error, a.want) || !utf8.ValidString(result.Error) || len(result.Error) > 400 {
				t.Errorf("got %q, want %q", result.Error, a.want)
			}
		})
	}
}

func TestCertificatesAreChecked(t *testing.T) {
	t.Parallel()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the request was sent") }))
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	s.StartTLS()
	t.Cleanup(s.Close)
	result := call(t, newRouter(t, loopback(t, s)), "http", object{"url": s.URL + "/?token=canary"})
	if !strings.Contains(result.Error, "certificate") || strings.Contains(result.Error, "canary") {
		t.Errorf("got %q", result.Error)
	}
}

func TestSlowServers(t *testing.T) {
	t.Parallel()
	const tries = 20
	came, gone := make(chan struct{}, tries), make(chan struct{}, tries)
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		came <- struct{}{}
		if r.URL.Path != "/silent" {
			io.WriteString(w, "one byte at a time")
			w.(http.Flusher).Flush()
		}
		<-r.Context().Done() // the client hangs up
		gone <- struct{}{}
	})
	inTime := func(limit time.Duration) Config { // the operator's limit is lower than the model's
		c := loopback(t, s)
		c.Timeout = limit
		return c
	}
	for name, ask := range map[string]func(limit time.Duration) toolkit.Result{
		"silent": func(limit time.Duration) toolkit.Result {
			return call(t, newRouter(t, loopback(t, s)), "http", object{"url": s.URL + "/silent", "timeout": limit.Milliseconds()})
		},
		"drip": func(limit time.Duration) toolkit.Result {
			return call(t, newRouter(t, loopback(t, s)), "http", object{"url": s.URL + "/drip", "timeout": limit.Milliseconds()})
		},
		"operator": func(limit time.Duration) toolkit.Result {
			return call(t, newRouter(t, inTime(limit)), "http", object{"url": s.URL + "/silent", "timeout": 60000})
		},
	} {
		// On a busy machine the client may give up before its request has arrived.
		seen := false
		for try := 0; !seen && try < tries/4; try++ {
			if result := ask(150 * time.Millisecond << try); result.Error != "127.0.0.1 did not answer in time" {
				t.Errorf("%s: got %q", name, result.Error)
			}
			select {
			case <-came:
				testkit.Take(t, "that it is gone", gone)
				seen = true
			default:
			}
		}
		if !seen {
			t.Errorf("%s: no request came", name)
		}
	}
}

func TestNoProxyAndNoStateBetweenRequests(t *testing.T) {
	t.Parallel()
	g := newGuard(Config{}.withDefaults())
	transport := g.http.Transport.(*http.Transport)
	if transport.Proxy != nil || !transport.DisableKeepAlives || g.http.Jar != nil {
		t.Error("the guarded client uses a proxy, or keeps sockets or cookies")
	}
	if newService("x", "http://x", "").client.Transport.(*http.Transport).Proxy != nil {
		t.Error("the client of search services uses a proxy")
	}
}

func TestSlotsAreWaitedFor(t *testing.T) {
	t.Parallel()
	first, release := make(chan struct{}), make(chan struct{})
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			close(first)
			<-release
		}
		io.WriteString(w, "done")
	})
	c := loopback(t, s)
	c.maxConcurrent = 1
	router := newRouter(t, c)
	var wg sync.WaitGroup
	wg.Go(func() { get(t, router, object{"url": s.URL + "/slow"}) })
	testkit.Take(t, "the first", first)
	if result := call(t, router, "http", object{"url": s.URL, "timeout": 50}); result.Error != "127.0.0.1 did not answer in time" {
		t.Errorf("got %q", result.Error)
	}
	close(release)
	wg.Wait()
	if got := get(t, router, object{"url": s.URL}); got.Body != "done" {
		t.Errorf("got %q", got.Body)
	}
}
