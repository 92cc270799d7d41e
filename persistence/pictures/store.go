package pictures

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"image"
	_ "image/gif" // for their headers
	_ "image/jpeg"
	_ "image/png"
	"net/url"
	"slices"
	"strings"

	_ "golang.org/x/image/webp" // likewise

	"voicebridge/persistence/internal/database"
	"voicebridge/persistence/internal/dbtype"
	"voicebridge/persistence/internal/pgdb"
	"voicebridge/thread"
)

// MaxImageBytes limits the size of an image, in bytes.
const MaxImageBytes = 10 << 20

// MaxPixels limits each side of an image, in pixels.
const MaxPixels = 16_384

// Store keeps the images of threads in the  It is safe for concurrent use.
type Store struct{ db database.DB }

// New returns the Store of a
func New(db database.DB) *Store { return &Store{db} }

// Tx writes images of a thread in a transaction.
type Tx struct{ tx *database.Tx }

// In returns what writes images in a transaction.
func In(tx *database.Tx) Tx { return Tx{tx} }

// Image is an image of a thread, or a sound that a tool returned.
type Image struct {
	ID            string
	MediaType     string // one of ImageTypes, or that of a sound
	Width, Height int    // in pixels; 0 for a sound
	Data          []byte
}

// ImageTypes are the media types of images.
var ImageTypes = []string{"image/png", "image/jpeg", "image/webp", "image/gif"}

// soundTypes are the media types of sounds.
var soundTypes = []string{"audio/wav", "audio/mpeg", "audio/ogg", "audio/flac", "audio/mp4", "audio/webm"}

// soundMarks holds, by media type, the bytes that such a file has at the offset: one of the marks.
var soundMarks = map[string]struct {
	offset int
	marks  []string
}{
	"audio/wav":  {8, []string{"WAVE"}},
	"audio/mpeg": {0, []string{"ID3", "\xff\xfb", "\xff\xfa", "\xff\xf3", "\xff\xf2"}},
	"audio/ogg":  {0, []string{"OggS"}},
	"audio/flac": {0, []string{"fLaC"}},
	"audio/mp4":  {4, []string{"ftyp"}},
	"audio/webm": {0, []string{"\x1a\x45\xdf\xa3"}},
}

// NewImage returns data as an image, or a sound, of the type that its header shows. The error,
// ErrInvalid, says why it is neither.
func NewImage(data []byte) (Image, error) {
	if len(data) == 0 || len(data) > MaxImageBytes {
		return Image{}, database.Invalid("data: %d bytes, at most %d are allowed", len(data), MaxImageBytes)
	}
	for _, mediaType := range soundTypes {
		m := soundMarks[mediaType]
		rest := data[min(m.offset, len(data)):]
		if slices.ContainsFunc(m.marks, func(mark string) bool { return bytes.HasPrefix(rest, []byte(mark)) }) {
			return Image{MediaType: mediaType, Data: data}, nil
		}
	}
	config, format, err := image.DecodeConfig(bytes.NewReader(data))
	i := Image{MediaType: "image/" + format, Width: config.Width, Height: config.Height, Data: data}
	switch {
	case err != nil || !slices.Contains(ImageTypes, i.MediaType):
		return Image{}, database.Invalid("data: it is none of %s",
			strings.Join(slices.Concat(ImageTypes, soundTypes), ", "))
	case min(i.Width, i.Height) < 1 || max(i.Width, i.Height) > MaxPixels:
		return Image{}, database.Invalid("size %d×%d: each side must have 1 to %d pixels", i.Width, i.Height, MaxPixels)
	}
	return i, nil
}

// IsSound reports whether i is a sound.
func (i Image) IsSound() bool { return slices.Contains(soundTypes, i.MediaType) }

func (i Image) check() error {
	switch {
	case !slices.Contains(ImageTypes, i.MediaType) && !i.IsSound():
		return database.Invalid("media type %q", i.MediaType)
	case len(i.Data) == 0 || len(i.Data) > MaxImageBytes:
		return database.Invalid("data: %d bytes, at most %d are allowed", len(i.Data), MaxImageBytes)
	case !i.IsSound() && min(i.Width, i.Height) < 1:
		return database.Invalid("size %d×%d", i.Width, i.Height)
	}
	return nil
}

// Save stores an image of the thread and gives it an id. quota limits the bytes of all images
// of the owner, including this one (ErrQuota), even if several are saved at the same moment; 0 means
// no limit. Whether the data are what i says is not checked: see NewImage.
func (s *Store) Save(ctx context.Context, key thread.Key, i Image, quota int64) (saved Image, err error) {
	err = database.Begin(ctx, s.db, key, func(tx *database.Tx) (err error) {
		saved, err = In(tx).Save(i, quota)
		return err
	})
	return saved, err
}

// Save is Store.Save.
func (w Tx) Save(i Image, quota int64) (saved Image, err error) {
	err = w.tx.Do("save image", func() (err error) {
		saved, err = w.save(i, quota)
		return err
	})
	return saved, err
}

func (w Tx) save(i Image, quota int64) (Image, error) {
	if err := i.check(); err != nil {
		return Image{}, err
	}
	ctx, q := w.tx.Ctx, w.tx.Q
	key := w.tx.Key
	i.ID = database.NewID()
	if quota > 0 {
		if err := q.LockOwner(ctx, "images", key.Owner); err != nil {
			return Image{}, err
		}
		stored, err := q.StoredImages(ctx, key.Owner)
		if err != nil {
			return Image{}, err
		}
		if stored+int64(len(i.Data)) > quota {
			return Image{}, fmt.Errorf("%w: %d of %d bytes are stored", database.ErrQuota, stored, quota)
		}
	}
	_, err := q.SaveImage(ctx, pgdb.SaveImageParams{
		ID: i.ID, ThreadID: key.Thread, Owner: key.Owner, MediaType: i.MediaType, Width: int64(i.Width),
		Height: int64(i.Height), Size: int64(len(i.Data)), Data: i.Data, CreatedAt: dbtype.At(w.tx.Now()),
	})
	return i, err
}

// Read reads an image of the thread.
func (s *Store) Read(ctx context.Context, key thread.Key, id string) (Image, error) {
	if err := database.CheckKey(key); err != nil || !thread.ValidID(id) {
		return Image{}, fmt.Errorf("read image: %w", database.ErrNotFound)
	}
	r, err := s.db.Read().GetImage(ctx, id, key.Thread, key.Owner)
	image := Image{ID: r.ID, MediaType: r.MediaType, Width: int(r.Width), Height: int(r.Height), Data: r.Data}
	return image, s.db.Fail("read image", err)
}

// ImagePart is the part of an image of the thread: {"type":"file","mediaType","url"}.
func ImagePart(threadID string, i Image) thread.Part {
	raw, _ := json.Marshal(map[string]string{
		"type": thread.PartFile, "mediaType": i.MediaType, "url": thread.ImagePath(threadID) + url.PathEscape(i.ID),
	})
	return thread.Part{Type: thread.PartFile, Raw: raw}
}

// List returns the ids of all images of the thread.
func (s *Store) List(ctx context.Context, key thread.Key) ([]string, error) {
	if err := database.CheckKey(key); err != nil {
		return nil, fmt.Errorf("list images: %w", err)
	}
	ids, err := s.db.Read().ListImagesOf(ctx, key.Thread, key.Owner)
	return ids, s.db.Fail("list images", err)
}
