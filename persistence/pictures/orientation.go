package pictures

import (
	"bytes"
	"encoding/binary"
	"image"
)

// orientation returns how the pixels of a JPEG have to be turned to be seen upright, 1 to 8, where 1 means not at all
// (EXIF 2.32, tag 274). Telephones save their photos as the sensor sees them, and a scaled image does not say so any
// more.
func orientation(data []byte) int {
	const upright, soi, sos, app1 = 1, 2, 0xda, 0xe1
	for rest := data[min(soi, len(data)):]; len(rest) > 4 && rest[0] == 0xff && rest[1] != sos; {
		segment := rest[4:max(4, min(2+int(binary.BigEndian.Uint16(rest[2:])), len(rest)))]
		if tiff, ok := bytes.CutPrefix(segment, []byte("Exif\x00\x00")); ok && rest[1] == app1 {
			return orientationIn(tiff)
		}
		rest = rest[4+len(segment):]
	}
	return upright
}

// orientationIn is orientation for a TIFF structure.
func orientationIn(tiff []byte) int {
	const upright, header, entry, tag = 1, 8, 12, 274
	if len(tiff) < header {
		return upright
	}
	var order binary.ByteOrder = binary.LittleEndian
	if tiff[0] == 'M' {
		order = binary.BigEndian
	}
	at := int64(order.Uint32(tiff[4:]))
	for entries := tiff[min(at+2, int64(len(tiff))):]; len(entries) >= entry; entries = entries[entry:] {
		if value := int(order.Uint16(entries[8:])); order.Uint16(entries) == tag && value >= upright && value <= 8 {
			return value
		}
	}
	return upright
}

// turned returns an image upright.
func turned(from *image.RGBA, orientation int) *image.RGBA {
	width, height := from.Rect.Dx(), from.Rect.Dy()
	size := image.Rect(0, 0, width, height)
	if orientation >= 5 {
		size = image.Rect(0, 0, height, width)
	}
	to := image.NewRGBA(size)
	for y := range size.Dy() {
		for x := range size.Dx() {
			fromX, fromY := x, y
			if orientation >= 5 { // about the diagonal
				fromX, fromY = y, x
			}
			switch orientation {
			case 2, 3, 7, 8:
				fromX = width - 1 - fromX
			}
			switch orientation {
			case 3, 4, 6, 7:
				fromY = height - 1 - fromY
			}
			to.SetRGBA(x, y, from.RGBAAt(fromX, fromY))
		}
	}
	return to
}
