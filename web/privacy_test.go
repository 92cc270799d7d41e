package web

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"voicebridge/assistant"
	"voicebridge/persistence/persistencetest"
	"voicebridge/persistence/pictures"
	"voicebridge/persistence/privacy"
	"voicebridge/persistence/records"
	"voicebridge/thread"
)

// furnish gives an owner some of everything, and returns the thread.
func (b *bundle) furnish(t *testing.T, owner, words string) (thread.Key, pictures.Image) {
	t.Helper()
	key := persistencetest.NewThread(t, b.db, owner, "title of "+owner)
	image, err := b.db.Pictures.Save(t.Context(), key, pictures.Image{MediaType: "image/png", Width: 1, Height: 1, Data: []byte("image of " + owner)}, 0)
	must(t, err)
	parts := []thread.Part{thread.TextPart(words), pictures.ImagePart(key.Thread, image)}
	_, err = persistencetest.AppendMessage(t.Context(), b.db, key, thread.Message{Role: thread.RoleUser, Parts: parts})
	must(t, err)
	_, err = persistencetest.AppendMessage(t.Context(), b.db, key, thread.Message{Role: thread.RoleSystem, Parts: []thread.Part{thread.TextPart("secret instructions")}})
	must(t, err)
	var answer thread.Message
	must(t, json.Unmarshal([]byte(`{"role":"assistant","parts":[{"type":"step-start"},{"type":"reasoning","text":"secret thought"},
		{"type":"tool-look_up","toolCallId":"c-12","state":"output-available","input":{"a":"secret input"},"output":"secret output","callProviderMetadata":{"x":"secret thought"}},
		{"type":"dynamic-tool","toolName":"remote","toolCallId":"c-12","state":"output-error","input":"secret input","errorText":"secret error"},
		{"type":"text","text":"Found.","providerMetadata":{"x":"secret thought"}}]}`), &answer))
	_, err = persistencetest.AppendMessage(t.Context(), b.db, key, answer)
	must(t, err)
	must(t, b.db.Records.SaveCall(t.Context(), key, records.Call{ID: "call-of-" + owner, EndReason: "hangup", EndedAt: new(b.clock.now())}))
	must(t, b.db.Records.SaveToolCall(t.Context(), key, thread.ToolCall{ID: "tool-of-" + owner, ToolCallID: "t", Name: "look_up", Input: `{"of":"` + owner + `"}`, Status: thread.ToolCallDone}))
	must(t, b.db.Records.SaveResponse(t.Context(), key, records.Response{ID: "response-of-" + owner, Model: "model-of-" + owner, Status: "completed", CostUSD: new(0.5)}))
	b.hook(t, owner)
	_, err = b.db.Assistants.Create(t.Context(), owner, assistant.Assistant{Name: "assistant of " + owner, Shared: true}, false)
	must(t, err)
	return key, image
}

