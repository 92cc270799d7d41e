package webtools

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"voicebridge/internal/testkit"
)

func TestHTTPSendsAndReturnsAll(t *testing.T) {
	t.Parallel()
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/json")
		w.Header().Add("X-Many", "a")
		w.Header().Add("X-Many", "b")
		w.Header()["Date"] = nil
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, `{"method":%q,"body":%q,"token":%q,"agent":%q,"query":%q,"length":%d}`, r.Method, body, r.Header.Get("Authorization"), r.UserAgent(), r.URL.RawQuery, r.ContentLength)
	})
	router := newRouter(t, loopback(t, s))
	for _, method := range []string{"POST", "PUT", "PATCH", "DELETE", "OPTIONS"} {
		got := get(t, router, object{"url": s.URL + "/x?a=1#f", "method": method, "headers": object{"authorization": "Bearer t", "user-agent": "me", "Content-Length": "99"}, "body": "hallö", "timeout": 5000})
		want := httpOutput{
			Status: 201, StatusText: "Created", OK: true, URL: s.URL + "/x?a=1",
			Body: fmt.Sprintf(`{"method":%q,"body":"hallö","token":"Bearer t","agent":"me","query":"a=1","length":6}`, method),
		}
		want.Headers = map[string]string{"content-type": "application/json", "x-many": "a, b", "content-length": fmt.Sprint(len(want.Body))}
		testkit.Equal(t, got, want, "%s", method)
	}
	got := get(t, router, object{"url": s.URL})
	if !strings.Contains(got.Body, `"method":"GET","body":"","token":"","agent":"`+userAgent) {
		t.Errorf("got %s", got.Body)
	}
	if got = get(t, router, object{"url": s.URL, "method": "HEAD"}); got.Body != "" || got.Status != 201 {
		t.Errorf("HEAD: got %+v", got)
	}
}

func TestHTTPStatusIsNoFailure(t *testing.T) {
	t.Parallel()
	s := serve(t, func(w http.ResponseWriter, r *http.Request) { http.Error(w, "not here", http.StatusNotFound) })
	got := get(t, newRouter(t, loopback(t, s)), object{"url": s.URL})
	if got.OK || got.Status != 404 || got.StatusText != "Not Found" || got.Body != "not here\n" {
		t.Errorf("got %+v", got)
	}
}

func TestHTTPRefusals(t *testing.T) {
	t.Parallel()
	var hits sync.Map
	s := serve(t, func(_ http.ResponseWriter, r *http.Request) { hits.Store(r.URL.Path, true) })
	router := newRouter(t, loopback(t, s))
	header := func(name, value string) object { return object{"url": s.URL, "headers": object{name: value}} }
	many := object{}
	for i := range 65 {
		many[fmt.Sprintf("X-%d", i)] = "v"
	}
	for name, tc := range map[string]struct {
		input any
		want  string
	}{
		"no url":           {object{}, `["url"]`},
		"empty url":        {object{"url": ""}, "url: minLength"},
		"url is a number":  {object{"url": 5}, "url: type"},
		"long url":         {object{"url": s.URL + "/" + strings.Repeat("x", 9000)}, "url: maxLength"},
		"method":           {object{"url": s.URL, "method": "CONNECT"}, "method: enum"},
		"method in lower":  {object{"url": s.URL, "method": "get"}, "method: enum"},
		"headers list":     {object{"url": s.URL, "headers": []string{"a"}}, "headers: type"},
		"header number":    {object{"url": s.URL, "headers": object{"a": 1}}, "headers.*: type"},
		"body object":      {object{"url": s.URL, "method": "POST", "body": object{}}, "body: type"},
		"body of GET":      {object{"url": s.URL, "body": "x"}, "body: a GET request has none"},
		"timeout zero":     {object{"url": s.URL, "timeout": 0}, "timeout: minimum"},
		"timeout text":     {object{"url": s.URL, "timeout": "1s"}, "timeout: type"},
		"unknown field":    {object{"url": s.URL, "proxy": "http://x"}, "proxy"},
		"not JSON":         {`{"url":`, "not valid JSON"},
		"line break":       {header("X-A", "a\r\nHost: b"), "characters that cannot be sent"},
		"null byte":        {header("X-A", "a\x00b"), "characters that cannot be sent"},
		"name":             {header("X A", "b"), "not a valid name"},
		"empty name":       {header("", "b"), "not a valid name"},
		"name with colon":  {header("Host:", "b"), "not a valid name"},
		"twice":            {object{"url": s.URL, "headers": object{"x-a": "1", "X-A": "2"}}, "given twice"},
		"many":             {object{"url": s.URL, "headers": many}, "the limit is 64"},
		"long":             {header("X-A", strings.Repeat("x", 17000)), "longer than 16384 bytes"},
		"host":             {header("Host", "internal"), "Host must not be set"},
		"host in lower":    {header("hOsT", "internal"), "Host must not be set"},
		"hop by hop":       {header("Transfer-Encoding", "chunked"), "must not be set"},
		"connection":       {header("Connection", "Authorization"), "must not be set"},
		"upgrade":          {header("Upgrade", "websocket"), "must not be set"},
		"forged address":   {header("X-Forwarded-For", "127.0.0.1"), "must not be set"},
		"forged address 2": {header("x-real-ip", "127.0.0.1"), "must not be set"},
		"forged address 3": {header("Forwarded", "for=127.0.0.1"), "must not be set"},
		"proxy":            {header("Proxy-Authorization", "Basic x"), "must not be set"},
		"metadata":         {header("Metadata-Flavor", "Google"), "must not be set"},
		"metadata of AWS":  {header("X-aws-ec2-metadata-token", "x"), "must not be set"},
		"browser":          {header("Sec-Fetch-Site", "same-origin"), "must not be set"},
		"rewritten path":   {header("X-Original-URL", "/admin"), "must not be set"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			result := call(t, router, "http", tc.input)
			if !strings.Contains(result.Error, tc.want) {
				t.Errorf("got %q, want %q", result.Error, tc.want)
			}
		})
	}
	t.Cleanup(func() {
		hits.Range(func(path, _ any) bool { t.Errorf("a refused request was sent to %v", path); return true })
	})
}

