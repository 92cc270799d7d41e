package web

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"voicebridge/internal/testkit"
	"voicebridge/persistence/pictures"
	"voicebridge/thread"
	"voicebridge/web/access"
)

// uiSaid is what useChat sends for a text.
func uiSaid(id, text string) string {
	return fmt.Sprintf(`{"id":"chat-1","messages":[{"id":"other","role":"assistant","parts":[{"type":"data-odd","x":1}]},`+
		`{"id":%q,"role":"user","parts":[{"type":"text","text":%q}]}],"trigger":"submit-message"}`, id, text)
}

// lastRead returns how often the model was asked, and what it was last sent, without the context before a user's words.
func (s *script) lastRead() (asked int, read string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []string
	for _, r := range s.requests[max(0, len(s.requests)-1):] {
		for _, m := range r.Messages {
			all = append(all, string(m.Role)+" "+m.Content[strings.LastIndexByte(m.Content, '\n')+1:])
		}
	}
	return len(s.requests), strings.Join(all, "|")
}

// shown returns the words of messages.
func shown(messages []thread.Message) string {
	var all []string
	for _, m := range messages {
		all = append(all, string(m.Role)+" "+m.Text())
	}
	return strings.Join(all, "|")
}

// TestUseChatInALiveCall sends pictures as useChat does, as data URLs: the call is shown them, each once although the
// request is sent again, and no text turn begins beside it.
func TestUseChatInALiveCall(t *testing.T) {
	t.Parallel()
	cfg, script := scriptedChat(words("Hi."))
	b := setupChat(t, cfg, nil)
	key := b.thread(t, access.LocalOwner)
	uploaded := decode[imageAnswer](t, b.do(t, "POST", "/api/threads/"+key.Thread+"/images", pngOf(t, 3, 2), header("Content-Type", "image/png")))
	wantStatus(t, b.do(t, "POST", callsPath+"?thread_id="+key.Thread, sdpOffer, sdpType), 201)
	shows := func(url string) string {
		return `{"id":"c","trigger":"submit-message","messages":[{"id":"m","role":"user","parts":[{"type":"text","text":"look"},` +
			`{"type":"file","mediaType":"image/png","url":"` + url + `"}]}]}`
	}
	for _, url := range []string{"https://voice.example.org/below" + uploaded.URL, "data:image/png;base64," + base64.StdEncoding.EncodeToString([]byte(pngOf(t, 4, 1)))} {
		for range 2 {
			r := b.do(t, "POST", messagesPath(key), shows(url), header("Accept", "*/*"))
			wantStatus(t, r, 200)
			testkit.Equal(t, kinds(parseStream(t, r.body)), "start data-said finish", "the stream")
		}
	}
	for body, code := range map[string]string{
		shows("https://example.org/a.png"):                       "invalid_value",
		shows("data:image/png;base64,aGVsbG8="):                  "invalid_value", // no image
		shows("/api/threads/another/images/" + uploaded.ImageID): "invalid_value",
	} {
		wantError(t, b.do(t, "POST", messagesPath(key), body), 400, code)
	}
	wantError(t, b.do(t, "POST", messagesPath(key), `{"messages":[{"id":"m","role":"user"}],"trigger":"regenerate-message"}`), 409, "call_active")
	var sizes []string
	for _, m := range b.messages(t, key) {
		id, _ := m.Parts[1].ImageID(key.Thread)
		shown, err := b.db.Pictures.Read(t.Context(), key, id)
		sizes = append(sizes, fmt.Sprint(shown.Width, shown.Height, err))
	}
	testkit.Equal(t, sizes, []string{"3 2 <nil>", "4 1 <nil>"}, "the call was shown")
	testkit.Equal(t, len(script.requests), 0, "the text provider got requests")
}

// TestUseChatStopsAndGoesOn stops an answer and sends another message at once, as a client does that does not wait for the
// end of what it has stopped.
func TestUseChatStopsAndGoesOn(t *testing.T) {
	t.Parallel()
	for name, stop := range map[string]bool{"which goes on": false, "which ends": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg, script := scriptedChat(held("One.", nil), words("Two."))
			b := setupChat(t, cfg, func(cfg *Config) { cfg.StopWithReader = stop })
			second := b
			if stop { // the other server sees the end in the database
				second = b.otherProcess(t, cfg)
			}
			key := b.thread(t, access.LocalOwner)
			f := follow(t, b.listen(t), "POST", messagesPath(key), uiSaid("mine", "hello"))
			f.until("text-delta")
			var next *answer
			var sending sync.WaitGroup
			sending.Go(func() { next = second.do(t, "POST", messagesPath(key), uiSaid("next", "go on")) })
			f.stop()
			sending.Wait()
			wantStatus(t, next, 200)
			if _, got := script.lastRead(); !strings.HasSuffix(got, "user hello|assistant One.|user go on") {
				t.Errorf("the model reads %q", got)
			}
		})
	}
}

// questions returns the ids of the approvals that a stream asks for, by tool call.
func questions(events []streamEvent) map[any]any {
	ids := map[any]any{}
	for _, e := range events {
		if e.kind == "tool-approval-request" {
			ids[e.body["toolCallId"]] = e.body["approvalId"]
		}
	}
	return ids
}

