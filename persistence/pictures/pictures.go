// Package pictures keeps the images of threads, and makes them fit what models accept.
package pictures

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"image"
	"image/color"
	_ "image/gif" // for image.Decode, which takes the first frame
	"image/jpeg"
	_ "image/png" // likewise
	"math"
	"runtime"
	"slices"
	"strings"

	"voicebridge/persistence/internal/database"

	"golang.org/x/image/draw"
	_ "golang.org/x/image/webp" // likewise
)

// ErrTooLarge means that an image cannot be made to fit.
var ErrTooLarge = errors.New("image is too large")

const (
	// maxPixels limits images that are decoded to be scaled down, which takes 4 bytes of memory per pixel of most, and
	// up to 20 of a progressive JPEG or an interlaced PNG.
	maxPixels  = 24_000_000
	manyPixels = maxPixels / 4
	quality    = 80 // of JPEGs
	// maxInEvent is the longest side in pixels of an image that was scaled down for an event, maxInRequest for a
	// request to a text model.
	maxInEvent, maxInRequest = 1024, 1536
)

// sides are the longest sides in pixels to try, in order.
var sides = []int{maxInRequest, maxInEvent, 768, 512, 384, 256, 128}

// decoding holds the place of the image that is decoded: only one is at a time, because that may take 500 MB.
var decoding = make(chan struct{}, 1)

// shown are the media types that the Realtime API accepts as input_image.
var shown = []string{"image/png", "image/jpeg"}

// DataURL returns an image as a data URL of at most limit bytes. If it is larger, or neither PNG nor JPEG, it becomes a
// JPEG, scaled down as necessary. Errors: ErrTooLarge, or that of the image's decoder.
func DataURL(i Image, limit int) (string, error) {
	if slices.Contains(shown, i.MediaType) {
		if url := dataURL(i.MediaType, i.Data); len(url) <= limit {
			return url, nil
		}
	}
	const mediaType = "image/jpeg"
	data, err := shrunk(i, maxInEvent, (limit-len(dataURL(mediaType, nil)))/4*3)
	if err != nil {
		return "", err
	}
	return dataURL(mediaType, data), nil
}

// Fit returns an image that has one of the media types, at most limit bytes, and sides of at most side pixels; no types
// and 0 mean any. An image that does not becomes a JPEG, scaled down as necessary. Errors: ErrTooLarge, or that of the
// image's decoder.
func Fit(i Image, types []string, limit, side int) (Image, error) {
	limit = cmp.Or(limit, math.MaxInt)
	if (len(types) == 0 || slices.Contains(types, i.MediaType)) && len(i.Data) <= limit &&
		(side == 0 || max(i.Width, i.Height) <= side) {
		return i, nil
	}
	data, err := shrunk(i, maxInRequest, limit)
	return Image{ID: i.ID, MediaType: "image/jpeg", Data: data}, err
}

// shrunk returns an image as a JPEG of at most limit bytes, whose longest side is at most longest pixels.
func shrunk(i Image, longest, limit int) ([]byte, error) {
	if i.IsSound() || i.Width*i.Height > maxPixels {
		return nil, fmt.Errorf("show %s of %d×%d pixels: %w", i.MediaType, i.Width, i.Height, ErrTooLarge)
	}
	decoding <- struct{}{}
	defer func() {
		if i.Width*i.Height > manyPixels {
			runtime.GC() // the next one is not decoded beside what is left of this one
		}
		<-decoding
	}()
	full, _, err := image.Decode(bytes.NewReader(still(i)))
	if err != nil {
		return nil, fmt.Errorf("read image: %w", err)
	}
	for _, side := range sides {
		if side > longest {
			continue
		}
		var b bytes.Buffer
		if err := jpeg.Encode(&b, turned(scaled(full, side), orientation(i.Data)),
			&jpeg.Options{Quality: quality}); err != nil {
			return nil, fmt.Errorf("write image: %w", err)
		}
		if b.Len() <= limit {
			return b.Bytes(), nil
		}
	}
	return nil, fmt.Errorf("show image in %d bytes: %w", limit, ErrTooLarge)
}

// ReadDataURL reads an image from a data URL. Its error is persistence.ErrInvalid and says what is wrong.
func ReadDataURL(url string) (Image, error) {
	rest, isData := strings.CutPrefix(url, "data:")
	head, text, _ := strings.Cut(rest, ",")
	if !isData || !strings.HasSuffix(head, ";base64") {
		return Image{}, database.Invalid("image: it is not a base64 data URL")
	}
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return Image{}, database.Invalid("image: %v", err)
	}
	i, err := NewImage(data)
	if err == nil && i.IsSound() {
		err = database.Invalid("image: it is a sound")
	}
	return i, err
}

func dataURL(mediaType string, data []byte) string {
	return "data:" + mediaType + ";base64," + base64.StdEncoding.EncodeToString(data)
}

// scaled returns the image on white, scaled down so that its longest side is at most side.
func scaled(full image.Image, side int) *image.RGBA {
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
