package web

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"voicebridge/bridge"
	"voicebridge/chat"
	"voicebridge/llm"
	"voicebridge/persistence"
	"voicebridge/persistence/records"
	"voicebridge/thread"
	"voicebridge/web/access"
	"voicebridge/web/input"
	"voicebridge/web/uistream"
)

// scriptedChat has a provider that gives the answers one after the other, and then repeats
// the last one.
func scriptedChat(answers ...scripted) (chat.Config, *script) {
	s := &script{answers: answers}
	return chat.Config{Providers: []llm.Provider{s}, NoTitles: true, Attempts: 1}, s
}

func messagesPath(key thread.Key) string { return "/api/threads/" + key.Thread + "/messages" }

func (b *bundle) messages(t *testing.T, key thread.Key) []thread.Message {
	t.Helper()
	all, err := b.db.Messages(t.Context(), key, 0, 100)
	must(t, err)
	return all
}

func TestPostMessage(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	key := b.thread(t, access.LocalOwner)
	r := b.do(t, "POST", messagesPath(key), `{"content":"hello there","instructions":"Be brief."}`)
	wantStatus(t, r, 200)
	got := decode[turnAnswer](t, r)
	saved := b.messages(t, key)
	if len(saved) != 3 || saved[0].Role != thread.RoleSystem || saved[0].Text() != "Be brief." {
		t.Fatalf("saved %+v", saved)
	}
	if got.UserMessage == nil || got.UserMessage.ID != saved[1].ID || got.UserMessage.Text() != "hello there" {
		t.Errorf("user message %+v", got.UserMessage)
	}
	if got.Message.ID != saved[2].ID || got.Message.Text() != saved[2].Text() || !strings.Contains(got.Message.Text(), "simulator") ||
		got.Message.Metadata.Status != thread.StatusCompleted || got.FinishReason != chat.FinishStop || got.TurnID == "" {
		t.Errorf("answer %+v", got)
	}
	// The next turn sees this one.
	r = b.do(t, "POST", messagesPath(key), `{"content":"do you remember?"}`)
	if got := decode[turnAnswer](t, r); !strings.Contains(got.Message.Text(), "hello there") {
		t.Errorf("answer %q", got.Message.Text())
	}
}

func TestPostMessageRefuses(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	key := b.thread(t, access.LocalOwner)
	for name, c := range map[string]struct {
		body   string
		status int
		code   string
	}{
		"nothing":            {"", 415, "unsupported_media_type"},
		"not an object":      {"{", 400, "invalid_json"},
		"no content":         {"{}", 400, "empty_content"},
		"blank":              {`{"content":" \n\t"}`, 400, "empty_content"},
		"null":               {`{"content":null}`, 400, "empty_content"},
		"number":             {`{"content":1}`, 400, "invalid_value"},
		"parts":              {`{"content":[{"type":"text"}]}`, 400, "invalid_value"},
		"instructions":       {`{"content":"x","instructions":{"a":1}}`, 400, "invalid_value"},
		"instruction":        {`{"content":"x","instructions":["a",1]}`, 400, "invalid_value"},
		"blank instruction":  {`{"content":"x","instructions":["  "]}`, 400, "empty_content"},
		"many instructions":  {`{"content":"x","instructions":[` + strings.Repeat(`"a",`, 50) + `"a"]}`, 413, "too_large"},
		"longer than a turn": {`{"content":"` + strings.Repeat("a", chat.MaxText+1) + `"}`, 413, "too_large"},
		"longer than a body": {`{"content":"` + strings.Repeat("a", input.MaxBody) + `"}`, 413, "too_large"},
		"not UTF-8":          {"{\"content\":\"\xff\"}", 400, "invalid_json"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, accept := range []string{"application/json", uistream.MediaType} {
				wantError(t, b.do(t, "POST", messagesPath(key), c.body, header("Accept", accept)), c.status, c.code)
			}
		})
	}
	t.Cleanup(func() {
		if n, err := b.db.LastSeq(t.Context(), key); err == nil && n != 0 {
			t.Errorf("refused messages left %d changes", n)
		}
	})
}

