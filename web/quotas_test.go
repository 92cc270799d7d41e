package web

import (
	"testing"
	"time"

	"voicebridge/chat"
	"voicebridge/internal/testkit"
	"voicebridge/persistence/queued"
)

// TestTurnLimit lets an owner have one answer in progress, on all servers together. It counts until it
// has ended, even if no client waits for it. Queued messages are sent nevertheless.
func TestTurnLimit(t *testing.T) {
	t.Parallel()
	more := make(chan struct{})
	slow, _ := scriptedChat(held("One.", more))
	fast, _ := scriptedChat(words("Two."))
	slow.TurnsPerOwner, fast.TurnsPerOwner = 1, 1
	b := setupChat(t, slow, tokens)
	other := b.otherProcess(t, fast)
	alice, bob := as("alice-token-of-tests"), as("bob-token-of-tests")
	begin := func(owner string) *chat.Turn {
		turn, err := b.chat.Turn(t.Context(), chat.TurnRequest{Key: b.thread(t, owner), Text: "hello"})
		must(t, err)
		return turn
	}
	turn, key := begin("alice"), b.thread(t, "alice")
	for _, server := range []*bundle{b, other} {
		for _, path := range []string{messagesPath(key), "/text/session/" + key.Thread + "/message"} {
			r := server.do(t, "POST", path, `{"content":"hello"}`, alice)
			wantError(t, r, 429, "too_many_turns")
			if r.Header.Get("Retry-After") == "" {
				t.Errorf("%s: Retry-After is missing", path)
			}
		}
	}
	if got := b.messages(t, key); len(got) != 0 {
		t.Errorf("of refused turns %+v is left", got)
	}
	wantStatus(t, other.do(t, "POST", messagesPath(b.thread(t, "bob")), `{"content":"hello"}`, bob), 200)
	begin("bob")
	bobs := b.thread(t, "bob")
	m, err := b.queue.Add(t.Context(), bobs, queued.Message{Text: "hello", ScheduledAt: new(time.Now().Add(time.Hour))})
	if err == nil {
		err = b.queue.Send(t.Context(), bobs, m.ID)
	}
	if err != nil {
		t.Errorf("send a queued message: %v", err)
	}
	close(more)
	testkit.Take(t, "the end of turn", turn.Done())
	wantStatus(t, other.do(t, "POST", messagesPath(key), `{"content":"hello"}`, alice), 200)
}
