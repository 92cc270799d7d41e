package mcptool

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"voicebridge/toolkit"
)

// maxModelText limits the text that the model receives of a result, in runes. The thread keeps all
// of it.
const maxModelText = 16 << 10

// maxBlob limits the data of a file in a result, in bytes, which neither models nor the page show: a larger one
// would leave no room for the rest.
const maxBlob = 256 << 10

// keeper reads the result of one call. Images and sounds go to media, and the result refers to them
// instead of containing their data.
type keeper struct {
	ctx   context.Context //nolint:containedctx // of the call, which is over with its result
	call  toolkit.Call
	media media
	log   *slog.Logger
	kept  int
	// left is the Base64 data that was left out of the result.
	left map[string]bool
}

// piece is one of a result's content. Its kind decides which of the fields count; others are kept as they are.
type piece struct {
	*reading

	fields map[string]json.RawMessage
}

func (p piece) text(key string) string {
	return strings.ToValidUTF8(take[string](p.reading, p.fields, key), "\uFFFD")
}

// result returns a result, as the server wrote it, as the thread stores it, and as text for the model: its text, with a
// placeholder for everything else, and its data, unless they are the same.
func (k *keeper) result(raw json.RawMessage) (output json.RawMessage, text string) {
	fields, _ := firstObject(raw)
	whole := map[string]any{}
	r := &reading{}
	var words, texts []string
	content := []any{}
	for _, one := range elements(fields["content"], "type") {
		word, instead := k.content(r, one)
		content = append(content, instead)
		words = append(words, word)
		texts = append(texts, word)
	}
	if len(r.odd) > 0 {
		k.log.Warn("parts of an MCP tool's result left out", "tool", k.call.Name,
			"parts", toolkit.Cut(strings.Join(r.odd, ", "), 1000))
	}
	whole["content"] = content
	data := fields["structuredContent"]
	if data == nil && fields["content"] == nil {
		for _, key := range []string{"_meta", "isError", "resultType", "content"} {
			delete(fields, key)
		}
		if len(fields) > 0 { // none of the protocol's, as that of 2024-10-07, toolResult
			data = toolkit.Encode(fields)
		}
	}
	if string(data) != "null" && len(data) > 0 {
		structured := k.without(numbered(data))
		whole["structuredContent"] = structured
		if !repeats(structured, texts) {
			words = append(words, string(toolkit.Encode(structured)))
		}
	}
	if take[bool](r, fields, "isError") {
		whole["isError"] = true
	}
	if meta := fields["_meta"]; meta != nil {
		whole["_meta"] = meta
	}
	text = cmp.Or(strings.TrimSpace(strings.Join(words, "\n")), "(the tool returned nothing)")
	if first := toolkit.First(text, maxModelText); len(first) < len(text) {
		text = fmt.Sprintf("%s\n[cut: the text has %d characters]", first, utf8.RuneCountInString(text))
	}
	return toolkit.Encode(whole), text
}

// numbered decodes JSON with its numbers as they are written; nil if it is none.
func numbered(data []byte) (value any) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if d.Decode(&value) != nil || d.More() {
		return nil
	}
	return value
}

// repeats reports whether texts say the same as data: as JSON, which the protocol wants beside it, or as FastMCP writes
// what is no object, as the field "result".
func repeats(data any, texts []string) bool {
	same := func(text string, value any) bool {
		return text == value || reflect.DeepEqual(numbered([]byte(text)), value)
	}
	values := []any{data}
	if fields, ok := data.(map[string]any); ok && len(fields) == 1 && fields["result"] != nil {
		values = append(values, fields["result"])
	}
	for _, value := range values {
		if slices.ContainsFunc(texts, func(text string) bool { return same(text, value) }) {
			return true
		}
		if list, ok := value.([]any); ok && slices.EqualFunc(texts, list, same) {
			return true
		}
	}
	return false
}

// without removes that data from structured content, which may repeat the content.
func (k *keeper) without(value any) any {
	switch v := value.(type) {
	case string:
		if k.left[v] {
			return "(see content)"
		}
	case []any:
		for i := range v {
			v[i] = k.without(v[i])
		}
	case map[string]any:
		for name := range v {
			v[name] = k.without(v[name])
		}
	}
	return value
}

