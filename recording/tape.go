package recording

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"time"

	"voicebridge/realtime/media"
)

// Track is one side of a call.
type Track uint8

// The tracks of a recording.
const (
	User Track = iota
	Assistant
)

// tracks is how many there are.
const tracks = 2

// Names of the tracks.
var trackNames = [tracks]string{"user", "assistant"}

func (t Track) String() string { return trackNames[t] }

// head is the first line of a tape, as JSON.
type head struct {
	Version int       `json:"version"`
	CallID  string    `json:"call_id"`
	Owner   string    `json:"owner"`
	Started time.Time `json:"started"`
}

const (
	tapeVersion = 1
	// maxBlock limits the blocks of a tape: what two sides send in a second is much less.
	maxBlock = 4 << 20
	// blockHead is the length of what precedes a block: its length, its checksum and the time of its end.
	blockHead = 4 + 4 + 8
	// packetHead is the length of what precedes a packet's payload, but for that one's length.
	packetHead = 1 + 8 + 4 + 4 + 2
)

// taken is a packet with the time at which it passed, from the start of the recording. On a tape it is one of Opus.
type taken struct {
	track Track
	at    time.Duration
	media.Packet
}

// appendPacket adds a packet to a block.
func appendPacket(block []byte, track Track, at time.Duration, p *media.Packet) []byte {
	block = append(block, byte(track))
	block = binary.BigEndian.AppendUint64(block, uint64(at))
	block = binary.BigEndian.AppendUint32(block, p.Source)
	block = binary.BigEndian.AppendUint32(block, p.Timestamp)
	block = binary.BigEndian.AppendUint16(block, p.Sequence)
	block = binary.AppendUvarint(block, uint64(len(p.Payload)))
	return append(block, p.Payload...)
}

// sealBlock fills in the head of a block, for which room was left.
func sealBlock(block []byte, at time.Duration) {
	binary.BigEndian.PutUint32(block, uint32(len(block)-blockHead))
	binary.BigEndian.PutUint64(block[8:], uint64(at))
	binary.BigEndian.PutUint32(block[4:], crc32.ChecksumIEEE(block[8:]))
}

// tape reads a tape. Its end is where the file ends or is damaged, as after a crash.
type tape struct {
	head
	length time.Duration // until the end of the last block that was read

	r     *bufio.Reader
	block []byte // what was not read of it
}

var errTape = errors.New("not a recording")

func openTape(r io.Reader) (*tape, error) {
	t := &tape{r: bufio.NewReaderSize(r, 64<<10)}
	line, err := t.r.ReadSlice('\n')
	if err == nil {
		err = json.Unmarshal(line, &t.head)
	}
	if err != nil || t.Version != tapeVersion || t.CallID == "" {
		return nil, fmt.Errorf("%w: its first line is %.100q", errTape, line)
	}
	return t, nil
}

// next returns the next packet, valid until the next call but one, or false at the end.
func (t *tape) next() (taken, bool) {
	for len(t.block) == 0 {
		if !t.read() {
			return taken{}, false
		}
	}
	b := t.block
	if len(b) < packetHead || b[0] >= tracks {
		return taken{}, false
	}
	p := taken{Track(b[0]), time.Duration(binary.BigEndian.Uint64(b[1:])), media.Packet{
		Source: binary.BigEndian.Uint32(b[9:]), Timestamp: binary.BigEndian.Uint32(b[13:]),
		Sequence: binary.BigEndian.Uint16(b[17:]),
	}}
	size, n := binary.Uvarint(b[packetHead:])
	if b = b[packetHead:]; n <= 0 || size > uint64(len(b)-n) {
		return taken{}, false
	}
	p.Payload, t.block = b[n:n+int(size)], b[n+int(size):]
	return p, true
}

// read reads a block, and reports whether there is a whole one.
func (t *tape) read() bool {
	var h [blockHead]byte
	if _, err := io.ReadFull(t.r, h[:]); err != nil {
		return false
	}
	size := binary.BigEndian.Uint32(h[:])
	if size > maxBlock {
		return false
	}
	block := make([]byte, size)
	if _, err := io.ReadFull(t.r, block); err != nil {
		return false
	}
	if crc32.Update(crc32.ChecksumIEEE(h[8:]), crc32.IEEETable, block) != binary.BigEndian.Uint32(h[4:]) {
		return false
	}
	t.block, t.length = block, time.Duration(binary.BigEndian.Uint64(h[8:]))
	return true
}
