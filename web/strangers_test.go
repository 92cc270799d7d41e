package web

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"voicebridge/assistant"
	"voicebridge/persistence/pictures"
	"voicebridge/persistence/records"
	"voicebridge/phone"
	"voicebridge/recording"
	"voicebridge/thread"
)

// upgrade are the headers of a WebSocket's handshake.
var upgrade = []option{header("Connection", "Upgrade"), header("Upgrade", "websocket"), header("Sec-WebSocket-Version", "13"), header("Sec-WebSocket-Key", "AAAAAAAAAAAAAAAAAAAAAA==")}

// A route needs an entry here if it names nothing of an owner, or names it elsewhere than in its path.
var (
	// ownRoutes name nothing: everybody has their own. What they answer has nothing of others.
	ownRoutes = []string{
		"GET /api/threads", "GET /api/threads?q=secret", "GET /api/assistants", "GET /api/hooks", "GET /api/usage", "GET /api/export", "GET /api/config", "GET /api/tools", "GET /api/models", "GET /api/mcp",
		"GET /api/ws", "POST /api/hooks", "POST /api/assistants", "POST /api/session", "DELETE /api/session", "DELETE /v1/realtime/client_secrets", "DELETE /api/me",
	}
	// publicRoutes are for everybody: a link to a thread is the permission to read it, and a server is the operator's;
	// a telephone's carrier signs what it sends.
	publicRoutes = []string{
		"GET /", "GET /healthz", "GET /readyz", "GET /metrics", "GET /openapi.json", "POST /v1", "POST /v1/realtime", "GET /s/:token", "GET /s/:token/images/:image_id", "GET /s/:token/messages/:message_id/audio",
		"POST /api/mcp/:name/connect", "DELETE /api/mcp/:name", "GET /api/mcp/callback",
		"POST /phone/:carrier/:line", "GET /phone/:carrier/:line", "POST /phone/:carrier/:line/status", "GET /phone/:carrier/:line/:token",
	}
	// bodies are what the other routes want besides a path.
	bodies = map[string]string{
		"POST /api/threads/:id/messages":             `{"content":"x"}`,
		"PATCH /api/threads/:id":                     `{"title":"x"}`,
		"PATCH /api/assistants/:assistant":           `{"name":"x"}`,
		"PATCH /api/hooks/:hook_id":                  `{"enabled":false}`,
		"POST /v1/realtime/calls/:call_id/reconnect": sdpOffer,
		"POST /v1/realtime/calls/:call_id/recording": `{"state":"paused"}`,
		"POST /api/threads/:id/queue":                `{"message":"x"}`,
		"PATCH /api/threads/:id/queue/:msg_id":       `{"message":"x"}`,
		"POST /api/threads/:id/queue/:msg_id/move":   `{"direction":"up"}`,
		"POST /api/sessions/:id/queue":               `{"message":"x"}`,
		"PATCH /api/sessions/:id/queue/:msg_id":      `{"message":"x"}`,
		"POST /api/sessions/:id/queue/:msg_id/move":  `{"direction":"up"}`,
		"POST /text/session/:id/message":             `{"content":"x"}`,
		"POST /text/session/:id/instructions":        `{"instructions":["x"]}`,
		"POST /text/session/:id/tool-output":         `{"toolOutputs":[{"callId":"x","output":1}]}`,
	}
)