// content returns a piece of a result as text, and as the thread stores it.
func (k *keeper) content(r *reading, raw json.RawMessage) (word string, instead any) {
	var text string
	fields, err := firstObject(raw)
	p := piece{r, fields}
	kind := p.text("type")
	switch {
	case err != nil && json.Unmarshal(raw, &text) != nil:
		r.leave("content", raw)
		return "", map[string]any{"type": "text", "text": ""}
	case err != nil, kind == "text" || kind == "" && fields["text"] != nil:
		if err == nil && json.Unmarshal(fields["text"], &text) != nil {
			text = string(fields["text"]) // data that are not encoded again
		}
		text = strings.ToValidUTF8(text, "\uFFFD")
		return text, map[string]any{"type": "text", "text": text}
	case kind == "image" || kind == "audio":
		return k.keep(kind, "", p.text("mimeType"), p.text("data"), raw)
	case kind == "resource_link":
		return p.link(), raw
	case kind == "resource":
		fields, err := firstObject(fields["resource"])
		if err != nil {
			r.leave("resource", raw)
		}
		return k.resource(piece{r, fields}, raw)
	}
	r.leave("content of another kind", raw)
	kind = toolkit.Cut(kind, 100)
	return fmt.Sprintf("[%s: it cannot be shown]",
		cmp.Or(kind, "content")), map[string]any{"type": kind, "omitted": "its kind is not one of the protocol"}
}

// link returns what a link says of its resource.
func (p piece) link() string {
	said := []string{}
	for _, key := range []string{"name", "title", "mimeType", "description"} {
		if text := p.text(key); text != "" && !slices.Contains(said, text) {
			said = append(said, text)
		}
	}
	word := "[resource " + p.text("uri")
	if len(said) > 0 {
		word += ": " + strings.Join(said, ", ")
	}
	return word + "]"
}

func (k *keeper) resource(p piece, raw json.RawMessage) (word string, instead any) {
	if len(p.fields) == 0 { // the server left it out
		return "", raw
	}
	uri, mediaType, text, blob := p.text("uri"), p.text("mimeType"), p.text("text"), p.text("blob")
	kind, _, _ := strings.Cut(mediaType, "/")
	size := base64.RawStdEncoding.DecodedLen(len(strings.TrimRight(blob, "=")))
	if blob != "" {
		k.leave(blob) // once is enough
	}
	switch {
	case text != "":
		return text, raw
	case blob != "" && (kind == "image" || kind == "audio"):
		return k.keep(kind, uri, mediaType, blob, raw)
	case size > maxBlob:
		why := fmt.Sprintf("its %d bytes are too many to keep", size)
		omitted := map[string]any{"uri": uri, "mimeType": mediaType, "omitted": why}
		return fmt.Sprintf("[resource %s, %s: %s]", uri, mediaType,
			why), map[string]any{"type": "resource", "resource": omitted}
	default:
		return fmt.Sprintf("[resource %s, %s]", uri, mediaType), raw
	}
}

// decoded reads Base64 as servers write it: in either alphabet, in lines, with or without its end, or as a data URL.
func decoded(text string) []byte {
	if rest, ok := strings.CutPrefix(text, "data:"); ok {
		_, text, _ = strings.Cut(rest, ",")
	}
	text = strings.NewReplacer("-", "+", "_", "/", "=", "", "\n", "", "\r", "", " ", "").Replace(text)
	data, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil {
		return nil
	}
	return data
}

// leave notes data that is left out.
func (k *keeper) leave(data string) {
	if k.left == nil {
		k.left = map[string]bool{}
	}
	k.left[data] = true
}

// keep saves an image or a sound. If that fails, its data is left out, because nobody could use it in
// the thread, and the result says why.
func (k *keeper) keep(kind, uri, mediaType, text string, raw json.RawMessage) (word string, instead any) {
	mediaType = toolkit.Cut(mediaType, 100)
	name := kind
	if uri != "" {
		name = "resource " + uri
	}
	if k.media == nil {
		return toolkit.Media{MediaType: mediaType}.Word(name), raw
	}
	k.leave(text)
	data := decoded(text)
	piece := map[string]any{"type": kind, "mimeType": mediaType}
	why := ""
	if k.kept++; len(data) == 0 {
		why = "its data cannot be read"
	} else if k.kept > toolkit.MaxMedia {
		why = fmt.Sprintf("only %d images and sounds of a result are kept", toolkit.MaxMedia)
	} else if saved, err := k.media.SaveMedia(k.ctx, k.call, data); err != nil {
		k.log.Warn("image of an MCP tool not kept", "tool", k.call.Name, "media_type", mediaType, "bytes", len(data),
			"error", err)
		why = "it could not be kept"
	} else {
		word = saved.Word(name)
		piece["image_id"], piece["mimeType"] = saved.ID, saved.MediaType
		piece["url"] = saved.URL
		if saved.Width > 0 {
			piece["width"], piece["height"] = saved.Width, saved.Height
		}
	}
	if why != "" {
		piece["omitted"] = why
		word = fmt.Sprintf("[%s, %s: %s]", name, mediaType, why)
	}
	if uri == "" {
		return word, piece
	}
	delete(piece, "type")
	piece["uri"] = uri
	return word, map[string]any{"type": "resource", "resource": piece}
}
