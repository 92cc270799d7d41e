package chat

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"voicebridge/persistence"
	"voicebridge/toolkit"
)

// Limits of images.
const (
	// MaxImages is how many images one message may have.
	MaxImages = 10
	// maxShown is how many images of a conversation a model is shown, the last ones,
	// and maxShownBytes their size together.
	maxShown      = 20
	maxShownBytes = 20 << 20
	// imageTokens is what an image counts by the heuristic.
	imageTokens = 800

	lostImage = "(An image that cannot be shown any more.)"
)

// imageTypes are the media types that all providers take.
var imageTypes = []string{"image/png", "image/jpeg", "image/webp", "image/gif"}

// Image is a picture of a message: a part {"type":"file","mediaType","url"} of the AI
// SDK's UIMessage.
type Image struct {
	MediaType string `json:"mediaType"`
	// URL is a data URL, or the address of an image of the thread.
	URL string `json:"url"`
}

// imagePath is where the images of a thread are read (GET).
func imagePath(thread string) string { return "/api/threads/" + thread + "/images/" }

// savedImages are images of the thread by their ids. One that is not there any more is
// in the message all the same, which says so.
func savedImages(ctx context.Context, store *persistence.Store, key persistence.Key, ids []string) ([]Image, error) {
	all := make([]Image, 0, len(ids))
	for _, id := range ids {
		saved, err := store.Image(ctx, key, id)
		if err != nil && !errors.Is(err, persistence.ErrNotFound) {
			return nil, err
		}
		all = append(all, Image{MediaType: cmp.Or(saved.MediaType, imageTypes[0]), URL: imagePath(key.Thread) + url.PathEscape(id)})
	}
	return all, nil
}

func (i Image) part() persistence.Part {
	return persistence.Part{Type: "file", Raw: toolkit.Encode(map[string]string{"type": "file", "mediaType": i.MediaType, "url": i.URL})}
}

// data reads a data URL; ok is false for another one.
func (i Image) data() (mediaType string, data []byte, ok bool) {
	rest, ok := strings.CutPrefix(i.URL, "data:")
	if !ok {
		return "", nil, false
	}
	head, text, _ := strings.Cut(rest, ",")
	mediaType, ok = strings.CutSuffix(head, ";base64")
	data, err := base64.StdEncoding.DecodeString(text)
	return mediaType, data, ok && err == nil
}

// imageOf returns the image that a part is; ok is false for another part.
func imageOf(p *persistence.Part) (i Image, ok bool) {
	if p.Type != "file" || json.Unmarshal(p.Raw, &i) != nil {
		return Image{}, false
	}
	return i, slices.Contains(imageTypes, i.MediaType)
}

// checkImages says why images cannot be taken (ErrImages).
func checkImages(images []Image, saved int) error {
	if n := len(images) + saved; n > MaxImages {
		return fmt.Errorf("%w: there are %d, the limit is %d", ErrImages, n, MaxImages)
	}
	for _, i := range images {
		if !slices.Contains(imageTypes, i.MediaType) {
			return fmt.Errorf("%w: %q is not one of %s", ErrImages, i.MediaType, strings.Join(imageTypes, ", "))
		}
		if _, data, ok := i.data(); strings.HasPrefix(i.URL, "data:") && (!ok || len(data) == 0) {
			return fmt.Errorf("%w: a data URL cannot be read", ErrImages)
		}
	}
	return nil
}
