package pictures

import (
	"encoding/base64"
	"encoding/binary"
	"testing"

	"voicebridge/internal/testkit"
)

// Smallest WebP files, without and with transparency.
const (
	lossless    = "UklGRhoAAABXRUJQVlA4TA0AAAAvAAAAEAcQERGIiP4HAA=="
	lossy       = "UklGRiIAAABXRUJQVlA4IBYAAAAwAQCdASoBAAEADsD+JaQAA3AAAAAA"
	transparent = "UklGRkoAAABXRUJQVlA4WAoAAAAQAAAAAAAAAAAAQUxQSAwAAAARBxAR/Q9ERP8DAABWUDggGAAAABQBAJ0BKgEAAQAAAP4AAA3AAP7mtQAAAA=="
)

// animated returns a WebP whose frames are made of the chunks of a still one.
func animated(t *testing.T, base string, frames int) []byte {
	t.Helper()
	data, err := base64.StdEncoding.DecodeString(base)
	testkit.Must(t, err)
	chunks := data[12:]
	if string(chunks[:4]) == "VP8X" {
		chunks = chunks[18:]
	}
	content := []byte("WEBPVP8X\x0a\x00\x00\x00\x12\x00\x00\x00\x00\x00\x00\x00\x00\x00ANIM\x06\x00\x00\x00\xff\xff\xff\xff\x00\x00")
	for range frames {
		content = append(content, "ANMF"...)
		content = binary.LittleEndian.AppendUint32(content, uint32(16+len(chunks)))
		content = append(append(content, make([]byte, 16)...), chunks...)
	}
	return append(binary.LittleEndian.AppendUint32([]byte("RIFF"), uint32(len(content))), content...)
}

// TestAnimatedWebP shows the first frame of an animation.
func TestAnimatedWebP(t *testing.T) {
	t.Parallel()
	for name, base := range map[string]string{"lossless": lossless, "lossy": lossy, "transparent": transparent} {
		data := animated(t, base, 2)
		i, err := NewImage(data)
		testkit.Must(t, err)
		if _, err := DataURL(i, 10_000); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for n := range data { // cut off
			i.Data = data[:n]
			_, _ = DataURL(i, 10_000)
		}
		const widthOfFrame = 12 + 18 + 14 + 8 + 6
		data[widthOfFrame+1] = 0x40 // 16385 pixels in an image of one
		i.Data = data
		if _, err := DataURL(i, 10_000); err == nil {
			t.Errorf("%s: a frame larger than its image is shown", name)
		}
	}
}
