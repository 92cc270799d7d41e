package bridge

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"voicebridge/bridge/internal/session"
	"voicebridge/persistence"
	"voicebridge/persistence/pictures"
	"voicebridge/realtime"
	"voicebridge/thread"
	"voicebridge/toolkit"
)

// Limits on images in calls.
const (
	// maxImages is how many images a message may have.
	maxImages = 10
	// maxShownBytes limits the event that shows a message's images, unless the upstream's own limit
	// is lower.
	maxShownBytes = 192 << 10
	// maxReplayedImages is how many of a thread's newest images a new session gets, and
	// maxReplayedBytes limits each.
	maxReplayedImages = 4
	maxReplayedBytes  = 96 << 10
	saveImageTimeout  = 5 * time.Second
)

// images are the images of one thread.
type images struct {
	store *persistence.Store // may be nil
	key   thread.Key
	quota int64 // limit on the bytes of all the owner's images; 0 means no limit
	// limit is the size in bytes of the largest event that the upstream accepts; zero if that is not known yet.
	limit *atomic.Int64
	log   *slog.Logger
}

// room returns how many bytes of an event of at most that size images can take beside a text.
func (i images) room(most, text int) int {
	if limit := int(i.limit.Load()); limit > 0 {
		most = min(limit, most)
	}
	return most - 2*text - 4<<10
}

// named returns the images with these ids, made to fit together into room bytes of an event for the model. An image
// that cannot be shown or does not exist stays in the message, without a URL for the model.
func (i images) named(ctx context.Context, ids []string, room int) ([]session.Image, error) {
	var all []session.Image
	for _, id := range ids {
		saved, err := i.store.Pictures.Read(ctx, i.key, id)
		if err != nil && !errors.Is(err, persistence.ErrNotFound) {
			return nil, err
		}
		url := ""
		if err == nil {
			url = i.url(saved, room/len(ids))
		} else {
			saved = pictures.Image{ID: id, MediaType: pictures.ImageTypes[0]}
		}
		all = append(all, session.Image{Part: pictures.ImagePart(i.key.Thread, saved), URL: url})
	}
	return all, nil
}

// url returns the image as a data URL, empty if it cannot be shown.
func (i images) url(saved pictures.Image, limit int) string {
	url, err := pictures.DataURL(saved, limit)
	if err != nil {
		i.log.Warn("image not shown to the model", "image_id", saved.ID, "error", err)
	}
	return url
}

// keep saves the images in an event of the browser. It is called on the browser's own goroutine,
// which keeps its events in order.
func (i images) keep(in session.BrowserEvent) session.BrowserEvent {
	ev, err := realtime.Decode(in.Data)
	if err != nil || ev.Type != realtime.TypeItemCreate {
		return in
	}
	item, err := realtime.DecodeItem(ev.Item)
	if err != nil || item.Type != realtime.ItemMessage || item.Role != string(thread.RoleUser) {
		return in
	}
	var urls []string
	rest := len(in.Data)
	for _, c := range item.Content {
		if c.Type == realtime.ContentInputImage {
			urls = append(urls, c.ImageURL)
			rest -= len(c.ImageURL)
		}
	}
	refuse := func(err error) session.BrowserEvent {
		in.BadImage = "The image cannot be accepted: " + err.Error() + "."
		return in
	}
	if len(urls) > maxImages {
		return refuse(persistence.Invalid("images: at most %d are possible", maxImages))
	}
	for _, url := range urls {
		kept, err := i.save(url, i.room(math.MaxInt, rest)/len(urls))
		if err != nil {
			return refuse(err)
		}
		in.Images = append(in.Images, kept)
	}
	return in
}

// save saves an image of the browser, which the model is shown in at most room bytes.
func (i images) save(url string, room int) (session.Image, error) {
	image, err := pictures.ReadDataURL(url)
	if err != nil {
		return session.Image{}, err
	}
	if i.store == nil {
		return session.Image{}, errors.New("images cannot be saved")
	}
	// of the database: scaling takes its own time
	ctx, cancel := context.WithTimeout(context.Background(), saveImageTimeout)
	defer cancel()
	if image, err = i.store.Pictures.Save(ctx, i.key, image, i.quota); err != nil {
		if !errors.Is(err, persistence.ErrQuota) {
			i.log.Warn("image of the browser not saved", "error", err)
			err = errors.New("it cannot be saved now")
		}
		return session.Image{}, err
	}
	return session.Image{
		Part: pictures.ImagePart(i.key.Thread, image), URL: i.url(image, min(max(len(url), maxReplayedBytes), room)),
	}, nil
}

// ofResult returns the images of a tool's result as data URLs that together fit into one event.
func (i images) ofResult(ctx context.Context, output json.RawMessage) []string {
	found := toolkit.ResultImages(output)
	if i.store == nil {
		return nil
	}
	var urls []string
	for _, m := range found {
		saved, err := i.store.Pictures.Read(ctx, i.key, m.ID)
		if err != nil {
			i.log.Warn("image of a tool not read", "image_id", m.ID, "error", err)
			continue
		}
		if url := i.url(saved, i.room(maxShownBytes, 0)/len(found)); url != "" {
			urls = append(urls, url)
		}
	}
	return urls
}

// hasImage reports whether an event may contain an image.
func hasImage(data []byte) bool { return bytes.Contains(data, []byte(`"input_image"`)) }

// replayed returns messages whose newest images are data URLs, for a driver.
func (i images) replayed(ctx context.Context, messages []thread.Message) []thread.Message {
	if i.store == nil {
		return messages
	}
	shown, left := slices.Clone(messages), maxReplayedImages
	for n, m := range slices.Backward(messages) {
		if m.Role != thread.RoleUser {
			continue
		}
		parts := slices.Clone(m.Parts)
		for at, p := range slices.Backward(parts) {
			id, ok := p.ImageID(i.key.Thread)
			if !ok || left == 0 {
				continue
			}
			left--
			saved, err := i.store.Pictures.Read(ctx, i.key, id)
			if err != nil {
				i.log.Warn("image of the thread not read", "image_id", id, "error", err)
				continue
			}
			if url := i.url(saved, maxReplayedBytes); url != "" {
				shown := map[string]string{"type": p.Type, "mediaType": saved.MediaType, "url": url}
				parts[at].Raw, _ = json.Marshal(shown)
			}
		}
		shown[n].Parts = parts
	}
	return shown
}
