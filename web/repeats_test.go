package web

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"voicebridge/llm"
	"voicebridge/persistence"
	"voicebridge/persistence/persistencetest"
	"voicebridge/thread"
	"voicebridge/web/access"
	"voicebridge/web/uistream"
)

// once is the header of a request that may be sent again.
func once(key string) option { return header("Idempotency-Key", key) }

// TestIdempotencyKey sends a message again whose answer was lost: it is said once, and answered as the first time.
func TestIdempotencyKey(t *testing.T) {
	t.Parallel()
	cfg, script := scriptedChat(words("One."), words("Two."))
	b := setupChat(t, cfg, nil)
	key := b.thread(t, access.LocalOwner)
	const body = `{"content":"hello","instructions":"Be brief."}`
	first := b.do(t, "POST", messagesPath(key), body, once("k"))
	wantStatus(t, first, 200)
	again := b.do(t, "POST", messagesPath(key), body, once("k"))
	wantStatus(t, again, 200)
	if again.body != first.body {
		t.Errorf("the answer is %s, want %s", again.body, first.body)
	}
	wantStatus(t, b.do(t, "POST", messagesPath(key), `{"content":"hello","idempotency_key":"k"}`), 200)
	stream := b.do(t, "POST", messagesPath(key), body, once("k"), header("Accept", uistream.MediaType))
	if got := streamed(t, stream.body); !strings.Contains(got, "One.") {
		t.Errorf("the stream is %s", stream.body)
	}
	// Another process, or this one later, knows only what is saved.
	other := b.otherProcess(t, cfg)
	elsewhere := decode[turnAnswer](t, other.do(t, "POST", messagesPath(key), body, once("k")))
	if want := decode[turnAnswer](t, first); elsewhere.Message.ID != want.Message.ID || elsewhere.UserMessage.ID != want.UserMessage.ID || elsewhere.FinishReason != want.FinishReason {
		t.Errorf("another process answers %+v, want %+v", elsewhere, want)
	}
	there := other.do(t, "POST", messagesPath(key), body, once("k"), header("Accept", uistream.MediaType))
	if got, want := streamed(t, there.body), streamed(t, stream.body); got != want {
		t.Errorf("another process streams %s, want %s", got, want)
	}
	wantError(t, b.do(t, "POST", messagesPath(key), `{"content":"something else"}`, once("k")), 409, "idempotency_key_used")
	wantError(t, b.do(t, "POST", messagesPath(key), body, once(strings.Repeat("k", 501))), 400, "invalid_value")
	if got, want := shown(b.messages(t, key)), "system Be brief.|user hello|assistant One."; got != want {
		t.Errorf("the thread is %q, want %q", got, want)
	}
	script.mu.Lock()
	requests := len(script.requests)
	script.mu.Unlock()
	if requests != 1 {
		t.Errorf("the model was asked %d times", requests)
	}
	// A key belongs to its thread.
	foreign := b.thread(t, access.LocalOwner)
	wantStatus(t, b.do(t, "POST", messagesPath(foreign), body, once("k")), 200)
	if got, want := shown(b.messages(t, foreign)), "system Be brief.|user hello|assistant Two."; got != want {
		t.Errorf("the other thread is %q, want %q", got, want)
	}
}

// TestIdempotencyKeyAfterAnOlderAnswer sends a message again after an older one was answered again: it has its own answer.
func TestIdempotencyKeyAfterAnOlderAnswer(t *testing.T) {
	t.Parallel()
	cfg, _ := scriptedChat(words("One."), words("Two."), words("One again."))
	b := setupChat(t, cfg, nil)
	key := b.thread(t, access.LocalOwner)
	post := func(content, once string) turnAnswer {
		r := b.do(t, "POST", messagesPath(key), fmt.Sprintf(`{"content":%q,"idempotency_key":%q}`, content, once))
		wantStatus(t, r, 200)
		return decode[turnAnswer](t, r)
	}
	first := post("one", "k1")
	post("two", "k2")
	wantStatus(t, b.do(t, "POST", messagesPath(key), `{"trigger":"regenerate-message","messageId":"`+first.Message.ID+`"}`), 200)
	if one, two := post("one", "k1").Message.Text(), post("two", "k2").Message.Text(); one != "One again." || two != "Two." {
		t.Errorf("the answers are %q and %q", one, two)
	}
}

// TestIdempotencyKeyOfARunningTurn sends a message again while it is being answered, here and elsewhere: the answer is followed.
func TestIdempotencyKeyOfARunningTurn(t *testing.T) {
	t.Parallel()
	more := make(chan struct{})
	cfg, _ := scriptedChat(held("One.", more))
	b := setupChat(t, cfg, nil)
	other := b.otherProcess(t, cfg)
	key := b.thread(t, access.LocalOwner)
	post := func(of *bundle) *follower {
		return follow(t, of.listen(t), "POST", messagesPath(key), `{"content":"hello"}`, "Idempotency-Key", "k")
	}
	first := post(b)
	first.until("text-delta")
	followers := map[string]*follower{"here": post(b), "elsewhere": post(other)}
	for _, f := range followers {
		f.until("text-delta")
	}
	close(more)
	want := streamed(t, first.rest())
	for name, f := range followers {
		if got := streamed(t, f.rest()); got != want {
			t.Errorf("%s the stream is\n%s\nwant\n%s", name, got, want)
		}
	}
	if got := shown(b.messages(t, key)); got != "user hello|assistant One. More." {
		t.Errorf("the thread is %q", got)
	}
}