// TestUseChatApproves asks for approvals with the AI SDK's part states.
func TestUseChatApproves(t *testing.T) {
	t.Parallel()
	b := asking(t, nil, toolCalls("", "c1", "add", `{"a":1}`, "c2", "broken", `{}`), words("Done."))
	key := b.thread(t, access.LocalOwner)
	path := messagesPath(key) + "?sdk=7"
	r := b.do(t, "POST", path, uiSaid("mine", "hello"))
	wantStatus(t, r, 200)
	events := parseStream(t, r.body)
	// The second call may be announced before or after the request to approve the first.
	if got := strings.Fields(kinds(events)); strings.Join(slices.Sorted(slices.Values(got)), " ") !=
		"finish finish-step start start-step tool-approval-request tool-approval-request tool-input-available tool-input-available" {
		t.Fatalf("the stream is %s", got)
	}
	ask := questions(events)
	id := events[0].body["messageId"]
	answer := func(first, second any) string {
		return fmt.Sprintf(`{"messages":[{"id":%q,"role":"assistant","parts":[`+
			`{"type":"tool-add","toolCallId":"c1","state":"approval-responded","approval":{"id":%q,"approved":true}},`+
			`{"type":"tool-broken","toolCallId":"c2","state":"approval-responded","approval":{"id":%q,"approved":false}}]}],"trigger":"submit-message"}`, id, first, second)
	}
	wantError(t, b.do(t, "POST", path, answer("guess", "guess")), 409, "approval_not_pending")
	r = b.do(t, "POST", path, answer(ask["c1"], ask["c2"]))
	wantStatus(t, r, 200)
	events = parseStream(t, r.body)
	got := kinds(events)
	if !strings.HasPrefix(got, "start ") || !strings.Contains(got, "tool-output-available") || !strings.Contains(got, "tool-output-denied") ||
		!strings.HasSuffix(got, "start-step text-start text-delta text-end finish-step finish") || strings.Contains(got, "tool-input") || events[0].body["messageId"] != id {
		t.Errorf("the stream goes on with %s", got)
	}
	if all := b.messages(t, key); len(all) != 2 || all[1].Metadata.Status != thread.StatusCompleted {
		t.Errorf("the thread has %d messages", len(all))
	}
}

// TestUseChatResumes resumes a turn at its question, at the addresses that useChat makes of those to which it sends.
func TestUseChatResumes(t *testing.T) {
	t.Parallel()
	b := asking(t, nil, toolCalls("", "c1", "add", `{"a":1}`))
	key := b.thread(t, access.LocalOwner)
	path := messagesPath(key)
	wantStatus(t, b.do(t, "GET", path+"?sdk=7/chat-1/stream", ""), 204)
	turn := b.begin(t, key)
	for _, address := range []string{path + "?sdk=7/chat-1/stream", path + "?x=a/b&sdk=7/chat-1/stream", path + "/chat-1/stream?sdk=7"} {
		r := b.do(t, "GET", address, "")
		wantStatus(t, r, 200)
		testkit.Equal(t, kinds(parseStream(t, r.body)), "start start-step tool-input-available tool-approval-request finish-step finish", "%s: the stream", address)
	}
	wantError(t, b.do(t, "GET", path+"?sdk=x/chat-1/stream", ""), 400, "invalid_value")
	wantError(t, b.do(t, "GET", "/api/threads/unknown/messages?sdk=7/chat-1/stream", ""), 404, "thread_not_found")
	wantStatus(t, b.do(t, "GET", path+"?limit=5", ""), 200) // as ever
	turn.Interrupt()
}

// TestPostImages sends images of the thread with and without a text.
func TestPostImages(t *testing.T) {
	t.Parallel()
	cfg, script := scriptedChat(words("A dot."))
	b := setupChat(t, cfg, nil)
	key := b.thread(t, access.LocalOwner)
	image, err := b.db.Pictures.Save(t.Context(), key, pictures.Image{MediaType: "image/png", Width: 1, Height: 1, Data: []byte("dot")}, 0)
	must(t, err)
	for _, content := range []string{`"content":"What is this?",`, ""} {
		wantStatus(t, b.do(t, "POST", messagesPath(key), `{`+content+`"image_ids":["`+image.ID+`"]}`), 200)
		script.mu.Lock()
		last := script.requests[len(script.requests)-1].Messages
		script.mu.Unlock()
		if m := last[len(last)-1]; len(m.Images) != 1 || string(m.Images[0].Data) != "dot" {
			t.Errorf("the model is shown %+v", m)
		}
	}
	if p := b.messages(t, key)[0].Parts[0]; p.Type != "file" || !strings.Contains(string(p.Raw), "/api/threads/"+key.Thread+"/images/"+image.ID) {
		t.Errorf("part %s %s", p.Type, p.Raw)
	}
	other := b.thread(t, access.LocalOwner)
	wantError(t, b.do(t, "POST", messagesPath(other), `{"content":"x","image_ids":["`+image.ID+`"]}`), 400, "unknown_image")
}
