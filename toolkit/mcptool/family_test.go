package mcptool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"voicebridge/internal/testkit"
	"voicebridge/toolkit"
	"voicebridge/toolkit/mcptool/signin"
	"voicebridge/toolkit/mcptool/signin/signintest"
)

// namesOf returns the names of the owner's tools.
func (b *bench) namesOf(t *testing.T, owner string) []string {
	t.Helper()
	var names []string
	for _, e := range b.ToolsOf(t.Context(), owner, anyServer) {
		names = append(names, e.Tool.Definition().Name)
	}
	return names
}

// callAs makes a call in a session of the owner.
func (b *bench) callAs(t *testing.T, owner, name string) toolkit.Result {
	t.Helper()
	registry := toolkit.NewRegistry()
	for _, e := range b.ToolsOf(t.Context(), owner, anyServer) {
		must(t, registry.Add(e))
	}
	router := toolkit.NewRouter(registry, toolkit.RouterConfig{Timeout: 5 * time.Minute})
	return router.Call(t.Context(), toolkit.Call{Name: name, Arguments: "{}", Owner: owner}, nil)
}

// about is what a process says of itself.
type about struct {
	Env []string
	Cwd string
	PID int
}

func (b *bench) about(t *testing.T, owner string) about {
	t.Helper()
	result := b.callAs(t, owner, "s__environment")
	var a about
	if err := json.Unmarshal([]byte(result.Model), &a); err != nil || a.PID == 0 {
		t.Fatalf("%s: %s, %v", owner, result.ForModel(), err)
	}
	return a
}

func perOwner(most int) map[string]Server {
	s := stdio("server", map[string]string{"MINE": "1"})
	s.PerOwner, s.MaxOwners = true, most
	return map[string]Server{"s": s}
}