func TestBodies(t *testing.T) {
	t.Parallel()
	png := "\x89PNG\r\n\x1a\n" + strings.Repeat("\x00\x01", 100)
	bodies := map[string]struct{ contentType, body, want string }{
		"/utf8":        {"text/plain; charset=utf-8", "grüße", "grüße"},
		"/bom":         {"text/plain", "\xef\xbb\xbfgrüße", "grüße"},
		"/latin1":      {"text/plain; charset=iso-8859-1", "gr\xfc\xdfe", "grüße"},
		"/guess":       {"text/plain", "gr\xfc\xdfe", "grüße"},
		"/late utf8":   {"text/plain", strings.Repeat("x", 2000) + "grüße", strings.Repeat("x", 2000) + "grüße"},
		"/sjis":        {"text/html; charset=Shift_JIS", "\x93\xfa\x96{", "日本"},
		"/meta":        {"text/html", "<meta charset=windows-1251>\xcf\xf0\xe8\xe2\xe5\xf2", "<meta charset=windows-1251>Привет"},
		"/utf16":       {"text/plain; charset=utf-16le", "h\x00i\x00", "hi"},
		"/utf16 bom":   {"text/plain", "\xff\xfeh\x00i\x00", "hi"},
		"/unknown set": {"text/plain; charset=klingon", "hi", "hi"},
		"/json":        {"application/problem+json", `{"a":"ü"}`, `{"a":"ü"}`},
		"/untyped":     {"", "just words", "just words"},
		"/octets":      {"application/octet-stream", "just words", "just words"},
		"/bad type":    {"////", "just words", "just words"},
		"/control":     {"text/plain", "a\x1b[31mb\x07\nc", "a\uFFFD[31mb\uFFFD\nc"},
		"/invalid":     {"text/plain; charset=utf-8", "a\xff\xfe\xfdb", "a\uFFFDb"},
		"/png":         {"image/png", png, "[binary: image/png, 208 bytes]"},
		"/png untyped": {"", png, "[binary: image/png, 208 bytes]"},
		"/lying":       {"text/plain", "a\x00b", "[binary: text/plain, 3 bytes]"},
		"/pdf":         {"application/pdf", "%PDF-1.7", "[binary: application/pdf, 8 bytes]"},
		"/empty":       {"image/png", "", ""},
		"/markup":      {"text/plain", "<script>&amp;\u2028", "<script>&amp;\u2028"},
	}
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		b := bodies[r.URL.Path]
		w.Header()["Content-Type"] = nil
		if b.contentType != "" {
			w.Header().Set("Content-Type", b.contentType)
		}
		io.WriteString(w, b.body)
	})
	router := newRouter(t, loopback(t, s))
	for path, b := range bodies {
		t.Run(path[1:], func(t *testing.T) {
			t.Parallel()
			if got := get(t, router, object{"url": s.URL + strings.ReplaceAll(path, " ", "%20")}); got.Body != b.want {
				t.Errorf("got %q, want %q", got.Body, b.want)
			}
		})
	}
}

