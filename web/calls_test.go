package web

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"voicebridge/bridge"
	"voicebridge/internal/testkit"
	"voicebridge/persistence"
	"voicebridge/persistence/persistencetest"
	"voicebridge/thread"
	"voicebridge/web/access"
)

const (
	sdpOffer  = "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\n"
	callsPath = "/v1/realtime/calls"
)

var sdpType = header("Content-Type", "application/sdp")

// form writes a multipart body with the boundary x.
func form(parts ...string) string {
	var b strings.Builder
	for i := 0; i < len(parts); i += 2 {
		fmt.Fprintf(&b, "--x\r\nContent-Disposition: form-data; name=%q\r\n\r\n%s\r\n", parts[i], parts[i+1])
	}
	return b.String() + "--x--\r\n"
}

var formType = header("Content-Type", "multipart/form-data; boundary=x")

func TestStartCall(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	for name, c := range map[string]struct {
		body, query   string
		contentType   option
		wantSession   string
		onThread      bool
		wantsTakeover bool
	}{
		"bare offer":             {body: sdpOffer, contentType: sdpType},
		"type with a parameter":  {body: sdpOffer, contentType: header("Content-Type", "Application/SDP; charset=utf-8")},
		"form":                   {body: form("sdp", sdpOffer, "session", `{"type":"realtime"}`), contentType: formType, wantSession: `{"type":"realtime"}`},
		"form without a session": {body: form("sdp", sdpOffer), contentType: formType},
		"form with more":         {body: form("model", "x", "sdp", sdpOffer), contentType: formType},
		"on a thread":            {body: sdpOffer, contentType: sdpType, onThread: true},
		"moved here":             {body: sdpOffer, contentType: sdpType, onThread: true, query: "&takeover=true", wantsTakeover: true},
	} {
		t.Run(name, func(t *testing.T) {
			n := len(b.calls.started())
			target := callsPath + "?model=ignored" + c.query
			var thread string
			if c.onThread {
				thread = b.thread(t, access.LocalOwner).Thread
				target += "&thread_id=" + thread
			}
			r := b.do(t, "POST", target, c.body, c.contentType)
			wantStatus(t, r, http.StatusCreated)
			testkit.Equal(t, r.body, "v=0\r\nanswer", "answer")
			if r.Header.Get("Content-Type") != "application/sdp" || r.Header.Get("Location") != fmt.Sprint(callsPath, "/call-", n+1) {
				t.Errorf("headers %v", r.Header)
			}
			made := r.Header.Get("X-Thread-Id")
			if made == "" || (c.onThread && made != thread) {
				t.Errorf("thread %q, want %q", made, thread)
			}
			got := b.calls.started()[n]
			if got.Owner != access.LocalOwner || got.ThreadID != thread || got.Offer != sdpOffer || string(got.Session) != c.wantSession || got.Takeover != c.wantsTakeover {
				t.Errorf("the bridge got %+v", got)
			}
		})
	}
}