// TestStrangersFindNothing asks for everything of an owner as another one, on every route that there is: to these it is not there, and
// it is still there afterwards. The owner's own requests find it.
func TestStrangersFindNothing(t *testing.T) {
	t.Parallel()
	var archive *recording.Archive
	b, key, release := busy(t, func(c *Config) {
		tokens(c)
		var err error
		store, err := recording.NewStore(t.TempDir(), recording.S3Config{})
		must(t, err)
		archive, err = recording.New(recording.Config{Tapes: t.TempDir(), Store: store, Records: c.Store.Recordings})
		must(t, err)
		c.Phone.DialPrefixes = []string{"+49"}
		c.Phone.Lines = map[string]phone.Line{"secret": {Name: "secret", Carrier: "twilio", Owner: "alice", Account: "AC1", MaxCalls: 1}}
		c.Recordings, c.ToolServers = archive, fakeServers{fakeSignIns: &fakeSignIns{}}
	})
	finish := sync.OnceFunc(func() { close(release) })
	defer finish()
	alice, bob := as("alice-token-of-tests"), as("bob-token-of-tests")

	// What alice has.
	on := b.thread(t, "alice")
	started := b.do(t, "POST", callsPath+"?thread_id="+on.Thread, sdpOffer, sdpType, alice)
	wantStatus(t, started, 201)
	call := strings.TrimPrefix(started.Header.Get("Location"), callsPath+"/")
	must(t, b.db.Records.SaveCall(t.Context(), key, records.Call{ID: "recorded", StartedAt: b.clock.now(), EndedAt: new(b.clock.now())}))
	spoken := b.spoken(t, key, "recorded", thread.RoleUser, &thread.AudioSpan{EndMS: 200})
	record(t, archive, "alice", "recorded")
	image, err := b.db.Pictures.Save(t.Context(), key, pictures.Image{MediaType: "image/png", Width: 1, Height: 1, Data: []byte("image")}, 0)
	must(t, err)
	waiting := decode[queuedAnswer](t, b.do(t, "POST", "/api/threads/"+key.Thread+"/queue", `{"message":"secret"}`, alice))
	session := decode[sessionAnswer](t, b.do(t, "POST", "/text/session", `{}`, alice)).Session
	_, err = b.db.Assistants.Create(t.Context(), "alice", assistant.Assistant{ID: "secret-desk", Name: "secret"}, false)
	must(t, err)
	hook := b.hook(t, "alice")
	delivery := decode[deliveryAnswer](t, b.do(t, "POST", "/api/hooks/"+hook.ID+"/test", "", alice))
	link := decode[struct{ URL string }](t, b.do(t, "POST", "/api/threads/"+key.Thread+"/share", "", alice)).URL
	secret := mint(t, b, `{"thread_id":"`+on.Thread+`"}`, alice)

	named := []string{
		":message_id", spoken, ":image_id", image.ID, ":msg_id", waiting.ID, ":chat_id", "chat", ":assistant", "secret-desk", ":hook_id", hook.ID, ":delivery", delivery.ID,
	}
	inPath := map[string]*strings.Replacer{
		"/v1/":   strings.NewReplacer(append(named, ":call_id", call)...),
		"/text/": strings.NewReplacer(append(named, ":id", session.ID)...),
		"/api/":  strings.NewReplacer(append(named, ":call_id", "recorded", ":id", key.Thread)...),
	}
	type request struct {
		route, method, target, body string
		options                     []option
	}
	// Those that name something elsewhere than in their path.
	requests := []request{
		{"GET /v1/realtime", "GET", "/v1/realtime?thread_id=" + key.Thread, "", upgrade},
		{"GET /v1/realtime", "GET", "/v1/realtime?assistant_id=secret-desk", "", upgrade},
		{"GET /v1/realtime", "GET", "/v1/realtime?call_id=" + call, "", upgrade},
		{"POST /v1/realtime/calls", "POST", callsPath + "?thread_id=" + key.Thread, sdpOffer, []option{sdpType}},
		{"POST /v1/realtime/calls", "POST", callsPath + "?takeover=true&thread_id=" + on.Thread, sdpOffer, []option{sdpType}},
		{"POST /v1/realtime/calls", "POST", callsPath + "?assistant_id=secret-desk", sdpOffer, []option{sdpType}},
		{"POST /v1/realtime/client_secrets", "POST", secretsPath, `{"thread_id":"` + key.Thread + `"}`, nil},
		{"POST /v1/realtime/client_secrets", "POST", secretsPath, `{"assistant_id":"secret-desk"}`, nil},
		{"GET /conductor", "GET", "/conductor?session_id=" + key.Thread, "", upgrade},
		{"GET /conductor", "GET", "/conductor?session_id=bobs&assistant_id=secret-desk", "", upgrade},
		{"POST /text/session", "POST", "/text/session", `{"assistant_id":"secret-desk"}`, nil},
		{"POST /api/calls", "POST", "/api/calls", `{"line":"secret","to":"+493077777777"}`, nil},
		{"POST /api/threads", "POST", "/api/threads", `{"assistant_id":"secret-desk"}`, nil},
	}
	known := map[string]bool{}
	for _, r := range requests {
		known[r.route] = true
	}
	for _, route := range slices.Concat(ownRoutes, publicRoutes) {
		known[route] = true
	}
	for _, r := range b.echo.Routes() {
		route := r.Method + " " + r.Path
		if known[route] || r.Method == http.MethodHead || b.pipeline.page.has(strings.TrimPrefix(r.Path, "/")) {
			continue
		}
		one := request{route: route, method: r.Method, body: bodies[route]}
		for prefix, names := range inPath {
			if strings.HasPrefix(r.Path, prefix) {
				one.target = names.Replace(r.Path)
			}
		}
		if one.target == r.Path || strings.Contains(one.target, ":") {
			t.Errorf("%s is in no list of this test", route)
		}
		if strings.HasSuffix(r.Path, "/ws") || route == "GET /v1/realtime/calls/:call_id/reconnect" {
			one.options = upgrade
		}
		switch {
		case one.body == sdpOffer:
			one.options = []option{sdpType}
		case route == "POST /api/threads/:id/images":
			one.body, one.options = pngOf(t, 1, 1), []option{header("Content-Type", "image/png")}
		case route == "POST /v1/realtime/calls/:call_id/recording":
			one.target = strings.Replace(one.target, call, "recorded", 1) // the one that the fake knows
		}
		requests = append(requests, one)
	}
	for route := range maps.Keys(bodies) {
		if !slices.ContainsFunc(requests, func(r request) bool { return r.route == route }) {
			t.Errorf("there is no route %s", route)
		}
	}

	for _, r := range requests {
		if got := b.do(t, r.method, r.target, r.body, append(slices.Clone(r.options), bob)...); got.StatusCode != http.StatusNotFound {
			t.Errorf("bob's %s %s: status %d: %s", r.method, r.target, got.StatusCode, got.body)
		}
	}
	for _, route := range ownRoutes {
		method, target, _ := strings.Cut(route, " ")
		got := b.do(t, method, target, "", bob)
		for _, words := range []string{"secret", "alice", key.Thread, on.Thread, call, hook.ID, session.ID} {
			if strings.Contains(got.body, words) {
				t.Errorf("bob's %s has %q: %s", route, words, got.body)
			}
		}
	}
	wantStatus(t, b.do(t, "POST", callsPath+"?thread_id="+b.thread(t, "bob").Thread, sdpOffer, sdpType, as(secret.Value)), 404)
	wantStatus(t, b.do(t, "GET", link, ""), 200)
	// To alice all of it is there: what waits in the queue for the end of the turn first, and what ends the call last.
	when := func(r request) int {
		switch {
		case strings.Contains(r.route, "/queue"):
			return 0
		case strings.HasSuffix(r.route, "/hangup"):
			return 2
		case strings.Contains(r.target, "takeover"):
			return 3
		}
		return 1
	}
	slices.SortStableFunc(requests, func(a, b request) int { return when(a) - when(b) })
	for _, r := range requests {
		if when(r) > 0 {
			finish()
		}
		if r.method == http.MethodDelete {
			continue // another request has found what it would delete
		}
		if got := b.do(t, r.method, r.target, r.body, append(slices.Clone(r.options), alice)...); got.StatusCode == http.StatusNotFound {
			t.Errorf("alice's %s %s: %s", r.method, r.target, got.body)
		}
	}
}
