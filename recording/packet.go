package recording

// Samples are counted at this rate, whatever a packet's bandwidth: granule positions are (RFC 7845, 4).
const sampleRate = 48000

// frameSamples is the length of a frame of each of Opus's 32 configurations (RFC 6716, 3.1).
var frameSamples = [32]int{
	480, 960, 1920, 2880, 480, 960, 1920, 2880, 480, 960, 1920, 2880, // SILK
	480, 960, 480, 960, // hybrid
	120, 240, 480, 960, 120, 240, 480, 960, 120, 240, 480, 960, 120, 240, 480, 960, // CELT
}

// longest is the longest packet (RFC 6716, 3.2.5).
const longest = 120 * sampleRate / 1000

// duration returns how many samples a packet has, zero if it is malformed.
func duration(packet []byte) int {
	if len(packet) == 0 {
		return 0
	}
	frames := 1
	switch packet[0] & 3 {
	case 1, 2:
		frames = 2
	case 3:
		if len(packet) < 2 {
			return 0
		}
		frames = int(packet[1] & 0x3f)
	}
	if n := frames * frameSamples[packet[0]>>3]; n <= longest {
		return n
	}
	return 0
}

// silences are packets of silence, the longest first: CELT, fullband, mono.
var silences = [][]byte{{0xf8, 0xff, 0xfe}, {0xf0, 0xff, 0xfe}, {0xe8, 0xff, 0xfe}, {0xe0, 0xff, 0xfe}}

// shortest is the length of the shortest one: times are no finer.
const shortest = 120

// concealed is the longest gap that is filled by frames that are lost, which a decoder makes up, and not by silence.
const concealed = 120 * sampleRate / 1000

// fill calls put with packets that take the place of a gap, and returns how much of it is left, less than the shortest
// packet. before is the packet in front of it, which may be nil (RFC 7845, 4.1).
func fill(gap int, before []byte, put func(packet []byte, samples int) error) (rest int, err error) {
	if len(before) > 0 && gap <= concealed {
		lost := []byte{before[0] &^ 3}
		for n := duration(lost); gap >= n; gap -= n {
			if err := put(lost, n); err != nil {
				return gap, err
			}
		}
	}
	for _, silence := range silences {
		for n := duration(silence); gap >= n; gap -= n {
			if err := put(silence, n); err != nil {
				return gap, err
			}
		}
	}
	return gap, nil
}
