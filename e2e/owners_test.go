package e2e

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"voicebridge/internal/testkit"
	"voicebridge/persistence/persistencetest"
	"voicebridge/toolkit/mcptool/signin/signintest"
)

// owner is somebody with a token, at a process of voicebridge.
type owner struct {
	t           *testing.T
	url, token  string
	thread      string
	connections []*http.Cookie
}

const anna, bert = "token-of-anna-0123456789", "token-of-bert-0123456789"

// at is the same owner at another process.
func (o *owner) at(url string) *owner { c := *o; c.url = url; return &c }

func (o *owner) do(method, path, body string) (int, string) {
	o.t.Helper()
	request, err := http.NewRequestWithContext(o.t.Context(), method, o.url+path, strings.NewReader(body))
	must(o.t, err)
	request.Header.Set("Authorization", "Bearer "+o.token)
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := unpooled.Do(request)
	must(o.t, err)
	defer func() { _ = response.Body.Close() }()
	var text strings.Builder
	_, err = io.Copy(&text, response.Body)
	must(o.t, err)
	o.connections = append(o.connections, response.Cookies()...)
	return response.StatusCode, text.String()
}

// want makes a request that succeeds.
func (o *owner) want(method, path, body string) string {
	o.t.Helper()
	status, text := o.do(method, path, body)
	if status/100 != 2 {
		o.t.Fatalf("%s %s: %d %s", method, path, status, text)
	}
	return text
}

// turn has the model call a tool on the owner's thread, and returns the answer.
func (o *owner) turn(call string) string {
	o.t.Helper()
	if o.thread == "" {
		o.thread = newThreadAs(o)
	}
	return o.want("POST", "/api/threads/"+o.thread+"/messages", string(toJSON(o.t, map[string]string{"content": "call " + call})))
}

func newThreadAs(o *owner) string {
	o.t.Helper()
	var thread struct{ ID string }
	must(o.t, json.Unmarshal([]byte(o.want("POST", "/api/threads", "{}")), &thread))
	return thread.ID
}

// state returns the state of a server as the owner sees it.
func (o *owner) state(server string) string {
	o.t.Helper()
	var list struct {
		Servers []struct{ Name, State, Reason string }
	}
	must(o.t, json.Unmarshal([]byte(o.want("GET", "/api/mcp", "")), &list))
	for _, s := range list.Servers {
		if s.Name == server {
			return strings.TrimSpace(s.State + " " + s.Reason)
		}
	}
	return "none"
}

// connect begins a sign-in, agrees to it in a browser that knows nothing else, and returns where that is sent back.
func (o *owner) connect(server string) *url.URL {
	o.t.Helper()
	var begun struct {
		URL string `json:"authorize_url"`
	}
	must(o.t, json.Unmarshal([]byte(o.want("POST", "/api/mcp/"+server+"/connect", "")), &begun))
	return signintest.Browse(o.t, begun.URL, o.url+"/api/mcp/callback")
}

func portOf(t *testing.T, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	must(t, err)
	return u.Port()
}

// writeMCP writes an mcp.json.
func writeMCP(t *testing.T, servers map[string]any) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "mcp.json")
	must(t, os.WriteFile(path, toJSON(t, map[string]any{"mcpServers": servers}), 0o600))
	return path
}

// ownersEnvironment are settings for owners with servers of their own, and a model that calls what it is told.
func ownersEnvironment(t *testing.T, database, ports string, servers map[string]any) []string {
	t.Helper()
	return []string{
		"DATABASE_URL=" + database, "VOICEBRIDGE_CONFIG=" + noFile(t), "VOICEBRIDGE_API_TOKENS=anna:" + anna + ",bert:" + bert,
		"OPENAI_BASE_URL=" + newToolModel(t).URL + "/v1", "OPENAI_API_KEY=key-of-the-tests", "VOICEBRIDGE_UPSTREAM=simulator", "VOICEBRIDGE_TEXT_PROVIDER=openai",
		"VOICEBRIDGE_MCP_CONFIG=" + writeMCP(t, servers), "VOICEBRIDGE_TOOLS__WEB__ALLOW_NETWORKS=127.0.0.0/8,::1/128", "VOICEBRIDGE_TOOLS__WEB__ALLOW_PORTS=" + ports,
	}
}

