// Package pictures makes images fit into events for a voice model.
package pictures

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"image"
	"image/color"
	_ "image/gif" // for image.Decode, which takes the first frame
	"image/jpeg"
	_ "image/png" // likewise
	"slices"
	"strings"

	"golang.org/x/image/draw"
	_ "golang.org/x/image/webp" // likewise

	"voicebridge/persistence"
)

// ErrTooLarge means that an image cannot be made to fit.
var ErrTooLarge = errors.New("image is too large")

const (
	// maxPixels limits images that are decoded to be scaled down, which takes four bytes of memory per pixel.
	maxPixels = 24_000_000
	quality   = 80 // of JPEGs
)

// sides are the longest sides in pixels to try, in order.
var sides = []int{1024, 768, 512, 384, 256, 128}

// shown are the media types that the Realtime API accepts as input_image.
var shown = []string{"image/png", "image/jpeg"}

// DataURL returns an image as a data URL of at most limit bytes. If it is larger, or neither PNG nor JPEG, it becomes a
// JPEG, scaled down as necessary. Errors: ErrTooLarge, or that of the image's decoder.
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

// ReadDataURL reads an image from a data URL. Its error is persistence.ErrInvalid and says what is wrong.
func ReadDataURL(url string) (persistence.Image, error) {
	rest, isData := strings.CutPrefix(url, "data:")
	head, text, _ := strings.Cut(rest, ",")
	if !isData || !strings.HasSuffix(head, ";base64") {
		return persistence.Image{}, persistence.Invalid("image: it is not a base64 data URL")
	}
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return persistence.Image{}, persistence.Invalid("image: %v", err)
	}
	i, err := persistence.NewImage(data)
	if err == nil && i.IsSound() {
		err = persistence.Invalid("image: it is a sound")
	}
	return i, err
}

func dataURL(mediaType string, data []byte) string {
	return "data:" + mediaType + ";base64," + base64.StdEncoding.EncodeToString(data)
}

// scaled returns the image on white, scaled down so that its longest side is at most side.
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
