package mcptool

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"voicebridge/toolkit"
)

// mediaStore saves media, and refuses what is larger than 1000 bytes.
type mediaStore struct {
	mu   sync.Mutex
	kept []string
}

func (s *mediaStore) SaveMedia(_ context.Context, call toolkit.Call, data []byte) (toolkit.Media, error) {
	if len(data) > 1000 {
		return toolkit.Media{}, errors.New("too large")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept = append(s.kept, call.ThreadID+" "+string(data))
	m := toolkit.Media{ID: fmt.Sprint("i", len(s.kept)), MediaType: "image/png", URL: fmt.Sprint("/images/i", len(s.kept)), Width: 4, Height: 3}
	if string(data) == "sound" {
		m.MediaType, m.Width, m.Height = "audio/wav", 0, 0
	}
	return m, nil
}

// TestMedia saves the media of a result beside the thread, within limits.
func TestMedia(t *testing.T) {
	t.Parallel()
	media := &mediaStore{}
	b := openWith(t, map[string]Server{"s": stdio("server", nil)}, Options{Media: media})
	call := func(arguments string) toolkit.Result {
		return b.router.Call(t.Context(), toolkit.Call{Name: "s__pictures", ThreadID: "t1", Arguments: arguments}, nil)
	}
	got := call(`{"sizes":[3,2000]}`)
	want := "pictures:\n[image, image/png, 4×3]\n[image, image/png: it could not be kept]\n[audio, audio/wav]\n" +
		"[resource file:///shot.png, image/png, 4×3]\n[resource file:///a.pdf, application/pdf]"
	if got.Failed() || got.Model != want {
		t.Errorf("the model reads %q, error %q", got.Model, got.Error)
	}
	if d := cmp.Diff([]string{"t1 ppp", "t1 sound", "t1 blob"}, media.kept); d != "" {
		t.Errorf("kept (-want +got):\n%s", d)
	}
	wantOutput := `"content":[{"type":"text","text":"pictures:"},` +
		`{"height":3,"image_id":"i1","mimeType":"image/png","type":"image","url":"/images/i1","width":4},` +
		`{"mimeType":"image/png","omitted":"it could not be kept","type":"image"},` +
		`{"image_id":"i2","mimeType":"audio/wav","type":"audio","url":"/images/i2"},` +
		`{"resource":{"height":3,"image_id":"i3","mimeType":"image/png","uri":"file:///shot.png","url":"/images/i3","width":4},"type":"resource"},` +
		`{"type":"resource","resource":{"uri":"file:///a.pdf","mimeType":"application/pdf","blob":"JVBERg=="}}],"structuredContent":{"content":[{"data":"(see content)"}],"more":"sound"}`
	if !strings.Contains(string(got.Output), wantOutput) {
		t.Errorf("the thread has %s", got.Output)
	}
	if images := toolkit.ResultImages(got.Output); len(images) != 2 || images[0].URL != "/images/i1" || images[1].ID != "i3" {
		t.Errorf("a model is shown %+v", images)
	}

	got = call(`{"sizes":[1,1,1,1,1,1,1,1,1,1,1]}`)
	if n := len(toolkit.ResultImages(got.Output)); n != toolkit.MaxMedia || !strings.Contains(got.Model, "only 8 images and sounds") {
		t.Errorf("%d of too many images are saved; the model reads %q", n, got.Model)
	}
	if got = call(`{"sizes":[1],"failed":true}`); !strings.Contains(got.Error, "[image, image/png") {
		t.Errorf("a failure is %+v", got)
	}
}

// TestLargeFile has a result with a file that is too large to keep. The rest is kept.
func TestLargeFile(t *testing.T) {
	t.Parallel()
	file := func(size int) *mcp.CallToolResult {
		data := bytes.Repeat([]byte("x"), size)
		return &mcp.CallToolResult{StructuredContent: map[string]any{"data": base64.StdEncoding.EncodeToString(data)}, Content: []mcp.Content{
			&mcp.TextContent{Text: "a file:"}, &mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: "file:///a.zip", MIMEType: "application/zip", Blob: data}},
		}}
	}
	for size, want := range map[int]string{
		maxBlob:     "a file:\n[resource file:///a.zip, application/zip]",
		maxBlob + 1: fmt.Sprintf("a file:\n[resource file:///a.zip, application/zip: its %d bytes are too many to keep]", maxBlob+1),
	} {
		output, text, err := new(keeper).result(file(size))
		if err != nil || text != want || (len(output) < 1000) != (size > maxBlob) {
			t.Errorf("%d bytes: got %q, %d bytes of output, %v", size, text, len(output), err)
		}
	}
}
