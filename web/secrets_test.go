package web

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"voicebridge/bridge"
	"voicebridge/internal/testkit"
	"voicebridge/web/access"
)

const secretsPath = "/v1/realtime/client_secrets"

func mint(t *testing.T, b *bundle, body string, options ...option) secretAnswer {
	t.Helper()
	r := b.do(t, "POST", secretsPath, body, options...)
	wantStatus(t, r, 200)
	return decode[secretAnswer](t, r)
}

func TestSecretOpensCallsOnItsThread(t *testing.T) {
	t.Parallel()
	b := setup(t, tokens)
	key, other := b.thread(t, "alice"), b.thread(t, "alice")
	ek := mint(t, b, `{"thread_id":"`+key.Thread+`","session":{"audio":{}}}`, as("alice-token-of-tests")).Value

	wantStatus(t, b.do(t, "POST", callsPath, form("sdp", sdpOffer, "session", `{"tools":[]}`), formType, as(ek)), 201)
	if got := b.calls.started()[0]; got.Owner != "alice" || got.ThreadID != key.Thread || string(got.Session) != `{"audio":{}}` {
		t.Errorf("the bridge got %+v session %s", got, got.Session)
	}
	wantStatus(t, b.do(t, "POST", callsPath+"?takeover=1&thread_id="+key.Thread, sdpOffer, sdpType, as(ek)), 201)
	wantError(t, b.do(t, "POST", callsPath+"?thread_id="+other.Thread, sdpOffer, sdpType, as(ek)), 404, "thread_not_found")

	// It ends calls of its own thread only.
	wantStatus(t, b.do(t, "POST", callsPath+"?thread_id="+other.Thread, sdpOffer, sdpType, as("alice-token-of-tests")), 201)
	id, _ := b.calls.Live("alice", other.Thread)
	wantError(t, b.do(t, "POST", callsPath+"/"+id+"/hangup", "", as(ek)), 404, "call_not_found")
	id, _ = b.calls.Live("alice", key.Thread)
	wantStatus(t, b.do(t, "POST", callsPath+"/"+id+"/hangup", "", as(ek)), 200)

	// It opens nothing else, not even on loopback without authentication.
	wantError(t, b.do(t, "GET", "/api/threads", "", as(ek)), 401, "invalid_api_key")
	wantError(t, b.do(t, "POST", secretsPath, "{}", as(ek)), 401, "invalid_api_key")
	wantError(t, b.do(t, "POST", "/api/session", `{"token":"`+ek+`"}`), 401, "invalid_api_key")

	b.clock.advance(secretDefaultTTL * time.Second)
	wantError(t, b.do(t, "POST", callsPath, sdpOffer, sdpType, as(ek)), 401, "invalid_api_key")
	if strings.Contains(b.log.String(), ek) {
		t.Error("the secret is in the log")
	}
}

// TestExpiredSecretKeepsItsCall has a secret expire during a call: it reconnects that call and hangs it
// up, on any instance, and does nothing else.
func TestExpiredSecretKeepsItsCall(t *testing.T) {
	t.Parallel()
	b := setup(t, tokens)
	alice := as("alice-token-of-tests")
	key := b.thread(t, "alice")
	secret := func() option {
		return as(mint(t, b, `{"thread_id":"`+key.Thread+`","expires_after":{"seconds":10}}`, alice).Value)
	}
	reconnect := func(b *bundle, call string, as option) *answer {
		return b.do(t, "POST", callsPath+"/"+call+"/reconnect", sdpOffer, sdpType, as)
	}
	opener, other, before := secret(), secret(), secret()
	for _, ek := range []option{before, opener} {
		wantStatus(t, b.do(t, "POST", callsPath+"?takeover=true", sdpOffer, sdpType, ek), 201)
	}
	b.clock.advance(11 * time.Second)
	mint(t, b, "", alice) // deletes what has expired
	neighbour := b.neighbour(t, nil)
	for _, server := range []*bundle{b, neighbour} {
		wantStatus(t, reconnect(server, "call-2", opener), 200)
	}
	for name, r := range map[string]*answer{
		"another secret of the thread": reconnect(b, "call-2", other),
		"a call that it did not open":  reconnect(b, "call-1", opener),
		"a call that there never was":  reconnect(b, "call-9", opener),
		"another call":                 b.do(t, "POST", callsPath+"?takeover=true", sdpOffer, sdpType, opener),
		"a thread":                     b.do(t, "GET", messagesPath(key), "", opener),
	} {
		testkit.Equal(t, r.StatusCode, http.StatusUnauthorized, "%s: status, %s", name, r.body)
	}
	wantError(t, reconnect(b, "call-1", before), 404, "call_not_found") // which was taken over
	wantStatus(t, b.do(t, "POST", callsPath+"/call-2/hangup", "", opener), 200)
	wantError(t, reconnect(b, "call-2", opener), 404, "call_not_found")

	kiosk := secret()
	wantStatus(t, b.do(t, "POST", callsPath, sdpOffer, sdpType, kiosk), 201)
	b.clock.advance(23 * time.Hour)
	wantStatus(t, reconnect(b, "call-3", kiosk), 200)
	b.clock.advance(time.Hour)
	wantError(t, reconnect(b, "call-3", kiosk), 401, "invalid_api_key")
	wantStatus(t, reconnect(b, "call-3", secret()), 200) // the thread's
}

