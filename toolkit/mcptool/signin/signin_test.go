package signin

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"voicebridge/internal/testkit"
	"voicebridge/toolkit/guard"
	"voicebridge/toolkit/mcptool/signin/signintest"
)

const redirect = "http://127.0.0.1:8080/api/mcp/callback"

// site is an MCP server with its authorization server, and a desk that may reach both.
type site struct {
	*signintest.Authority
	t      *testing.T
	desk   *Desk
	store  *signintest.Memory
	server Server
	log    *bytes.Buffer
	logger *slog.Logger
	clock  *atomic.Int64 // what has passed beside the machine's time, in nanoseconds
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{Authority: signintest.NewAuthority(t), t: t, store: signintest.NewMemory(), log: new(bytes.Buffer), clock: new(atomic.Int64)}
	who := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = fmt.Fprint(w, r.Header.Get("X-User")) })
	s.logger = slog.New(slog.NewTextHandler(s.log, nil))
	resource := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.Protect(who, "/.well-known/oauth-protected-resource/mcp").ServeHTTP(w, r)
	}))
	t.Cleanup(resource.Close)
	s.Resource, s.Now = resource.URL+"/mcp", s.now
	s.server = Server{Name: "mail", URL: s.Resource}
	s.desk = s.newDesk("the secret of all processes")
	return s
}

func (s *site) now() time.Time { return time.Now().Add(time.Duration(s.clock.Load())) }

// newDesk returns the desk of another process.
func (s *site) newDesk(secret string) *Desk {
	s.t.Helper()
	u, err := url.Parse(s.URL)
	must(s.t, err)
	port, err := strconv.Atoi(u.Port())
	must(s.t, err)
	rules := guard.New(guard.Rules{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Ports: []int{port}})
	desk, err := New(Config{
		Store: s.store, Secret: secret, Guarded: rules.RoundTripper(), NotFound: func(err error) bool { return errors.Is(err, signintest.ErrNone) },
		Logger: s.logger, Now: s.now,
	})
	must(s.t, err)
	return desk
}

func back(u *url.URL) Return {
	q := u.Query()
	return Return{State: q.Get("state"), Code: q.Get("code"), Issuer: q.Get("iss"), Error: q.Get("error"), Description: q.Get("error_description")}
}

func (s *site) find(name string) (Server, bool) { return s.server, name == s.server.Name }

func has(kept string) func(string) string { return func(string) string { return kept } }

func is(owner string) func(string) bool { return func(other string) bool { return other == owner } }

// begin begins a sign-in and goes where the owner is sent.
func (s *site) begin(owner string) (Return, string) {
	s.t.Helper()
	begun, err := s.desk.Begin(s.t.Context(), owner, s.server, redirect)
	must(s.t, err)
	return back(signintest.Browse(s.t, begun.AuthorizeURL, redirect)), begun.Browser
}

func (s *site) signIn(owner string) {
	s.t.Helper()
	r, _ := s.begin(owner)
	who, name, err := s.desk.Finish(s.t.Context(), r, has(""), is(owner), s.find)
	if err != nil || who != owner || name != "mail" {
		s.t.Fatalf("%s, %s, %v", who, name, err)
	}
}

// whose asks the server with the owner's token, and returns which user that is.
func (s *site) whose(desk *Desk, owner string) string {
	s.t.Helper()
	token, err := desk.Token(s.t.Context(), owner, s.server, "")
	must(s.t, err)
	request, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, s.Resource, http.NoBody)
	must(s.t, err)
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := http.DefaultClient.Do(request)
	must(s.t, err)
	defer func() { _ = response.Body.Close() }()
	var body bytes.Buffer
	_, err = body.ReadFrom(response.Body)
	must(s.t, err)
	if response.StatusCode != http.StatusOK {
		return response.Status
	}
	return body.String()
}

func (s *site) wantNeeded(owner string) {
	s.t.Helper()
	token, err := s.desk.Token(s.t.Context(), owner, s.server, "")
	needed, ok := errors.AsType[*NeededError](err)
	if !ok || token != "" || needed.Server != "mail" {
		s.t.Errorf("Token(%s) = %q, %v", owner, token, err)
	}
}

