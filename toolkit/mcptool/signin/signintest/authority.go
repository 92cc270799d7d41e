// Package signintest is an OAuth authorization server, and what protects an MCP server with it, for tests. It is strict: whatever the
// specifications demand of a client, it demands.
package signintest

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"voicebridge/internal/testkit"
)

// Authority is the authorization server. Its fields may be changed before it is asked.
type Authority struct {
	// URL is its issuer.
	URL string
	// Resource is the only one for which it gives tokens.
	Resource string
	// Lifetime is that of access tokens.
	Lifetime time.Duration
	// Metadata changes what it says about itself; nil leaves that as it is.
	Metadata func(map[string]any)
	// Answer may answer a request in its place, and then returns true; nil never does.
	Answer func(http.ResponseWriter, *http.Request) bool
	// Now is its clock; nil is the machine's.
	Now func() time.Time

	mu       sync.Mutex
	clients  map[string]string // redirect address by id
	codes    map[string]code
	access   map[string]access
	refresh  map[string]string // family by token
	families map[string]*family
	counts   map[string]int
}

// code is one that has been given to a browser.
type code struct{ client, redirect, challenge, scope string }

type access struct {
	family  string
	expires time.Time
}

// family is all that came of one sign-in.
type family struct {
	client, user string
	current      string // the refresh token that counts
	over         bool
}

// NewAuthority starts one for a test, whose users are user-1, user-2 and so on, in the order in which they sign in.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	a := &Authority{
		Lifetime: time.Hour, clients: map[string]string{}, codes: map[string]code{}, access: map[string]access{}, refresh: map[string]string{},
		families: map[string]*family{}, counts: map[string]int{},
	}
	server := httptest.NewServer(a)
	t.Cleanup(server.Close)
	a.URL = server.URL
	return a
}

// Count returns how often something has happened: register, authorize, code, refresh, revoke; "theft" is the use of an old refresh token.
func (a *Authority) Count(what string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.counts[what]
}

// Forget drops all clients, as a restart would.
func (a *Authority) Forget() {
	a.mu.Lock()
	defer a.mu.Unlock()
	clear(a.clients)
}

// EndAccess ends all access tokens, but no sign-in.
func (a *Authority) EndAccess() {
	a.mu.Lock()
	defer a.mu.Unlock()
	clear(a.access)
}

// EndAll ends all sign-ins.
func (a *Authority) EndAll() {
	a.mu.Lock()
	defer a.mu.Unlock()
	clear(a.access)
	for _, f := range a.families {
		f.over = true
	}
}

// Open returns how many sign-ins have not ended.
func (a *Authority) Open() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := 0
	for _, f := range a.families {
		if !f.over {
			n++
		}
	}
	return n
}

// Tokens returns all tokens that it has given.
func (a *Authority) Tokens() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Concat(slices.Collect(maps.Keys(a.access)), slices.Collect(maps.Keys(a.refresh)))
}

// user returns whose token it is; empty if it does not count.
func (a *Authority) user(token string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	t, ok := a.access[token]
	if !ok || !t.expires.After(a.now()) || a.families[t.family].over {
		return ""
	}
	return a.families[t.family].user
}

func (a *Authority) now() time.Time {
	if a.Now == nil {
		return time.Now()
	}
	return a.Now()
}

func (a *Authority) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if a.Answer != nil && a.Answer(w, r) {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	switch r.Method + " " + r.URL.Path {
	case "GET /.well-known/oauth-authorization-server":
		meta := map[string]any{
			"issuer": a.URL, "authorization_endpoint": a.URL + "/authorize", "token_endpoint": a.URL + "/token", "registration_endpoint": a.URL + "/register",
			"revocation_endpoint": a.URL + "/revoke", "response_types_supported": []string{"code"}, "code_challenge_methods_supported": []string{"S256"},
			"token_endpoint_auth_methods_supported": []string{"none"}, "authorization_response_iss_parameter_supported": true,
		}
		if a.Metadata != nil {
			a.Metadata(meta)
		}
		answer(w, http.StatusOK, meta)
	case "POST /register":
		a.register(w, r)
	case "GET /authorize":
		a.authorize(w, r)
	case "POST /token":
		a.token(w, r)
	case "POST /revoke":
		a.revoke(w, r)
	default:
		http.NotFound(w, r)
	}
}

func (a *Authority) register(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Redirects []string `json:"redirect_uris"`
		Grants    []string `json:"grant_types"`
		Method    string   `json:"token_endpoint_auth_method"`
	}
	if json.NewDecoder(r.Body).Decode(&in) != nil || len(in.Redirects) != 1 || in.Method != "none" || !slices.Contains(in.Grants, "refresh_token") {
		refuse(w, "invalid_client_metadata", "one redirect address, no secret, and refresh_token are demanded")
		return
	}
	id := a.made("register", "client")
	a.clients[id] = in.Redirects[0]
	answer(w, http.StatusCreated, map[string]any{"client_id": id, "redirect_uris": in.Redirects, "token_endpoint_auth_method": "none"})
}

