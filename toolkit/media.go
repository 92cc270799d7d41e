package toolkit

import (
	"encoding/json"
	"strings"
)

// Media is an image or a sound of a tool's result that is saved with the thread. In the result's
// output it replaces the data; the type is still image or audio (MCP specification, tools/call,
// content).
type Media struct {
	ID        string `json:"image_id"`
	MediaType string `json:"mimeType"`
	// URL is the address at which the page reads it.
	URL string `json:"url"`
	// Width and Height are those of an image, in pixels.
	Width  int `json:"width,omitempty"`
	Height int `json:"height,omitempty"`
}

// MaxMedia limits how many images and sounds of one result are saved.
const MaxMedia = 8

// ResultImages returns the images that an output refers to, at most MaxMedia: those in its list
// content, and in resources there.
func ResultImages(output json.RawMessage) []Media {
	if !strings.Contains(string(output), `"image_id"`) {
		return nil
	}
	var result struct {
		Content []struct {
			Media
			Resource Media `json:"resource"`
		} `json:"content"`
	}
	if json.Unmarshal(output, &result) != nil {
		return nil
	}
	var images []Media
	for _, c := range result.Content {
		for _, m := range []Media{c.Media, c.Resource} {
			if m.ID != "" && strings.HasPrefix(m.MediaType, "image/") && len(images) < MaxMedia {
				images = append(images, m)
			}
		}
	}
	return images
}
