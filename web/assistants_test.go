package web

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/golang-jwt/jwt/v5"
	"go.yaml.in/yaml/v3"

	"voicebridge/assistant"
	"voicebridge/bridge"
	"voicebridge/chat"
	"voicebridge/llm"
	"voicebridge/persistence"
	"voicebridge/persistence/assistants"
	"voicebridge/thread"
	"voicebridge/web/access"
)

// withAssistants gives the server two owners and an assistant of the operator.
func withAssistants(c *Config) {
	tokens(c)
	c.AssistantNames = AssistantNames{Upstreams: []string{"openai", "grok"}, Providers: []string{"simulator"}, MCPServers: []string{"files"}}
}

var alice, bob = as("alice-token-of-tests"), as("bob-token-of-tests")

func TestAssistants(t *testing.T) {
	t.Parallel()
	b := setup(t, withAssistants)
	const whole = `{
		"id":"front-desk","name":"Front desk","description":"Answers","instructions":"You are {{role}}.","greeting":"Hello {{user}}!","variables":{"role":"kind"},
		"voice":{"upstream":"grok","model":"m","voice":"eve","speed":1.2,"turn_detection":{"type":"semantic_vad","eagerness":"low"},"language":"de","transcription_model":"t"},
		"text":{"provider":"simulator","model":"m","temperature":0.5,"max_tokens":100},
		"tools":{"allow":[],"deny":["http"],"approve":["files__*"]},"mcp_servers":["files"],
		"http_tools":[{"name":"lookup","description":"Finds","parameters":{"type":"object","properties":{}},"url":"https://api.example.org/x","method":"GET","timeout_seconds":5}],
		"history":{"replay_messages":0,"max_turns":3},"limits":{"max_minutes":5,"idle_minutes":0.5,"call_usd":1.5},"recording":false,
		"extract":{"type":"object","properties":{"name":{"type":"string"}}},"shared":true}`
	r := b.do(t, "POST", "/api/assistants", whole, alice)
	wantStatus(t, r, 201)
	made := decode[map[string]any](t, r)
	if secret, _ := made["secret"].(string); !strings.HasPrefix(secret, "whsec_") || r.Header.Get("Location") != "/api/assistants/front-desk" {
		t.Errorf("created with the secret %q at %q", secret, r.Header.Get("Location"))
	}
	r = b.do(t, "GET", "/api/assistants/front-desk", "", alice)
	wantStatus(t, r, 200)
	read := decode[map[string]any](t, r)
	delete(made, "secret")
	if !reflect.DeepEqual(read, made) {
		t.Errorf("read %v, want %v", read, made)
	}
	var want map[string]any
	must(t, json.Unmarshal([]byte(whole), &want))
	delete(read, "created_at")
	delete(read, "updated_at")
	if !reflect.DeepEqual(read, want) {
		t.Errorf("read %v, want what was sent, %v", read, want)
	}
	// A patch merges; null brings the server's setting back.
	r = b.do(t, "PATCH", "/api/assistants/front-desk", `{"voice":{"voice":"ash","speed":null},"tools":null,"variables":{"tone":"warm"},"shared":false,"read_only":true}`, alice)
	wantStatus(t, r, 200)
	got := decode[assistant.Assistant](t, r)
	if got.Voice.Voice != "ash" || got.Voice.Speed != nil || got.Voice.Upstream != "grok" || got.Tools.Deny != nil || len(got.Variables) != 2 || got.Shared || got.ReadOnly {
		t.Errorf("changed to %+v", got)
	}
	wantStatus(t, b.do(t, "DELETE", "/api/assistants/front-desk", "", alice), 204)
	wantCode(t, b.do(t, "GET", "/api/assistants/front-desk", "", alice), 404, "assistant_not_found")
}