// TestPerOwner has two owners, of whom one is named like a path.
func TestPerOwner(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	b := openWith(t, perOwner(0), Options{ConnectTimeout: time.Minute, Folder: folder})
	if len(b.Tools()) != 0 || len(b.Status()) != 0 || len(b.ToolsOf(t.Context(), "", anyServer)) != 0 {
		t.Error("somebody has tools who is no owner")
	}
	const strange = "../../bob"
	if got := b.StatusOf(t.Context(), "ann"); len(got) != 1 || got[0].State != StateIdle || !got[0].PerOwner || got[0].SignIn {
		t.Errorf("before: %+v", got)
	}
	ann, bob := b.about(t, "ann"), b.about(t, strange)
	if got := b.StatusOf(t.Context(), "ann"); got[0].State != StateConnected || got[0].Tools == 0 {
		t.Errorf("then: %+v", got)
	}
	if ann.PID == bob.PID || ann.Cwd == bob.Cwd {
		t.Fatalf("ann has %d in %s, bob %d in %s", ann.PID, ann.Cwd, bob.PID, bob.Cwd)
	}
	actual, err := filepath.EvalSymlinks(folder)
	must(t, err)
	for owner, a := range map[string]about{"ann": ann, strange: bob} {
		info, err := os.Stat(a.Cwd)
		must(t, err)
		if filepath.Dir(a.Cwd) != filepath.Join(actual, "s") || info.Mode().Perm() != 0o700 {
			t.Errorf("%s works in %s, %v", owner, a.Cwd, info.Mode())
		}
		for _, want := range []string{"VOICEBRIDGE_OWNER=" + owner, "MINE=1"} {
			if !slices.Contains(a.Env, want) {
				t.Errorf("%s lacks %s", owner, want)
			}
		}
		if home := slices.IndexFunc(a.Env, func(e string) bool { return strings.HasPrefix(e, "HOME="+folder) }); home < 0 {
			t.Errorf("%s has another home", owner)
		}
	}
	if again := b.about(t, "ann"); again.PID != ann.PID {
		t.Error("a second call has another process")
	}
	// The end of one is not that of the other.
	if result := b.callAs(t, "ann", "s__die"); !result.Failed() {
		t.Errorf("got %+v", result)
	}
	if again := b.about(t, strange); again.PID != bob.PID {
		t.Error("bob's process has ended too")
	}
	// A tool of one does not run for another.
	for _, e := range b.ToolsOf(t.Context(), "ann", anyServer) {
		if e.Tool.Definition().Name != "s__environment" {
			continue
		}
		for c, err := range e.Tool.Call(t.Context(), toolkit.Call{Name: "s__environment", Arguments: "{}", Owner: strange}) {
			if err == nil {
				t.Errorf("ann's tool ran for bob: %+v", c)
			}
		}
	}
	// What is forgotten leaves nothing.
	must(t, os.WriteFile(filepath.Join(bob.Cwd, "notes"), nil, 0o600))
	if had, ok, err := b.Forget(t.Context(), strange, "s"); err != nil || !had || !ok {
		t.Error(had, ok, err)
	}
	if _, err := os.Stat(bob.Cwd); !errors.Is(err, os.ErrNotExist) || alive(bob.PID) {
		t.Errorf("%v, alive: %t", err, alive(bob.PID))
	}
	if _, err := os.Stat(ann.Cwd); err != nil {
		t.Error(err)
	}
	// What is erased leaves nothing either, also of a server that is not configured any more.
	bob = b.about(t, strange)
	old := filepath.Join(actual, "gone")
	must(t, os.MkdirAll(filepath.Join(old, filepath.Base(bob.Cwd), "notes"), 0o700))
	must(t, os.MkdirAll(filepath.Join(old, filepath.Base(ann.Cwd)), 0o700))
	must(t, os.WriteFile(filepath.Join(actual, "file"), nil, 0o600))
	must(t, b.Erase(t.Context(), strange))
	if _, err := os.Stat(bob.Cwd); !errors.Is(err, os.ErrNotExist) || alive(bob.PID) {
		t.Errorf("%v, alive: %t", err, alive(bob.PID))
	}
	if left, err := os.ReadDir(old); err != nil || len(left) != 1 || left[0].Name() != filepath.Base(ann.Cwd) {
		t.Errorf("left of another server: %v, %v", left, err)
	}
	if _, err := os.Stat(ann.Cwd); err != nil {
		t.Error(err)
	}
	if had, _, err := b.Forget(t.Context(), "carol", "s"); err != nil || had {
		t.Error(had, err)
	}
	if _, ok, _ := b.Forget(t.Context(), "ann", "other"); ok {
		t.Error("there is no such server")
	}
	b.log.await(t, "MCP server connected", 4) // ann's comes back
	ann = b.about(t, "ann")
	must(t, b.Close())
	if alive(ann.PID) {
		t.Error("a process outlives the end")
	}
	if result := b.callAs(t, "ann", "s__echo"); !result.Failed() {
		t.Error("a process begins after the end")
	}
}

// TestMaxOwners has more owners than may have a process.
func TestMaxOwners(t *testing.T) {
	t.Parallel()
	b := openWith(t, perOwner(2), Options{ConnectTimeout: time.Minute, Folder: t.TempDir()})
	ann, bob := b.about(t, "ann"), b.about(t, "bob")
	carol := b.about(t, "carol") // instead of ann
	if again := b.about(t, "bob"); alive(ann.PID) || again.PID != bob.PID || !alive(carol.PID) {
		t.Error("not the process ended that was not used for the longest time")
	}
	ctx, cancel := context.WithCancel(t.Context())
	var ended []chan struct{}
	begun := make(chan struct{}, 2)
	for _, owner := range []string{"bob", "carol"} {
		done := make(chan struct{})
		ended = append(ended, done)
		entries := b.ToolsOf(t.Context(), owner, anyServer)
		i := slices.IndexFunc(entries, func(e toolkit.Entry) bool { return e.Tool.Definition().Name == "s__slow" })
		go func() {
			defer close(done)
			for range entries[i].Tool.Call(ctx, toolkit.Call{Name: "s__slow", Arguments: "{}", Owner: owner}) {
				begun <- struct{}{} // its progress, then its end
			}
		}()
	}
	testkit.Take(t, "the beginning", begun)
	testkit.Take(t, "the beginning", begun)
	if result := b.callAs(t, "ann", "s__environment"); !strings.Contains(result.Error, "as many others") {
		t.Errorf("got %+v", result)
	}
	cancel()
	for _, done := range ended {
		testkit.Take(t, "the end", done)
	}
	if again := b.about(t, "ann"); again.PID == ann.PID {
		t.Error("a process has come back")
	}
}

