package web

import (
	"strings"
	"testing"
	"time"

	"voicebridge/chat"
	"voicebridge/persistence/persistencetest"
	"voicebridge/persistence/queued"
	"voicebridge/thread"
	"voicebridge/web/access"
)

// TestQuotas has one owner who sends a lot, and another who does not.
func TestQuotas(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *Config) {
		tokens(c)
		c.Limits.TextsPerMinute = 3
		c.Limits.AllowedModels = []string{"simulator/*", "other/one"}
	})
	alice, bob := as("alice-token-of-tests"), as("bob-token-of-tests")
	for range 3 {
		wantStatus(t, b.do(t, "POST", "/api/threads", `{}`, alice), 201)
	}
	key := b.thread(t, "alice")
	for _, path := range []string{"/api/threads", "/text/session", "/api/threads/" + key.Thread + "/messages", "/api/threads/" + key.Thread + "/queue"} {
		r := b.do(t, "POST", path, `{}`, alice)
		wantError(t, r, 429, "rate_limit_exceeded")
		if r.Header.Get("Retry-After") == "" {
			t.Errorf("%s: Retry-After is missing", path)
		}
	}
	wantError(t, b.do(t, "POST", "/text/session", `{"provider":"simulator","model":"x","defaults":7}`, bob), 400, "invalid_value")
	wantError(t, b.do(t, "POST", "/text/session", `{"provider":"other","model":"two"}`, bob), 403, "model_not_allowed")
	wantError(t, b.do(t, "POST", "/text/session", `{"model":"two","provider":"another"}`, bob), 403, "model_not_allowed")
	local := setup(t, func(c *Config) { c.Limits.TextsPerMinute = 1 })
	for range 3 {
		wantStatus(t, local.do(t, "POST", "/api/threads", `{}`), 201)
	}
}

// TestStorageLimits has an owner with as many threads, or as much in them, as allowed.
func TestStorageLimits(t *testing.T) {
	t.Parallel()
	limited := func(change func(*access.Limits)) func(*Config) {
		return func(c *Config) {
			tokens(c)
			change(&c.Limits)
		}
	}
	alice, bob := as("alice-token-of-tests"), as("bob-token-of-tests")
	many := setup(t, limited(func(l *access.Limits) { l.ThreadsPerOwner = 2 }))
	for range 2 {
		wantStatus(t, many.do(t, "POST", "/api/threads", `{}`, alice), 201)
	}
	for _, path := range []string{"/api/threads", "/text/session"} {
		wantError(t, many.do(t, "POST", path, `{}`, alice), 429, "too_many_threads")
	}
	wantStatus(t, many.do(t, "POST", "/api/threads", `{}`, bob), 201)

	large := setup(t, limited(func(l *access.Limits) { l.StoredBytesPerOwner = 1000 }))
	key := large.thread(t, "alice")
	if _, err := persistencetest.AppendMessage(t.Context(), large.db, key, thread.Message{
		Role: thread.RoleUser, Parts: []thread.Part{thread.TextPart(strings.Repeat("word ", 400))},
	}); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/api/threads", "/text/session", "/api/threads/" + key.Thread + "/messages", "/api/threads/" + key.Thread + "/queue"} {
		wantError(t, large.do(t, "POST", path, `{"message":"x","content":"x"}`, alice), 413, "too_large")
	}
	wantStatus(t, large.do(t, "POST", "/api/threads", `{}`, bob), 201)
	wantStatus(t, large.do(t, "DELETE", "/api/threads/"+key.Thread, "", alice), 204)
	wantStatus(t, large.do(t, "POST", "/api/threads", `{}`, alice), 201)
}

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
	<-turn.Done()
	wantStatus(t, other.do(t, "POST", messagesPath(key), `{"content":"hello"}`, alice), 200)
}