func TestAssistantIDs(t *testing.T) {
	t.Parallel()
	b := setup(t, withAssistants)
	for _, want := range []string{"anna-s-helper", "anna-s-helper-2", "anna-s-helper-3"} {
		r := b.do(t, "POST", "/api/assistants", `{"name":"  Anna's Helper! "}`, alice)
		wantStatus(t, r, 201)
		if got := decode[assistant.Assistant](t, r).ID; got != want {
			t.Errorf("id %q, want %q", got, want)
		}
	}
	wantCode(t, b.do(t, "POST", "/api/assistants", `{"id":"anna-s-helper","name":"x"}`, alice), 409, "assistant_exists")
	wantStatus(t, b.do(t, "POST", "/api/assistants", `{"id":"anna-s-helper","name":"x"}`, bob), 201) // another owner's does not matter
	wantCode(t, b.do(t, "PATCH", "/api/assistants/anna-s-helper", `{"id":"other"}`, alice), 400, "invalid_value")
	r := b.do(t, "POST", "/api/assistants", `{"name":"日本"}`, alice)
	wantStatus(t, r, 201)
	if got := decode[assistant.Assistant](t, r).ID; got != "assistant" {
		t.Errorf("id %q", got)
	}
}

// wantCode checks the status and the code of an error.
func wantCode(t *testing.T, r *answer, status int, code string) {
	t.Helper()
	wantStatus(t, r, status)
	if got := decode[plainErrorBody](t, r); got.Error != code {
		t.Errorf("code %q, want %q: %s", got.Error, code, r.body)
	}
}

// TestFixedAssistant has one of the operator, which is for all, and for nobody to change.
func TestFixedAssistant(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *Config) {
		withAssistants(c)
		c.Assistants = assistants.New(nil, []assistant.Assistant{{ID: "fixed", Name: "The operator's"}})
	})
	for _, who := range []option{alice, bob} {
		r := b.do(t, "GET", "/api/assistants/fixed", "", who)
		wantStatus(t, r, 200)
		if !decode[assistant.Assistant](t, r).ReadOnly {
			t.Error("it is not read_only")
		}
		wantCode(t, b.do(t, "PATCH", "/api/assistants/fixed", `{"name":"x"}`, who), 409, "read_only")
		wantCode(t, b.do(t, "DELETE", "/api/assistants/fixed", "", who), 409, "read_only")
	}
}

func TestWhoMayUseAnAssistant(t *testing.T) {
	t.Parallel()
	b := setup(t, withAssistants)
	wantStatus(t, b.do(t, "POST", "/api/assistants", `{"id":"mine","name":"Mine","instructions":"canary"}`, alice), 201)
	for _, try := range []struct{ method, body string }{{"GET", ""}, {"PATCH", `{"name":"x"}`}, {"DELETE", ""}} {
		r := b.do(t, try.method, "/api/assistants/mine", try.body, bob)
		wantCode(t, r, 404, "assistant_not_found")
		if strings.Contains(r.body, "canary") {
			t.Errorf("%s shows it: %s", try.method, r.body)
		}
	}
	ids := func(who option) string {
		t.Helper()
		r := b.do(t, "GET", "/api/assistants", "", who)
		wantStatus(t, r, 200)
		var out []string
		for _, a := range decode[struct{ Assistants []assistant.Assistant }](t, r).Assistants {
			out = append(out, fmt.Sprint(a.ID, a.ReadOnly))
		}
		return strings.Join(out, " ")
	}
	if got := ids(bob); got != "" {
		t.Errorf("bob sees %s", got)
	}
	wantCode(t, b.do(t, "POST", "/api/threads", `{"assistant_id":"mine"}`, bob), 404, "assistant_not_found")
	wantStatus(t, b.do(t, "PATCH", "/api/assistants/mine", `{"shared":true}`, alice), 200)
	if got := ids(bob); got != "minetrue" {
		t.Errorf("bob sees %s", got)
	}
	wantCode(t, b.do(t, "PATCH", "/api/assistants/mine", `{"name":"x"}`, bob), 409, "read_only")
	wantCode(t, b.do(t, "DELETE", "/api/assistants/mine", "", bob), 409, "read_only")
	wantStatus(t, b.do(t, "POST", "/api/threads", `{"assistant_id":"mine"}`, bob), 201)
	wantStatus(t, b.do(t, "POST", "/api/assistants", `{"id":"mine","name":"Bob's"}`, bob), 201)
	if got := ids(bob); got != "minefalse" {
		t.Errorf("bob sees %s, not his own", got)
	}
}