func TestSignIn(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.wantNeeded("ann")
	s.signIn("ann")
	s.signIn("bob")
	if ann, bob := s.whose(s.desk, "ann"), s.whose(s.newDesk("the secret of all processes"), "bob"); ann != "user-1" || bob != "user-2" {
		t.Errorf("ann is %s, bob is %s", ann, bob)
	}
	s.wantNeeded("carol")
	testkit.Equal(t, s.Count("register"), 1, "registered times")
	// Nothing of it can be read, in the database or in the log.
	var kept strings.Builder
	kept.WriteString(strings.Join(s.store.All(), "\n") + s.log.String())
	for _, sealed := range s.store.All() {
		data, _ := base64.RawStdEncoding.DecodeString(sealed)
		kept.WriteString(string(data))
	}
	for _, token := range s.Tokens() {
		if strings.Contains(kept.String(), token) {
			t.Errorf("the token %s is readable", token)
		}
	}
	// Another owner's row opens nothing.
	s.store.Move("ann", "carol", "mail")
	s.wantNeeded("carol")
	// Neither does another secret, nor a server that is elsewhere now.
	desk := s.desk
	s.desk = s.newDesk("another secret")
	s.wantNeeded("ann")
	s.desk = desk
	s.server.URL += "2"
	s.wantNeeded("ann")
}

func TestForget(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.signIn("ann")
	s.signIn("bob")
	for _, want := range []bool{true, false} {
		if had, err := s.desk.Forget(t.Context(), "ann", s.server); err != nil || had != want {
			t.Errorf("Forget() = %t, %v", had, err)
		}
	}
	s.wantNeeded("ann")
	if s.Count("revoke") != 1 || s.Open() != 1 || s.whose(s.desk, "bob") != "user-2" {
		t.Errorf("%d revoked, %d open", s.Count("revoke"), s.Open())
	}
	// What had begun does not come back.
	r, _ := s.begin("ann")
	if had, err := s.desk.Forget(t.Context(), "ann", s.server); err != nil || !had {
		t.Error(had, err)
	}
	if _, _, err := s.desk.Finish(t.Context(), r, has(""), is("ann"), s.find); !errors.Is(err, ErrUnknown) {
		t.Error(err)
	}
}