// idler is a family of servers in memory.
func idler(t *testing.T) (f *family, connected *atomic.Int32) {
	t.Helper()
	connected = new(atomic.Int32)
	remote := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	addHanging(remote, "hang")
	options := Options{Logger: newLogBook().logger(), ConnectTimeout: 20 * time.Second, CallTimeout: 30 * time.Second, MinBackoff: time.Second, MaxBackoff: time.Minute, Changed: func() {}, Pins: &memory{}, Folder: t.TempDir()}
	f = newFamily(t.Context(), "s", Server{Type: TypeStdio, PerOwner: true}, options)
	f.carry = func() carrier {
		connected.Add(1)
		near, far := mcp.NewInMemoryTransports()
		session, err := remote.Connect(t.Context(), far, nil)
		must(t, err)
		t.Cleanup(func() { _ = session.Close() })
		return &wire{transport: near, blocked: make(chan struct{}), stopped: make(chan struct{})}
	}
	f.openTo(t.Context())
	t.Cleanup(f.shut)
	return f, connected
}

func (f *family) state(t *testing.T, owner string) string {
	return f.statusOf(t.Context(), owner).State
}

// TestIdleOwner has owners who use their server, and who do not.
func TestIdleOwner(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, connected := idler(t)
		list := f.offerTo(t.Context(), "ann", true)
		if len(list) != 1 || f.state(t, "ann") != StateConnected {
			t.Fatalf("%d tools, %s", len(list), f.state(t, "ann"))
		}
		time.Sleep(idleAfter - time.Second)
		if f.state(t, "ann") != StateConnected {
			t.Error("it has ended too early")
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if f.state(t, "ann") != StateIdle || len(f.members) != 0 {
			t.Error("it has not ended")
		}
		// The tool of a call that goes on starts it again, and a call keeps it.
		ended := make(chan error)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			for _, err := range list[0].Tool.Call(ctx, toolkit.Call{Name: "s__hang", Arguments: "{}", Owner: "ann"}) {
				ended <- err
			}
		}()
		time.Sleep(3*idleAfter + time.Second)
		if f.state(t, "ann") != StateConnected || connected.Load() != 2 {
			t.Errorf("%s, connected %d times", f.state(t, "ann"), connected.Load())
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		// Then it counts anew, and what was seen stays known meanwhile.
		time.Sleep(idleAfter - time.Second)
		if f.state(t, "ann") != StateConnected {
			t.Error("it has ended too early after a call")
		}
		time.Sleep(idleAfter + 2*time.Second)
		synctest.Wait()
		if f.state(t, "ann") != StateIdle {
			t.Error("it has not ended after a call")
		}
		if list := f.offerTo(t.Context(), "bob", false); len(list) != 1 || list[0].Tool.Definition().Name != "s__hang" {
			t.Errorf("%d tools are known", len(list))
		}
	})
}

// anyServer waits for each server.
func anyServer(string) bool { return true }

// TestSlowOwner has a server that takes long to begin, as npx does when it has to fetch one: it is waited for as long as a
// call of a tool may take, and somebody is told what for.
func TestSlowOwner(t *testing.T) {
	t.Parallel()
	for patience, want := range map[time.Duration]int{30 * time.Second: 1, 5 * time.Second: 0} {
		synctest.Test(t, func(t *testing.T) {
			f, _ := idler(t)
			quick := f.carry
			f.carry = func() carrier {
				time.Sleep(patience/2 + 10*time.Second) // longer than ConnectTimeout, or than patience
				return quick()
			}
			f.options.CallTimeout = patience
			waited := make(chan string, 10)
			ctx := toolkit.WithWaiting(t.Context(), func(server string) { waited <- server })
			begun := time.Now()
			if list := f.offerTo(ctx, "ann", true); len(list) != want || time.Since(begun) > patience || <-waited != "s" {
				t.Errorf("%d tools after %v", len(list), time.Since(begun))
			}
			time.Sleep(time.Minute)
			if list := f.offerTo(ctx, "ann", true); len(list) != 1 || len(waited) > 0 {
				t.Errorf("then %d tools, waited again %d times", len(list), len(waited))
			}
		})
	}
}