func TestBadAssistants(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *Config) {
		withAssistants(c)
		c.Limits.AllowedModels = []string{"simulator/good"}
	})
	for _, c := range []struct{ body, path string }{
		{`{}`, "name"},
		{`{"name":" "}`, "name"},
		{`{"name":7}`, "name"},
		{`{"name":"x","label":"y"}`, "label"},
		{`{"name":"x","id":"A b"}`, "id"},
		{`{"name":"x","id":"` + strings.Repeat("a", 65) + `"}`, "id"},
		{`{"name":"x","instructions":"` + strings.Repeat("a", 32769) + `"}`, "instructions"},
		{`{"name":"x","greeting":["x"]}`, "greeting"},
		{`{"name":"x","variables":{"user":"x"}}`, "variables.user"},
		{`{"name":"x","variables":{"a b":"x"}}`, "variables.a b"},
		{`{"name":"x","variables":{"a":1}}`, "variables.a"},
		{`{"name":"x","voice":{"speed":9}}`, "voice.speed"},
		{`{"name":"x","voice":{"speed":"fast"}}`, "voice.speed"},
		{`{"name":"x","voice":{"spead":1}}`, "voice.spead"},
		{`{"name":"x","voice":[]}`, "voice"},
		{`{"name":"x","voice":{"upstream":"nowhere"}}`, "voice.upstream"},
		{`{"name":"x","voice":{"language":"German"}}`, "voice.language"},
		{`{"name":"x","voice":{"turn_detection":{"type":"psychic"}}}`, "voice.turn_detection.type"},
		{`{"name":"x","voice":{"turn_detection":{"type":"server_vad","threshold":3}}}`, "voice.turn_detection.threshold"},
		{`{"name":"x","text":{"provider":"nobody"}}`, "text.provider"},
		{`{"name":"x","text":{"temperature":3}}`, "text.temperature"},
		{`{"name":"x","text":{"max_tokens":1.5}}`, "text.max_tokens"},
		{`{"name":"x","tools":{"allow":["a b"]}}`, "tools.allow[0]"},
		{`{"name":"x","tools":{"deny":"http"}}`, "tools.deny"},
		{`{"name":"x","tools":{"allow":["x"],"deny":["a","http:write"]}}`, "tools.deny[1]"},
		{`{"name":"x","mcp_servers":["files","nothing"]}`, "mcp_servers[1]"},
		{`{"name":"x","http_tools":[{"name":"a"}]}`, "http_tools[0].url"},
		{`{"name":"x","http_tools":[{"name":"a","url":"ftp://x/"}]}`, "http_tools[0].url"},
		{`{"name":"x","http_tools":[{"name":"a","url":"https://u:p@x/"}]}`, "http_tools[0].url"},
		{`{"name":"x","http_tools":[{"name":"a","url":"https://x/"},{"name":"a","url":"https://x/"}]}`, "http_tools[1].name"},
		{`{"name":"x","http_tools":[{"name":"a","url":"https://x/","method":"TRACE"}]}`, "http_tools[0].method"},
		{`{"name":"x","http_tools":[{"name":"a","url":"https://x/","parameters":{"type":"string"}}]}`, "http_tools[0].parameters"},
		{`{"name":"x","history":{"max_turns":0}}`, "history.max_turns"},
		{`{"name":"x","limits":{"max_minutes":-1}}`, "limits.max_minutes"},
		{`{"name":"x","recording":"yes"}`, "recording"},
		{`{"name":"x","extract":"all"}`, "extract"},
		{`{"name":"x","extract":{"type":"array"}}`, "extract"},
		{`{"name":"x","extract":{"type":"object","$ref":"https://example.org/x"}}`, "extract"},
	} {
		r := b.do(t, "POST", "/api/assistants", c.body, alice)
		if got := decode[plainErrorBody](t, r); r.StatusCode != http.StatusBadRequest || got.Param != c.path || !strings.Contains(got.Message, c.path) {
			t.Errorf("%.80s: %d, param %q, want %q: %s", c.body, r.StatusCode, got.Param, c.path, r.body)
		}
	}
	wantCode(t, b.do(t, "POST", "/api/assistants", `{"name":"x","text":{"provider":"simulator","model":"bad"}}`, alice), 403, "model_not_allowed")
	wantStatus(t, b.do(t, "POST", "/api/assistants", `{"name":"`+strings.Repeat("x", assistant.MaxBytes)+`"}`, alice), http.StatusRequestEntityTooLarge)
	wantStatus(t, b.do(t, "POST", "/api/assistants", `[]`, alice, header("Content-Type", "application/json")), 400)
}

