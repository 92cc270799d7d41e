package web

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"voicebridge/chat"
	"voicebridge/internal/testkit"
	"voicebridge/persistence"
	"voicebridge/persistence/cluster"
	"voicebridge/persistence/persistencetest"
	"voicebridge/thread"
	"voicebridge/web/access"
)

// otherProcess is a server of another process on the same database, with calls and text turns of its own, which reaches
// this one.
func (b *bundle) otherProcess(t *testing.T, texts chat.Config) *bundle {
	t.Helper()
	must(t, b.db.Serve(t.Context()))
	here := cluster.Address{URL: b.listen(t).URL}
	b.db.Cluster.Announce(t.Context(), func() cluster.Address { return here })
	db := persistencetest.Open(t, b.url, persistence.Options{})
	texts.Store = db
	calls := &fakeCalls{store: db, live: map[string]string{}}
	other := b.neighbour(t, func(c *Config) { c.Store, c.Calls, c.Chat = db, calls, startChat(t, texts, calls) })
	other.db, other.calls = db, calls
	return other
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
	var followers [2][3]*follower // of both servers
	for i, server := range []*httptest.Server{here, there} {
		followers[i] = [3]*follower{
			follow(t, server, "GET", stream, ""), follow(t, server, "GET", stream+"?after=1", ""), follow(t, server, "GET", stream, "", "Last-Event-ID", at.id),
		}
	}
	followers[1][0].until("text-delta") // while the answer is being made
	wantStatus(t, other.do(t, "GET", stream, "", header("Last-Event-ID", "another:3")), 204)
	testkit.Equal(t, other.do(t, "GET", stream, "", header("Last-Event-ID", turn)).StatusCode, http.StatusBadRequest, "an id without a number: status")
	close(more)
	for i := range followers[0] {
		if want, got := streamed(t, followers[0][i].rest()), streamed(t, followers[1][i].rest()); got != want {
			t.Errorf("%d: another server sends\n%s\nwant\n%s", i, got, want)
		}
	}
	if got, want := streamed(t, first.rest()), "One. More."; !strings.Contains(got, want) {
		t.Errorf("the first client gets\n%s", got)
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
