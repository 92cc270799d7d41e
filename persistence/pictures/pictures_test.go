package pictures

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/gif"
	"image/png"
	"math/rand/v2"
	"strings"
	"testing"

	"voicebridge/internal/testkit"
	"voicebridge/persistence/internal/database"
)

// noise is a picture that hardly compresses.
func noise(width, height int) image.Image {
	r := rand.New(rand.NewPCG(1, 2))
	i := image.NewPaletted(image.Rect(0, 0, width, height), color.Palette{color.Black, color.White, color.Transparent})
	for n := range i.Pix {
		i.Pix[n] = uint8(r.IntN(3))
	}
	return i
}

func TestDataURL(t *testing.T) {
	t.Parallel()
	var small, large, moving bytes.Buffer
	testkit.Must(t, errors.Join(png.Encode(&small, noise(20, 10)), png.Encode(&large, noise(1200, 600)), gif.Encode(&moving, noise(40, 30), nil)))
	for name, tt := range map[string]struct {
		data          []byte
		limit         int
		mediaType     string
		width, height int
	}{
		"as it is":     {small.Bytes(), 10_000, "image/png", 20, 10},
		"made smaller": {large.Bytes(), 100_000, "image/jpeg", 0, 0},
		"a GIF":        {moving.Bytes(), 100_000, "image/jpeg", 40, 30},
	} {
		i, err := NewImage(tt.data)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		url, err := DataURL(i, tt.limit)
		if err != nil || len(url) > tt.limit {
			t.Fatalf("%s: %d bytes, %v", name, len(url), err)
		}
		got, err := ReadDataURL(url)
		if err != nil || got.MediaType != tt.mediaType || tt.width > 0 && (got.Width != tt.width || got.Height != tt.height) || got.Width != 2*got.Height && tt.width == 0 {
			t.Errorf("%s: %s %d×%d, %v", name, got.MediaType, got.Width, got.Height, err)
		}
	}
	i, err := NewImage(large.Bytes())
	testkit.Must(t, err)
	if _, err := DataURL(i, 500); !errors.Is(err, ErrTooLarge) {
		t.Errorf("into 500 bytes: %v", err)
	}
	i.Width, i.Height = 16_000, 16_000
	if _, err := DataURL(i, 100_000); !errors.Is(err, ErrTooLarge) {
		t.Errorf("of 256 million pixels: %v", err)
	}
	i.Data, i.Width, i.Height = i.Data[:1000], 1200, 600
	if _, err := DataURL(i, 1000); err == nil {
		t.Error("half an image is shown")
	}
	if _, err := DataURL(Image{MediaType: "audio/wav", Data: []byte("RIFF....WAVE")}, 1000); err == nil {
		t.Error("a sound is shown")
	}
}

func TestFit(t *testing.T) {
	t.Parallel()
	var wide, moving bytes.Buffer
	testkit.Must(t, errors.Join(png.Encode(&wide, noise(2000, 100)), gif.Encode(&moving, noise(40, 30), nil)))
	types := []string{"image/png", "image/jpeg"}
	for name, tt := range map[string]struct {
		data        []byte
		types       []string
		limit, side int
		want        string // media type and size
	}{
		"any":             {moving.Bytes(), nil, 0, 0, "image/gif 40×30"},
		"all that it may": {wide.Bytes(), types, wide.Len(), 2000, "image/png 2000×100"},
		"another type":    {moving.Bytes(), types, 0, 0, "image/jpeg 40×30"},
		"too many bytes":  {wide.Bytes(), types, wide.Len() - 1, 0, "image/jpeg "},
		"too long":        {wide.Bytes(), types, 0, 1999, "image/jpeg 1536×76"},
	} {
		i, err := NewImage(tt.data)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		fit, err := Fit(i, tt.types, tt.limit, tt.side)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got, err := NewImage(fit.Data)
		if text := fmt.Sprintf("%s %d×%d", fit.MediaType, got.Width, got.Height); err != nil || !strings.HasPrefix(text, tt.want) || tt.limit > 0 && len(fit.Data) > tt.limit {
			t.Errorf("%s: %s in %d bytes, %v, want %s", name, text, len(fit.Data), err, tt.want)
		}
		if _, err := Fit(i, tt.types, 1, 0); !errors.Is(err, ErrTooLarge) {
			t.Errorf("%s: into 1 byte: %v", name, err)
		}
	}
}

func TestReadHostileDataURL(t *testing.T) {
	t.Parallel()
	for _, url := range []string{
		"", "data:", "data:image/png", "data:image/png,abc", "data:image/png;base64,", "data:image/png;base64,!!!!", "data:image/png;base64,aGVsbG8=",
		"https://example.org/a.png", "file:///etc/passwd", "data:image/svg+xml;base64,PHN2Zy8+", "data:audio/ogg;base64,T2dnUw==",
		"data:image/png;base64," + strings.Repeat("A", 100),
	} {
		if _, err := ReadDataURL(url); !errors.Is(err, database.ErrInvalid) {
			t.Errorf("%.40q: %v", url, err)
		}
	}
}
