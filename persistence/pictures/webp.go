package pictures

import (
	"bytes"
	"encoding/binary"
)

// still returns the data of an image that the decoders can read: of an animated WebP, which they cannot, the first
// frame (RFC 9649, 2.7).
func still(i Image) []byte {
	const file, chunk, frame = 12, 8, 16 // sizes of headers
	if i.MediaType != "image/webp" {
		return i.Data
	}
	for rest := i.Data[min(file, len(i.Data)):]; len(rest) >= chunk; {
		size := int64(binary.LittleEndian.Uint32(rest[4:]))
		body := rest[chunk:min(chunk+size, int64(len(rest)))]
		if bytes.HasPrefix(rest, []byte("ANMF")) && len(body) > frame {
			if width, height := uint24(body[6:])+1, uint24(body[9:])+1; width > i.Width || height > i.Height {
				break
			}
			head := append([]byte("WEBPVP8X"), 10, 0, 0, 0, 0, 0, 0, 0)
			if bytes.HasPrefix(body[frame:], []byte("ALPH")) {
				head[12] = 1 << 4 // transparent
			}
			content := append(append(head, body[6:12]...), body[frame:]...)
			return append(binary.LittleEndian.AppendUint32([]byte("RIFF"), uint32(len(content))), content...)
		}
		rest = rest[min(chunk+size+size%2, int64(len(rest))):]
	}
	return i.Data
}

func uint24(b []byte) int { return int(b[0]) | int(b[1])<<8 | int(b[2])<<16 }
