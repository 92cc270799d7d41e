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

	"voicebridge/llm"
	"voicebridge/persistence"
	"voicebridge/persistence/pictures"
	"voicebridge/persistence/queued"
	"voicebridge/thread"
	"voicebridge/toolkit"
)

// Limits of images.
const (
	// MaxImages is how many images one message may have.
	MaxImages = queued.MaxImageIDs
	// maxShown is how many of a conversation's last images a model gets, and maxShownBytes their
	// total size.
	maxShown      = 20
	maxShownBytes = 20 << 20
	// imageTokens is the estimated cost of an image, in tokens.
	imageTokens = 800

	lostImage = llm.LostImage
)

// Image is a picture of a message: a part {"type":"file","mediaType","url"} of the AI
// SDK's UIMessage.
type Image struct {
	MediaType string `json:"mediaType"`
	// URL is a data URL, or the address of an image of the thread.
	URL string `json:"url"`
}

// savedImages returns the thread's images with these ids. One that does not exist is kept: the model reads that it
// cannot be shown.
func savedImages(ctx context.Context, store *persistence.Store, key thread.Key, ids []string) ([]Image, error) {
	all := make([]Image, 0, len(ids))
	for _, id := range ids {
		saved, err := store.Pictures.Read(ctx, key, id)
		if err != nil && !errors.Is(err, persistence.ErrNotFound) {
			return nil, err
		}
		all = append(all, Image{
			MediaType: cmp.Or(saved.MediaType, pictures.ImageTypes[0]),
			URL:       thread.ImagePath(key.Thread) + url.PathEscape(id),
		})
	}
	return all, nil
}

func (i Image) part() thread.Part {
	return thread.Part{
		Type: "file", Raw: toolkit.Encode(map[string]string{"type": "file", "mediaType": i.MediaType, "url": i.URL}),
	}
}

// data reads a data URL; ok is false for other URLs.
func (i Image) data() (data []byte, ok bool) {
	rest, ok := strings.CutPrefix(i.URL, "data:")
	if !ok {
		return nil, false
	}
	head, text, _ := strings.Cut(rest, ",")
	data, err := base64.StdEncoding.DecodeString(text)
	return data, strings.HasSuffix(head, ";base64") && err == nil
}

// imageOf returns the image in a part; ok is false for other parts.
func imageOf(p *thread.Part) (i Image, ok bool) {
	if p.Type != "file" || json.Unmarshal(p.Raw, &i) != nil {
		return Image{}, false
	}
	return i, slices.Contains(pictures.ImageTypes, i.MediaType)
}

// keepImages saves in the thread the images that came as data URLs, so that messages only name them.
func keepImages(b *persistence.Batch, threadID string, images []Image, quota int64) ([]Image, error) {
	kept := slices.Clone(images)
	for n, i := range kept {
		data, ok := i.data()
		if !ok {
			continue
		}
		image, err := pictures.NewImage(data)
		if err != nil || image.IsSound() {
			return nil, fmt.Errorf("%w: a data URL does not hold an image that can be shown", ErrImages)
		}
		if image, err = b.Pictures.Save(image, quota); err != nil {
			return nil, err
		}
		kept[n] = Image{MediaType: image.MediaType, URL: thread.ImagePath(threadID) + image.ID}
	}
	return kept, nil
}

// checkImages returns why images cannot be used in a thread (ErrImages). saved is how many more the message names by
// id.
func checkImages(images []Image, thread string, saved int) error {
	if n := len(images) + saved; n > MaxImages {
		return fmt.Errorf("%w: there are %d, the limit is %d", ErrImages, n, MaxImages)
	}
	for _, i := range images {
		if !slices.Contains(pictures.ImageTypes, i.MediaType) {
			return fmt.Errorf("%w: %q is not one of %s", ErrImages, i.MediaType,
				strings.Join(pictures.ImageTypes, ", "))
		}
		data, readable := i.data()
		switch _, ofThread := i.part().ImageID(thread); {
		case ofThread:
		case !strings.HasPrefix(i.URL, "data:"):
			return fmt.Errorf("%w: %.80q is neither a data URL nor an image of this thread", ErrImages, i.URL)
		case !readable || len(data) == 0:
			return fmt.Errorf("%w: a data URL cannot be read", ErrImages)
		}
	}
	return nil
}

// Media saves the images and sounds that tools return, in the threads of their calls.
type Media struct {
	Store *persistence.Store
	// Quota limits the bytes of all images of one owner; 0 means no limit.
	Quota int64
}

// SaveMedia saves data that is an image or a sound, judged by its first bytes. The errors are those of
// pictures.NewImage and pictures.Store.Save.
func (m Media) SaveMedia(ctx context.Context, call toolkit.Call, data []byte) (toolkit.Media, error) {
	i, err := pictures.NewImage(data)
	if err != nil {
		return toolkit.Media{}, err
	}
	if i, err = m.Store.Pictures.Save(ctx, thread.Key{Owner: call.Owner, Thread: call.ThreadID}, i,
		m.Quota); err != nil {
		return toolkit.Media{}, err
	}
	return toolkit.Media{
		ID: i.ID, MediaType: i.MediaType, URL: thread.ImagePath(call.ThreadID) + i.ID, Width: i.Width, Height: i.Height,
	}, nil
}

// imagesOf returns the images of a call's result.
func imagesOf(p *thread.Part) []Image {
	if p.State != thread.ToolOutputAvailable || !p.IsTool() {
		return nil
	}
	var all []Image
	for _, m := range toolkit.ResultImages(p.Output) {
		all = append(all, Image{MediaType: m.MediaType, URL: m.URL})
	}
	return all
}