func TestAssistantOfAThread(t *testing.T) {
	t.Parallel()
	b := setup(t, withAssistants)
	wantStatus(t, b.do(t, "POST", "/api/assistants", `{"id":"a","name":"A"}`, alice), 201)
	r := b.do(t, "POST", "/api/threads", `{"title":"t","assistant_id":"a","variables":{"x":"1"}}`, alice)
	wantStatus(t, r, 201)
	made := decode[persistence.Thread](t, r)
	path := "/api/threads/" + made.ID
	if made.AssistantID != "a" || made.Variables["x"] != "1" || made.Title != "t" {
		t.Errorf("made %+v", made)
	}
	for _, c := range []struct {
		body   string
		status int
		id, x  string
	}{
		{`{"title":"new"}`, 200, "a", "1"},
		{`{"variables":{"x":"2"}}`, 200, "a", "2"},
		{`{"assistant_id":"nobody"}`, 404, "a", "2"},
		{`{"assistant_id":"a","variables":{"x y":"2"}}`, 400, "a", "2"},
		{`{"assistant_id":7}`, 400, "a", "2"},
		{`{"assistant_id":null}`, 200, "", "2"},
		{`{"assistant_id":"a"}`, 200, "a", "2"},
		{`{}`, 400, "a", "2"},
	} {
		wantStatus(t, b.do(t, "PATCH", path, c.body, alice), c.status)
		got := decode[persistence.Thread](t, b.do(t, "GET", path, "", alice))
		if got.AssistantID != c.id || got.Variables["x"] != c.x {
			t.Errorf("after %s: %+v", c.body, got)
		}
	}
	wantStatus(t, b.do(t, "PATCH", path, `{"assistant_id":"a"}`, bob), 404)
}

// TestWaysToAnAssistant has one chosen in every way in.
func TestWaysToAnAssistant(t *testing.T) {
	t.Parallel()
	b := setup(t, withAssistants)
	wantStatus(t, b.do(t, "POST", "/api/assistants", `{"id":"desk","name":"Desk"}`, alice), 201)
	wantStatus(t, b.do(t, "POST", "/api/assistants", `{"id":"other","name":"Other"}`, alice), 201)
	of := func(id string) string {
		t.Helper()
		row, err := b.db.Thread(t.Context(), thread.Key{Owner: "alice", Thread: id})
		must(t, err)
		return row.AssistantID + row.Variables["x"]
	}
	last := func() bridge.Start {
		all := b.calls.started()
		return all[len(all)-1]
	}
	wantStatus(t, b.do(t, "POST", callsPath+"?assistant_id=desk", sdpOffer, alice, sdpType), 201)
	if got := last(); got.Assistant != (assistant.Ref{Owner: "alice", ID: "desk"}) || got.ThreadID != "" {
		t.Errorf("the call starts with %+v", got)
	}
	for _, who := range []option{bob, alice} {
		for _, c := range []struct {
			path, body string
			options    []option
		}{
			{callsPath + "?assistant_id=nobody", sdpOffer, []option{sdpType}},
			{"/v1/realtime/client_secrets", `{"assistant_id":"nobody"}`, nil},
			{"/text/session", `{"assistant_id":"nobody"}`, nil},
			{"/api/threads", `{"assistant_id":"nobody"}`, nil},
		} {
			r := b.do(t, "POST", c.path, c.body, append(c.options, who)...)
			if r.StatusCode != http.StatusNotFound || !strings.Contains(r.body, "assistant_not_found") {
				t.Errorf("%s: %d %s", c.path, r.StatusCode, r.body)
			}
		}
	}
	r := b.do(t, "POST", "/text/session", `{"assistant_id":"desk","variables":{"x":"1"}}`, alice)
	wantStatus(t, r, 201)
	if got := of(decode[struct{ Session struct{ ID string } }](t, r).Session.ID); got != "desk1" {
		t.Errorf("the text session has %s", got)
	}
	// What the application's server has chosen, its page cannot change.
	for secret, want := range map[string]string{`{"assistant_id":"desk","variables":{"x":"2"}}`: "desk", `{}`: "other"} {
		ek := as(mint(t, b, secret, alice).Value)
		wantStatus(t, b.do(t, "POST", callsPath+"?assistant_id=other", sdpOffer, ek, sdpType), 201)
		if got := last(); got.Assistant.ID != want || (got.Variables["x"] == "2") != (want == "desk") {
			t.Errorf("with the secret %s the call starts with %+v", secret, got)
		}
	}
	wantCode(t, b.do(t, "POST", "/text/session", `{"variables":{"date":"x"}}`, alice), 400, "invalid_value")
}

