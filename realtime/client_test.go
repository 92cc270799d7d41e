package realtime

import (
	"context"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"voicebridge/internal/testkit"
)

const (
	testKey    = "sk-canary-0123456789"
	testAnswer = "v=0\r\no=- 1 1 IN IP4 0.0.0.0\r\ns=-\r\nt=0 0\r\nm=audio 9 UDP/TLS/RTP/SAVPF 111\r\n"
)

// serve starts a server for one test and a client for it.
func serve(t *testing.T, h http.HandlerFunc) *Client {
	t.Helper()
	ts := httptest.NewServer(h)
	t.Cleanup(ts.Close)
	transport := &http.Transport{DisableKeepAlives: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &Client{BaseURL: ts.URL + "/v1/", APIKey: testKey, HTTP: &http.Client{Transport: transport}, SafetyIdentifier: "user-hash"}
}

func TestCreateCall(t *testing.T) {
	t.Parallel()
	parts := map[string]string{}
	var problem atomic.Value
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost || r.URL.Path != "/v1/realtime/calls" || r.Header.Get("Authorization") != "Bearer "+testKey ||
			r.Header.Get("OpenAI-Safety-Identifier") != "user-hash" || r.Header.Get("OpenAI-Beta") != "" {
			problem.Store(r.Method + r.URL.Path)
		}
		_, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
		if err != nil {
			problem.Store(err.Error())
		}
		form := multipart.NewReader(r.Body, params["boundary"])
		for {
			p, err := form.NextPart()
			if err != nil {
				break
			}
			b, _ := io.ReadAll(p)
			parts[p.FormName()+" "+p.Header.Get("Content-Type")] = string(b)
		}
		w.Header().Set("Location", "/v1/realtime/calls/rtc_abc123")
		w.WriteHeader(http.StatusCreated)
		io.WriteString(w, testAnswer)
	})
	call, err := c.CreateCall(t.Context(), "v=0 offer", []byte(`{"type":"realtime"}`))
	must(t, err)
	if call != (Call{ID: "rtc_abc123", Location: "/v1/realtime/calls/rtc_abc123", Answer: testAnswer}) {
		t.Errorf("call is %+v", call)
	}
	if parts["sdp application/sdp"] != "v=0 offer" || parts["session application/json"] != `{"type":"realtime"}` || len(parts) != 2 {
		t.Errorf("parts are %q", parts)
	}
	if p := problem.Load(); p != nil {
		t.Errorf("request: %v", p)
	}
}

func TestCreateCallRefused(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		status int
		header string
		body   string
		want   APIError
	}{
		"401":           {401, "", `{"error":{"message":"Incorrect API key provided: ` + testKey + `","type":"invalid_request_error","param":null,"code":"invalid_api_key"}}`, APIError{Status: 401, Type: "invalid_request_error", Code: "invalid_api_key", Message: "Incorrect API key provided: [key]"}},
		"429":           {429, "7", `{"error":{"message":"Slow down","type":"rate_limit_error","code":"rate_limit_exceeded"}}`, APIError{Status: 429, Type: "rate_limit_error", Code: "rate_limit_exceeded", Message: "Slow down", RetryAfter: 7 * time.Second}},
		"500 empty":     {500, "", ``, APIError{Status: 500, Message: `the body is not a JSON error ("text/plain")`}},
		"502 HTML":      {502, "soon", `<html><script>x</script>`, APIError{Status: 502, Message: `the body is not a JSON error ("text/plain")`}},
		"error as text": {400, "", `{"error":"no"}`, APIError{Status: 400, Message: "no"}},
		"numeric code":  {400, "", `{"error":{"code":17,"param":"sdp"}}`, APIError{Status: 400, Code: "17", Param: "sdp", Message: "it gives no reason"}},
		"gateway":       {401, "", `{"statusCode":401,"message":"Access denied."}`, APIError{Status: 401, Message: "Access denied."}},
		"FastAPI":       {404, "", `{"detail":"Not Found"}`, APIError{Status: 404, Message: "Not Found"}},
		"no error":      {400, "", `{"error":null}`, APIError{Status: 400, Message: "it gives no reason"}},
		"error of list": {400, "", `{"error":["x"]}`, APIError{Status: 400, Message: `the body is not a JSON error ("text/plain")`}},
		"redirect":      {307, "", ``, APIError{Status: 307, Message: `it redirects to "/v1/elsewhere", which is not followed: a call must be created once`}},
		"long code":     {400, "", `{"error":{"message":"no","code":"` + strings.Repeat("x", 999) + `"}}`, APIError{Status: 400, Message: "no", Code: strings.Repeat("x", maxName)}},
		"long":          {400, "", `{"error":{"message":"` + strings.Repeat("é", maxMessage) + `"}}`, APIError{Status: 400, Message: strings.Repeat("é", maxMessage/2)}},
		"endless":       {500, "", strings.Repeat("x", maxErrorBody*4), APIError{Status: 500, Message: `the body is not a JSON error ("text/plain")`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var requests atomic.Int32
			c := serve(t, func(w http.ResponseWriter, r *http.Request) {
				requests.Add(1)
				w.Header().Set("Content-Type", "text/plain")
				w.Header().Set("Location", "/v1/elsewhere?secret")
				if tt.header != "" {
					w.Header().Set("Retry-After", tt.header)
				}
				w.WriteHeader(tt.status)
				io.WriteString(w, tt.body)
			})
			call, err := c.CreateCall(t.Context(), "v=0", nil)
			var api *APIError
			if !errors.As(err, &api) || *api != tt.want {
				t.Errorf("error is %+v, want %+v", err, tt.want)
			}
			if strings.Contains(err.Error(), testKey) {
				t.Errorf("the key is in %q", err)
			}
			if call.ID != "" {
				t.Errorf("call %+v beside an error", call)
			}
			testkit.Equal(t, requests.Load(), 1, "requests")
		})
	}
}