// TestComingBack has browsers come back that must not get in.
func TestComingBack(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*Return)
		owner  string // who asks
		kept   bool   // the browser has what it was given
		want   string // empty: it succeeds
	}{
		"the owner":                         {owner: "ann"},
		"nobody, in the same browser":       {kept: true},
		"another owner in the same browser": {owner: "bob", kept: true},
		"nobody":                            {want: ErrOther.Error()},
		"another owner":                     {owner: "bob", want: ErrOther.Error()},
		"with another state":                {owner: "ann", change: func(r *Return) { r.State += "x" }, want: ErrUnknown.Error()},
		"without a state":                   {owner: "ann", change: func(r *Return) { r.State = "" }, want: ErrUnknown.Error()},
		"from another authorization server": {owner: "ann", change: func(r *Return) { r.Issuer = "https://evil.example" }, want: "does not come from"},
		"without saying from whom":          {owner: "ann", change: func(r *Return) { r.Issuer = "" }, want: "does not come from"},
		"with an error":                     {owner: "ann", change: func(r *Return) { r.Code, r.Error, r.Description = "", "access_denied", "Not\n today" }, want: "refused: access_denied: Not today"},
		"without a code":                    {owner: "ann", change: func(r *Return) { r.Code = "" }, want: "no code"},
		"with another code":                 {owner: "ann", change: func(r *Return) { r.Code = "code-x" }, want: "invalid_grant"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			r, browser := s.begin("ann")
			if c.change != nil {
				c.change(&r)
			}
			if !c.kept {
				browser = ""
			}
			_, _, err := s.desk.Finish(t.Context(), r, has(browser), is(c.owner), s.find)
			if c.want == "" {
				if err != nil || s.whose(s.desk, "ann") != "user-1" {
					t.Error(err)
				}
				if _, _, err := s.desk.Finish(t.Context(), r, has(browser), is("ann"), s.find); !errors.Is(err, ErrUnknown) {
					t.Errorf("a second time: %v", err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
			s.wantNeeded("ann")
		})
	}
}

// TestHostileMetadata has a server, or its authorization server, say things that would send tokens or requests to places where they must not
// go.
func TestHostileMetadata(t *testing.T) {
	t.Parallel()
	var reached atomic.Int32
	inside := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) })) // of which nobody has allowed the port
	t.Cleanup(inside.Close)
	says := func(key string, value any) func(*site) {
		return func(s *site) { s.Metadata = func(meta map[string]any) { meta[key] = value } }
	}
	resource := func(change func(s *site, meta map[string]any)) func(*site) {
		return func(s *site) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/mcp" {
					w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer resource_metadata="http://%s/meta"`, r.Host))
					w.WriteHeader(http.StatusUnauthorized)
					return
				}
				meta := map[string]any{"resource": "http://" + r.Host + "/mcp", "authorization_servers": []string{s.URL}}
				change(s, meta)
				signintestAnswer(w, meta)
			}))
			s.t.Cleanup(server.Close)
			s.server.URL = server.URL + "/mcp"
		}
	}
	for name, c := range map[string]struct {
		change func(*site)
		want   string
	}{
		"another issuer":                  {says("issuer", "https://evil.example"), "does not match"},
		"no PKCE":                         {says("code_challenge_methods_supported", []string{}), "PKCE"},
		"PKCE in the clear":               {says("code_challenge_methods_supported", []string{"plain"}), "S256"},
		"a script to open":                {says("authorization_endpoint", "javascript:alert(1)"), "scheme"},
		"a sign-in in the clear":          {says("authorization_endpoint", "http://evil.example/authorize"), "HTTPS"},
		"tokens in the clear":             {says("token_endpoint", "http://evil.example/token"), "HTTPS"},
		"no endpoints":                    {says("token_endpoint", ""), "no endpoints"},
		"a registration inside":           {says("registration_endpoint", inside.URL), "not allowed"},
		"a registration at a private one": {says("registration_endpoint", "https://10.1.2.3/register"), "non-public"},
		"no registration":                 {says("registration_endpoint", ""), "registers no clients"},
		"more than can be read":           {says("service_documentation", "https://x.example/"+strings.Repeat("x", maxAnswer)), "longer than"},
		"no metadata": {func(s *site) {
			s.Answer = func(w http.ResponseWriter, r *http.Request) bool { http.NotFound(w, r); return true }
		}, "no metadata"},
		"no JSON": {func(s *site) {
			s.Answer = func(w http.ResponseWriter, _ *http.Request) bool { _, _ = fmt.Fprint(w, "<html>"); return true }
		}, "cannot be used"},
		"another resource":    {resource(func(_ *site, meta map[string]any) { meta["resource"] = "https://bank.example/mcp" }), "another resource"},
		"a sibling":           {resource(func(s *site, meta map[string]any) { meta["resource"] = s.server.URL + "/x" }), "another resource"},
		"no authority":        {resource(func(_ *site, meta map[string]any) { meta["authorization_servers"] = nil }), "no authorization server"},
		"an authority inside": {resource(func(_ *site, meta map[string]any) { meta["authorization_servers"] = []string{inside.URL} }), "not allowed"},
		"metadata inside": {func(s *site) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="`+inside.URL+`"`)
				w.WriteHeader(http.StatusUnauthorized)
			}))
			s.t.Cleanup(server.Close)
			s.server.URL = server.URL + "/mcp"
		}, "not allowed"},
		"a redirect inside": {func(s *site) {
			s.Answer = func(w http.ResponseWriter, r *http.Request) bool {
				http.Redirect(w, r, inside.URL, http.StatusFound)
				return true
			}
		}, "not allowed"},
		"redirects without end": {func(s *site) {
			s.Answer = func(w http.ResponseWriter, r *http.Request) bool {
				http.Redirect(w, r, r.URL.Path, http.StatusFound)
				return true
			}
		}, "too often"},
		"nothing there": {func(s *site) { s.server.URL = "http://127.0.0.1:1/mcp" }, "cannot be reached"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			c.change(s)
			_, err := s.desk.Begin(t.Context(), "ann", s.server, redirect)
			if r, ok := errors.AsType[*RefusedError](err); !ok || !strings.Contains(r.Reason, c.want) || len(r.Reason) > 700 {
				t.Errorf("got %v, want %s", err, c.want)
			}
			if reached.Load() != 0 {
				t.Error("a request went where none may go")
			}
		})
	}
}

func signintestAnswer(w http.ResponseWriter, body any) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(encode(body))
}