// TestExpiredSecretIsNoGuess presents one often, as a page does that does not know: nobody at its address
// is locked out.
func TestExpiredSecretIsNoGuess(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *Config) { tokens(c); c.Limits.SignInsPerMinute = 2 })
	ek := mint(t, b, `{"expires_after":{"seconds":10}}`, as("alice-token-of-tests")).Value
	b.clock.advance(11 * time.Second)
	for range 4 {
		wantError(t, b.do(t, "POST", callsPath, sdpOffer, sdpType, as(ek)), 401, "invalid_api_key")
	}
	forged := ek[:len(ek)-2] + "AA"
	for _, status := range []int{401, 401, 429} {
		wantStatus(t, b.do(t, "POST", callsPath, sdpOffer, sdpType, as(forged)), status)
	}
}

// TestRevokedSecretKeepsNoCall revokes secrets whose calls live on, before and after they expire.
func TestRevokedSecretKeepsNoCall(t *testing.T) {
	t.Parallel()
	b := setup(t, tokens)
	alice := as("alice-token-of-tests")
	for name, expired := range map[string]bool{"while valid": false, "once expired": true} {
		ek := mint(t, b, `{"expires_after":{"seconds":10}}`, alice).Value
		r := b.do(t, "POST", callsPath, sdpOffer, sdpType, as(ek))
		wantStatus(t, r, 201)
		again := r.Header.Get("Location") + "/reconnect"
		if expired {
			b.clock.advance(11 * time.Second)
			mint(t, b, "", alice) // deletes what has expired
		}
		wantStatus(t, b.do(t, "POST", again, sdpOffer, sdpType, as(ek)), 200)
		revoke := b.do(t, "DELETE", secretsPath, `{"value":"`+ek+`"}`, alice)
		testkit.Equal(t, revoke.StatusCode, map[bool]int{false: 204, true: 404}[expired], "%s: revoking answers", name)
		b.clock.advance(11 * time.Second)
		wantError(t, b.do(t, "POST", again, sdpOffer, sdpType, as(ek)), 401, "invalid_api_key")
	}
}

func TestSecretOnLoopback(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	ek := mint(t, b, "").Value
	wantStatus(t, b.do(t, "POST", callsPath, sdpOffer, sdpType, as(ek)), 201)
	// Other tokens do not matter here, but a wrong client secret is an error.
	wantStatus(t, b.do(t, "POST", callsPath, sdpOffer, sdpType, as("sk-anything")), 201)
	wantError(t, b.do(t, "POST", callsPath, sdpOffer, sdpType, as("ek_wrong")), 401, "invalid_api_key")
	wantError(t, b.do(t, "GET", "/api/threads", "", as(ek)), 401, "invalid_api_key")
}

func TestSecretWithoutThreadStaysOnTheOneItMade(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	other := b.thread(t, access.LocalOwner)
	ek := mint(t, b, "").Value
	wantError(t, b.do(t, "POST", callsPath+"?thread_id="+other.Thread, sdpOffer, sdpType, as(ek)), 404, "thread_not_found")
	wantError(t, b.do(t, "POST", callsPath+"/call-1/hangup", "", as(ek)), 404, "call_not_found")

	// A call that fails binds the secret to nothing.
	b.calls.failWith(&bridge.Error{Code: bridge.CodeNoOpus, Message: "m"})
	wantError(t, b.do(t, "POST", callsPath, sdpOffer, sdpType, as(ek)), 400, "no_opus")
	b.calls.failWith(nil)

	// When two first calls come at once, the second finds the thread of the first.
	b.calls.entered, b.calls.hold = make(chan struct{}, 2), make(chan struct{})
	answers := make(chan *answer, 2)
	for range 2 {
		go func() { answers <- b.do(t, "POST", callsPath+"?takeover=true", sdpOffer, sdpType, as(ek)) }()
	}
	testkit.Take(t, "the beginning", b.calls.entered)
	close(b.calls.hold)
	first, second := testkit.Take(t, "an answer", answers), testkit.Take(t, "an answer", answers)
	wantStatus(t, first, 201)
	wantStatus(t, second, 201)
	if a, z := first.Header.Get("X-Thread-Id"), second.Header.Get("X-Thread-Id"); a != z || a == other.Thread {
		t.Errorf("threads %q and %q", a, z)
	}
}