func TestPostMessageTakesTheLongestText(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	key := b.thread(t, access.LocalOwner)
	text := strings.Repeat("<", chat.MaxText) // six bytes each, in JSON
	body, err := json.Marshal(map[string]string{"content": text[:chat.MaxText/2]})
	must(t, err)
	wantStatus(t, b.do(t, "POST", messagesPath(key), string(body)), 200)
	wantStatus(t, b.do(t, "POST", messagesPath(key), `{"content":"`+text+`"}`), 200)
	if got := b.messages(t, key); len(got) != 4 || got[2].Text() != text {
		t.Errorf("%d messages are saved", len(got))
	}
}

func TestTurnsBelongToTheirOwner(t *testing.T) {
	t.Parallel()
	b := setup(t, tokens)
	key := b.thread(t, "alice")
	one := "/api/threads/" + key.Thread
	for _, c := range []struct{ method, path, body string }{
		{"POST", one + "/messages", `{"content":"mine"}`}, {"GET", one + "/messages/stream", ""}, {"GET", one + "/stream", ""},
		{"POST", one + "/interrupt", ""}, {"GET", one + "/export", ""}, {"GET", "/text/session/" + key.Thread, ""},
		{"DELETE", "/text/session/" + key.Thread, ""}, {"POST", "/text/session/" + key.Thread + "/message", `{"content":"mine"}`},
		{"POST", "/text/session/" + key.Thread + "/instructions", `{"instructions":"mine"}`},
		{"POST", "/text/session/" + key.Thread + "/tool-output", `{"toolOutputs":[{"callId":"a","output":1}]}`},
	} {
		if r := b.do(t, c.method, c.path, c.body, as("bob-token-of-tests")); r.StatusCode != http.StatusNotFound {
			t.Errorf("%s %s: bob gets %d: %s", c.method, c.path, r.StatusCode, r.body)
		}
		if r := b.do(t, c.method, strings.Replace(c.path, key.Thread, "..%2f"+key.Thread, 1), c.body, as("alice-token-of-tests")); r.StatusCode != http.StatusNotFound {
			t.Errorf("%s %s: a hostile id gets %d: %s", c.method, c.path, r.StatusCode, r.body)
		}
		wantStatus(t, b.do(t, c.method, c.path, c.body), 401)
		if c.method != "GET" {
			r := b.do(t, c.method, c.path, c.body, as("alice-token-of-tests"), header("Origin", "https://evil.example"), header("Sec-Fetch-Site", "cross-site"))
			wantError(t, r, 403, "origin_not_allowed")
		}
	}
	wantStatus(t, b.do(t, "POST", "/text/session", "{}"), 401)
	if got := b.messages(t, key); len(got) != 0 {
		t.Errorf("strangers wrote %+v", got)
	}
}

func TestBusyThread(t *testing.T) {
	t.Parallel()
	cfg, _ := scriptedChat(held("So", nil))
	b := setupChat(t, cfg, nil)
	key := b.thread(t, access.LocalOwner)
	turn, err := b.chat.Turn(t.Context(), chat.TurnRequest{Key: key, Text: "hello"})
	must(t, err)
	for _, c := range []struct{ path, body string }{
		{messagesPath(key), `{"content":"again"}`},
		{"/text/session/" + key.Thread + "/message", `{"content":"again"}`},
		{"/text/session/" + key.Thread + "/instructions", `{"instructions":"again"}`},
	} {
		wantError(t, b.do(t, "POST", c.path, c.body), 409, "agent_busy")
		wantError(t, b.do(t, "POST", c.path, c.body, header("Accept", uistream.MediaType)), 409, "agent_busy")
	}
	turn.Interrupt()
	<-turn.Done()
	if got := b.messages(t, key); len(got) != 2 {
		t.Errorf("%d messages", len(got))
	}
}