func TestStartCallPassesOnErrorsOfTheBridge(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	for name, c := range map[string]struct {
		err    error
		status int
		code   string
		retry  bool
	}{
		"bad sdp":     {&bridge.Error{Code: bridge.CodeBadSDP, Message: "m", Param: "sdp"}, 400, "bad_sdp", false},
		"no opus":     {&bridge.Error{Code: bridge.CodeNoOpus, Message: "m"}, 400, "no_opus", false},
		"bad session": {&bridge.Error{Code: bridge.CodeBadSession, Message: "m"}, 400, "bad_session", false},
		"call active": {&bridge.Error{Code: bridge.CodeCallActive, Message: "m"}, 409, "call_active", false},
		"stopping":    {&bridge.Error{Code: bridge.CodeShuttingDown, Message: "m"}, 503, "shutting_down", true},
		"refused": {&bridge.Error{Code: bridge.CodeUpstreamRefused, Status: 401, UpstreamCode: "invalid_api_key",
			Message: "Incorrect API key provided: sk-proj-canary1234."}, 502, "invalid_api_key", false},
		"refused for a while":    {&bridge.Error{Code: bridge.CodeUpstreamRefused, Status: 429, UpstreamCode: "rate_limit_exceeded", Message: "m", RetryAfter: 7 * time.Second}, 502, "rate_limit_exceeded", true},
		"too many elsewhere":     {&bridge.Error{Code: bridge.CodeTooManyCalls, Message: "m"}, 429, "too_many_calls", true},
		"refused without a code": {&bridge.Error{Code: bridge.CodeUpstreamRefused, Status: 500, Message: "m"}, 502, "upstream_refused", false},
		"unreachable":            {fmt.Errorf("start: %w", &bridge.Error{Code: bridge.CodeUpstreamUnreachable, Message: "m"}), 502, "upstream_unreachable", false},
		"not found":              {persistence.ErrNotFound, 404, "thread_not_found", false},
		"a defect":               {errors.New("open /secret/path sk-canary1234"), 500, "internal_error", false},
	} {
		t.Run(name, func(t *testing.T) {
			b.calls.failWith(c.err)
			r := b.do(t, "POST", callsPath, sdpOffer, sdpType)
			if (r.Header.Get("Retry-After") != "") != c.retry {
				t.Errorf("Retry-After %q", r.Header.Get("Retry-After"))
			}
			body := r.body
			r = b.do(t, "POST", callsPath, sdpOffer, sdpType)
			wantError(t, r, c.status, c.code)
			if strings.Contains(body+b.log.String(), "canary") || strings.Contains(body, "/secret/path") {
				t.Errorf("a key or a path leaked: %s\n%s", body, b.log)
			}
		})
	}
}

func TestCallLimits(t *testing.T) {
	t.Parallel()
	start := func(t *testing.T, b *bundle, query string, o ...option) *answer {
		t.Helper()
		return b.do(t, "POST", callsPath+query, sdpOffer, append(o, sdpType)...)
	}
	t.Run("are the bridge's", func(t *testing.T) {
		t.Parallel()
		for _, local := range []bool{false, true} {
			b := setup(t, func(c *Config) {
				if c.Limits.MaxCalls, c.Limits.MaxCallsPerOwner = 7, 3; !local {
					tokens(c)
				}
			})
			wantStatus(t, start(t, b, "", as("alice-token-of-tests")), 201)
			if s := b.calls.starts[0]; s.Calls != 7 || (s.OwnerCalls == 3) == local {
				t.Errorf("one local user: %v: %d calls, %d of the owner", local, s.Calls, s.OwnerCalls)
			}
		}
	})
	t.Run("reconnect takes none", func(t *testing.T) {
		t.Parallel()
		b := setup(t, func(c *Config) { c.Limits.MaxCalls = 1 })
		wantStatus(t, start(t, b, ""), 201)
		r := b.do(t, "POST", callsPath+"/call-1/reconnect", sdpOffer, sdpType)
		wantStatus(t, r, 200)
		testkit.Equal(t, r.Header.Get("Content-Type"), "application/sdp", "the answer")
		wantError(t, b.do(t, "POST", callsPath+"/call-2/reconnect", sdpOffer, sdpType), 404, "call_not_found")
		wantError(t, b.do(t, "POST", callsPath+"/call-1/reconnect", "", sdpType), 400, "bad_sdp")
		wantError(t, b.do(t, "POST", callsPath+"/call-1/reconnect", "{}"), 415, "unsupported_media_type")
	})
	t.Run("set-ups from an address", func(t *testing.T) {
		t.Parallel()
		b := setup(t, func(c *Config) { tokens(c); c.Limits.SetupsPerMinute = 2 })
		start := func(t *testing.T, b *bundle, query string, options ...option) *answer {
			return start(t, b, query, append(options, as("alice-token-of-tests"))...)
		}
		for range 2 {
			wantStatus(t, start(t, b, "", from("10.0.0.1:1")), 201)
		}
		r := start(t, b, "", from("10.0.0.1:2"))
		testkit.Equal(t, r.Header.Get("Retry-After"), "30", "Retry-After")
		wantError(t, r, 429, "rate_limit_exceeded")
		// A forwarded address counts only from a trusted proxy.
		wantError(t, start(t, b, "", from("10.0.0.1:3"), header("X-Forwarded-For", "9.9.9.9")), 429, "rate_limit_exceeded")
		wantStatus(t, start(t, b, "", from("127.0.0.1:3"), header("X-Forwarded-For", "9.9.9.9")), 201)
		wantStatus(t, start(t, b, "", from("10.0.0.2:1")), 201)
		b.clock.advance(31 * time.Second)
		wantStatus(t, start(t, b, "", from("10.0.0.1:4")), 201)
	})
}

