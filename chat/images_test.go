package chat_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"image"
	"image/png"
	"slices"
	"strings"
	"testing"

	"voicebridge/assistant"
	"voicebridge/chat"
	"voicebridge/internal/testkit"
	"voicebridge/llm"
	"voicebridge/persistence"
	"voicebridge/persistence/persistencetest"
	"voicebridge/persistence/pictures"
	"voicebridge/toolkit"
)

// pngOf returns a picture of the given width.
func pngOf(t *testing.T, width int) []byte {
	t.Helper()
	var b bytes.Buffer
	must(t, png.Encode(&b, image.NewGray(image.Rect(0, 0, width, 2))))
	return b.Bytes()
}

// look is a tool of an MCP server whose result contains an image.
func look(media chat.Media, picture []byte) tool {
	return tool{"look", func(ctx context.Context, call toolkit.Call, yield func(toolkit.Chunk, error) bool) {
		kept, err := media.SaveMedia(ctx, call, picture)
		if err != nil {
			yield(toolkit.Chunk{}, err)
			return
		}
		output := fmt.Sprintf(`{"content":[{"type":"text","text":"here"},{"type":"image","mimeType":%q,"image_id":%q,"url":%q}]}`, kept.MediaType, kept.ID, kept.URL)
		yield(result(toolkit.Result{Output: []byte(output), Model: "here\n[image]"}), nil)
	}}
}

// seeing runs a coordinator whose tool returns a picture.
func seeing(t *testing.T, provider llm.Provider, quota int64) (b *bench, picture []byte) {
	t.Helper()
	store := persistencetest.SQLite(t)
	picture = pngOf(t, 3)
	registry := toolkit.NewRegistry()
	must(t, registry.Add(toolkit.Entry{Tool: look(chat.Media{Store: store, Quota: quota}, picture), Executor: toolkit.ExecutorMCP, Server: "s"}))
	return start(t, store, chat.Config{Providers: []llm.Provider{provider}, ImageQuota: quota, Attempts: 1, NoTitles: true,
		Tools: func(context.Context, string, assistant.Assistant) (*toolkit.Registry, error) { return registry, nil }}), picture
}

// shown lists the roles of the messages that have images.
func shown(req llm.Request) (roles []llm.Role) {
	for _, m := range req.Messages {
		for range m.Images {
			roles = append(roles, m.Role)
		}
	}
	return roles
}

// TestImageOfATool shows the model the image that a tool returns, in the turn and in later
// ones.
func TestImageOfATool(t *testing.T) {
	t.Parallel()
	provider := deltas(calls("a", "look", `{}`), says("A line."), says("Still."))
	b, picture := seeing(t, provider, 0)
	b.say("Look.")
	b.say("And now?")
	requests := provider.seen()
	for n, req := range requests[1:] {
		if got := shown(req); !slices.Equal(got, []llm.Role{llm.RoleTool}) {
			t.Fatalf("request %d shows images of %v", n+1, got)
		}
		i := slices.IndexFunc(req.Messages, func(m llm.Message) bool { return m.Role == llm.RoleTool })
		if m := req.Messages[i]; m.Content != "here\n[image]" || m.Images[0].MediaType != "image/png" || !bytes.Equal(m.Images[0].Data, picture) {
			t.Errorf("request %d: %q with an image of %s", n+1, m.Content, m.Images[0].MediaType)
		}
	}
	if text := outline(b.messages()); strings.Contains(text, base64.StdEncoding.EncodeToString(picture)[:8]) {
		t.Errorf("the thread holds the data: %s", text)
	}
}

// picky returns a provider that accepts only some images.
func picky(f *fake) limited {
	return limited{f, llm.Accepts{Images: llm.ImageLimits{Types: []string{"image/jpeg"}}}}
}

