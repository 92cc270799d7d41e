package recording

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"voicebridge/realtime/opus"
)

const (
	// preSkip is how many samples at its beginning a player leaves out: what a decoder is behind.
	preSkip = 312
	// settled is how long a decoder that begins in the middle needs until it sounds right (RFC 7845, 4.6).
	settled = 80 * sampleRate / 1000
	// pagePackets is how many packets a page has: a second of sound.
	pagePackets = 50
	// maxSegments is how many segments a page may have, of which a packet has one for each 255 bytes.
	maxSegments = 255
	// headerLen is the length of the head of a page, but for its table of segments (RFC 3533, 6).
	headerLen = 27
)

// The flags of a page.
const (
	_ = 1 << iota
	pageFirst
	pageLast
)

// oggWriter writes the packets of one stream of Opus as an Ogg file. Close must follow.
type oggWriter struct {
	w       io.Writer
	number  uint32
	granule uint64
	table   []byte
	body    []byte
	packets int
	err     error
}

// newOgg begins a file of one or two channels. skip is how many samples at its beginning are not to be heard.
func newOgg(w io.Writer, channels byte, skip int) *oggWriter {
	o := &oggWriter{w: w}
	id := append([]byte("OpusHead"), 1, channels)
	id = binary.LittleEndian.AppendUint16(id, uint16(skip))
	id = binary.LittleEndian.AppendUint32(id, sampleRate)
	id = append(id, 0, 0, 0) // no gain, mapping family 0
	o.add(id)
	o.page(pageFirst)
	const vendor = "voicebridge"
	tags := binary.LittleEndian.AppendUint32([]byte("OpusTags"), uint32(len(vendor)))
	tags = append(tags, vendor...)
	o.add(append(tags, 0, 0, 0, 0))
	o.page(0)
	return o
}

// put adds a packet of so many samples.
func (o *oggWriter) put(packet []byte, samples int) error {
	if len(o.table)+len(packet)/255+1 > maxSegments || o.packets >= pagePackets {
		o.page(0)
	}
	o.add(packet)
	o.granule += uint64(samples)
	return o.err
}

func (o *oggWriter) add(packet []byte) {
	for n := len(packet); ; n -= 255 {
		o.table = append(o.table, byte(min(n, 255)))
		if n < 255 {
			break
		}
	}
	o.body = append(o.body, packet...)
	o.packets++
}

// page writes what was added.
func (o *oggWriter) page(flags byte) {
	page := append([]byte("OggS"), 0, flags)
	page = binary.LittleEndian.AppendUint64(page, o.granule)
	page = append(page, 1, 0, 0, 0) // the stream's serial number; a file has one stream
	page = binary.LittleEndian.AppendUint32(page, o.number)
	page = append(page, 0, 0, 0, 0, byte(len(o.table))) // the checksum comes later
	page = append(append(page, o.table...), o.body...)
	binary.LittleEndian.PutUint32(page[22:], oggChecksum(page))
	if o.err == nil {
		_, o.err = o.w.Write(page)
	}
	o.number++
	o.table, o.body, o.packets = o.table[:0], o.body[:0], 0
}

// close writes the last page.
func (o *oggWriter) close() error {
	o.page(pageLast)
	return o.err
}

var oggTable = func() (table [256]uint32) {
	for i := range table {
		sum := uint32(i) << 24
		for range 8 {
			if sum&(1<<31) != 0 {
				sum = sum<<1 ^ 0x04c11db7
			} else {
				sum <<= 1
			}
		}
		table[i] = sum
	}
	return table
}()

// oggChecksum returns the checksum of a page whose checksum is zero (RFC 3533, 6).
func oggChecksum(page []byte) (sum uint32) {
	for _, b := range page {
		sum = sum<<8 ^ oggTable[byte(sum>>24)^b]
	}
	return sum
}

var errOgg = errors.New("not an Ogg file of ours")

// oggReader reads the packets of a file that an oggWriter has written.
type oggReader struct {
	r       *bufio.Reader
	table   []byte
	packets int // read so far, with the two of the head
}

func newOggReader(r io.Reader) *oggReader { return &oggReader{r: bufio.NewReaderSize(r, 64<<10)} }

// next returns the next packet of sound, or io.EOF.
func (o *oggReader) next() ([]byte, error) {
	for {
		packet, err := o.packet()
		if err != nil {
			return nil, err
		}
		if o.packets++; o.packets > 2 {
			return packet, nil
		}
	}
}

// packet returns the next packet of any kind. None crosses the end of a page.
func (o *oggReader) packet() (packet []byte, err error) {
	for len(o.table) == 0 {
		var head [headerLen]byte
		if _, err := io.ReadFull(o.r, head[:]); err != nil {
			return nil, err
		}
		if string(head[:4]) != "OggS" {
			return nil, errOgg
		}
		o.table = make([]byte, head[26])
		if _, err := io.ReadFull(o.r, o.table); err != nil {
			return nil, fmt.Errorf("%w: %w", errOgg, err)
		}
	}
	size := 0
	for more := true; more; {
		if len(o.table) == 0 {
			return nil, errOgg
		}
		size += int(o.table[0])
		more = o.table[0] == 255
		o.table = o.table[1:]
	}
	packet = make([]byte, size)
	if _, err := io.ReadFull(o.r, packet); err != nil {
		return nil, fmt.Errorf("%w: %w", errOgg, err)
	}
	return packet, nil
}

// cut writes the part of a file from start to end, in samples, as a file of its own.
func cut(w io.Writer, file io.Reader, start, end int) error {
	in, at := newOggReader(file), 0
	var out *oggWriter
	for at < end {
		packet, err := in.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("cut recording: %w", err)
		}
		n := opus.Duration(packet)
		if at+n > start-settled {
			if out == nil {
				out = newOgg(w, 1, preSkip+max(0, start-at))
			}
			if err := out.put(packet, n); err != nil {
				return fmt.Errorf("cut recording: %w", err)
			}
		}
		at += n
	}
	if out == nil {
		out = newOgg(w, 1, preSkip)
	}
	return out.close()
}
