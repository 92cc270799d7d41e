package web

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"voicebridge/chat"
	"voicebridge/persistence/pictures"
	"voicebridge/thread"
	"voicebridge/web/access"
)

// uiSaid is what useChat sends for a text.
func uiSaid(id, text string) string {
	return fmt.Sprintf(`{"id":"chat-1","messages":[{"id":"other","role":"assistant","parts":[{"type":"data-odd","x":1}]},`+
		`{"id":%q,"role":"user","parts":[{"type":"text","text":%q}]}],"trigger":"submit-message"}`, id, text)
}

// TestUseChat sends what useChat sends by itself, and has an answer regenerated.
func TestUseChat(t *testing.T) {
	t.Parallel()
	cfg, script := scriptedChat(words("One."), words("Two."), words("Three."))
	b := setupChat(t, cfg, nil)
	key := b.thread(t, access.LocalOwner)
	r := b.do(t, "POST", messagesPath(key), uiSaid("mine", "hello"), header("Accept", "*/*"))
	wantStatus(t, r, 200)
	if events := parseStream(t, r.body); kinds(events) != "start start-step text-start text-delta text-end finish-step finish" || events[6].body["finishReason"] != nil {
		t.Errorf("the stream is %s", r.body)
	}
	saved := b.messages(t, key)
	if len(saved) != 2 || saved[0].ID != "mine" || saved[0].Text() != "hello" {
		t.Fatalf("saved %+v", saved)
	}
	// The answer is regenerated: by its id, and without one.
	for _, id := range []string{saved[1].ID, ""} {
		body := fmt.Sprintf(`{"id":"chat-1","messages":[{"id":"mine","role":"user","parts":[{"type":"text","text":"hello"}]}],"trigger":"regenerate-message","messageId":%q}`, id)
		wantStatus(t, b.do(t, "POST", messagesPath(key), body), 200)
	}
	// The same request again does not repeat the message.
	wantStatus(t, b.do(t, "POST", messagesPath(key), uiSaid("mine", "hello")), 200)
	wantStatus(t, b.do(t, "POST", messagesPath(key), uiSaid("next", "and?")), 200)
	var got []string
	for _, m := range b.messages(t, key) {
		got = append(got, fmt.Sprintf("%s %s %s", m.Role, m.Text(), m.Metadata.Extra["discarded"]))
	}
	want := "user hello |assistant One. true|assistant Two. true|assistant Three. true|assistant Three. |user and? |assistant Three. "
	if strings.Join(got, "|") != want {
		t.Errorf("the thread is %q", strings.Join(got, "|"))
	}
	script.mu.Lock()
	last := script.requests[len(script.requests)-1].Messages
	script.mu.Unlock()
	if len(last) != 3 || last[1].Content != "Three." {
		t.Errorf("the model reads %+v", last)
	}
	// The id of another thread's message is refused.
	other := b.thread(t, access.LocalOwner)
	wantStatus(t, b.do(t, "POST", messagesPath(other), uiSaid("mine", "hello")), 200)
	if m := b.messages(t, other)[0]; m.ID == "mine" || m.Text() != "hello" {
		t.Errorf("saved %+v", m)
	}
}

// TestUseChatKeepsParts sends parts that mean something to the client only: they are saved with the message, and the model
// does not read them. A user calls no tools.
func TestUseChatKeepsParts(t *testing.T) {
	t.Parallel()
	cfg, script := scriptedChat(words("One."))
	b := setupChat(t, cfg, nil)
	key := b.thread(t, access.LocalOwner)
	const body = `{"messages":[{"id":"mine","role":"user","parts":[{"type":"data-place","id":"p","data":{"text":5}},{"type":"text","text":"hello"},` +
		`{"type":"tool-x","toolCallId":"c","state":"input-available","input":{}},{"odd":1}]}]}`
	wantStatus(t, b.do(t, "POST", messagesPath(key), body), 200)
	parts, err := json.Marshal(b.messages(t, key)[0].Parts)
	if want := `[{"type":"text","text":"hello"},{"data":{"text":5},"id":"p","type":"data-place"}]`; err != nil || string(parts) != want {
		t.Errorf("the parts are %s, want %s (%v)", parts, want, err)
	}
	script.mu.Lock()
	defer script.mu.Unlock()
	if got := script.requests[0].Messages[0].Content; !strings.HasSuffix(got, "]\n\nhello") {
		t.Errorf("the model reads %q", got)
	}
}

