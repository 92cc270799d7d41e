// Package pictures makes images fit into the events of a voice model.
package pictures

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"image"
	"image/color"
	_ "image/gif" // to read them: of this the first picture
	"image/jpeg"
	_ "image/png" // so too
	"slices"
	"strings"

	"golang.org/x/image/draw"
	_ "golang.org/x/image/webp" // so too

	"voicebridge/persistence"
)

// ErrTooLarge says that an image cannot be made to fit.
var ErrTooLarge = errors.New("image is too large")

const (
	// maxPixels is the size of an image that is read to be made smaller: it takes four
	// bytes of memory for each.
	maxPixels = 24_000_000
	quality   = 80
)

// sides are the longest sides in pixels that are tried, one after the other.
var sides = []int{1024, 768, 512, 384, 256, 128}

// shown are the media types that the Realtime API takes as input_image.
var shown = []string{"image/png", "image/jpeg"}

// DataURL is an image as a data URL of at most limit bytes. One that is larger, or of
// another type than PNG and JPEG, becomes a JPEG, as small as it must be.
func DataURL(i persistence.Image, limit int) (string, error) {
	if slices.Contains(shown, i.MediaType) {
		if url := dataURL(i.MediaType, i.Data); len(url) <= limit {
			return url, nil
		}
	}
	if i.IsSound() || i.Width*i.Height > maxPixels {
		return "", fmt.Errorf("show %s of %d×%d pixels: %w", i.MediaType, i.Width, i.Height, ErrTooLarge)
	}
	full, _, err := image.Decode(bytes.NewReader(i.Data))
	if err != nil {
		return "", fmt.Errorf("read image: %w", err)
	}
	for _, side := range sides {
		var b bytes.Buffer
		if err := jpeg.Encode(&b, scaled(full, side), &jpeg.Options{Quality: quality}); err != nil {
			return "", fmt.Errorf("write image: %w", err)
		}
		if url := dataURL("image/jpeg", b.Bytes()); len(url) <= limit {
			return url, nil
		}
	}
	return "", fmt.Errorf("show image in %d bytes: %w", limit, ErrTooLarge)
}

// ReadDataURL reads an image of a data URL. The error, persistence.ErrInvalid, says what
// is wrong with it.
func ReadDataURL(url string) (persistence.Image, error) {
	rest, isData := strings.CutPrefix(url, "data:")
	head, text, _ := strings.Cut(rest, ",")
	if !isData || !strings.HasSuffix(head, ";base64") {
		return persistence.Image{}, fmt.Errorf("%w image: it is no data URL with base64", persistence.ErrInvalid)
	}
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return persistence.Image{}, fmt.Errorf("%w image: %w", persistence.ErrInvalid, err)
	}
	i, err := persistence.NewImage(data)
	if err == nil && i.IsSound() {
		err = fmt.Errorf("%w image: it is a sound", persistence.ErrInvalid)
	}
	return i, err
}

func dataURL(mediaType string, data []byte) string {
	return "data:" + mediaType + ";base64," + base64.StdEncoding.EncodeToString(data)
}

// scaled is an image on white whose sides are not longer than that.
func scaled(full image.Image, side int) image.Image {
	size := full.Bounds().Size()
	width, height := size.X, size.Y
	if longest := max(width, height); longest > side {
		width, height = max(width*side/longest, 1), max(height*side/longest, 1)
	}
	to := image.NewRGBA(image.Rect(0, 0, width, height))
	draw.Draw(to, to.Bounds(), image.NewUniform(color.White), image.Point{}, draw.Src)
	draw.ApproxBiLinear.Scale(to, to.Bounds(), full, full.Bounds(), draw.Over, nil)
	return to
}
