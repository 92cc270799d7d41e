package web

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"voicebridge/internal/testkit"
)

// fakeServers are MCP servers of which the sign-in always succeeds.
type fakeServers struct {
	list []ToolServer
	*fakeSignIns
}

type fakeSignIns struct {
	mu        sync.Mutex
	redirects []string
	owner     string // of the sign-in that has begun
	forgot    []string
	fail      error
}

func (f fakeServers) Of(_ context.Context, owner string) []ToolServer {
	if f.fakeSignIns == nil {
		return f.list
	}
	return []ToolServer{
		{Name: "mail", Type: "http", SignIn: true, State: "sign_in", Connected: false},
		{Name: "of " + owner, Type: "stdio", PerOwner: true, State: "failed", Reason: "it is broken", Tools: 0},
	}
}

func (f fakeServers) Connect(_ context.Context, owner, server, redirect string) (string, string, error) {
	if f.fakeSignIns == nil {
		return "", "", ErrNoSignIn
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if server != "mail" && server != "a/b ü" {
		return "", "", ErrNoSignIn
	}
	f.redirects, f.owner = append(f.redirects, redirect), owner
	return "https://auth.example/authorize?state=s", "kept of " + owner, f.fail
}

func (f fakeServers) Finish(_ context.Context, back SignInReturn, kept func(string) string, mine func(string) bool) (string, error) {
	if f.fakeSignIns == nil {
		return "", ErrNoSignIn
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case back.State != "s":
		return "", SignInFailed("this sign-in is over", true)
	case !mine(f.owner) && kept("mail") != "kept of "+f.owner:
		return "", SignInFailed("this sign-in was begun by somebody else", true)
	case back.Error != "":
		return "mail", SignInFailed("refused: "+back.Description, false)
	case back.Code != "c" || back.Issuer != "i":
		return "mail", fmt.Errorf("code %q, issuer %q", back.Code, back.Issuer)
	}
	return "mail", nil
}

func (f fakeServers) Forget(_ context.Context, owner, server string) (bool, error) {
	if f.fakeSignIns == nil {
		return false, ErrNoSignIn
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if server != "mail" {
		return false, ErrNoSignIn
	}
	f.forgot = append(f.forgot, owner)
	return len(f.forgot) == 1, nil
}

func setupServers(t *testing.T) (*bundle, fakeServers) {
	t.Helper()
	f := fakeServers{fakeSignIns: &fakeSignIns{}}
	return setup(t, func(c *Config) { tokens(c); c.ToolServers = f }), f
}

func TestToolServers(t *testing.T) {
	t.Parallel()
	b, f := setupServers(t)
	want := `{"servers":[{"name":"mail","type":"http","auth":"oauth","per_owner":false,"state":"sign_in","tools":0},` +
		`{"name":"of alice","type":"stdio","per_owner":true,"state":"failed","reason":"it is broken","tools":0}]}` + "\n"
	testkit.Equal(t, b.do(t, "GET", "/api/mcp", "", alice).body, want, "b.do")
	for range 2 {
		wantStatus(t, b.do(t, "DELETE", "/api/mcp/mail", "", bob), 204)
	}
	if fmt.Sprint(f.forgot) != "[bob bob]" || strings.Count(b.log.String(), "MCP server forgotten") != 1 {
		t.Errorf("forgot %v", f.forgot)
	}
	for method, path := range map[string]string{"DELETE": "/api/mcp/other", "POST": "/api/mcp/other/connect"} {
		wantError(t, b.do(t, method, path, "", bob), 404, "server_not_found")
	}
	none := setup(t, tokens)
	testkit.Equal(t, none.do(t, "GET", "/api/mcp", "", alice).body, `{"servers":[]}`+"\n", "without servers")
	wantError(t, none.do(t, "POST", "/api/mcp/mail/connect", "", alice), 404, "server_not_found")
	wantError(t, none.do(t, "DELETE", "/api/mcp/mail", "", alice), 404, "server_not_found")
	wantError(t, none.do(t, "GET", "/api/mcp/callback?state=s", ""), 404, "server_not_found")
}

// TestConnect has clients that reach this server at different addresses.
func TestConnect(t *testing.T) {
	t.Parallel()
	b, f := setupServers(t)
	for _, c := range []struct {
		path, want string
		secure     bool
		options    []option
	}{
		{"/api/mcp/mail/connect", "http://localhost:8080/api/mcp/callback", false, nil},
		{"/api/mcp/a%2Fb%20%C3%BC/connect", "http://localhost:8080/api/mcp/callback", false, nil},
		{"/api/mcp/mail/connect", "https://localhost:8080/api/mcp/callback", true, []option{header("Origin", "https://localhost:8080"), header("Sec-Fetch-Site", "same-origin")}},
		{"/api/mcp/mail/connect", "https://localhost:8080/below/api/mcp/callback", true, []option{header("X-Forwarded-Proto", "https"), header("X-Forwarded-Prefix", "/below"), from("127.0.0.1:1")}},
		{"/api/mcp/mail/connect", "http://localhost:8080/api/mcp/callback", false, []option{header("X-Forwarded-Proto", "https"), header("X-Forwarded-Prefix", "/below"), from("10.1.2.3:1")}},
	} {
		r := b.do(t, "POST", c.path, "", append(c.options, alice)...)
		wantStatus(t, r, 200)
		testkit.Equal(t, r.body, `{"authorize_url":"https://auth.example/authorize?state=s"}`+"\n", "r.body")
		testkit.Equal(t, f.redirects[len(f.redirects)-1], c.want, "comes back")
		cookie := cookiesOf(r)[0]
		if !cookie.HttpOnly || cookie.SameSite != http.SameSiteLaxMode || cookie.Secure != c.secure || !strings.HasSuffix(c.want, cookie.Path) || cookie.MaxAge != 900 {
			t.Errorf("cookie %+v", cookie)
		}
	}
	f.fail = SignInFailed("the authorization server is away", false)
	wantError(t, b.do(t, "POST", "/api/mcp/mail/connect", "", alice), 502, "sign_in_failed")
}

// TestCallback has browsers come back that have begun the sign-in, and others.
func TestCallback(t *testing.T) {
	t.Parallel()
	b, _ := setupServers(t)
	begun := cookiesOf(b.do(t, "POST", "/api/mcp/mail/connect", "", alice))[0]
	kept := header("Cookie", begun.Name+"="+strings.ReplaceAll(begun.Value, `"`, ""))
	const good = "/api/mcp/callback?state=s&code=c&iss=i"
	for name, c := range map[string]struct {
		path    string
		options []option
		status  int
		code    string
	}{
		"the same browser":     {good, []option{kept}, 200, ""},
		"the owner":            {good, []option{alice}, 200, ""},
		"another owner":        {good, []option{bob}, 400, "unknown_sign_in"},
		"nobody":               {good, nil, 400, "unknown_sign_in"},
		"a wrong token":        {good, []option{as("wrong"), from("10.9.9.9:1")}, 400, "unknown_sign_in"},
		"another state":        {"/api/mcp/callback?state=x&code=c&iss=i", []option{kept}, 400, "unknown_sign_in"},
		"nothing":              {"/api/mcp/callback", []option{kept}, 400, "unknown_sign_in"},
		"a refusal":            {"/api/mcp/callback?state=s&error=access_denied&error_description=no", []option{kept}, 502, "sign_in_failed"},
		"a failure of our own": {"/api/mcp/callback?state=s&code=other", []option{kept}, 500, "internal_error"},
	} {
		t.Run(name, func(t *testing.T) {
			r := b.do(t, "GET", c.path, "", c.options...)
			if c.code != "" {
				wantError(t, r, c.status, c.code)
				return
			}
			wantStatus(t, r, c.status)
			if r.body != `{"server":"mail","state":"connected"}`+"\n" || len(cookiesOf(r)) != 1 || cookiesOf(r)[0].MaxAge >= 0 {
				t.Errorf("got %s, cookies %v", r.body, cookiesOf(r))
			}
		})
	}
	html := header("Accept", "text/html,*/*;q=0.8")
	if r := b.do(t, "GET", good, "", kept, html); r.StatusCode != http.StatusOK || !strings.Contains(r.body, "Signed in to mail") || strings.Contains(r.Header.Get("Content-Security-Policy"), "script") {
		t.Errorf("%d %s", r.StatusCode, r.body)
	}
	r := b.do(t, "GET", "/api/mcp/callback?state=s&error=x&error_description=%3Cscript%3Ealert(1)%3C/script%3E", "", kept, html)
	if r.StatusCode != http.StatusBadGateway || strings.Contains(r.body, "<script>") || !strings.Contains(r.body, "Refused: &lt;script") {
		t.Errorf("%d %s", r.StatusCode, r.body)
	}
	for _, secret := range []string{"code=c", "state=s", begun.Value} {
		if strings.Contains(b.log.String(), secret) {
			t.Errorf("the log has %s", secret)
		}
	}
}

func cookiesOf(r *answer) []*http.Cookie { return (&http.Response{Header: r.Header}).Cookies() }

func TestSentence(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"it is over": "It is over.", "it is over.": "It is over.", "ärger": "Ärger.", "無効": "無効.", "": ".",
	} {
		testkit.Equal(t, sentence(text), want, "sentence(%q)", text)
	}
}
