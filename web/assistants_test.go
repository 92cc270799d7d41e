package web

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/golang-jwt/jwt/v5"

	"voicebridge/assistant"
	"voicebridge/bridge"
	"voicebridge/chat"
	"voicebridge/internal/testkit"
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
		c.Store.Assistants = assistants.New(nil, []assistant.Assistant{{ID: "fixed", Name: "The operator's"}})
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
	testkit.Equal(t, of(decode[struct{ Session struct{ ID string } }](t, r).Session.ID), "desk1", "the text session")
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
