package bridge_test

import (
	"bytes"
	"encoding/base64"
	"image"
	"image/png"
	"strings"
	"testing"
	"testing/synctest"

	"voicebridge/bridge"
	"voicebridge/internal/testkit"
	"voicebridge/persistence/pictures"
	"voicebridge/realtime"
	"voicebridge/realtime/simulator"
	"voicebridge/thread"
)

// drawing is a small PNG.
func drawing(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	must(t, png.Encode(&b, image.NewGray(image.Rect(0, 0, 30, 20))))
	return b.Bytes()
}

// saveDrawing saves an image in a thread.
func (b *bench) saveDrawing(key thread.Key) pictures.Image {
	b.t.Helper()
	picture, err := pictures.NewImage(drawing(b.t))
	if err == nil {
		picture, err = b.store.Pictures.Save(b.ctx, key, picture, 0)
	}
	must(b.t, err)
	return picture
}

// shown returns the user's messages that an upstream session was sent: their texts, and a
// mark for each image.
func shown(t *testing.T, s upstream) (all []string) {
	t.Helper()
	for _, r := range s.Received() {
		item, err := realtime.DecodeItem(r.Event.Item)
		if r.Event.Type != realtime.TypeItemCreate || err != nil || item.Role != "user" {
			continue
		}
		var parts []string
		for _, c := range item.Content {
			if c.Type == realtime.ContentInputImage && strings.HasPrefix(c.ImageURL, "data:image/png;base64,") {
				parts = append(parts, "[image]")
			} else {
				parts = append(parts, c.Text)
			}
		}
		if r.Refused != "" {
			parts = append(parts, "(refused)")
		}
		all = append(all, strings.Join(parts, " "))
	}
	return all
}

// imageCounts counts the images in each message of the user.
func (b *bench) imageCounts(key thread.Key) (all []int) {
	for _, m := range b.messages(key) {
		n := 0
		for _, p := range m.Parts {
			if _, ok := p.ImageID(key.Thread); ok {
				n++
			}
		}
		if m.Role == thread.RoleUser {
			all = append(all, n)
		}
	}
	return all
}

// TestImages shows images to a call: by HTTP, from the queue, and from the browser. The
// next call gets them again.
func TestImages(t *testing.T) {
	t.Parallel()
	pairs(t, testImages)
}

func testImages(t *testing.T, p pair) {
	t.Helper()
	b := newBench(t, sqlite(t), benchConfig{over: p, bridge: bridge.Config{ImageQuota: 100_000}})
	c := b.dial(bridge.Start{})
	c.next("bridge.ready")
	saved := b.saveDrawing(c.key())
	stopped := func() { c.next(realtime.TypeOutputBufferStopped) }
	m, err := b.calls.Say(b.ctx, c.key(), textMessage("", "What is this?", pictures.ImagePart(c.ThreadID, saved), pictures.ImagePart(c.ThreadID, pictures.Image{ID: "gone", MediaType: "image/png"})), "")
	if err != nil || len(m.Parts) != 3 {
		t.Fatalf("Say() = %+v, %v", m, err)
	}
	stopped()
	queued := thread.Message{ID: "queued", Parts: []thread.Part{thread.TextPart(""), pictures.ImagePart(c.ThreadID, saved)}}
	if _, err := b.calls.Say(b.ctx, c.key(), queued, ""); err != nil {
		t.Fatal(err)
	}
	stopped()
	data := "data:image/png;base64," + base64.StdEncoding.EncodeToString(drawing(t))
	c.send(`{"type":"conversation.item.create","item":{"type":"message","role":"user","content":[{"type":"input_text","text":"And this?"},{"type":"input_image","image_url":%q}]}}`, data)
	c.send(`{"type":"response.create"}`)
	stopped()
	c.send(`{"type":"conversation.item.create","event_id":"bad","item":{"type":"message","role":"user","content":[{"type":"input_image","image_url":"https://example.org/x.png"}]}}`)
	if e := c.next(realtime.TypeError).Error; e.EventID != "bad" || e.Code != "invalid_image" {
		t.Errorf("an image from elsewhere: %+v", e)
	}
	b.hangUp(c)
	want := []string{"What is this? [image] (An image that cannot be shown.)", "[image]", "And this? [image]"}
	testkit.Equal(t, shown(t, b.upstream(1)), want, "the model was shown")
	testkit.Equal(t, b.imageCounts(c.key()), []int{2, 1, 1}, "images of the messages: %s", b.script(c.key()))
	again := b.dial(bridge.Start{ThreadID: c.ThreadID})
	again.next("bridge.ready")
	b.hangUp(again)
	testkit.Equal(t, shown(t, b.upstream(2)), []string{"What is this? [image]", "[image]", "And this? [image]"}, "the next model was shown")
}

// TestImagesRefused has an upstream that accepts no images: it gets the text.
func TestImagesRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, testImagesRefused)
}

func testImagesRefused(t *testing.T) {
	t.Helper()
	b := newBench(t, sqlite(t), benchConfig{simulator: simulator.Config{Faults: simulator.Faults{RejectItems: 1}}})
	c := b.dial(bridge.Start{})
	c.next("bridge.ready")
	saved := b.saveDrawing(c.key())
	if _, err := b.calls.Say(b.ctx, c.key(), textMessage("", "What is this?", pictures.ImagePart(c.ThreadID, saved)), ""); err != nil {
		t.Fatal(err)
	}
	c.next(realtime.TypeOutputBufferStopped)
	b.hangUp(c)
	testkit.Equal(t, shown(t, b.upstream(1)), []string{"What is this? [image] (refused)", "What is this?"}, "the model was shown")
	if got := b.messages(c.key()); len(b.imageCounts(c.key())) != 1 || got[0].Metadata.Status != thread.StatusCompleted || len(got) < 2 {
		t.Errorf("thread:\n%s", b.script(c.key()))
	}
}