// TestSecretBringsNoThreadBack deletes the thread that a secret has made.
func TestSecretBringsNoThreadBack(t *testing.T) {
	t.Parallel()
	b := setup(t, tokens)
	alice := as("alice-token-of-tests")
	ek := mint(t, b, "", alice).Value
	first := b.do(t, "POST", callsPath, sdpOffer, sdpType, as(ek))
	wantStatus(t, first, 201)
	thread := first.Header.Get("X-Thread-Id")
	wantStatus(t, b.do(t, "POST", callsPath+"?takeover=true", sdpOffer, sdpType, as(ek)), 201)
	wantStatus(t, b.do(t, "POST", first.Header.Get("Location")+"/hangup", "", alice), 404) // taken over
	b.calls.mu.Lock()
	clear(b.calls.live)
	b.calls.mu.Unlock()
	wantStatus(t, b.do(t, "DELETE", "/api/threads/"+thread, "", alice), 204)
	wantError(t, b.do(t, "POST", callsPath, sdpOffer, sdpType, as(ek)), 404, "thread_not_found")
	wantError(t, b.do(t, "GET", "/api/threads/"+thread, "", alice), 404, "thread_not_found")
}

// TestSecretsSecondCallKeepsTheFirst has two first calls come at once, of which the one that made the
// thread is the later one: the other keeps its thread.
func TestSecretsSecondCallKeepsTheFirst(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	ek := mint(t, b, "").Value
	b.calls.failWith(&bridge.Error{Code: bridge.CodeCallActive, Message: "m"})
	wantError(t, b.do(t, "POST", callsPath, sdpOffer, sdpType, as(ek)), 409, "call_active")
	if threads := decode[threadPage](t, b.do(t, "GET", "/api/threads", "")).Threads; len(threads) != 1 {
		t.Errorf("%d threads are left", len(threads))
	}
}

// TestSecretsFailedCallLeavesTheNextOne has the call that made the thread fail when a second try is already live there,
// as with a page that begins twice and cancels the first.
func TestSecretsFailedCallLeavesTheNextOne(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	ek := mint(t, b, "").Value
	entered, hold := make(chan struct{}, 1), make(chan struct{})
	set := func(entered, hold chan struct{}, fail error) {
		b.calls.mu.Lock()
		defer b.calls.mu.Unlock()
		b.calls.entered, b.calls.hold, b.calls.fail = entered, hold, fail
	}
	set(entered, hold, context.Canceled)
	first := make(chan *answer, 1)
	go func() { first <- b.do(t, "POST", callsPath, sdpOffer, sdpType, as(ek)) }()
	testkit.Take(t, "the beginning", entered)
	set(nil, nil, nil)
	second := b.do(t, "POST", callsPath, sdpOffer, sdpType, as(ek))
	wantStatus(t, second, 201)
	close(hold)
	wantStatus(t, testkit.Take(t, "the first", first), statusClientClosed)
	thread := second.Header.Get("X-Thread-Id")
	if _, live := b.calls.Live(access.LocalOwner, thread); !live {
		t.Error("the second call was hung up")
	}
	wantStatus(t, b.do(t, "GET", "/api/threads/"+thread, ""), 200)
}

// TestFixedSession has an application's server mint a secret with a session.
func TestFixedSession(t *testing.T) {
	t.Parallel()
	b := setup(t, tokens)
	cookie := header("Cookie", signIn(t, b, "alice-token-of-tests"))
	const session = `"session":{"type":"realtime","model":"x","instructions":"Be short.","tracing":"auto","tools":[],"max_output_tokens":5,"audio":{"output":{"voice":"ash","format":{"type":"x"}}}}`
	for name, c := range map[string]struct {
		body  string
		as    option
		fixed bool
		may   []string
		shown string
	}{
		"a server's": {`{` + session + `}`, as("alice-token-of-tests"), true, nil,
			`{"audio":{"output":{"voice":"ash"}},"instructions":"Be short.","max_output_tokens":5,"model":"model-1","object":"realtime.session","tools":[],"type":"realtime"}`},
		"with more room": {`{` + session + `,"client_may_change":["tools","instructions"]}`, as("alice-token-of-tests"), true, []string{"tools", "instructions"},
			`{"audio":{"output":{"voice":"ash"}},"instructions":"Be short.","max_output_tokens":5,"model":"model-1","object":"realtime.session","tools":[],"type":"realtime"}`},
		"a page's": {`{` + session + `}`, cookie, false, nil,
			`{"audio":{"output":{"voice":"ash"}},"model":"model-1","object":"realtime.session","tools":[],"type":"realtime"}`},
		"what is not used": {`{"session":{"max_output_tokens":null,"tools":[{"type":"mcp","server_label":"x"},{"type":"function","name":"look"}],"audio":{"input":{"turn_detection":null,"transcription":null},"output":null}}}`,
			as("alice-token-of-tests"), true, nil,
			`{"audio":{"input":{"turn_detection":null}},"model":"model-1","object":"realtime.session","tools":[{"type":"function","name":"look"}],"type":"realtime"}`},
		"none": {`{}`, as("alice-token-of-tests"), false, nil, `{"model":"model-1","object":"realtime.session","type":"realtime"}`},
	} {
		got := mint(t, b, c.body, c.as)
		if string(got.Session) != c.shown {
			t.Errorf("%s: shown %s", name, got.Session)
		}
		wantStatus(t, b.do(t, "POST", callsPath, sdpOffer, sdpType, as(got.Value)), 201)
		all := b.calls.started()
		if start := all[len(all)-1]; start.Fixed != c.fixed || !slices.Equal(start.MayChange, c.may) {
			t.Errorf("%s: the bridge got %+v", name, start)
		}
	}
}
