package mcptool

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"voicebridge/internal/testkit"
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
		"[resource file:///shot.png, image/png, 4×3]\n[resource file:///a.pdf, application/pdf]\n" + `{"content":[{"data":"(see content)"}],"more":"sound"}`
	if got.Failed() || got.Model != want {
		t.Errorf("the model reads %q, error %q", got.Model, got.Error)
	}
	testkit.Equal(t, media.kept, []string{"t1 ppp", "t1 sound", "t1 blob"}, "kept")
	wantOutput := `"content":[{"text":"pictures:","type":"text"},` +
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
		maxBlob:     "a file:\n[resource file:///a.zip, application/zip]\n" + `{"data":"(see content)"}`,
		maxBlob + 1: fmt.Sprintf("a file:\n[resource file:///a.zip, application/zip: its %d bytes are too many to keep]\n", maxBlob+1) + `{"data":"(see content)"}`,
	} {
		output, text := new(keeper).result(toolkit.Encode(file(size)))
		if text != want || (len(output) < 1000) != (size > maxBlob) {
			t.Errorf("%d bytes: got %q, %d bytes of output", size, text, len(output))
		}
	}
}

// TestResults has results as servers write them: what the model reads, and what the thread keeps.
func TestResults(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ result, model, output string }{
		"nothing":                  {`{"content":[]}`, "(the tool returned nothing)", `{"content":[]}`},
		"PHP's nothing":            {`{"content":{},"isError":[]}`, "(the tool returned nothing)", ""},
		"large integers":           {`{"content":[],"structuredContent":{"id":9007199254740993,"n":[1.0,-18446744073709551616,1e400]}}`, `{"id":9007199254740993,"n":[1.0,-18446744073709551616,1e400]}`, `{"content":[],"structuredContent":{"id":9007199254740993,"n":[1.0,-18446744073709551616,1e400]}}`},
		"in _meta":                 {`{"content":[],"_meta":{"id":9007199254740993}}`, "(the tool returned nothing)", `{"_meta":{"id":9007199254740993},"content":[]}`},
		"a summary and data":       {`{"content":[{"type":"text","text":"one order"}],"structuredContent":{"orders":[{"no":"A-77"}]}}`, "one order\n" + `{"orders":[{"no":"A-77"}]}`, ""},
		"the same data":            {`{"content":[{"type":"text","text":"{\"b\":1, \"a\":9007199254740993}"}],"structuredContent":{"a":9007199254740993,"b":1}}`, `{"b":1, "a":9007199254740993}`, ""},
		"almost the same":          {`{"content":[{"type":"text","text":"{\"a\":9007199254740992}"}],"structuredContent":{"a":9007199254740993}}`, `{"a":9007199254740992}` + "\n" + `{"a":9007199254740993}`, ""},
		"of FastMCP, a text":       {`{"content":[{"type":"text","text":"hello"}],"structuredContent":{"result":"hello"}}`, "hello", ""},
		"of FastMCP, a list":       {`{"content":[{"type":"text","text":"a"},{"type":"text","text":"{\"b\":1}"}],"structuredContent":{"result":["a",{"b":1}]}}`, "a\n" + `{"b":1}`, ""},
		"data that are no object":  {`{"content":[{"type":"text","text":"two"}],"structuredContent":[1,2]}`, "two\n[1,2]", ""},
		"no data":                  {`{"content":[{"type":"text","text":"x"}],"structuredContent":null}`, "x", `{"content":[{"text":"x","type":"text"}]}`},
		"a link":                   {`{"content":[{"type":"resource_link","uri":"file:///r/1","name":"q3.pdf","title":"Q3","description":"Quarterly report","mimeType":"application/pdf","size":"7"}]}`, "[resource file:///r/1: q3.pdf, Q3, application/pdf, Quarterly report]", `{"content":[{"type":"resource_link","uri":"file:///r/1","name":"q3.pdf","title":"Q3","description":"Quarterly report","mimeType":"application/pdf","size":"7"}]}`},
		"a bare link":              {`{"content":[{"type":"resource_link","uri":"file:///r/1","name":[]}]}`, "[resource file:///r/1]", ""},
		"an unknown kind":          {`{"content":[{"type":"text","text":"x"},{"type":"video","data":"…"}]}`, "x\n[video: it cannot be shown]", `{"content":[{"text":"x","type":"text"},{"omitted":"its kind is not one of the protocol","type":"video"}]}`},
		"odd pieces":               {`{"content":[null,7,[],{"type":"text","text":"x","annotations":[],"_meta":7},{"type":"text"},{"type":"text","text":7},{"type":"text","text":{"a":1}}]}`, "x\n\n7\n" + `{"a":1}`, ""},
		"a text alone":             {`{"content":"x"}`, "x", `{"content":[{"text":"x","type":"text"}]}`},
		"a piece alone":            {`{"content":{"type":"text","text":"x"}}`, "x", ""},
		"a list with gaps":         {`{"content":{"1":{"type":"text","text":"x"},"3":{"type":"text","text":"y"}}}`, "x\ny", ""},
		"texts":                    {`{"content":["x","y"]}`, "x\ny", ""},
		"of 2024-10-07":            {`{"toolResult":{"id":9007199254740993}}`, `{"toolResult":{"id":9007199254740993}}`, ""},
		"a resource that is none":  {`{"content":[{"type":"resource","resource":[]},{"type":"text","text":"x"}]}`, "x", ""},
		"a resource":               {`{"content":[{"type":"resource","resource":{"uri":"u","text":"inside","annotations":[]}}]}`, "inside", ""},
		"a failure":                {`{"content":[{"type":"text","text":"x"}],"isError":"true"}`, "x", `{"content":[{"text":"x","type":"text"}],"isError":true}`},
		"an image without a store": {`{"content":[{"type":"image","data":"cA==","mimeType":"image/png"}]}`, "[image, image/png]", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := &keeper{ctx: t.Context(), log: newLogBook().logger()}
			output, model := k.result(json.RawMessage(c.result))
			if model != c.model || c.output != "" && string(output) != c.output {
				t.Errorf("the model reads %q, the thread has %s", model, output)
			}
		})
	}
}

// TestImagesAsWritten has the data of an image as servers write it.
func TestImagesAsWritten(t *testing.T) {
	t.Parallel()
	want := []byte("\xfb\xff\xfe picture")
	text := base64.StdEncoding.EncodeToString(want)
	for name, data := range map[string]string{
		"plain": text, "a data URL": "data:image/png;base64," + text, "in lines": text[:4] + "\r\n" + text[4:], "without its end": strings.TrimRight(text, "="),
		"for addresses": base64.URLEncoding.EncodeToString(want), "none": "not base64!", "empty": "", "a number": "7",
	} {
		media := &mediaStore{}
		k := &keeper{ctx: t.Context(), log: newLogBook().logger(), media: media}
		piece := map[string]any{"type": "image", "mimeType": "image/png", "data": data}
		_, model := k.result(toolkit.Encode(map[string]any{"content": []any{piece, map[string]string{"type": "text", "text": "x"}}}))
		if name == "none" || name == "empty" || name == "a number" {
			if model != "[image, image/png: its data cannot be read]\nx" || len(media.kept) != 0 {
				t.Errorf("%s: the model reads %q", name, model)
			}
		} else if model != "[image, image/png, 4×3]\nx" || len(media.kept) != 1 || media.kept[0] != " "+string(want) {
			t.Errorf("%s: the model reads %q, kept %q", name, model, media.kept)
		}
	}
}