// TestHostileTokens has a token endpoint answer with what cannot be a token.
func TestHostileTokens(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]string{
		"nothing": "", "no JSON": "<html>", "no token": `{"token_type":"bearer"}`, "another type": `{"access_token":"a","token_type":"mac"}`,
		"a header": `{"access_token":"a\r\nX-Admin: 1","token_type":"bearer"}`, "too long": `{"access_token":"` + strings.Repeat("a", maxToken+1) + `","token_type":"bearer"}`,
		"a long one to renew": `{"access_token":"a","token_type":"bearer","refresh_token":"` + strings.Repeat("a", maxToken+1) + `"}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			s.Answer = func(w http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path == "/token" {
					_, _ = fmt.Fprint(w, answer)
				}
				return r.URL.Path == "/token"
			}
			r, _ := s.begin("ann")
			if _, _, err := s.desk.Finish(t.Context(), r, has(""), is("ann"), s.find); err == nil {
				t.Error("it was taken")
			}
			s.wantNeeded("ann")
		})
	}
}

// TestOddTokens has a token endpoint write its answer as no other does, at a sign-in and at a renewal.
func TestOddTokens(t *testing.T) {
	t.Parallel()
	const hour = time.Hour
	for name, c := range map[string]struct {
		fields  string
		status  int
		lasting time.Duration
	}{
		"Microsoft's":       {`"token_type":"Bearer","expires_in":"3600","ext_expires_in":"3600","expires_on":"1","scope":"a b"`, 200, hour},
		"without a type":    {`"expires_in":3600`, 200, hour},
		"a null type":       {`"token_type":null,"expires_in":3600.0`, 200, hour},
		"PHP's":             {`"token_type":[],"expires_in":[],"scope":[]`, 200, 0},
		"created":           {`"token_type":"BEARER","expires_in":"3600.5"`, 201, hour},
		"without an end":    {`"token_type":"bearer","expires_in":null`, 200, 0},
		"an endless one":    {`"token_type":"bearer","expires_in":"never","scope":["a"]`, 200, 0},
		"beyond all limits": {`"token_type":"bearer","expires_in":1e300`, 200, 10 * 365 * 24 * hour},
		"a negative one":    {`"token_type":"bearer","expires_in":-1,"error":[]`, 200, 0},
		"a boolean":         {`"token_type":"bearer","expires_in":true,"error":null`, 200, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			s.Answer = func(w http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path == "/token" {
					w.WriteHeader(c.status)
					_, _ = fmt.Fprintf(w, `{"access_token":"a%d","refresh_token":"r",%s}`, s.Count("token"), c.fields)
				}
				return r.URL.Path == "/token"
			}
			s.signIn("ann")
			g, _, err := s.desk.grantOf(t.Context(), "ann", s.server)
			must(t, err)
			left := time.Duration(0)
			if !g.ExpiresAt.IsZero() {
				left = g.ExpiresAt.Sub(s.now()).Round(time.Minute)
			}
			if left != c.lasting.Round(time.Minute) || g.Access == "" || g.Refresh != "r" {
				t.Errorf("it lasts %v, %+v", left, g)
			}
			if _, err := s.desk.Token(t.Context(), "ann", s.server, g.Access); err != nil {
				t.Errorf("renewed: %v", err)
			}
		})
	}
}

// TestOddRegistration has an authorization server that writes times as texts.
func TestOddRegistration(t *testing.T) {
	t.Parallel()
	for _, fields := range []string{
		`"client_id_issued_at":"1700000000","client_secret_expires_at":"0"`, `"client_id_issued_at":1.7e9,"client_secret_expires_at":null`,
		`"client_id_issued_at":"2026-01-01T00:00:00Z","client_secret_expires_at":[]`,
	} {
		s := newSite(t)
		s.Answer = func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path == "/register" {
				w.WriteHeader(http.StatusCreated)
				_, _ = fmt.Fprintf(w, `{"client_id":"c","redirect_uris":["%s"],%s}`, redirect, fields)
			}
			return r.URL.Path == "/register"
		}
		if begun, err := s.desk.Begin(t.Context(), "ann", s.server, redirect); err != nil || !strings.Contains(begun.AuthorizeURL, "client_id=c") {
			t.Errorf("%s: %v", fields, err)
		}
	}
}

// TestWiderSignIn has a server ask for more than an owner has granted: the next sign-in asks for that and for what was granted.
func TestWiderSignIn(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	scopes := func() string {
		begun, err := s.desk.Begin(t.Context(), "ann", s.server, redirect)
		must(t, err)
		u, err := url.Parse(begun.AuthorizeURL)
		must(t, err)
		return u.Query().Get("scope")
	}
	widen := func(want bool, more ...string) {
		t.Helper()
		err := s.desk.Widen(t.Context(), "ann", s.server, more)
		if _, needed := errors.AsType[*NeededError](err); needed != want || !needed && err != nil {
			t.Errorf("Widen(%q) = %v", more, err)
		}
	}
	before := scopes()
	widen(true, "mail:send") // who has no grant has to sign in anyway
	testkit.Equal(t, scopes(), before, "asks")
	s.signIn("ann")
	token, err := s.desk.Token(t.Context(), "ann", s.server, "")
	must(t, err)
	widen(true, "mail:send", "mail:send", "mail:read")
	widen(true, "mail:delete")
	want := strings.TrimSpace(before + " mail:send mail:read mail:delete")
	testkit.Equal(t, scopes(), want, "asks")
	// What was granted is still good, and a renewal keeps what it lacks.
	if again, err := s.desk.Token(t.Context(), "ann", s.server, ""); err != nil || again != token {
		t.Errorf("got %v", err)
	}
	s.clock.Add(int64(s.Lifetime))
	if s.whose(s.desk, "ann") != "user-1" || scopes() != want {
		t.Errorf("after a renewal it asks for %q", scopes())
	}
	s.signIn("ann")
	testkit.Equal(t, scopes(), want, "after the wider sign-in it asks")
	// Where the operator says what to ask for, that is all.
	s.server.Scopes = []string{"mail:read"}
	widen(false, "mail:admin")
	if got := scopes(); strings.Contains(got, "send") || strings.Contains(got, "admin") {
		t.Errorf("asks for %q", got)
	}
	// However many a server names.
	s.server.Scopes = nil
	many := make([]string, 1000)
	for i := range many {
		many[i] = fmt.Sprint("s", i)
	}
	widen(true, many...)
	if got := len(strings.Fields(scopes())); got > maxScopes+1 {
		t.Errorf("asks for %d scopes", got)
	}
}

// TestRenewal has tokens end.
func TestRenewal(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.signIn("ann")
	first, err := s.desk.Token(t.Context(), "ann", s.server, "")
	must(t, err)
	s.clock.Add(int64(s.Lifetime - early - 5*time.Second))
	if again, err := s.desk.Token(t.Context(), "ann", s.server, ""); err != nil || again != first || s.Count("refresh") != 0 {
		t.Errorf("it was renewed too early, or not at all: %v", err)
	}
	s.clock.Add(int64(10 * time.Second))
	if s.whose(s.desk, "ann") != "user-1" || s.Count("refresh") != 1 {
		t.Errorf("renewed %d times", s.Count("refresh"))
	}
	// One that the server refuses before its time.
	second, err := s.desk.Token(t.Context(), "ann", s.server, "")
	must(t, err)
	s.EndAccess()
	if third, err := s.desk.Token(t.Context(), "ann", s.server, second); err != nil || third == second || s.Count("refresh") != 2 {
		t.Errorf("%v, renewed %d times", err, s.Count("refresh"))
	}
	// A database that is away for a moment.
	s.store.Fail(1)
	s.clock.Add(int64(s.Lifetime))
	one, two := s.whose(s.desk, "ann"), s.whose(s.desk, "ann")
	if one != "user-1" || two != one || s.Count("refresh") != 3 || s.Count("theft") != 0 {
		t.Errorf("renewed %d times, %d thefts", s.Count("refresh"), s.Count("theft"))
	}
	// An authorization server that is away.
	s.clock.Add(int64(s.Lifetime - 10*time.Second)) // the token lasts a little longer
	s.Answer = func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(http.StatusBadGateway); return true }
	if _, err := s.desk.Token(t.Context(), "ann", s.server, ""); err != nil {
		t.Errorf("a token that still lasts: %v", err)
	}
	s.clock.Add(int64(20 * time.Second))
	if _, err := s.desk.Token(t.Context(), "ann", s.server, ""); err == nil || !strings.Contains(err.Error(), "HTTP 502") {
		t.Errorf("got %v", err)
	}
	s.Answer = nil
	if s.whose(s.desk, "ann") != "user-1" {
		t.Error("it does not come back")
	}
	// The end.
	s.EndAll()
	s.clock.Add(int64(s.Lifetime))
	s.wantNeeded("ann")
	if s.store.Grants() != 0 {
		t.Error("the grant is still there")
	}
}

// TestRenewalAtOnce has several processes renew one grant at once, many times, at a server that ends a grant when it sees an old refresh
// token.
func TestRenewalAtOnce(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.signIn("ann")
	desks := []*Desk{s.desk, s.newDesk("the secret of all processes"), s.newDesk("the secret of all processes")}
	for round := range 5 {
		s.clock.Add(int64(s.Lifetime))
		var all sync.WaitGroup
		var mu sync.Mutex
		got := map[string]bool{}
		for i := range 9 {
			all.Go(func() {
				token, err := desks[i%len(desks)].Token(t.Context(), "ann", s.server, "")
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				got[token] = true
			})
		}
		all.Wait()
		if len(got) != 1 || s.Count("refresh") != round+1 || s.Count("theft") != 0 {
			t.Fatalf("round %d: %d tokens, renewed %d times, %d thefts", round, len(got), s.Count("refresh"), s.Count("theft"))
		}
	}
}

// TestRenewalOutlivesItsCall has the call end for which a token is renewed, while the authorization server answers.
func TestRenewalOutlivesItsCall(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.signIn("ann")
	s.clock.Add(int64(s.Lifetime))
	ctx, cancel := context.WithCancel(t.Context())
	s.Answer = func(_ http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/token" {
			cancel()
		}
		return false
	}
	_, _ = s.desk.Token(ctx, "ann", s.server, "")
	if s.whose(s.desk, "ann") != "user-1" || s.Count("refresh") != 1 || s.Count("theft") != 0 {
		t.Errorf("renewed %d times, %d thefts", s.Count("refresh"), s.Count("theft"))
	}
}

// TestForgottenWhileRenewed has an owner give a grant back while it is being renewed.
func TestForgottenWhileRenewed(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.signIn("ann")
	s.clock.Add(int64(s.Lifetime))
	var once sync.Once
	s.Answer = func(_ http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/token" {
			once.Do(func() {
				if _, err := s.store.DeleteGrant(t.Context(), "ann", "mail", 0); err != nil {
					t.Error(err)
				}
			})
		}
		return false
	}
	s.wantNeeded("ann")
	if s.Open() != 0 {
		t.Error("what was renewed for nobody still counts")
	}
}

// TestClients has an authorization server forget us, one that does not register, and one that wants a secret.
func TestClients(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.signIn("ann")
	s.Forget()
	begun, err := s.desk.Begin(t.Context(), "bob", s.server, redirect)
	must(t, err)
	u, err := url.Parse(begun.AuthorizeURL)
	must(t, err)
	old := u.Query().Get("client_id")
	s.signIn("bob") // since the first attempt has not come back
	if s.Count("register") != 2 || s.whose(s.desk, "bob") != "user-2" {
		t.Errorf("registered %d times, still as %s", s.Count("register"), old)
	}

	s.server.ClientID, s.server.ClientSecret, s.server.Scopes = "known", "s e:cret", []string{"a", "b"}
	var posted []http.Header
	var form url.Values
	s.Metadata = func(meta map[string]any) {
		delete(meta, "token_endpoint_auth_methods_supported")
		meta["scopes_supported"] = []string{"offline_access"}
	}
	s.Answer = func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/token" {
			return false
		}
		_ = r.ParseForm()
		posted, form = append(posted, r.Header), r.PostForm
		signintestAnswer(w, map[string]any{"access_token": "a", "token_type": "Bearer"})
		return true
	}
	begun, err = s.desk.Begin(t.Context(), "ann", s.server, redirect)
	must(t, err)
	u, err = url.Parse(begun.AuthorizeURL)
	must(t, err)
	q := u.Query()
	if q.Get("client_id") != "known" || q.Get("scope") != "a b offline_access" {
		t.Errorf("sent to %s", u)
	}
	if _, _, err := s.desk.Finish(t.Context(), Return{State: q.Get("state"), Code: "c", Issuer: s.URL}, has(begun.Browser), is(""), s.find); err != nil {
		t.Fatal(err)
	}
	request := &http.Request{Header: posted[0]}
	if id, secret, _ := request.BasicAuth(); id != "known" || secret != "s+e%3Acret" || form.Get("client_secret") != "" || form.Get("resource") != s.Resource {
		t.Errorf("%s:%s, %v", id, secret, slices.Sorted(maps.Keys(form)))
	}
	// Nobody said when it ends, and there is nothing to renew it with.
	s.clock.Add(int64(100 * time.Hour))
	if token, err := s.desk.Token(t.Context(), "ann", s.server, ""); err != nil || token != "a" {
		t.Error(token, err)
	}
	if _, err := s.desk.Token(t.Context(), "ann", s.server, "a"); err == nil {
		t.Error("a refused token is used again")
	}
	s.wantNeeded("ann")
}