// TestUseChatEdits sends a message again under its id and with other words, as useChat does when the
// user has edited it.
func TestUseChatEdits(t *testing.T) {
	t.Parallel()
	cfg, script := scriptedChat(words("One."), words("Two."))
	b := setupChat(t, cfg, nil)
	key := b.thread(t, access.LocalOwner)
	for _, text := range []string{"hello", "good evening"} {
		wantStatus(t, b.do(t, "POST", messagesPath(key), uiSaid("mine", text)), 200)
	}
	if got, want := shown(b.messages(t, key)), "user hello|assistant One.|user good evening|assistant Two."; got != want {
		t.Errorf("the thread is %q, want %q", got, want)
	}
	if got, want := script.lastRead(), "user good evening"; got != want {
		t.Errorf("the model reads %q, want %q", got, want)
	}
	// The client goes on calling it by that id.
	for _, body := range []string{uiSaid("mine", "good evening"), strings.Replace(uiSaid("mine", "good evening"), "submit-message", triggerRegenerate, 1)} {
		wantStatus(t, b.do(t, "POST", messagesPath(key), body), 200)
		if got, want := script.lastRead(), "user good evening"; got != want {
			t.Errorf("the model reads %q, want %q", got, want)
		}
	}
}

// lastRead returns what the model was last sent, without the context before a user's words.
func (s *script) lastRead() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []string
	for _, m := range s.requests[len(s.requests)-1].Messages {
		all = append(all, string(m.Role)+" "+m.Content[strings.LastIndexByte(m.Content, '\n')+1:])
	}
	return strings.Join(all, "|")
}

// shown returns the words of messages.
func shown(messages []thread.Message) string {
	var all []string
	for _, m := range messages {
		all = append(all, string(m.Role)+" "+m.Text())
	}
	return strings.Join(all, "|")
}

// TestUseChatGoesBack has the user go back to an earlier message: useChat cuts off what came after it,
// and so does the model's context.
func TestUseChatGoesBack(t *testing.T) {
	t.Parallel()
	const all = "user one|assistant 1.|user two|assistant 2.|user three|assistant 3."
	for name, c := range map[string]struct {
		id, text, trigger, messageID string // "answer" stands for the id of the answer to two
		read, current, saved         string
	}{
		"an earlier answer again": {
			"u2", "two", triggerRegenerate, "answer",
			"user one|assistant 1.|user two", "user one|assistant 1.|user two|assistant 4.", all + "|assistant 4.",
		},
		"an earlier message again": {
			"u2", "two", triggerRegenerate, "u2",
			"user one|assistant 1.|user two", "user one|assistant 1.|user two|assistant 4.", all + "|assistant 4.",
		},
		"under an id of the client's own": {
			"x", "two", triggerRegenerate, "answer",
			"user one|assistant 1.|user two", "user one|assistant 1.|user two|assistant 4.", all + "|assistant 4.",
		},
		"an earlier message edited": {
			"u1", "uno", "submit-message", "u1",
			"user uno", "user uno|assistant 4.", all + "|user uno|assistant 4.",
		},
		"edited to the same": {
			"u1", "one", "submit-message", "u1",
			"user one", "user one|assistant 4.", all + "|assistant 4.",
		},
		"one that never arrived": { // it was refused, as while another turn ran
			"u4", "four", triggerRegenerate, "",
			all + "|user four", all + "|user four|assistant 4.", all + "|user four|assistant 4.",
		},
		"one that never arrived, by its id": {
			"u4", "four", triggerRegenerate, "u4",
			all + "|user four", all + "|user four|assistant 4.", all + "|user four|assistant 4.",
		},
		"the last one by its words": {
			"x", "three", triggerRegenerate, "",
			"user one|assistant 1.|user two|assistant 2.|user three", "user one|assistant 1.|user two|assistant 2.|user three|assistant 4.", all + "|assistant 4.",
		},
		"a retry": {
			"u3", "three", "submit-message", "",
			"user one|assistant 1.|user two|assistant 2.|user three", "user one|assistant 1.|user two|assistant 2.|user three|assistant 4.", all + "|assistant 4.",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg, script := scriptedChat(words("1."), words("2."), words("3."), words("4."), words("5."))
			b := setupChat(t, cfg, nil)
			key := b.thread(t, access.LocalOwner)
			for i, text := range []string{"one", "two", "three"} {
				wantStatus(t, b.do(t, "POST", messagesPath(key), uiSaid(fmt.Sprint("u", i+1), text)), 200)
			}
			if c.messageID == "answer" {
				c.messageID = b.messages(t, key)[3].ID
			}
			body := strings.Replace(uiSaid(c.id, c.text), `"submit-message"`, fmt.Sprintf(`%q,"messageId":%q`, c.trigger, c.messageID), 1)
			wantStatus(t, b.do(t, "POST", messagesPath(key), body), 200)
			if got := script.lastRead(); got != c.read {
				t.Errorf("the model reads %q, want %q", got, c.read)
			}
			r := b.do(t, "GET", messagesPath(key)+"?current=true", "")
			if got := shown(decode[messagePage](t, r).Messages); got != c.current {
				t.Errorf("the client is shown %q, want %q", got, c.current)
			}
			if got := shown(b.messages(t, key)); got != c.saved {
				t.Errorf("saved is %q, want %q", got, c.saved)
			}
			// The next turn goes on from there.
			wantStatus(t, b.do(t, "POST", messagesPath(key), uiSaid("next", "next")), 200)
			if got := script.lastRead(); got != c.current+"|user next" {
				t.Errorf("then the model reads %q, want %q", got, c.current+"|user next")
			}
		})
	}
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
			if got := kinds(parseStream(t, r.body)); got != "start data-said finish" {
				t.Errorf("the stream has %s", got)
			}
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
	if want := []string{"3 2 <nil>", "4 1 <nil>"}; !slices.Equal(sizes, want) {
		t.Errorf("the call was shown %q, want %q", sizes, want)
	}
	if n := len(script.requests); n != 0 {
		t.Errorf("the text provider got %d requests", n)
	}
}