func TestCreateCallBadAnswer(t *testing.T) {
	t.Parallel()
	for name, h := range map[string]http.HandlerFunc{
		"HTML":     func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<html>v=0</html>") },
		"JSON":     func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"sdp":"v=0"}`) },
		"empty":    func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) },
		"204":      func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) },
		"no media": func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "v=0\r\ns=-\r\n") },
		"huge": func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, testAnswer+strings.Repeat("a=x\r\n", maxAnswer/4))
		},
		"cut by TCP": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "9999")
			io.WriteString(w, testAnswer)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := serve(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Location", "https://api.example/v1/realtime/calls/rtc_1?x=y")
				h(w, r)
			})
			call, err := c.CreateCall(t.Context(), "v=0", nil)
			if !errors.Is(err, ErrBadAnswer) || call.Answer != "" {
				t.Errorf("call %+v, error %v", call, err)
			}
			if call.ID != "rtc_1" {
				t.Errorf("the id of the call that must be ended is lost: %+v", call)
			}
		})
	}
}

func TestCallID(t *testing.T) {
	t.Parallel()
	for location, want := range map[string]string{
		"": "", "/": "", "rtc_1": "rtc_1", "/v1/realtime/calls/rtc_1": "rtc_1", "/v1/realtime/calls/rtc_1/": "rtc_1",
		"https://h/v1/realtime/calls/4b1d-9?a=b#c": "4b1d-9", "%zz": "", "/v1/realtime/calls/a%2Fb": "a/b", "/v1/realtime/calls/..": "",
		"/v1/realtime/calls/%00": "", "//host/openai/v1/realtime/calls/rtc_1?webrtcfilter=on": "rtc_1", "/" + strings.Repeat("x", 300): "",
	} {
		testkit.Equal(t, callID(location), want, "id of %q", location)
	}
}

func TestCreateCallHangs(t *testing.T) {
	t.Parallel()
	arrived := make(chan struct{})
	release := make(chan struct{})
	c := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		close(arrived)
		<-release
	})
	t.Cleanup(func() { close(release) })
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-arrived
		cancel()
	}()
	if _, err := c.CreateCall(ctx, "v=0", nil); !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v", err)
	}
}

func TestCreateCallTimesOut(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	c := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		<-release
	})
	t.Cleanup(func() { close(release) })
	c.Timeout = 20 * time.Millisecond
	if _, err := c.CreateCall(t.Context(), "v=0", nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error is %v", err)
	}
}

// TestCreateCallOnceOnBrokenConnection checks that no layer below retries a creation when the connection breaks after
// the request was read.
func TestCreateCallOnceOnBrokenConnection(t *testing.T) {
	t.Parallel()
	var requests atomic.Int32
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		io.Copy(io.Discard, r.Body)
		conn, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			conn.Close()
		}
	})
	if _, err := c.CreateCall(t.Context(), "v=0", nil); err == nil {
		t.Error("no error")
	}
	testkit.Equal(t, requests.Load(), 1, "requests")
}

func TestCreateCallNoServer(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	addr := l.Addr().String()
	l.Close()
	c := &Client{CallsURL: "http://" + addr + "/calls?api-key=" + testKey, APIKey: testKey}
	if _, err := c.CreateCall(t.Context(), "v=0", nil); err == nil || strings.Contains(err.Error(), testKey) {
		t.Errorf("error is %v", err)
	}
}

func TestHangup(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		answers  []int
		requests int32
		status   int // of the error; 0: none
	}{
		"ended":          {[]int{200}, 1, 0},
		"gone already":   {[]int{404}, 1, 0},
		"long gone":      {[]int{410}, 1, 0},
		"busy once":      {[]int{503, 200}, 2, 0},
		"limited":        {[]int{429, 500, 204}, 3, 0},
		"refused":        {[]int{401}, 1, 401},
		"always failing": {[]int{500, 500, 500, 200}, 3, 500},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var requests atomic.Int32
			c := serve(t, func(w http.ResponseWriter, r *http.Request) {
				n := requests.Add(1)
				if r.URL.EscapedPath() != "/v1/realtime/calls/rtc%2F..%2F1/hangup" {
					w.WriteHeader(http.StatusTeapot)
					return
				}
				w.WriteHeader(tt.answers[n-1])
			})
			err := c.Hangup(t.Context(), "rtc/../1")
			var api *APIError
			if errors.As(err, &api); (err == nil) != (tt.status == 0) || (api != nil && api.Status != tt.status) {
				t.Errorf("error is %v", err)
			}
			testkit.Equal(t, requests.Load(), tt.requests, "requests")
		})
	}
	if err := (&Client{BaseURL: "http://127.0.0.1:1"}).Hangup(t.Context(), ""); err != nil {
		t.Errorf("a call without id: %v", err)
	}
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	for header, want := range map[string]time.Duration{
		"": 0, "12": 12 * time.Second, "-1": 0, "1e9": 0, "99999999999": 24 * time.Hour, "x": 0,
		"Sat, 21 Nov 2026 10:01:00 GMT": time.Minute, "Sat, 21 Nov 2026 09:00:00 GMT": 0,
	} {
		testkit.Equal(t, retryAfter(header, now), want, "%q", header)
	}
}

// TestClientAddress puts the calls route at any address, and the key into any header.
func TestClientAddress(t *testing.T) {
	t.Parallel()
	type request struct{ path, query, authorization, key string }
	asked := make(chan request, 2)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- request{r.URL.Path, r.URL.RawQuery, r.Header.Get("Authorization"), r.Header.Get("Api-Key")}
		w.WriteHeader(http.StatusNotFound)
	}))
	t.Cleanup(s.Close)
	for name, tt := range map[string]struct {
		client       Client
		call, hangup request
	}{
		"a base":         {Client{BaseURL: s.URL + "/v1/", APIKey: "k"}, request{"/v1/realtime/calls", "", "Bearer k", ""}, request{"/v1/realtime/calls/c/hangup", "", "Bearer k", ""}},
		"a whole":        {Client{BaseURL: "http://else", CallsURL: s.URL + "/calls"}, request{path: "/calls"}, request{path: "/calls/c/hangup"}},
		"with a query":   {Client{CallsURL: s.URL + "/a/calls?v=1", APIKey: "k", KeyHeader: "api-key"}, request{"/a/calls", "v=1", "", "k"}, request{"/a/calls/c/hangup", "v=1", "", "k"}},
		"a channel":      {Client{BaseURL: s.URL + "/v1", DataChannel: 4}, request{path: "/v1/realtime/calls", query: "dcid=4"}, request{path: "/v1/realtime/calls/c/hangup"}},
		"and a query":    {Client{CallsURL: s.URL + "/calls?v=1", DataChannel: 4}, request{path: "/calls", query: "v=1&dcid=4"}, request{path: "/calls/c/hangup", query: "v=1"}},
		"a named header": {Client{CallsURL: s.URL + "/", APIKey: "k", KeyHeader: "authorization"}, request{"", "", "Bearer k", ""}, request{"/c/hangup", "", "Bearer k", ""}},
	} {
		if _, err := tt.client.CreateCall(t.Context(), "v=0", nil); err == nil {
			t.Errorf("%s: no error", name)
		}
		if got := testkit.Take(t, "a request", asked); got != tt.call && (got.path != "/" || tt.call.path != "") {
			t.Errorf("%s: asked %+v, want %+v", name, got, tt.call)
		}
		if err := tt.client.Hangup(t.Context(), "c"); err != nil { // 404: it is gone
			t.Errorf("%s: %v", name, err)
		}
		if got := testkit.Take(t, "a request", asked); got != tt.hangup {
			t.Errorf("%s: asked %+v, want %+v", name, got, tt.hangup)
		}
	}
}

// TestHideSecrets cuts out what an upstream was sent, wherever it says it again, but no short words.
func TestHideSecrets(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`{"message":"key xai-0123456789 is wrong","again":"Bearer xai-0123456789"}`: `{"message":"key [key] is wrong","again":"Bearer [key]"}`,
		`{"text":"a demo"}`:          `{"text":"a demo"}`,
		`header-value-of-a-gateway!`: `[key]!`,
	} {
		testkit.Equal(t, string(HideSecrets([]byte(in), "xai-0123456789", "demo", "", "header-value-of-a-gateway")), want, "of %s is left", in)
	}
}
