package recording

import "voicebridge/realtime/opus"

// Samples are counted at this rate, whatever a packet's bandwidth: granule positions are (RFC 7845, 4).
const sampleRate = opus.ClockRate

// silences are packets of silence, the longest first: CELT, fullband, mono.
var silences = [][]byte{{0xf8, 0xff, 0xfe}, {0xf0, 0xff, 0xfe}, {0xe8, 0xff, 0xfe}, {0xe0, 0xff, 0xfe}}

// shortest is the length of the shortest one: times are no finer.
const shortest = 120

// concealed is the longest gap that is filled by frames that are lost, which a decoder makes up, and not by silence.
// What a silent caller does not send (DTX) is one gap of such frames, however long: decoders know it.
const concealed = 120 * sampleRate / 1000

// fill calls put with packets that take the place of a gap, and returns how much of it is left, less than the shortest
// packet. before is the packet in front of it, which may be nil (RFC 7845, 4.1).
func fill(gap int, before []byte, put func(packet []byte, samples int) error) (rest int, err error) {
	if len(before) > 0 && (gap <= concealed || opus.IsEmpty(before)) {
		lost := []byte{before[0] &^ 3}
		for n := opus.Duration(lost); gap >= n; gap -= n {
			if err := put(lost, n); err != nil {
				return gap, err
			}
		}
	}
	for _, silence := range silences {
		for n := opus.Duration(silence); gap >= n; gap -= n {
			if err := put(silence, n); err != nil {
				return gap, err
			}
		}
	}
	return gap, nil
}
