package pictures

import (
	"bytes"
	"errors"
	"image"
	"image/png"
	"testing"

	"voicebridge/internal/testkit"
	"voicebridge/persistence/internal/database"
)

// TestNewImage identifies a file by its header, not by what the sender claims.
func TestNewImage(t *testing.T) {
	t.Parallel()
	var small, wide bytes.Buffer
	for buf, width := range map[*bytes.Buffer]int{&small: 3, &wide: MaxPixels + 1} {
		testkit.Must(t, png.Encode(buf, image.NewGray(image.Rect(0, 0, width, 2))))
	}
	for name, c := range map[string]struct{ data, want string }{
		"a picture":        {small.String(), "image/png"},
		"a wave":           {"RIFF\x24\x00\x00\x00WAVEfmt ", "audio/wav"},
		"MP3":              {"ID3\x04\x00", "audio/mpeg"},
		"MP3 without tags": {"\xff\xfb\x90\x00", "audio/mpeg"},
		"Ogg":              {"OggS\x00", "audio/ogg"},
		"M4A":              {"\x00\x00\x00\x20ftypM4A ", "audio/mp4"},
		"nothing":          {"", ""},
		"a bomb":           {wide.String(), ""},
		"cut":              {small.String()[:12], ""},
		"SVG":              {`<svg xmlns="http://www.w3.org/2000/svg"/>`, ""},
		"HTML":             {"<script>", ""},
		"too large":        {string(make([]byte, MaxImageBytes+1)), ""},
	} {
		got, err := NewImage([]byte(c.data))
		if got.MediaType != c.want || (err != nil) != (c.want == "") || err != nil && !errors.Is(err, database.ErrInvalid) {
			t.Errorf("%s: NewImage() = %q, %v", name, got.MediaType, err)
		}
	}
}
