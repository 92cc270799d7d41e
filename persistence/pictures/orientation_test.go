package pictures

import (
	"bytes"
	"encoding/binary"
	"image"
	"image/color"
	"image/draw"
	"image/jpeg"
	"slices"
	"testing"

	"voicebridge/internal/testkit"
)

// photo is a JPEG of 64×32 pixels whose first row begins red and ends green, with a thumbnail's worth of EXIF.
func photo(t *testing.T, order binary.AppendByteOrder, orientation uint16) []byte {
	t.Helper()
	i := image.NewRGBA(image.Rect(0, 0, 64, 32))
	draw.Draw(i, i.Rect, image.Black, image.Point{}, draw.Src)
	draw.Draw(i, image.Rect(0, 0, 32, 16), image.NewUniform(color.RGBA{R: 255, A: 255}), image.Point{}, draw.Src)
	draw.Draw(i, image.Rect(32, 0, 64, 16), image.NewUniform(color.RGBA{G: 255, A: 255}), image.Point{}, draw.Src)
	var b bytes.Buffer
	testkit.Must(t, jpeg.Encode(&b, i, nil))
	mark := map[binary.AppendByteOrder]string{binary.LittleEndian: "II", binary.BigEndian: "MM"}[order]
	exif := order.AppendUint16([]byte("Exif\x00\x00"+mark), 42)
	exif = order.AppendUint16(order.AppendUint32(exif, 8), 2)          // two entries follow
	for _, entry := range [][2]uint16{{256, 64}, {274, orientation}} { // a width, and how it is turned
		exif = order.AppendUint32(order.AppendUint16(order.AppendUint16(exif, entry[0]), 3), 1)
		exif = order.AppendUint16(order.AppendUint16(exif, entry[1]), 0)
	}
	exif = append(exif, make([]byte, 10_000)...)
	data := append(binary.BigEndian.AppendUint16([]byte{0xff, 0xd8, 0xff, 0xe0}, 4), 0, 0) // another segment
	data = append(binary.BigEndian.AppendUint16(append(data, 0xff, 0xe1), uint16(len(exif)+2)), exif...)
	return append(data, b.Bytes()[2:]...)
}

// TestPhotosAreUpright has a photo for each way in which a telephone may be held, with the corners at which its first
// row is to begin and to end.
func TestPhotosAreUpright(t *testing.T) {
	t.Parallel()
	for n, want := range []struct{ red, green string }{
		{"top left", "top right"}, // 0 is not valid
		{"top left", "top right"}, {"top right", "top left"}, {"bottom right", "bottom left"}, {"bottom left", "bottom right"},
		{"top left", "bottom left"}, {"top right", "bottom right"}, {"bottom right", "top right"}, {"bottom left", "top left"},
		{"top left", "top right"}, // nor is 9
	} {
		for _, order := range []binary.AppendByteOrder{binary.LittleEndian, binary.BigEndian} {
			i, err := NewImage(photo(t, order, uint16(n)))
			testkit.Must(t, err)
			small, err := Fit(i, nil, 5000, 0)
			testkit.Must(t, err)
			got, err := jpeg.Decode(bytes.NewReader(small.Data))
			testkit.Must(t, err)
			size := got.Bounds().Size()
			found := map[string]string{}
			for corner, at := range map[string]image.Point{"top left": {4, 4}, "top right": {size.X - 4, 4}, "bottom left": {4, size.Y - 4}, "bottom right": size.Sub(image.Pt(4, 4))} {
				switch r, g, _, _ := got.At(at.X, at.Y).RGBA(); {
				case r > 0xc000:
					found["red"] = corner
				case g > 0xc000:
					found["green"] = corner
				}
			}
			if found["red"] != want.red || found["green"] != want.green || (size.X < size.Y) != slices.Contains([]int{5, 6, 7, 8}, n) {
				t.Errorf("%v, orientation %d: %v, %v, want %v", order, n, found, size, want)
			}
		}
	}
}

// TestHostileOrientation has what claims to be a JPEG, cut off at each byte.
func TestHostileOrientation(t *testing.T) {
	t.Parallel()
	data := photo(t, binary.BigEndian, 6)
	for n := range 80 {
		if got := orientation(data[:n]); got != 1 && got != 6 {
			t.Errorf("%d bytes: %d", n, got)
		}
	}
	far := bytes.Replace(data, []byte("MM\x00\x2a\x00\x00\x00\x08"), []byte("MM\x00\x2a\xff\xff\xff\xff"), 1)
	testkit.Equal(t, orientation(far), 1, "far away")
}