// TestOwnersSignIn has two owners sign in to a strict server, at two processes that share a database.
func TestOwnersSignIn(t *testing.T) {
	t.Parallel()
	authority := signintest.NewAuthority(t)
	environ := ownersEnvironment(t, persistencetest.PostgresURL(t), portOf(t, authority.URL), map[string]any{
		"post": map[string]any{"url": authority.NewServer(t), "auth": "oauth"},
	})
	one := launch(t, environ, "serve", "--listen", "127.0.0.1:0")
	two := launch(t, environ, "serve", "--listen", "127.0.0.1:0")
	ann := &owner{t: t, url: one.url, token: anna}
	bob := &owner{t: t, url: two.url, token: bert}

	// Who has not signed in is told so, and so is the page.
	testkit.Equal(t, ann.state("post"), "sign_in", "at first")
	if body := ann.turn(`post__sign_in {}`); !strings.Contains(body, `has to sign in`) || !strings.Contains(body, `"sign_in":"post"`) {
		t.Errorf("got %s", body)
	}

	// What comes back counts only for who began it, at either process.
	back := ann.connect("post")
	callback := back.Path + "?" + back.RawQuery
	if status, body := bob.do("GET", callback, ""); status != http.StatusBadRequest {
		t.Errorf("another owner ends the sign-in: %d %s", status, body)
	}
	if status, _ := get(t, two.url+callback); status != http.StatusBadRequest {
		t.Errorf("nobody ends the sign-in: %d", status)
	}
	ann.at(two.url).want("GET", callback, "")
	if status, _ := ann.do("GET", callback, ""); status != http.StatusBadRequest {
		t.Errorf("it ends twice: %d", status)
	}
	back = bob.connect("post")
	bob.want("GET", back.Path+"?"+back.RawQuery, "")
	for _, process := range []string{one.url, two.url} {
		for name, who := range map[string]*owner{"user-1": ann.at(process), "user-2": bob.at(process)} {
			if body := who.turn(`post__whoami {}`); !strings.Contains(body, "You are "+name) {
				t.Errorf("%s: %s", name, body)
			}
		}
	}

	// Tokens end at both processes at once, again and again.
	for range 3 {
		authority.EndAccess()
		var both sync.WaitGroup
		for _, process := range []string{one.url, two.url} {
			both.Go(func() {
				who := ann.at(process)
				who.thread = ""
				if body := who.turn(`post__whoami {}`); !strings.Contains(body, "You are user-1") {
					t.Errorf("got %s", body)
				}
			})
		}
		both.Wait()
	}
	if authority.Count("theft") != 0 || authority.Count("refresh") < 3 || authority.Count("register") != 2 { // once at each address
		t.Errorf("renewed %d times, %d thefts, registered %d times", authority.Count("refresh"), authority.Count("theft"), authority.Count("register"))
	}

	// What is given back is gone at both.
	ann.want("DELETE", "/api/mcp/post", "")
	if authority.Count("revoke") != 1 || authority.Open() != 1 {
		t.Errorf("%d revoked, %d open", authority.Count("revoke"), authority.Open())
	}
	for _, process := range []string{one.url, two.url} {
		testkit.Equal(t, ann.at(process).state("post"), "sign_in", "after it was given back")
		if got := bob.at(process).state("post"); got == "sign_in" {
			t.Error("bob has lost his")
		}
	}
	if body := bob.turn(`post__whoami {}`); !strings.Contains(body, "You are user-2") {
		t.Errorf("got %s", body)
	}
	for _, token := range slices.Concat(authority.Tokens(), []string{back.Query().Get("state"), back.Query().Get("code")}) {
		if strings.Contains(one.stderr.String()+two.stderr.String(), token) {
			t.Errorf("the log has %s", token)
		}
	}
}

