package web

import (
	"context"
	"strings"
	"testing"

	"voicebridge/chat"
	"voicebridge/internal/testkit"
	"voicebridge/llm"
	"voicebridge/persistence"
	"voicebridge/persistence/records"
	"voicebridge/thread"
	"voicebridge/web/access"
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
			testkit.Equal(t, b.do(t, "GET", path, "").body, before, "refused requests changed the session")
			wantStatus(t, b.do(t, "POST", path+"/tool-output", `{"toolOutputs":[{"callId":"c1","output":30}]}`), 200)
			testkit.Equal(t, len(script.requests), 1, "the provider got requests")
			end()
			wantStatus(t, b.do(t, "POST", path+"/message", `{"content":"And?"}`), 200)
		})
	}
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