// TestMoreScopes has a server that wants more than an owner has granted, for one tool or for its list.
func TestMoreScopes(t *testing.T) {
	t.Parallel()
	for _, asked := range []string{`"name":"structured"`, `"tools/list"`} {
		p := newPost(t)
		var lacking atomic.Bool
		lacking.Store(true)
		p.refuse = func(w http.ResponseWriter, body []byte) bool {
			if !lacking.Load() || !bytes.Contains(body, []byte(asked)) {
				return false
			}
			w.Header().Set("WWW-Authenticate", `Bearer error="insufficient_scope", scope="mail.read mail.send", resource_metadata="x"`)
			w.WriteHeader(http.StatusForbidden)
			return true
		}
		p.signIn(t, "ann")
		tool := "post__structured"
		if asked == `"tools/list"` {
			tool = "post__sign_in"
			if names := p.namesOf(t, "ann"); len(names) != 1 || names[0] != tool {
				t.Errorf("got %v", names)
			}
			if got := p.StatusOf(t.Context(), "ann"); got[0].State != StateSignIn {
				t.Errorf("got %+v", got)
			}
		} else if result := p.callAs(t, "ann", "post__whoami"); result.Model != "user-1" {
			t.Errorf("got %+v", result)
		}
		if result := p.callAs(t, "ann", tool); result.SignIn != "post" || !strings.Contains(result.Error, "sign in") {
			t.Errorf("got %+v", result)
		}
		target, _ := p.SignInServer("post")
		begun, err := p.desk.Begin(t.Context(), "ann", target, "http://127.0.0.1:8080/api/mcp/callback")
		must(t, err)
		if u, err := url.Parse(begun.AuthorizeURL); err != nil || !strings.HasPrefix(u.Query().Get("scope"), "mail.read mail.send") {
			t.Errorf("asks at %s, %v", begun.AuthorizeURL, err)
		}
		lacking.Store(false)
		p.signIn(t, "ann")
		if result := p.callAs(t, "ann", "post__structured"); result.Failed() {
			t.Errorf("got %+v", result)
		}
	}
}

// TestRefusedAtFirst has a server refuse an owner's token when its tools are first listed. That is what is said, and not how
// the attempt ended.
func TestRefusedAtFirst(t *testing.T) {
	t.Parallel()
	p := newPost(t)
	p.refuse = func(w http.ResponseWriter, body []byte) bool {
		if bytes.Contains(body, []byte(`"tools/list"`)) {
			p.EndAll()
		}
		return false
	}
	p.signIn(t, "ann")
	p.log.await(t, "MCP server not connected", 1)
	if text := p.log.String(); !strings.Contains(text, "the user has to sign in") || strings.Contains(text, "context canceled") {
		t.Errorf("the log has %s", text)
	}
}

// post is an MCP server to which owners sign in.
type post struct {
	*signintest.Authority
	*bench
	desk  *signin.Desk
	store *signintest.Memory
	pins  *memory
	// refuse answers a request in place of the server, or returns false.
	refuse func(w http.ResponseWriter, body []byte) bool
}

func newPost(t *testing.T) *post {
	t.Helper()
	p := &post{Authority: signintest.NewAuthority(t), store: signintest.NewMemory(), pins: &memory{}}
	handler := newHTTPHandler(t)
	server := serveHandler(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		if r.Header.Get("Authorization") != "" && p.refuse != nil && p.refuse(w, body) {
			return
		}
		p.Protect(handler, "/.well-known/oauth-protected-resource/mcp").ServeHTTP(w, r)
	}))
	p.Resource = server.url
	var err error
	p.desk, err = signin.New(signin.Config{
		Store: p.store, Secret: "a secret", Guarded: http.DefaultTransport, NotFound: func(err error) bool { return errors.Is(err, signintest.ErrNone) },
	})
	must(t, err)
	p.bench = p.process(t)
	return p
}

// process is another process on the same database.
func (p *post) process(t *testing.T) *bench {
	t.Helper()
	return openWith(t, map[string]Server{"post": {Type: TypeHTTP, URL: p.Resource, Auth: AuthOAuth}},
		Options{ConnectTimeout: time.Minute, SignIn: p.desk, Pins: p.pins})
}