func TestInterrupt(t *testing.T) {
	t.Parallel()
	cfg, _ := scriptedChat(held("Once upon", nil))
	b := setupChat(t, cfg, nil)
	key := b.thread(t, access.LocalOwner)
	path := "/api/threads/" + key.Thread + "/interrupt"
	if got := b.do(t, "POST", path, ""); got.StatusCode != http.StatusOK || strings.TrimSpace(got.body) != `{"interrupted":false}` {
		t.Errorf("an idle thread answers %d %s", got.StatusCode, got.body)
	}
	turn, err := b.chat.Turn(t.Context(), chat.TurnRequest{Key: key, Text: "hello"})
	must(t, err)
	for e, err := range turn.Events(t.Context(), 0) {
		must(t, err)
		if e.Type == chat.EventTextDelta {
			break
		}
	}
	if got := b.do(t, "POST", path, ""); got.StatusCode != http.StatusOK || strings.TrimSpace(got.body) != `{"interrupted":true}` {
		t.Errorf("a running turn answers %d %s", got.StatusCode, got.body)
	}
	// What was said is saved, and the next message is accepted.
	saved := b.messages(t, key)
	if m := saved[len(saved)-1]; m.Metadata.Status != thread.StatusInterrupted || m.Text() != "Once upon" {
		t.Errorf("saved %+v", m)
	}
	if got := b.do(t, "POST", path, ""); strings.TrimSpace(got.body) != `{"interrupted":false}` {
		t.Errorf("the second time it answers %s", got.body)
	}
	wantError(t, b.do(t, "POST", "/api/threads/unknown/interrupt", ""), 404, "thread_not_found")
	if _, err := b.calls.Start(t.Context(), bridge.Start{Owner: access.LocalOwner, ThreadID: key.Thread}); err != nil {
		t.Fatal(err)
	}
	if got := b.do(t, "POST", path, ""); strings.TrimSpace(got.body) != `{"interrupted":true}` {
		t.Errorf("in a call it answers %s", got.body)
	}
	wantStatus(t, b.do(t, "POST", "/api/threads/"+key.Thread+"/reset", ""), http.StatusOK)
	if got := strings.Join(b.calls.forgot, " "); got != access.LocalOwner+"/"+key.Thread {
		t.Errorf("the calls that forgot are %s", got)
	}
}

func TestFailuresOfAProvider(t *testing.T) {
	t.Parallel()
	for kind, want := range map[llm.ErrorKind]int{
		llm.KindAuth: 502, llm.KindQuota: 502, llm.KindBadRequest: 502, llm.KindUnavailable: 502, llm.KindRate: 429,
		llm.KindOverloaded: 503, llm.KindTimeout: 504, llm.KindTooLong: 413,
	} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			cfg, _ := scriptedChat(failure("", kind))
			b := setupChat(t, cfg, nil)
			key := b.thread(t, access.LocalOwner)
			r := b.do(t, "POST", messagesPath(key), `{"content":"hello"}`)
			wantError(t, r, want, "provider_"+string(kind))
			if again := r.Header.Get("Retry-After"); (again != "") != (want == 429 || want == 503) {
				t.Errorf("Retry-After %q", again)
			}
			wantError(t, b.do(t, "POST", "/text/session/"+key.Thread+"/message", `{"content":"hello"}`), want, "provider_"+string(kind))
			saved := b.messages(t, key)
			if len(saved) != 4 || saved[1].Metadata.Status != thread.StatusFailed {
				t.Errorf("saved %+v", saved)
			}
		})
	}
}