// TestAssistantOfAConductor opens sockets with one and with none that there is.
func TestAssistantOfAConductor(t *testing.T) {
	t.Parallel()
	b := setup(t, withAssistants)
	wantStatus(t, b.do(t, "POST", "/api/assistants", `{"id":"desk","name":"Desk"}`, alice), 201)
	address, _ := b.run(t)
	open(t, "ws://"+address+"/conductor?session_id=main&assistant_id=desk", "Authorization", "Bearer alice-token-of-tests")
	row, err := b.db.Thread(t.Context(), thread.Key{Owner: "alice", Thread: "main"})
	if err != nil || row.AssistantID != "desk" {
		t.Errorf("the session has %q, %v", row.AssistantID, err)
	}
	_, r, err := websocket.Dial(t.Context(), "ws://"+address+"/conductor?session_id=new&assistant_id=nobody", &websocket.DialOptions{ //nolint:bodyclose // of a socket
		HTTPHeader: http.Header{"Authorization": {"Bearer alice-token-of-tests"}},
	})
	if err == nil || r == nil || r.StatusCode != http.StatusNotFound {
		t.Errorf("with an unknown one: %v, %v", r, err)
	}
	if _, err := b.db.Thread(t.Context(), thread.Key{Owner: "alice", Thread: "new"}); !errors.Is(err, persistence.ErrNotFound) {
		t.Errorf("the thread of a refused socket: %v", err)
	}
}

// TestOpenAPIDescribesAssistants compares the description with the declaration of the fields.
func TestOpenAPIDescribesAssistants(t *testing.T) {
	t.Parallel()
	doc, _ := document(t)
	var got, want any
	must(t, json.Unmarshal(doc.Components["schemas"]["Assistant"], &got))
	raw, err := json.Marshal(assistant.Schema())
	must(t, err)
	must(t, json.Unmarshal(raw, &want))
	if !reflect.DeepEqual(got, want) {
		text, err := yaml.Marshal(want)
		must(t, err)
		t.Errorf("components.schemas.Assistant in openapi.yaml should be:\n%s", text)
	}
}

// TestInstructionsHaveTheUsersName types with a JWT that has a name, in each way: the instructions have it, as in calls, and not the owner's id.
func TestInstructionsHaveTheUsersName(t *testing.T) {
	t.Parallel()
	const key = "a secret of at least thirty-two bytes"
	model := &script{answers: []scripted{words("Yes.")}}
	b := setupChat(t, chat.Config{Providers: []llm.Provider{model}, NoTitles: true}, func(c *Config) { c.Auth.JWTSecret = access.NewSecret(key) })
	token := signed(t, jwt.SigningMethodHS256, []byte(key), "", jwt.MapClaims{"sub": "id-1", "name": "Ann Bee", "exp": b.clock.now().Add(time.Hour).Unix()})
	ann := as(token)
	wantStatus(t, b.do(t, "POST", "/api/assistants", `{"name":"Desk","instructions":"You help {{user}}."}`, ann), 201)
	of := "/api/threads/" + decode[struct{ ID string }](t, b.do(t, "POST", "/api/threads", `{"assistant_id":"desk"}`, ann)).ID + "/messages"
	session := decode[struct{ Session struct{ ID string } }](t, b.do(t, "POST", "/text/session", `{"assistant_id":"desk"}`, ann)).Session.ID
	want := func(n int, of string) {
		t.Helper()
		model.mu.Lock()
		defer model.mu.Unlock()
		if len(model.requests) != n || !strings.HasPrefix(model.requests[n-1].System, "You help Ann Bee.") {
			t.Errorf("%s: the model was asked %+v", of, model.requests)
		}
	}
	for i, post := range [][2]string{
		{of, `{"content":"Hello"}`},
		{of, `{"messages":[{"id":"m","role":"user","parts":[{"type":"text","text":"Hello again"}]}],"trigger":"submit-message"}`},
		{"/text/session/" + session + "/message", `{"content":"Hello"}`},
	} {
		wantStatus(t, b.do(t, "POST", post[0], post[1], ann), 200)
		want(i+1, post[1])
	}
	address, _ := b.run(t)
	app := open(t, "ws://"+address+"/conductor?session_id=app&assistant_id=desk", "Authorization", "Bearer "+token)
	must(t, app.Write(t.Context(), websocket.MessageText, []byte(`{"id":"1","type":"transcript.final","sessionId":"app","payload":{"text":"Hello"}}`)))
	for {
		_, said, err := app.Read(t.Context())
		must(t, err)
		if strings.Contains(string(said), "assistant.speech.final") {
			break
		}
	}
	want(4, "an app")
}