func TestExportAndErase(t *testing.T) {
	t.Parallel()
	b := setup(t, tokens)
	alice, bob := as("alice-token-of-tests"), as("bob-token-of-tests")
	key, image := b.furnish(t, "alice", "words of alice")
	b.furnish(t, "bob", "words of bob")
	r := b.do(t, "GET", "/api/export", "", alice)
	wantStatus(t, r, 200)
	archive, err := zip.NewReader(strings.NewReader(r.body), int64(len(r.body)))
	must(t, err)
	files := map[string]string{}
	var all strings.Builder
	for _, f := range archive.File {
		file, err := f.Open()
		must(t, err)
		data, err := io.ReadAll(file)
		must(t, err)
		files[f.Name] = string(data)
		all.WriteString(f.Name + string(data))
	}
	folder := "threads/" + key.Thread + "/"
	for name, want := range map[string]string{
		"owner.json": `"alice"`, folder + "thread.json": "words of alice", folder + "calls.json": "call-of-alice", folder + "images/" + image.ID + ".png": "image of alice",
		folder + "tool_calls.json": `"of": "alice"`, folder + "responses.json": "model-of-alice",
		"hooks.json": "https://example.com/hook", "assistants.json": "assistant of alice",
	} {
		if !strings.Contains(files[name], want) {
			t.Errorf("%s: %q, want %q", name, files[name], want)
		}
	}
	if strings.Contains(all.String(), "bob") || strings.Contains(all.String(), "whsec_") {
		t.Errorf("the archive has what it must not: %s", all.String())
	}

	cookie := signIn(t, b, "alice-token-of-tests")
	wantStatus(t, b.do(t, "DELETE", "/api/me", "", alice), 204)
	wantError(t, b.do(t, "GET", "/api/threads", "", header("Cookie", cookie)), 401, "invalid_api_key")
	var left bytes.Buffer
	must(t, privacy.Export(t.Context(), &left, "alice", privacy.Parts(b.db)))
	if rest, err := zip.NewReader(bytes.NewReader(left.Bytes()), int64(left.Len())); err != nil || len(rest.File) != 1 {
		t.Errorf("%d files are left, %v", len(rest.File), err)
	}
	if r := b.do(t, "GET", "/api/threads", "", bob); !strings.Contains(r.body, "title of bob") {
		t.Errorf("bob has %s", r.body)
	}
	if r := b.do(t, "GET", "/api/hooks", "", bob); !strings.Contains(r.body, "https://example.com/hook") {
		t.Errorf("bob has %s", r.body)
	}
}

func TestShare(t *testing.T) {
	t.Parallel()
	b := setup(t, tokens)
	alice, bob := as("alice-token-of-tests"), as("bob-token-of-tests")
	key, image := b.furnish(t, "alice", `<script>alert("x")</script>`)
	route := "/api/threads/" + key.Thread + "/share"
	for _, method := range []string{"POST", "DELETE"} {
		wantStatus(t, b.do(t, method, route, "", bob), 404)
	}
	r := b.do(t, "POST", route, "", alice)
	wantStatus(t, r, 200)
	link := decode[struct{ URL string }](t, r).URL
	if again := b.do(t, "POST", route, "", alice); decode[struct{ URL string }](t, again).URL != link || len(link) < 30 {
		t.Errorf("the link %q has changed to %s", link, again.body)
	}
	page := b.do(t, "GET", link, "")
	wantStatus(t, page, 200)
	if !strings.Contains(page.body, link+"/images/"+image.ID) || !strings.Contains(page.body, "look_up") {
		t.Errorf("the page is %s", page.body)
	}
	if h := page.Header; !strings.Contains(h.Get("X-Robots-Tag"), "noindex") || !strings.Contains(h.Get("Cache-Control"), "no-store") || !strings.Contains(h.Get("Content-Security-Policy"), "default-src 'none'") {
		t.Errorf("headers %v", h)
	}
	for _, secret := range []string{key.Thread, `"owner"`, "<script>", "secret instructions", "secret input", "secret output", "secret error", "secret thought", "providerMetadata", "c-12"} {
		if strings.Contains(page.body, secret) {
			t.Errorf("%q is shown: %s", secret, page.body)
		}
	}
	if r := b.do(t, "GET", link+"/images/"+image.ID, ""); r.StatusCode != http.StatusOK || r.body != "image of alice" {
		t.Errorf("the image: %d", r.StatusCode)
	}
	// Nothing else can be read by it, nor written.
	_, other := b.furnish(t, "bob", "words of bob")
	wantStatus(t, b.do(t, "GET", link+"/images/"+other.ID, ""), 404)
	wantStatus(t, b.do(t, "POST", link, ""), 405)
	wantError(t, b.do(t, "GET", link+"x", ""), 404, "share_not_found")
	wantStatus(t, b.do(t, "DELETE", route, "", alice), 204)
	wantError(t, b.do(t, "GET", link, ""), 404, "share_not_found")
	wantStatus(t, b.do(t, "GET", link+"/images/"+image.ID, ""), 404)
	wantStatus(t, b.do(t, "DELETE", route, "", alice), 204)
}