func TestTypingInALiveCall(t *testing.T) {
	t.Parallel()
	cfg, script := scriptedChat(words("Hi"))
	b := setupChat(t, cfg, nil)
	key := b.thread(t, access.LocalOwner)
	r := b.do(t, "POST", callsPath+"?thread_id="+key.Thread, sdpOffer, sdpType)
	wantStatus(t, r, 201)
	r = b.do(t, "POST", messagesPath(key), `{"content":"and what is this?"}`)
	wantStatus(t, r, 202)
	callID, _ := b.calls.Live(access.LocalOwner, key.Thread)
	if got := decode[intoCallAnswer](t, r); got.CallID != callID || callID == "" || got.UserMessage.Text() != "and what is this?" {
		t.Errorf("answer %+v", got)
	}
	r = b.do(t, "POST", messagesPath(key), `{"content":"streamed"}`, header("Accept", uistream.MediaType))
	wantStatus(t, r, 200)
	if got := kinds(parseStream(t, r.body)); got != "start data-said finish" {
		t.Errorf("the stream has %s", got)
	}
	wantError(t, b.do(t, "POST", messagesPath(key), `{"content":"x","instructions":"y"}`), 400, "invalid_value")
	if n := len(script.requests); n != 0 {
		t.Errorf("the text provider got %d requests", n)
	}
	images := "/api/threads/" + key.Thread + "/images"
	image := decode[imageAnswer](t, b.do(t, "POST", images, pngOf(t, 3, 2), header("Content-Type", "image/png")))
	wantError(t, b.do(t, "POST", messagesPath(key), `{"content":"x","image_ids":["none"]}`), 400, "unknown_image")
	wantStatus(t, b.do(t, "POST", messagesPath(key), `{"content":"look","image_ids":["`+image.ImageID+`"]}`), 202)
	got := b.messages(t, key)
	if len(got) != 3 {
		t.Fatalf("%d messages are saved", len(got))
	}
	if id, ok := got[2].Parts[1].ImageID(key.Thread); !ok || id != image.ImageID {
		t.Errorf("the call was shown %+v", got[2].Parts)
	}
	// After the call it is a text turn again.
	wantStatus(t, b.do(t, "POST", callsPath+"/"+callID+"/hangup", ""), 200)
	wantStatus(t, b.do(t, "POST", messagesPath(key), `{"content":"typed"}`), 200)
}

// TestRegenerate has an answer regenerated as the page does, which leaves at once: the turn goes on.
func TestRegenerate(t *testing.T) {
	t.Parallel()
	more := make(chan struct{})
	cfg, _ := scriptedChat(words("One."), held("Two.", more))
	b := setupChat(t, cfg, nil)
	key := b.thread(t, access.LocalOwner)
	wantError(t, b.do(t, "POST", messagesPath(key), `{"trigger":"regenerate-message"}`), 400, "empty_content")
	wantStatus(t, b.do(t, "POST", messagesPath(key), `{"content":"hello"}`), 200)
	f := follow(t, b.listen(t), "POST", messagesPath(key), `{"trigger":"regenerate-message","messageId":"`+b.messages(t, key)[1].ID+`"}`)
	f.until("text-delta")
	turn := b.chat.Running(key)
	f.stop()
	close(more)
	if result, err := turn.Wait(within(t)); err != nil || result.Finish != chat.FinishStop || result.Text != "Two. More." {
		t.Errorf("turn %+v, %v", result, err)
	}
	wantError(t, b.do(t, "POST", messagesPath(key), `{"trigger":"regenerate-message","messageId":"none"}`), 404, "message_not_found")
	if all := b.messages(t, key); len(all) != 3 || string(all[1].Metadata.Extra["discarded"]) != "true" {
		t.Errorf("the thread is %+v", all)
	}
}

func TestTypingInACallOfAnotherProcess(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	key := b.thread(t, access.LocalOwner)
	must(t, b.db.Records.SaveCall(t.Context(), key, records.Call{ID: "call-x", Upstream: "openai", StartedAt: b.clock.now()}))
	wantError(t, b.do(t, "POST", messagesPath(key), `{"content":"hello"}`), 409, "call_active")
}