func (a *Authority) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	redirect, known := a.clients[q.Get("client_id")]
	if !known || q.Get("redirect_uri") != redirect {
		http.Error(w, "unknown client or redirect address", http.StatusBadRequest) // and no way back
		return
	}
	back := url.Values{"state": {q.Get("state")}, "iss": {a.URL}}
	switch {
	case len(q.Get("state")) < 22 || q.Get("response_type") != "code":
		back.Set("error", "invalid_request")
	case q.Get("code_challenge_method") != "S256" || len(q.Get("code_challenge")) != 43:
		back.Set("error", "invalid_request")
		back.Set("error_description", "PKCE with S256 is demanded")
	case q.Get("resource") != a.Resource:
		back.Set("error", "invalid_target")
	default:
		c := a.made("authorize", "code")
		a.codes[c] = code{q.Get("client_id"), redirect, q.Get("code_challenge"), q.Get("scope")}
		back.Set("code", c)
	}
	http.Redirect(w, r, redirect+"?"+back.Encode(), http.StatusFound)
}

func (a *Authority) token(w http.ResponseWriter, r *http.Request) {
	if r.ParseForm() != nil || r.Header.Get("Content-Type") != "application/x-www-form-urlencoded" {
		refuse(w, "invalid_request", "not a form")
		return
	}
	form := r.PostForm
	switch _, known := a.clients[form.Get("client_id")]; {
	case !known:
		refuse(w, "invalid_client", "")
	case form.Get("resource") != a.Resource:
		refuse(w, "invalid_target", "")
	case form.Get("grant_type") == "authorization_code":
		c, ok := a.codes[form.Get("code")]
		delete(a.codes, form.Get("code"))
		sum := sha256.Sum256([]byte(form.Get("code_verifier")))
		if !ok || c.client != form.Get("client_id") || c.redirect != form.Get("redirect_uri") || base64.RawURLEncoding.EncodeToString(sum[:]) != c.challenge {
			refuse(w, "invalid_grant", "")
			return
		}
		name := a.made("code", "family")
		a.families[name] = &family{client: c.client, user: fmt.Sprintf("user-%d", a.counts["code"])}
		a.give(w, name)
	case form.Get("grant_type") == "refresh_token":
		name, ok := a.refresh[form.Get("refresh_token")]
		f := a.families[name]
		switch {
		case !ok || f.over || f.client != form.Get("client_id"):
			refuse(w, "invalid_grant", "")
		case f.current != form.Get("refresh_token"):
			a.counts["theft"]++
			f.over = true
			refuse(w, "invalid_grant", "it was used before")
		default:
			a.counts["refresh"]++
			a.give(w, name)
		}
	default:
		refuse(w, "unsupported_grant_type", "")
	}
}

// give gives the tokens of a family, and with them a new refresh token.
func (a *Authority) give(w http.ResponseWriter, name string) {
	token, refresh := "access-"+rand.Text(), "refresh-"+rand.Text()
	a.access[token] = access{name, a.now().Add(a.Lifetime)}
	a.refresh[refresh], a.families[name].current = name, refresh
	answer(w, http.StatusOK, map[string]any{
		"access_token": token, "token_type": "bearer", "expires_in": a.Lifetime.Seconds(), "refresh_token": refresh,
	})
}

func (a *Authority) revoke(w http.ResponseWriter, r *http.Request) {
	if r.ParseForm() != nil || a.clients[r.PostForm.Get("client_id")] == "" {
		refuse(w, "invalid_client", "")
		return
	}
	token := r.PostForm.Get("token")
	name := a.refresh[token]
	if t, ok := a.access[token]; ok {
		name = t.family
	}
	if f := a.families[name]; f != nil && !f.over {
		f.over = true
		a.counts["revoke"]++
	}
	w.WriteHeader(http.StatusOK)
}

// made counts what happens and makes a name for what comes of it.
func (a *Authority) made(what, kind string) string {
	a.counts[what]++
	return kind + "-" + rand.Text()
}

// Protect returns a handler at the address Resource that lets nobody in without a token of the authority. It tells next whose token it was in
// the header X-User. The metadata are at metadata, a path of the same server.
func (a *Authority) Protect(next http.Handler, metadata string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		resource, _ := url.Parse(a.Resource)
		if r.URL.Path == metadata {
			answer(w, http.StatusOK, map[string]any{"resource": a.Resource, "authorization_servers": []string{a.URL}, "scopes_supported": []string{"mail.read"}})
			return
		}
		if r.URL.Path != resource.Path {
			http.NotFound(w, r)
			return
		}
		token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		user := a.user(token)
		if user == "" {
			challenge := fmt.Sprintf(`Bearer resource_metadata="%s://%s%s", scope="mail.read"`, resource.Scheme, resource.Host, metadata)
			if token != "" {
				challenge += `, error="invalid_token"`
			}
			w.Header().Set("WWW-Authenticate", challenge)
			http.Error(w, "sign in first", http.StatusUnauthorized)
			return
		}
		r = r.Clone(r.Context())
		r.Header.Set("X-User", user)
		next.ServeHTTP(w, r)
	})
}

// Browse goes to an address as a browser does that is not signed in anywhere else, and returns where it is sent at last, which it does not open:
// the address that begins with until.
func Browse(t testing.TB, address, until string) *url.URL {
	t.Helper()
	var last *url.URL
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, CheckRedirect: func(r *http.Request, _ []*http.Request) error {
		if strings.HasPrefix(r.URL.String(), until) {
			last = r.URL
			return http.ErrUseLastResponse
		}
		return nil
	}}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, http.NoBody)
	testkit.Must(t, err)
	response, err := client.Do(request)
	testkit.Must(t, err)
	_ = response.Body.Close()
	if last == nil {
		t.Fatalf("%s did not lead to %s, but to status %d", address, until, response.StatusCode)
	}
	return last
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // it fails if nobody reads
}

func refuse(w http.ResponseWriter, code, why string) {
	answer(w, http.StatusBadRequest, map[string]string{"error": code, "error_description": why})
}