func (p *post) signIn(t *testing.T, owner string) {
	t.Helper()
	target, ok := p.SignInServer("post")
	if !ok {
		t.Fatal("nobody signs in there")
	}
	const redirect = "http://127.0.0.1:8080/api/mcp/callback"
	begun, err := p.desk.Begin(t.Context(), owner, target, redirect)
	must(t, err)
	q := signintest.Browse(t, begun.AuthorizeURL, redirect).Query()
	_, _, err = p.desk.Finish(t.Context(), signin.Return{State: q.Get("state"), Code: q.Get("code"), Issuer: q.Get("iss")}, func(string) string { return begun.Browser },
		func(string) bool { return false }, p.SignInServer)
	must(t, err)
	p.SignedIn(owner, "post")
}

// TestOwnersWhoSignIn has two owners with an account each, and processes that share what they are granted.
func TestOwnersWhoSignIn(t *testing.T) {
	t.Parallel()
	p := newPost(t)
	wantSignIn := func(owner, tool string) {
		t.Helper()
		result := p.callAs(t, owner, tool)
		if result.SignIn != "post" || !strings.Contains(result.Error, "sign in") || result.Masked().SignIn != "post" {
			t.Errorf("%s: %+v", owner, result)
		}
	}
	if names := p.namesOf(t, "ann"); len(names) != 1 || names[0] != "post__sign_in" {
		t.Fatalf("got %v", names)
	}
	wantSignIn("ann", "post__sign_in")
	if got := p.StatusOf(t.Context(), "ann"); len(got) != 1 || got[0].State != StateSignIn || !got[0].SignIn {
		t.Errorf("got %+v", got)
	}
	p.signIn(t, "ann")
	p.signIn(t, "bob")
	second := p.process(t)
	for range 2 {
		for owner, want := range map[string]string{"ann": "user-1", "bob": "user-2"} {
			for _, process := range []*bench{p.bench, second} {
				if result := process.callAs(t, owner, "post__whoami"); result.Model != want {
					t.Errorf("%s is %+v", owner, result)
				}
			}
		}
		p.EndAccess() // then they are renewed
	}
	if p.Count("theft") != 0 || p.Count("refresh") == 0 {
		t.Errorf("renewed %d times, %d thefts", p.Count("refresh"), p.Count("theft"))
	}
	if names := p.namesOf(t, "carol"); len(names) != 1 {
		t.Errorf("carol has %v", names)
	}
	if got := p.StatusOf(t.Context(), "ann"); got[0].State != StateConnected || got[0].Tools < 5 {
		t.Errorf("got %+v", got)
	}
	// The account ends the sign-in: the tools stay, and say so.
	p.EndAll()
	wantSignIn("ann", "post__whoami")
	wantSignIn("ann", "post__structured")
	if len(p.namesOf(t, "ann")) < 5 {
		t.Error("the tools are gone")
	}
	p.signIn(t, "ann")
	if result := p.callAs(t, "ann", "post__whoami"); result.Model != "user-3" {
		t.Errorf("got %+v", result)
	}
	// The owner does.
	if had, ok, err := p.bench.Forget(t.Context(), "ann", "post"); err != nil || !had || !ok {
		t.Error(had, ok, err)
	}
	if names := p.namesOf(t, "ann"); len(names) != 1 || p.Count("revoke") != 1 || len(p.pins.pins["post of ann"]) != 0 {
		t.Errorf("got %v, revoked %d times, pins %v", names, p.Count("revoke"), slices.Collect(maps.Keys(p.pins.pins)))
	}
	if names := second.namesOf(t, "ann"); len(names) != 1 {
		t.Errorf("another process still has %v", names)
	}
	for _, text := range append(p.Tokens(), "Bearer") {
		if strings.Contains(p.log.String()+second.log.String(), text) {
			t.Errorf("the log has %s", text)
		}
	}
}

