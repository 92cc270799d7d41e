package web

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	"voicebridge/internal/testkit"
	"voicebridge/persistence"
	"voicebridge/persistence/persistencetest"
	"voicebridge/thread"
	"voicebridge/web/access"
)

// once is the header of a request that may be sent again.
func once(key string) option { return header("Idempotency-Key", key) }

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
		testkit.Equal(t, streamed(t, f.rest()), want, "%s the stream", name)
	}
	testkit.Equal(t, shown(b.messages(t, key)), "user hello|assistant One. More.", "the thread")
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
	testkit.Equal(t, shown(b.messages(t, key)), "user hello|assistant One.", "the thread")
}

// TestIdempotencyKeyAfterAFailure answers a message again whose turn was lost in a crash.
func TestIdempotencyKeyAfterAFailure(t *testing.T) {
	t.Parallel()
	cfg, _ := scriptedChat(words("Two."))
	b := setupChat(t, cfg, nil)
	key := b.thread(t, access.LocalOwner)
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