// TestImageLimits shows a model an image in a form that its provider accepts. One that cannot be
// converted does not make the request fail, and with it all later ones of the thread.
func TestImageLimits(t *testing.T) {
	t.Parallel()
	provider := picky(deltas(says("A line.")))
	b := start(t, persistencetest.SQLite(t), asking(provider))
	broken, err := b.store.Pictures.Save(t.Context(), b.key, pictures.Image{MediaType: "image/gif", Width: 1, Height: 1, Data: []byte("GIF")}, 0)
	must(t, err)
	line := chat.Image{MediaType: "image/png", URL: "data:image/png;base64," + base64.StdEncoding.EncodeToString(pngOf(t, 4))}
	b.wait(b.turn(chat.TurnRequest{Text: "What is it?", Images: []chat.Image{line}, ImageIDs: []string{broken.ID}}))
	m := provider.seen()[0].Messages[0]
	if len(m.Images) != 1 || m.Images[0].MediaType != "image/jpeg" || !strings.HasPrefix(m.Content, "(An image that cannot be shown.)") {
		t.Fatalf("the model is shown %d images with %q", len(m.Images), m.Content)
	}
	if shown, err := pictures.NewImage(m.Images[0].Data); err != nil || shown.MediaType != "image/jpeg" || shown.Width != 4 {
		t.Errorf("the image is %s of %d pixels, %v", shown.MediaType, shown.Width, err)
	}
}

// TestConvertedOnce converts an image once for all requests that contain it.
func TestConvertedOnce(t *testing.T) {
	t.Parallel()
	provider := picky(deltas(says("A line.")))
	b := start(t, persistencetest.SQLite(t), asking(provider))
	line := chat.Image{MediaType: "image/png", URL: "data:image/png;base64," + base64.StdEncoding.EncodeToString(pngOf(t, 4))}
	b.wait(b.turn(chat.TurnRequest{Text: "What is it?", Images: []chat.Image{line}}))
	b.say("And now?")
	requests := provider.seen()
	first, second := requests[0].Messages[0].Images, requests[1].Messages[0].Images
	if len(first) != 1 || len(second) != 1 || &first[0].Data[0] != &second[0].Data[0] {
		t.Error("the image was converted for each request")
	}
	testkit.Equal(t, chat.KeepConverted(20<<20, 1, 20<<20, 2), []string{"1", "2", "3"}, "kept")
	if left := chat.KeepConverted(1, 40<<20); len(left) != 0 {
		t.Errorf("kept are %q", left)
	}
}

// TestDataURL stores an image that arrives inside a message separately.
func TestDataURL(t *testing.T) {
	t.Parallel()
	for name, url := range persistencetest.URLs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			provider := deltas(says("A line."))
			picture := pngOf(t, 5)
			store := persistencetest.Open(t, url(t), persistence.Options{})
			b := start(t, store, chat.Config{Providers: []llm.Provider{provider}, ImageQuota: int64(len(picture)) + 10, NoTitles: true})
			data := func(b []byte) []chat.Image {
				return []chat.Image{{MediaType: "image/jpeg", URL: "data:image/jpeg;base64," + base64.StdEncoding.EncodeToString(b)}}
			}
			b.wait(b.turn(chat.TurnRequest{Text: "What is it?", Images: data(picture)}))
			m := b.messages()[0]
			raw := string(m.Parts[0].Raw)
			if strings.Contains(raw, "data:") || !strings.Contains(raw, "/api/threads/"+b.key.Thread+"/images/") || !strings.Contains(raw, "image/png") {
				t.Errorf("the message holds %s", raw)
			}
			if got := provider.seen()[0].Messages[0].Images; len(got) != 1 || !bytes.Equal(got[0].Data, picture) || got[0].MediaType != "image/png" {
				t.Errorf("the model is shown %d images", len(got))
			}
			for what, c := range map[string]struct {
				data []byte
				want error
			}{"no image": {[]byte("<svg/>"), chat.ErrImages}, "a sound": {[]byte("OggS"), chat.ErrImages}, "above the quota": {picture, persistence.ErrQuota}} {
				_, err := b.c.Turn(t.Context(), chat.TurnRequest{Key: b.key, Text: "And this?", Images: data(c.data)})
				if !errors.Is(err, c.want) {
					t.Errorf("%s: Turn() = %v, want %v", what, err, c.want)
				}
			}
			if n := len(b.messages()); n != 2 {
				t.Errorf("refused turns have left %d messages", n-2)
			}
		})
	}
}
