package opus

import (
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"os"
	"slices"
	"testing"

	"github.com/thesyncim/gopus"
)

var update = flag.Bool("update", false, "encode the speech in testdata again")

// spoken is speech whose packets have a copy of the one before them (in-band FEC), as browsers send it over a network that
// loses packets; each has its length of 16 bits in front. cmd/voicebridge sends it over networks that lose some.
const spoken = "testdata/inband-fec.bin"

func spokenPackets(t testing.TB) (packets [][]byte) {
	t.Helper()
	if *update {
		must(t, os.WriteFile(spoken, encodeSpoken(t), 0o600))
	}
	file, err := os.ReadFile(spoken)
	must(t, err)
	for len(file) > 0 {
		n := 2 + int(binary.BigEndian.Uint16(file))
		packets, file = append(packets, file[2:n]), file[n:]
	}
	return packets
}

// encodeSpoken encodes 3.4 s in which the simulator's user speaks.
func encodeSpoken(t testing.TB) (file []byte) {
	t.Helper()
	wav, err := os.ReadFile("../simulator/testdata/user.wav")
	must(t, err)
	const rate, size = 48000, 960
	e, err := gopus.NewEncoder(gopus.EncoderConfig{SampleRate: rate, Channels: 1, Application: gopus.ApplicationVoIP})
	must(t, err)
	e.SetFEC(true)
	must(t, errors.Join(e.SetPacketLoss(10), e.SetBitrate(32_000)))
	samples := make([]int16, (len(wav)-44)/2)
	must(t, binary.Read(bytes.NewReader(wav[44:]), binary.LittleEndian, samples))
	packet := make([]byte, largest)
	for frame := range slices.Chunk(samples[rate/2:rate/2+170*size], size) {
		n, err := e.EncodeInt16(frame, packet)
		must(t, err)
		file = append(binary.BigEndian.AppendUint16(file, uint16(n)), packet[:n]...)
	}
	return file
}