// TestUseChatSaysOnce sends messages again, as a client does that has lost the answer: in a call one that was answered
// before it, and after a call one that was said in it.
func TestUseChatSaysOnce(t *testing.T) {
	t.Parallel()
	cfg, _ := scriptedChat(words("Hi."))
	b := setupChat(t, cfg, nil)
	key := b.thread(t, access.LocalOwner)
	wantStatus(t, b.do(t, "POST", messagesPath(key), uiSaid("typed", "hello")), 200)
	wantStatus(t, b.do(t, "POST", callsPath+"?thread_id="+key.Thread, sdpOffer, sdpType), 201)
	callID, _ := b.calls.Live(key.Owner, key.Thread)
	wantError(t, b.do(t, "POST", messagesPath(key), uiSaid("typed", "hello")), 409, "call_active")
	for n := range 3 {
		if n == 2 {
			wantStatus(t, b.do(t, "POST", callsPath+"/"+callID+"/hangup", ""), 200)
		}
		r := b.do(t, "POST", messagesPath(key), uiSaid("said", "look"))
		wantStatus(t, r, 200)
		if got := kinds(parseStream(t, r.body)); got != "start data-said finish" {
			t.Errorf("the stream has %s", got)
		}
	}
	if got := shown(b.messages(t, key)); got != "user hello|assistant Hi.|user look" {
		t.Errorf("the thread is %q", got)
	}
}

// TestUseChatComesBack reloads the page in the middle of an answer: the turn goes on, and the page finds all of it.
func TestUseChatComesBack(t *testing.T) {
	t.Parallel()
	more := make(chan struct{})
	cfg, _ := scriptedChat(held("One.", more))
	b := setupChat(t, cfg, nil)
	key, server := b.thread(t, access.LocalOwner), b.listen(t)
	f := follow(t, server, "POST", messagesPath(key), uiSaid("mine", "hello"))
	f.until("text-delta")
	f.stop()
	must(t, f.lost())
	again := follow(t, server, "GET", messagesPath(key)+"/chat-1/stream", "")
	again.until("text-delta")
	close(more)
	if got := again.rest(); !strings.Contains(got, `"delta":"One."`) || !strings.Contains(got, `"delta":" More."`) || !strings.Contains(got, `"type":"finish"`) || strings.Contains(got, "abort") {
		t.Errorf("the stream is %s", got)
	}
	if all := b.messages(t, key); len(all) != 2 || all[1].Text() != "One. More." || all[1].Metadata.Status != thread.StatusCompleted {
		t.Errorf("the thread is %+v", all)
	}
}

// TestUseChatStops disconnects in the middle of an answer, where that is to end the turn.
func TestUseChatStops(t *testing.T) {
	t.Parallel()
	cfg, _ := scriptedChat(held("One.", nil))
	b := setupChat(t, cfg, func(cfg *Config) { cfg.StopWithReader = true })
	key := b.thread(t, access.LocalOwner)
	f := follow(t, b.listen(t), "POST", messagesPath(key), uiSaid("mine", "hello"))
	f.until("text-delta")
	turn := b.chat.Running(key)
	f.stop()
	result, err := turn.Wait(within(t))
	if err != nil || result.Finish != chat.FinishInterrupted || result.Text != "One." {
		t.Errorf("turn %+v, %v", result, err)
	}
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
			if got := script.lastRead(); !strings.HasSuffix(got, "user hello|assistant One.|user go on") {
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
		if got := kinds(parseStream(t, r.body)); got != "start start-step tool-input-available tool-approval-request finish-step finish" {
			t.Errorf("%s: the stream is %s", address, got)
		}
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
