package mcptool

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"voicebridge/toolkit"
)

// maxModelText limits the text that the model receives of a result, in runes. The thread keeps all
// of it.
const maxModelText = 16 << 10

// maxBlob limits the data of a file in a result, in bytes, which neither models nor the page show: a larger one
// would leave no room for the rest.
const maxBlob = 256 << 10

// media saves images and sounds of results with the thread of their call.
type media interface {
	SaveMedia(ctx context.Context, call toolkit.Call, data []byte) (toolkit.Media, error)
}

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

// result returns a result as the thread stores it, and as text for the model: its text, with a
// placeholder for everything else.
func (k *keeper) result(r *mcp.CallToolResult) (output json.RawMessage, text string, err error) {
	var words []string
	content := slices.Clone(r.Content)
	for i, c := range content {
		word, instead := k.content(c)
		words = append(words, word)
		if instead != nil {
			content[i] = instead
		}
	}
	whole := *r
	whole.Content = content
	whole.StructuredContent = k.without(r.StructuredContent)
	if output, err = json.Marshal(&whole); err != nil {
		return nil, "", err
	}
	text = strings.TrimSpace(strings.Join(words, "\n"))
	if text == "" && r.StructuredContent != nil {
		structured, err := json.Marshal(r.StructuredContent)
		if err == nil {
			text = string(structured)
		}
	}
	text = cmp.Or(text, "(the tool returned nothing)")
	text = strings.ToValidUTF8(text, "\uFFFD")
	if first := toolkit.First(text, maxModelText); len(first) < len(text) {
		text = fmt.Sprintf("%s\n[cut: the text has %d characters]", first, utf8.RuneCountInString(text))
	}
	return output, text, nil
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

// replaced replaces a piece of a result.
type replaced struct {
	mcp.Content
	fields map[string]any
}

func (r replaced) MarshalJSON() ([]byte, error) { return toolkit.Encode(r.fields), nil }

// content returns a piece of a result as text, and its replacement for the thread; nil leaves it as
// it is.
func (k *keeper) content(c mcp.Content) (word string, instead mcp.Content) {
	switch c := c.(type) {
	case *mcp.TextContent:
		return c.Text, nil
	case *mcp.ImageContent:
		return k.keep("image", "", c.MIMEType, c.Data)
	case *mcp.AudioContent:
		return k.keep("audio", "", c.MIMEType, c.Data)
	case *mcp.ResourceLink:
		return fmt.Sprintf("[resource %s]", c.URI), nil
	case *mcp.EmbeddedResource:
		return k.resource(c.Resource)
	default:
		return "", nil
	}
}

func (k *keeper) resource(r *mcp.ResourceContents) (word string, instead mcp.Content) {
	if r == nil { // the server left it out
		return "", nil
	}
	kind, _, _ := strings.Cut(r.MIMEType, "/")
	switch {
	case r.Text != "":
		return r.Text, nil
	case len(r.Blob) > 0 && (kind == "image" || kind == "audio"):
		return k.keep(kind, r.URI, r.MIMEType, r.Blob)
	case len(r.Blob) > maxBlob:
		k.leave(r.Blob)
		why := fmt.Sprintf("its %d bytes are too many to keep", len(r.Blob))
		piece := map[string]any{"uri": r.URI, "mimeType": r.MIMEType, "omitted": why}
		return fmt.Sprintf("[resource %s, %s: %s]", r.URI, r.MIMEType, why), replaced{fields: map[string]any{"type": "resource", "resource": piece}}
	default:
		return fmt.Sprintf("[resource %s, %s]", r.URI, r.MIMEType), nil
	}
}

// leave notes data that is left out.
func (k *keeper) leave(data []byte) {
	if k.left == nil {
		k.left = map[string]bool{}
	}
	k.left[base64.StdEncoding.EncodeToString(data)] = true
}

// keep saves an image or a sound. If that fails, its data is left out, because nobody could use it in
// the thread, and the result says why.
func (k *keeper) keep(kind, uri, mediaType string, data []byte) (word string, instead mcp.Content) {
	mediaType = toolkit.Cut(strings.ToValidUTF8(mediaType, "\uFFFD"), 100)
	name := kind
	if uri != "" {
		name = "resource " + uri
	}
	word = fmt.Sprintf("[%s, %s]", name, mediaType)
	if k.media == nil {
		return word, nil
	}
	k.leave(data)
	piece := map[string]any{"type": kind, "mimeType": mediaType}
	why := ""
	if k.kept++; k.kept > toolkit.MaxMedia {
		why = fmt.Sprintf("only %d images and sounds of a result are kept", toolkit.MaxMedia)
	} else if saved, err := k.media.SaveMedia(k.ctx, k.call, data); err != nil {
		k.log.Warn("image of an MCP tool not kept", "tool", k.call.Name, "media_type", mediaType, "bytes", len(data), "error", err)
		why = "it could not be kept"
	} else {
		word = fmt.Sprintf("[%s, %s]", name, saved.MediaType)
		piece["image_id"], piece["mimeType"], piece["url"] = saved.ID, saved.MediaType, saved.URL
		if saved.Width > 0 {
			piece["width"], piece["height"] = saved.Width, saved.Height
			word = fmt.Sprintf("[%s, %s, %d×%d]", name, saved.MediaType, saved.Width, saved.Height)
		}
	}
	if why != "" {
		piece["omitted"] = why
		word = fmt.Sprintf("[%s, %s: %s]", name, mediaType, why)
	}
	if uri == "" {
		return word, replaced{fields: piece}
	}
	delete(piece, "type")
	piece["uri"] = uri
	return word, replaced{fields: map[string]any{"type": "resource", "resource": piece}}
}
