package persistence

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"voicebridge/persistence/internal/dbtype"
	"voicebridge/persistence/internal/pgdb"
)

// MaxImageBytes is the size of one image, in bytes.
const MaxImageBytes = 10 << 20

// ErrQuota says that the owner has stored as much as an owner may.
var ErrQuota = errors.New("quota is used up")

// Image is an image of a thread.
type Image struct {
	ID            string
	MediaType     string // image/png, image/jpeg, image/webp or image/gif
	Width, Height int    // in pixels
	Data          []byte
	CreatedAt     time.Time
}

// SaveImage keeps an image of the thread and gives it an id. quota is how many
// bytes all images of the owner may have together, with this one (ErrQuota); 0 is
// no limit. The caller has looked whether the data is such an image.
func (s *Store) SaveImage(ctx context.Context, key Key, i Image, quota int64) (Image, error) {
	if err := key.check(); err != nil {
		return Image{}, fmt.Errorf("save image: %w", err)
	}
	switch {
	case !slices.Contains([]string{"image/png", "image/jpeg", "image/webp", "image/gif"}, i.MediaType):
		return Image{}, fmt.Errorf("save image: %w media type %q", ErrInvalid, i.MediaType)
	case len(i.Data) == 0 || len(i.Data) > MaxImageBytes:
		return Image{}, fmt.Errorf("save image: %w data: %d bytes, at most %d are possible", ErrInvalid, len(i.Data), MaxImageBytes)
	case i.Width < 1 || i.Height < 1:
		return Image{}, fmt.Errorf("save image: %w size %d×%d", ErrInvalid, i.Width, i.Height)
	}
	i.ID, i.CreatedAt = NewID(), dbtype.At(now()).Time
	err := s.write(ctx, func(q queries) error {
		if quota > 0 {
			stored, err := q.StoredImages(ctx, pgdb.StoredImagesParams{Owner: key.Owner})
			if err != nil {
				return err
			}
			if stored+int64(len(i.Data)) > quota {
				return fmt.Errorf("%w: %d of %d bytes are stored", ErrQuota, stored, quota)
			}
		}
		_, err := q.SaveImage(ctx, pgdb.SaveImageParams{
			ID: i.ID, ThreadID: key.Thread, Owner: key.Owner, MediaType: i.MediaType, Width: int64(i.Width), Height: int64(i.Height),
			Size: int64(len(i.Data)), Data: i.Data, CreatedAt: dbtype.At(i.CreatedAt),
		})
		return err
	})
	if err != nil {
		return Image{}, s.fail("save image", err)
	}
	return i, nil
}

// Image reads an image of the thread.
func (s *Store) Image(ctx context.Context, key Key, id string) (Image, error) {
	if err := key.check(); err != nil || !validID(id) {
		return Image{}, fmt.Errorf("read image: %w", ErrNotFound)
	}
	r, err := s.eng.read().GetImage(ctx, pgdb.GetImageParams{ID: id, ThreadID: key.Thread, Owner: key.Owner})
	if err != nil {
		return Image{}, s.fail("read image", err)
	}
	return Image{
		ID: r.ID, MediaType: r.MediaType, Width: int(r.Width), Height: int(r.Height), Data: r.Data, CreatedAt: r.CreatedAt.Time,
	}, nil
}