// TestAddressesOfOthers: who may only use an assistant does not see the secrets in its addresses, wherever it is shown.
func TestAddressesOfOthers(t *testing.T) {
	t.Parallel()
	b := setup(t, withAssistants)
	wantStatus(t, b.do(t, "POST", "/api/assistants", `{"id":"desk","name":"Desk","shared":true,"http_tools":[{"name":"ask","url":"https://example.com/hooks/path-secret?key=query-secret"}]}`, alice), 201)
	for _, path := range []string{"/api/assistants", "/api/assistants/desk", "/api/tools"} {
		if r := b.do(t, "GET", path, "", bob); r.StatusCode != http.StatusOK || strings.Contains(r.body, "-secret") {
			t.Errorf("%s: %d %s", path, r.StatusCode, r.body)
		}
	}
	if r := b.do(t, "GET", "/api/assistants/desk", "", bob); !strings.Contains(r.body, `"url":"https://example.com"`) {
		t.Errorf("where it asks is not shown: %s", r.body)
	}
	if r := b.do(t, "GET", "/api/assistants/desk", "", alice); !strings.Contains(r.body, "path-secret?key=query-secret") {
		t.Errorf("its owner sees %s", r.body)
	}
}

// TestAssistantsInPages lists in pages, which say where the next one begins.
func TestAssistantsInPages(t *testing.T) {
	t.Parallel()
	b := setup(t, withAssistants)
	for i := range 3 {
		wantStatus(t, b.do(t, "POST", "/api/assistants", fmt.Sprintf(`{"id":"s%d","name":"S","shared":true,"instructions":"long"}`, i), bob), 201)
	}
	wantStatus(t, b.do(t, "POST", "/api/assistants", `{"id":"mine","name":"M"}`, alice), 201)
	type page struct {
		Assistants []assistant.Assistant
		NextCursor *string `json:"next_cursor"`
	}
	first := decode[page](t, b.do(t, "GET", "/api/assistants?limit=2", "", alice))
	if len(first.Assistants) != 2 || first.Assistants[0].ID != "mine" || first.NextCursor == nil {
		t.Fatalf("the first page: %+v", first)
	}
	last := decode[page](t, b.do(t, "GET", "/api/assistants?limit=2&cursor="+*first.NextCursor, "", alice))
	if len(last.Assistants) != 2 || last.Assistants[1].ID != "s2" || last.Assistants[1].Instructions != "" || last.NextCursor != nil {
		t.Errorf("the last page: %+v", last)
	}
	for _, bad := range []string{"limit=0", "limit=x", "cursor=x", "cursor=%00"} {
		wantStatus(t, b.do(t, "GET", "/api/assistants?"+bad, "", alice), 400)
	}
}

// TestSecretsOfAssistants: a client secret keeps the assistant that it was made with, or opens no call.
func TestSecretsOfAssistants(t *testing.T) {
	t.Parallel()
	b := setup(t, withAssistants)
	wantStatus(t, b.do(t, "POST", "/api/assistants", `{"id":"sales","name":"S"}`, alice), 201)
	ek := as(mint(t, b, `{"assistant_id":"sales"}`, alice).Value)
	wantStatus(t, b.do(t, "DELETE", "/api/assistants/sales", "", alice), 204)
	wantStatus(t, b.do(t, "POST", "/api/assistants", `{"id":"sales","name":"S","shared":true}`, bob), 201)
	wantStatus(t, b.do(t, "POST", callsPath, sdpOffer, ek, sdpType), 404)
}