// TestIdempotencyKeyAtOnce sends a message several times at the same moment.
func TestIdempotencyKeyAtOnce(t *testing.T) {
	t.Parallel()
	cfg, _ := scriptedChat(words("One."))
	b := setupChat(t, cfg, nil)
	key := b.thread(t, access.LocalOwner)
	var sides sync.WaitGroup
	for range 8 {
		sides.Go(func() {
			r := b.do(t, "POST", messagesPath(key), `{"content":"hello"}`, once("k"))
			if r.StatusCode != http.StatusOK || !strings.Contains(r.body, "One.") {
				t.Errorf("status %d: %s", r.StatusCode, r.body)
			}
		})
	}
	sides.Wait()
	if got := shown(b.messages(t, key)); got != "user hello|assistant One." {
		t.Errorf("the thread is %q", got)
	}
}

// TestIdempotencyKeyAfterAFailure answers a message again whose turn has failed, or was lost in a crash.
func TestIdempotencyKeyAfterAFailure(t *testing.T) {
	t.Parallel()
	failing := func(_ context.Context, yield func(llm.Delta, error) bool) {
		yield(llm.Delta{}, &llm.Error{Kind: llm.KindOverloaded, Message: "Try again."})
	}
	cfg, _ := scriptedChat(failing, words("One."), words("Two."))
	b := setupChat(t, cfg, nil)
	key := b.thread(t, access.LocalOwner)
	wantError(t, b.do(t, "POST", messagesPath(key), `{"content":"hello"}`, once("k")), 503, "provider_overloaded")
	for range 2 {
		got := decode[turnAnswer](t, b.do(t, "POST", messagesPath(key), `{"content":"hello"}`, once("k")))
		if got.Message.Text() != "One." || got.UserMessage == nil || got.UserMessage.Text() != "hello" {
			t.Errorf("the answer is %+v", got)
		}
	}
	lost := persistence.OnceID(key.Thread, "lost")
	for _, m := range []thread.Message{
		{ID: lost, Role: thread.RoleUser, Parts: []thread.Part{thread.TextPart("and?")}},
		{Role: thread.RoleAssistant, Parts: []thread.Part{thread.TextPart("half an")}, Metadata: thread.Metadata{Status: thread.StatusInterrupted}},
	} {
		if _, err := persistencetest.AppendMessage(t.Context(), b.db, key, m); err != nil {
			t.Fatal(err)
		}
	}
	if got := decode[turnAnswer](t, b.do(t, "POST", messagesPath(key), `{"content":"and?"}`, once("lost"))); got.Message.Text() != "Two." {
		t.Errorf("the answer is %+v", got)
	}
}

// TestIdempotencyKeyInALiveCall says a text once in a call.
func TestIdempotencyKeyInALiveCall(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	key := b.thread(t, access.LocalOwner)
	wantStatus(t, b.do(t, "POST", callsPath+"?thread_id="+key.Thread, sdpOffer, sdpType), 201)
	var answers []string
	for range 2 {
		r := b.do(t, "POST", messagesPath(key), `{"content":"hello"}`, once("k"))
		wantStatus(t, r, 202)
		got := decode[intoCallAnswer](t, r)
		answers = append(answers, got.CallID+" "+got.UserMessage.ID)
	}
	if answers[0] != answers[1] || !strings.HasPrefix(answers[0], "call-1 ") {
		t.Errorf("the answers are %q", answers)
	}
	if got := shown(b.messages(t, key)); got != "user hello" {
		t.Errorf("the thread is %q", got)
	}
}

// TestIdempotencyHeaderOfTheQueue takes the header like the field of the body.
func TestIdempotencyHeaderOfTheQueue(t *testing.T) {
	t.Parallel()
	more := make(chan struct{})
	cfg, _ := scriptedChat(held("One.", more))
	b := setupChat(t, cfg, nil)
	key := b.thread(t, access.LocalOwner)
	running := follow(t, b.listen(t), "POST", messagesPath(key), `{"content":"hello"}`)
	running.until("text-delta") // so that the queue waits
	defer close(more)
	var ids []string
	for range 2 {
		r := b.do(t, "POST", "/api/threads/"+key.Thread+"/queue", `{"message":"next"}`, once("k"))
		wantStatus(t, r, 201)
		ids = append(ids, decode[queuedAnswer](t, r).ID)
	}
	if ids[0] != ids[1] {
		t.Errorf("the message is queued as %q", ids)
	}
}
