package web

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"voicebridge/chat"
	"voicebridge/thread"
	"voicebridge/web/access"
)

// otherProcess is a second server on the same database, with its own text turns.
func (b *bundle) otherProcess(t *testing.T, texts chat.Config) *bundle {
	t.Helper()
	texts.Store = b.db
	return b.neighbour(t, func(c *Config) { c.Chat = startChat(t, texts, b.calls) })
}

// TestResumeInAnotherProcess follows a turn through a server that does not run it.
func TestResumeInAnotherProcess(t *testing.T) {
	t.Parallel()
	more := make(chan struct{})
	cfg, _ := scriptedChat(held("One.", more))
	b := setupChat(t, cfg, nil)
	other := b.otherProcess(t, cfg)
	key := b.thread(t, access.LocalOwner)
	here, there, stream := b.listen(t), other.listen(t), "/api/threads/"+key.Thread+"/stream"
	wantStatus(t, other.do(t, "GET", stream, ""), 204)

	first := follow(t, here, "POST", messagesPath(key), `{"content":"hello"}`)
	at := first.until("text-delta")
	turn, _, _ := strings.Cut(at.id, ":")
	followers := map[string]*follower{
		"whole":         follow(t, there, "GET", stream, ""),
		"after":         follow(t, there, "GET", stream+"?after=3", ""),
		"Last-Event-ID": follow(t, there, "GET", stream, "", "Last-Event-ID", at.id),
	}
	followers["whole"].until("text-delta") // while the answer is being made
	wantStatus(t, other.do(t, "GET", stream, "", header("Last-Event-ID", "another:3")), 204)
	if status := other.do(t, "GET", stream, "", header("Last-Event-ID", turn)).StatusCode; status != http.StatusBadRequest {
		t.Errorf("an id without a number: status %d", status)
	}
	close(more)
	want := streamed(t, first.rest())
	for name, f := range followers {
		body := f.rest()
		if got := streamed(t, body); got != want {
			t.Errorf("%s: another server sends\n%s\nwant\n%s", name, got, want)
		}
		// A busy machine lets some comments pass before anything is told.
		if events := strings.ReplaceAll(body, ": keep-alive\n\n", ""); !strings.HasPrefix(events, "id\ndata: ") || strings.Count(events, "\nid") > 0 {
			t.Errorf("%s: the client keeps an id: %s", name, body)
		}
	}
	wantStatus(t, other.do(t, "GET", stream, ""), 204)
}

// streamed returns the chunks of a stream, with the words of a block joined.
func streamed(t *testing.T, body string) string {
	t.Helper()
	var out strings.Builder
	for _, e := range parseStream(t, body) {
		if e.kind == "text-delta" {
			fmt.Fprint(&out, e.body["delta"])
			continue
		}
		fmt.Fprintln(&out, e.kind, e.body["id"], e.body["messageId"], e.body["finishReason"], e.body["messageMetadata"])
	}
	return out.String()
}

// TestUseChatApprovesElsewhere sends the answers to approval requests to a server that
// does not run the turn, but the one before: the stream continues there.
func TestUseChatApprovesElsewhere(t *testing.T) {
	t.Parallel()
	b := asking(t, nil, toolCalls("", "c1", "add", `{"a":1}`, "c2", "broken", `{}`), words("Done."))
	cfg, _ := scriptedChat(words("Before."))
	other := b.otherProcess(t, cfg)
	key := b.thread(t, access.LocalOwner)
	path := messagesPath(key) + "?sdk=7"
	wantStatus(t, other.do(t, "POST", path, `{"content":"before"}`), 200)
	r := b.do(t, "POST", path, uiSaid("mine", "hello"))
	wantStatus(t, r, 200)
	asked := parseStream(t, r.body)
	ask := questions(asked)
	body := fmt.Sprintf(`{"messages":[{"id":%q,"role":"assistant","parts":[`+
		`{"type":"tool-add","toolCallId":"c1","state":"approval-responded","approval":{"id":%q,"approved":true}},`+
		`{"type":"tool-broken","toolCallId":"c2","state":"approval-responded","approval":{"id":%q,"approved":false}}]}],"trigger":"submit-message"}`,
		asked[0].body["messageId"], ask["c1"], ask["c2"])
	for range 2 { // the second time as if the stream had been lost
		r = other.do(t, "POST", path, body)
		wantStatus(t, r, 200)
		got := kinds(parseStream(t, r.body))
		if !strings.HasPrefix(got, "start ") || !strings.Contains(got, "tool-output-available") || !strings.Contains(got, "tool-output-denied") ||
			!strings.HasSuffix(got, "start-step text-start text-delta text-end finish-step finish") || strings.Contains(got, "tool-input") {
			t.Errorf("the stream goes on with %s", got)
		}
	}
	if all := b.messages(t, key); len(all) != 4 || all[3].Metadata.Status != thread.StatusCompleted {
		t.Errorf("the thread has %d messages", len(all))
	}
	wantError(t, other.do(t, "POST", path, strings.NewReplacer("true", "false", "false", "true").Replace(body)), 409, "approval_not_pending")
}

// slow is text turns of which a decision takes until the turn has ended.
type slow struct {
	*chat.Door

	ended func()
}

func (s slow) Decide(ctx context.Context, key thread.Key, d chat.Decision) error {
	err := s.Door.Decide(ctx, key, d)
	s.ended()
	return err
}

// TestUseChatEndsWithTheDecision decides on a server that does not run the turn, which ends at once: its stream is told
// all the same.
func TestUseChatEndsWithTheDecision(t *testing.T) {
	t.Parallel()
	b := asking(t, nil, toolCalls("", "c1", "add", `{"a":1}`), words("Done."))
	key := b.thread(t, access.LocalOwner)
	path := messagesPath(key) + "?sdk=7"
	r := b.do(t, "POST", path, uiSaid("mine", "hello"))
	wantStatus(t, r, 200)
	asked := parseStream(t, r.body)
	turn := b.chat.Running(key)
	cfg, _ := scriptedChat()
	cfg.Store = b.db
	other := b.neighbour(t, func(c *Config) {
		c.Chat = slow{startChat(t, cfg, b.calls), func() { _, _ = turn.Wait(t.Context()) }}
	})
	r = other.do(t, "POST", path, fmt.Sprintf(`{"messages":[{"id":%q,"role":"assistant","parts":[`+
		`{"type":"tool-add","toolCallId":"c1","state":"approval-responded","approval":{"id":%q,"approved":true}}]}],"trigger":"submit-message"}`,
		asked[0].body["messageId"], questions(asked)["c1"]))
	wantStatus(t, r, 200)
	if got := kinds(parseStream(t, r.body)); !strings.HasPrefix(got, "start ") || !strings.HasSuffix(got, "text-delta text-end finish-step finish") {
		t.Errorf("the stream goes on with %s", got)
	}
}