// TestLocalSetups has this machine's only user start as many calls as there is room for.
func TestLocalSetups(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		auth   bool
		from   string
		proxy  string
		status int
	}{
		{"the local user", false, "127.0.0.1:3", "", 201},
		{"the local user over IPv6", false, "[::1]:3", "", 201},
		{"a user with a token", true, "127.0.0.1:3", "", 429},
		{"a proxy's client", true, "127.0.0.1:3", "9.9.9.9", 429},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, func(c *Config) {
				c.Limits.SetupsPerMinute = 1
				if tt.auth {
					tokens(c)
				}
			})
			options := []option{sdpType, as("alice-token-of-tests"), from(tt.from)}
			if tt.proxy != "" {
				options = append(options, header("X-Forwarded-For", tt.proxy))
			}
			status := 0
			for range 2 {
				status = b.do(t, "POST", callsPath, sdpOffer, options...).StatusCode
			}
			testkit.Equal(t, status, tt.status, "status")
		})
	}
}

// TestLocationBelowAPath makes things behind proxies that serve the server below a path.
func TestBelowAPath(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *Config) {
		tokens(c)
		c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")}
	})
	key := b.thread(t, "alice")
	images := "/api/threads/" + key.Thread + "/images"
	_, err := persistencetest.AppendMessage(t.Context(), b.db, key, thread.Message{Role: thread.RoleUser, Parts: []thread.Part{
		{Type: "file", Raw: []byte(`{"type":"file","mediaType":"image/png","url":"` + images + `/one"}`)},
	}})
	must(t, err)
	for name, c := range map[string]struct{ from, prefix, want string }{
		"a proxy here":        {"127.0.0.1:4000", "/voice", "/voice"},
		"a trusted one":       {"10.1.2.3:4000", "/apps/voice/", "/apps/voice"},
		"a stranger":          {"192.0.2.1:4000", "/voice", ""},
		"no path":             {"127.0.0.1:4000", "", ""},
		"another server":      {"127.0.0.1:4000", "//evil.example", ""},
		"a path that goes up": {"127.0.0.1:4000", "/../voice", ""},
	} {
		for _, made := range []struct{ target, body, contentType, at string }{
			{callsPath, sdpOffer, "application/sdp", callsPath + "/call-"},
			{"/api/threads", "{}", "application/json", "/api/threads/"},
			{"/text/session", "{}", "application/json", "/text/session/"},
			{images, pngOf(t, 3, 2), "image/png", images + "/"},
		} {
			r := b.do(t, "POST", made.target, made.body, header("Content-Type", made.contentType), as("alice-token-of-tests"), from(c.from), header("X-Forwarded-Prefix", c.prefix))
			wantStatus(t, r, http.StatusCreated)
			if got := r.Header.Get("Location"); !strings.HasPrefix(got, c.want+made.at) {
				t.Errorf("%s: Location of %s is %q", name, made.target, got)
			}
		}
		list := b.do(t, "GET", messagesPath(key), "", as("alice-token-of-tests"), from(c.from), header("X-Forwarded-Prefix", c.prefix), header("X-Forwarded-Proto", "https")).body
		scheme := "https"
		if name == "a stranger" {
			scheme = "http"
		}
		if want := `"url":"` + scheme + `://localhost:8080` + c.want + images + `/one"`; !strings.Contains(list, want) {
			t.Errorf("%s: the messages have no %s: %s", name, want, list)
		}
		r := b.do(t, "POST", "/api/session", `{"token":"alice-token-of-tests"}`, from(c.from), header("X-Forwarded-Prefix", c.prefix))
		wantStatus(t, r, http.StatusOK)
		testkit.Equal(t, cookieOf(t, r).Path, cmp.Or(c.want, "/"), "%s: the cookie", name)
	}
}
