package mcptool

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"voicebridge/toolkit"
)

// maxModelText is the limit of what the model receives of a result as text, in runes. The thread keeps
// all of it.
const maxModelText = 16 << 10

// media keeps the images and sounds of results beside the thread of their call.
type media interface {
	SaveMedia(ctx context.Context, call toolkit.Call, data []byte) (toolkit.Media, error)
}

// keeper reads the result of one call. What it is to show or play goes to media, and the result
// names it instead of holding its data.
type keeper struct {
	ctx   context.Context //nolint:containedctx // of the call, which is over with its result
	call  toolkit.Call
	media media
	log   *slog.Logger
	kept  int
	// left are the data that are left out of the result, in Base64.
	left map[string]bool
}

// result returns a result as the thread keeps it, and as text for the model: what stands in it as
// text, a word for what does not.
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
	if text == "" {
		text = "(the tool returned nothing)"
	}
	return output, cutRunes(strings.ToValidUTF8(text, "\uFFFD"), maxModelText), nil
}

// without leaves the data out of structured content, which repeats what stands in the content.
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

// replaced stands for a piece of a result.
type replaced struct {
	mcp.Content
	fields map[string]any
}

func (r replaced) MarshalJSON() ([]byte, error) { return toolkit.Encode(r.fields), nil }

// content returns a piece of a result in words, and what takes its place in the thread; nil leaves it.
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
	kind, _, _ := strings.Cut(r.MIMEType, "/")
	switch {
	case r == nil:
		return "", nil
	case r.Text != "":
		return r.Text, nil
	case len(r.Blob) > 0 && (kind == "image" || kind == "audio"):
		return k.keep(kind, r.URI, r.MIMEType, r.Blob)
	default:
		return fmt.Sprintf("[resource %s, %s]", r.URI, r.MIMEType), nil
	}
}

// keep keeps an image or a sound. What cannot be kept is left out, and the result says why: its data
// would fill the thread for nobody.
func (k *keeper) keep(kind, uri, mediaType string, data []byte) (word string, instead mcp.Content) {
	mediaType = cutRunes(strings.ToValidUTF8(mediaType, "\uFFFD"), 100)
	name := kind
	if uri != "" {
		name = "resource " + uri
	}
	word = fmt.Sprintf("[%s, %s]", name, mediaType)
	if k.media == nil {
		return word, nil
	}
	if k.left == nil {
		k.left = map[string]bool{}
	}
	k.left[base64.StdEncoding.EncodeToString(data)] = true
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