// TestSessionsGiveWayToACall has a live call of this process and one of another: meanwhile
// no text session answers. A tool output from the client is still saved.
func TestSessionsGiveWayToACall(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]func(*testing.T, *bundle, thread.Key) (end func()){
		"here": func(t *testing.T, b *bundle, key thread.Key) func() {
			wantStatus(t, b.do(t, "POST", callsPath+"?thread_id="+key.Thread, sdpOffer, sdpType), 201)
			callID, _ := b.calls.Live(key.Owner, key.Thread)
			return func() { wantStatus(t, b.do(t, "POST", callsPath+"/"+callID+"/hangup", ""), 200) }
		},
		"elsewhere": func(t *testing.T, b *bundle, key thread.Key) func() {
			call := records.Call{ID: "call-x", Upstream: "openai", StartedAt: b.clock.now()}
			must(t, b.db.Records.SaveCall(t.Context(), key, call))
			return func() {
				call.EndedAt, call.EndReason = new(b.clock.now()), "hangup"
				must(t, b.db.Records.SaveCall(t.Context(), key, call))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg, script := scriptedChat(toolCalls("", "c1", "weather", `{}`), words("Warm."))
			b := setupChat(t, cfg, nil)
			path := b.textSession(t, `{"tools":[`+weatherTool+`]}`)
			wantStatus(t, b.do(t, "POST", path+"/message", `{"content":"The weather?"}`), 200)
			end := begin(t, b, thread.Key{Owner: access.LocalOwner, Thread: strings.TrimPrefix(path, "/text/session/")})
			before := b.do(t, "GET", path, "").body
			wantError(t, b.do(t, "POST", path+"/message", `{"content":"And?","instructions":"Be brief."}`), 409, "call_active")
			wantError(t, b.do(t, "POST", path+"/instructions", `{"instructions":"Be brief."}`), 409, "call_active")
			if after := b.do(t, "GET", path, "").body; after != before {
				t.Errorf("refused requests changed the session:\n%s\n%s", before, after)
			}
			wantStatus(t, b.do(t, "POST", path+"/tool-output", `{"toolOutputs":[{"callId":"c1","output":30}]}`), 200)
			if n := len(script.requests); n != 1 {
				t.Errorf("the provider got %d requests", n)
			}
			end()
			wantStatus(t, b.do(t, "POST", path+"/message", `{"content":"And?"}`), 200)
		})
	}
}

func TestDeletingAThreadEndsItsTurn(t *testing.T) {
	t.Parallel()
	cfg, _ := scriptedChat(held("So", nil))
	b := setupChat(t, cfg, nil)
	key := b.thread(t, access.LocalOwner)
	turn, err := b.chat.Turn(t.Context(), chat.TurnRequest{Key: key, Text: "hello"})
	must(t, err)
	wantStatus(t, b.do(t, "DELETE", "/api/threads/"+key.Thread, ""), 204)
	<-turn.Done()
	wantError(t, b.do(t, "GET", messagesPath(key), ""), 404, "thread_not_found")
}

// TestThreadLostBeforeTheAnswerIsSaved: a turn that has lost its thread, as at a process that was taken for dead, asks for
// another try.
func TestThreadLostBeforeTheAnswerIsSaved(t *testing.T) {
	t.Parallel()
	var b *bundle
	var key thread.Key
	cfg, _ := scriptedChat(func(ctx context.Context, yield func(llm.Delta, error) bool) {
		turn := b.chat.Running(key).ID()
		if err := b.db.Batch(ctx, key, func(w *persistence.Batch) error { return w.Apply(persistence.PutTurn{ID: turn}) }); err != nil {
			t.Errorf("EndTurn() = %v", err)
		}
		words("So")(ctx, yield)
	})
	b = setupChat(t, cfg, nil)
	key = b.thread(t, access.LocalOwner)
	wantError(t, b.do(t, "POST", messagesPath(key), `{"content":"hello"}`), 503, "storage_unavailable")
}

// TestThreadDeletedBeforeItsAnswerIsSaved has another process delete the thread, which does not wait for the turn.
func TestThreadDeletedBeforeItsAnswerIsSaved(t *testing.T) {
	t.Parallel()
	for what, end := range map[string]scripted{
		"answered": words("So"),
		"failed": func(_ context.Context, yield func(llm.Delta, error) bool) {
			yield(llm.Delta{}, &llm.Error{Kind: llm.KindUnavailable, Message: "away"})
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			var b *bundle
			var key thread.Key
			cfg, _ := scriptedChat(func(ctx context.Context, yield func(llm.Delta, error) bool) {
				if err := b.db.DeleteThread(ctx, key); err != nil {
					t.Errorf("DeleteThread() = %v", err)
				}
				end(ctx, yield)
			})
			b = setupChat(t, cfg, nil)
			key = b.thread(t, access.LocalOwner)
			wantError(t, b.do(t, "POST", messagesPath(key), `{"content":"hello"}`), 404, "thread_not_found")
		})
	}
}