func TestCancelAndStop(t *testing.T) {
	t.Parallel()
	arrived, gone := make(chan struct{}, 9), make(chan struct{}, 9)
	s := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		<-r.Context().Done()
		gone <- struct{}{}
	})
	router := newRouter(t, loopback(t, s))
	for name, input := range map[string]object{"http": {"url": s.URL}, "webContent": {"urls": []string{s.URL + "/a", s.URL + "/b"}}} {
		ctx, cancel := context.WithCancelCause(t.Context())
		calls := 1
		if name == "webContent" {
			calls = 2
		}
		go func() {
			for range calls {
				<-arrived
			}
			cancel(errors.New("the caller hung up"))
		}()
		result, seen := callWithProgress(t, ctx, router, name, input)
		if !strings.Contains(result.Error, "the caller hung up") {
			t.Errorf("%s: got %q", name, result.Error)
		}
		if len(seen) == 0 || !strings.Contains(string(seen[0].Data), `"status":"loading"`) {
			t.Errorf("%s: got %d progress chunks", name, len(seen))
		}
		for range calls {
			testkit.Take(t, "that it is gone", gone)
		}
	}
}

func TestConsumerStops(t *testing.T) {
	t.Parallel()
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "text") })
	for _, tool := range New(loopback(t, s)) {
		for stopAt := range 3 {
			n := 0
			for _, err := range tool.Call(t.Context(), callOf(fmt.Sprintf(`{"url":%q,"urls":[%q]}`, s.URL, s.URL))) {
				if err != nil {
					t.Error(err)
				}
				if n == stopAt {
					break
				}
				n++
			}
			testkit.Equal(t, n, stopAt, "%s: chunks, want to stop", tool.Definition().Name)
		}
	}
}

func TestHTTPTimeout(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		limit        time.Duration
		milliseconds float64
		want         time.Duration
	}{
		{25 * time.Second, 0, 10 * time.Second},
		{2 * time.Second, 0, 2 * time.Second},
		{25 * time.Second, 1, time.Millisecond},
		{25 * time.Second, 1500.5, 1500500 * time.Microsecond},
		{25 * time.Second, 25000, 25 * time.Second},
		{25 * time.Second, 300000, 25 * time.Second},
		{25 * time.Second, 1e300, 25 * time.Second},
	} {
		testkit.Equal(t, (httpTool{timeout: c.limit, usual: defaultHTTPTimeout}).limitFor(c.milliseconds), c.want, "%v milliseconds with a limit of %v", c.milliseconds, c.limit)
	}
	for limit, want := range map[time.Duration]string{
		7 * time.Second:  `"default":7000,"description":"Time limit in milliseconds, up to 7000;`,
		50 * time.Second: `"default":10000,"description":"Time limit in milliseconds, up to 50000;`,
	} {
		for _, tool := range New(Config{Timeout: limit}) {
			if d := tool.Definition(); d.Name == "http" && !strings.Contains(string(d.Parameters), want) {
				t.Errorf("a limit of %v: got %s", limit, d.Parameters)
			}
		}
	}
}

// TestHTTPWrites says which requests change something.
func TestHTTPWrites(t *testing.T) {
	t.Parallel()
	for arguments, want := range map[string]bool{
		`{"url":"https://example.org"}`: false, `{"method":"GET"}`: false, `{"method":"HEAD"}`: false, `{"method":""}`: false,
		`{"method":"POST"}`: true, `{"method":"DELETE"}`: true, `{"method":"OPTIONS"}`: true, `{"method":"get"}`: true,
		`{"method":"GET","Method":"POST"}`: true, `{"method":["GET"]}`: true, `{"method":`: true, ``: true,
	} {
		if got := (requestTool{}).Writes(arguments); got != want {
			t.Errorf("Writes(%s) = %v", arguments, got)
		}
	}
}
