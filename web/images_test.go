package web

import (
	"bytes"
	"fmt"
	"image"
	"image/gif"
	"image/png"
	"strings"
	"testing"

	"voicebridge/llm"
	"voicebridge/persistence/pictures"
)

func pngOf(t *testing.T, width, height int) string {
	t.Helper()
	var buf bytes.Buffer
	must(t, png.Encode(&buf, image.NewGray(image.Rect(0, 0, width, height))))
	return buf.String()
}

func TestImages(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *Config) { tokens(c); c.Limits.ImageBytesPerOwner = 3000 })
	key, other := b.thread(t, "alice"), b.thread(t, "alice")
	path := "/api/threads/" + key.Thread + "/images"
	alice, kind := as("alice-token-of-tests"), func(k string) option { return header("Content-Type", k) }
	picture := pngOf(t, 30, 20)
	r := b.do(t, "POST", path, picture, alice, kind("image/png"))
	wantStatus(t, r, 201)
	got := decode[imageAnswer](t, r)
	if got.MediaType != "image/png" || got.Width != 30 || got.Height != 20 || got.URL != path+"/"+got.ImageID || r.Header.Get("Location") != got.URL {
		t.Errorf("answer %+v", got)
	}
	r = b.do(t, "GET", got.URL, "", alice)
	wantStatus(t, r, 200)
	if r.body != picture || r.Header.Get("Content-Type") != "image/png" || r.Header.Get("X-Content-Type-Options") != "nosniff" ||
		!strings.Contains(r.Header.Get("Cache-Control"), "immutable") {
		t.Errorf("%d bytes of %s", len(r.body), r.Header.Get("Content-Type"))
	}
	r = b.do(t, "GET", got.URL, "", alice, header("Range", "bytes=0-1"), header("Accept-Encoding", "gzip")) // as Safari asks for a sound
	wantStatus(t, r, 206)
	if r.body != picture[:2] || r.Header.Get("Content-Range") != fmt.Sprintf("bytes 0-1/%d", len(picture)) || r.Header.Get("Content-Encoding") != "" {
		t.Errorf("a part: %q with %v", r.body, r.Header)
	}
	wantStatus(t, b.do(t, "GET", got.URL, "", alice, header("If-None-Match", r.Header.Get("Etag"))), 304)
	var moving bytes.Buffer
	must(t, gif.Encode(&moving, image.NewGray(image.Rect(0, 0, 1, 1)), nil))
	wantStatus(t, b.do(t, "POST", path, moving.String(), alice, kind("image/gif")), 201)
	for name, c := range map[string]struct {
		path, body, kind string
		as               option
		status           int
		code             string
	}{
		"a stranger":       {path, picture, "image/png", as("bob-token-of-tests"), 404, "thread_not_found"},
		"nobody":           {path, picture, "image/png", header("X", "y"), 401, "invalid_api_key"},
		"SVG":              {path, "<svg/>", "image/svg+xml", alice, 415, "unsupported_media_type"},
		"HTML":             {path, "<script>", "text/html", alice, 415, "unsupported_media_type"},
		"HTML as an image": {path, "<script>alert(1)</script>", "image/png", alice, 400, "bad_image"},
		"PNG as JPEG":      {path, picture, "image/jpeg", alice, 400, "bad_image"},
		"empty":            {path, "", "image/png", alice, 400, "bad_image"},
		"cut":              {path, picture[:12], "image/png", alice, 400, "bad_image"},
		"a bomb":           {path, pngOf(t, pictures.MaxPixels+1, 1), "image/png", alice, 400, "bad_image"},
		"too large":        {path, picture + strings.Repeat("x", pictures.MaxImageBytes), "image/png", alice, 413, "too_large"},
		"beyond the quota": {path, picture + strings.Repeat("x", 3000), "image/png", alice, 413, "too_large"},
		"no such thread":   {"/api/threads/none/images", picture, "image/png", alice, 404, "thread_not_found"},
	} {
		if r := b.do(t, "POST", c.path, c.body, c.as, kind(c.kind)); r.StatusCode != c.status || !strings.Contains(r.body, c.code) {
			t.Errorf("%s: status %d: %s", name, r.StatusCode, r.body)
		}
	}
	for _, url := range []string{path + "/none", "/api/threads/" + other.Thread + "/images/" + got.ImageID, path + "/a%00b"} {
		wantStatus(t, b.do(t, "GET", url, "", alice), 404)
	}
	wantError(t, b.do(t, "GET", got.URL, "", as("bob-token-of-tests")), 404, "image_not_found")
}

// TestMessageWithImages shows the model the images that the message names.
func TestMessageWithImages(t *testing.T) {
	t.Parallel()
	st := newStage(t, nil, words("A grey box."), words("Still grey."))
	base := "/api/threads/" + st.key.Thread
	picture := pngOf(t, 3, 2)
	added := decode[imageAnswer](t, st.do(t, "POST", base+"/images", picture, header("Content-Type", "image/png")))
	r := st.do(t, "POST", base+"/messages", `{"content":"What is it?","image_ids":["`+added.ImageID+`"]}`)
	wantStatus(t, r, 200)
	if !strings.Contains(r.body, added.URL) {
		t.Errorf("the message has no such part: %s", r.body)
	}
	var shown []llm.Image
	for _, m := range st.script.requests[0].Messages {
		shown = append(shown, m.Images...)
	}
	if len(shown) != 1 || string(shown[0].Data) != picture || shown[0].MediaType != "image/png" {
		t.Errorf("the model is shown %d images", len(shown))
	}
	// The AI SDK's convertToModelMessages, on another server, needs a whole address.
	if list := st.do(t, "GET", base+"/messages", "").body; !strings.Contains(list, `"url":"http://localhost:8080`+added.URL+`"`) {
		t.Errorf("the messages have no such address: %s", list)
	}
	wantError(t, st.do(t, "POST", base+"/messages", `{"content":"And?","image_ids":["none"]}`), 400, "unknown_image")
	wantStatus(t, st.do(t, "POST", base+"/messages", `{"content":"","image_ids":["`+added.ImageID+`"]}`), 200)
}