// TestEraseSignIns erases owners who have signed in to a server, and have processes with folders at two processes on two machines.
func TestEraseSignIns(t *testing.T) {
	t.Parallel()
	authority := signintest.NewAuthority(t)
	files := npmServer(t, "@modelcontextprotocol/server-filesystem/dist/index.js", ".")
	files["perOwner"] = true
	database := persistencetest.PostgresURL(t)
	environ := ownersEnvironment(t, database, portOf(t, authority.URL), map[string]any{
		"post": map[string]any{"url": authority.NewServer(t), "auth": "oauth"}, "files": files,
	})
	folders := []string{t.TempDir(), t.TempDir()}
	var servers []*program
	for _, folder := range folders {
		servers = append(servers, launchIn(t, folder, environ, "serve", "--listen", "127.0.0.1:0"))
	}
	left := func(owner string) (list []string) {
		for _, folder := range folders {
			found, err := filepath.Glob(filepath.Join(folder, "data", "mcp", "files", owner+"-*"))
			must(t, err)
			list = append(list, found...)
		}
		return list
	}
	ann, bob := &owner{t: t, url: servers[0].url, token: anna}, &owner{t: t, url: servers[1].url, token: bert}
	for name, who := range map[string]*owner{"anna": ann, "bert": bob} {
		back := who.connect("post")
		who.want("GET", back.Path+"?"+back.RawQuery, "")
		if body := who.turn(`post__whoami {}`); !strings.Contains(body, "You are user-") {
			t.Fatalf("%s: %s", name, body)
		}
		for _, server := range servers {
			if body := who.at(server.url).turn(`files__write_file {"path":"note.txt","content":"a secret"}`); !strings.Contains(body, "Successfully wrote") {
				t.Fatalf("%s: %s", name, body)
			}
		}
	}
	const pins = "SELECT DISTINCT server FROM tool_pins ORDER BY server"
	if len(left("anna")) != 2 || len(left("bert")) != 2 || len(persistencetest.Rows(t, database, pins)) != 3 {
		t.Fatalf("before: %q, %q, %q", left("anna"), left("bert"), persistencetest.Rows(t, database, pins))
	}

	ann.want("DELETE", "/api/me", "")
	if len(left("anna")) != 0 || len(left("bert")) != 2 {
		t.Errorf("left of anna: %q, of bert: %q", left("anna"), left("bert"))
	}
	if authority.Count("revoke") != 1 || authority.Open() != 1 {
		t.Errorf("%d revoked, %d open", authority.Count("revoke"), authority.Open())
	}
	for _, server := range servers {
		testkit.Equal(t, ann.at(server.url).state("files")+" "+ann.at(server.url).state("post"), "idle sign_in", "after anna is erased she")
		testkit.Equal(t, bob.at(server.url).state("files"), "connected", "bert's")
	}
	if code, _, errs := runCommand(t, environ, "erase", "--owner", "bert"); code != 0 {
		t.Errorf("erase: %d, %s", code, errs)
	}
	if authority.Count("revoke") != 2 || authority.Open() != 0 {
		t.Errorf("in the end %d revoked, %d open", authority.Count("revoke"), authority.Open())
	}
	if rows := persistencetest.Rows(t, database, pins); len(rows) != 1 || rows[0][0] != "files" {
		t.Errorf("tools of erased owners are left: %q", rows)
	}
}

// TestOwnersSignInToAnSDK has owners sign in to the example server of the TypeScript SDK, with its authorization server.
func TestOwnersSignInToAnSDK(t *testing.T) {
	t.Parallel()
	_, port, err := net.SplitHostPort(keptAddress(t))
	must(t, err)
	_, authPort, err := net.SplitHostPort(keptAddress(t))
	must(t, err)
	cmd := command(t, "node", []string{"MCP_PORT=" + port, "MCP_AUTH_PORT=" + authPort},
		filepath.Join(clients(t), "node_modules/@modelcontextprotocol/sdk/dist/esm/examples/server/simpleStreamableHttp.js"), "--oauth", "--oauth-strict")
	must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	for _, p := range []string{port, authPort} {
		testkit.Eventually(t, "it listens", func() bool {
			c, err := net.Dial("tcp", "localhost:"+p)
			return err == nil && c.Close() == nil
		})
	}
	server := launch(t, ownersEnvironment(t, persistencetest.EmptySQLiteURL(t), authPort, map[string]any{
		"sdk": map[string]any{"url": "http://localhost:" + port + "/mcp", "auth": "oauth"},
	}), "serve", "--listen", "127.0.0.1:0")
	ann, bob := &owner{t: t, url: server.url, token: anna}, &owner{t: t, url: server.url, token: bert}
	testkit.Equal(t, ann.state("sdk"), "sign_in", "at first")
	back := ann.connect("sdk")
	ann.want("GET", back.Path+"?"+back.RawQuery, "")
	if body := ann.turn(`sdk__greet {"name":"Anna"}`); !strings.Contains(body, "Hello, Anna!") {
		t.Errorf("got %s", body)
	}
	testkit.Equal(t, bob.state("sdk"), "sign_in", "bob")
	ann.want("DELETE", "/api/mcp/sdk", "")
	if body := ann.turn(`sdk__sign_in {}`); !strings.Contains(body, `"sign_in":"sdk"`) {
		t.Errorf("got %s", body)
	}
}