// TestSignedInElsewhere has an owner sign in at another process, while a session goes on that has only the tool that asks for it.
func TestSignedInElsewhere(t *testing.T) {
	t.Parallel()
	p := newPost(t)
	second := p.process(t)
	before := second.ToolsOf(t.Context(), "ann", anyServer)
	p.signIn(t, "ann")
	for c, err := range before[0].Tool.Call(t.Context(), toolkit.Call{Name: "post__sign_in", Arguments: "{}", Owner: "ann"}) {
		if err != nil || c.Result.Failed() {
			t.Errorf("%+v, %v", c, err)
		}
	}
	testkit.Take(t, "a notice", second.notified) // which brings the session its tools
	if names := second.namesOf(t, "ann"); len(names) < 5 {
		t.Errorf("got %v", names)
	}
}

// TestUndecidedOwner has the database fail that knows who has signed in.
func TestUndecidedOwner(t *testing.T) {
	t.Parallel()
	p := newPost(t)
	b := openWith(t, map[string]Server{"post": {Type: TypeHTTP, URL: p.Resource, Auth: AuthOAuth}}, Options{SignIn: unknown{p.desk}})
	if names := b.namesOf(t, "ann"); len(names) != 0 {
		t.Errorf("got %v", names)
	}
	if got := b.StatusOf(t.Context(), "ann"); got[0].State != StateFailed || got[0].Reason == "" {
		t.Errorf("got %+v", got)
	}
}

type unknown struct{ signIn }

func (unknown) SignedIn(context.Context, string, signin.Server) (bool, error) {
	return false, fmt.Errorf("the database is away")
}

func TestOwnerConfig(t *testing.T) {
	t.Parallel()
	got, err := parseConfig([]byte(`{"mcpServers":{
		"a":{"command":"x","perOwner":true,"maxOwners":3},
		"b":{"url":"https://h.org/mcp","auth":"oauth","oauth":{"clientId":"${ID}","clientSecret":"${SECRET}","scopes":["r"]}},
		"e":{"url":"https://h.org/mcp","auth":"oauth"}}}`), vars(map[string]string{"ID": "me", "SECRET": "hush"}))
	must(t, err)
	want := map[string]Server{
		"a": {Type: TypeStdio, Command: "x", PerOwner: true, MaxOwners: 3},
		"b": {Type: TypeHTTP, URL: "https://h.org/mcp", Auth: AuthOAuth, ClientID: "me", ClientSecret: "hush", Scopes: []string{"r"}},
		"e": {Type: TypeHTTP, URL: "https://h.org/mcp", Auth: AuthOAuth},
	}
	for name, server := range want {
		if fmt.Sprint(got.Servers[name]) != fmt.Sprint(server) {
			t.Errorf("%s: %+v, want %+v", name, got.Servers[name], server)
		}
	}
	for entry, want := range map[string]string{
		`"command":"x","auth":"oauth"`:                                              "type http",
		`"type":"sse","url":"https://h.org","auth":"oauth"`:                         "type http",
		`"url":"https://h.org","auth":"basic"`:                                      "must be oauth",
		`"url":"https://h.org","auth":5`:                                            "auth",
		`"url":"https://h.org","auth":{"CLIENT_ID":"i"}`:                            "auth",
		`"url":"https://h.org","oauth":{"clientId":"i"}`:                            `"auth": "oauth"`,
		`"url":"https://h.org","auth":"oauth","headers":{"Authorization":"x"}`:      "Authorization",
		`"url":"https://h.org","auth":"oauth","oauth":{"clientSecret":"hush-hush"}`: "no clientId",
		`"url":"https://h.org","perOwner":true`:                                     "type stdio",
		`"command":"x","perOwner":true,"cwd":"/tmp"`:                                "no cwd",
		`"command":"x","perOwner":true,"maxOwners":-1`:                              "maxOwners",
		`"command":"x","perOwner":true,"maxOwners":100000`:                          "maxOwners",
		`"command":"x","maxOwners":1`:                                               "maxOwners",
		`"command":"x","perOwner":"yes"`:                                            "perOwner",
	} {
		if _, err := parseConfig([]byte(`{"servers":{"s":{`+entry+`}}}`), vars(nil)); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: %v, want %s", entry, err, want)
		}
	}
	if _, err := Open(Config{Servers: map[string]Server{"s": {URL: "https://h.org", Auth: AuthOAuth}}}, Options{}); err == nil {
		t.Error("owners can sign in without anything that lets them")
	}
}
