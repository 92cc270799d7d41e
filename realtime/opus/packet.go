package opus

// ClockRate is how many samples a second has that durations count, whatever a packet's bandwidth (RFC 7587, 4.1).
const ClockRate = 48000

// frameSamples is the length of a frame of each of Opus's 32 configurations (RFC 6716, 3.1).
var frameSamples = [32]int{
	480, 960, 1920, 2880, 480, 960, 1920, 2880, 480, 960, 1920, 2880, // SILK
	480, 960, 480, 960, // hybrid
	120, 240, 480, 960, 120, 240, 480, 960, 120, 240, 480, 960, 120, 240, 480, 960, // CELT
}

// Longest is the duration of the longest packet (RFC 6716, 3.2.5).
const Longest = 120 * ClockRate / 1000

// Duration returns how many samples a packet has, zero if it is malformed.
func Duration(packet []byte) int {
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
	if n := frames * frameSamples[packet[0]>>3]; n <= Longest {
		return n
	}
	return 0
}

// IsEmpty reports whether a packet has no sound: its sender sends next to nothing until there is some (DTX), or a
// recorder has put it in the place of a lost one. A decoder makes up what is missing (RFC 6716, 4.4).
func IsEmpty(packet []byte) bool {
	switch len(packet) {
	case 1:
		return true
	case 2:
		frames := packet[0] & 3 // one, or as many as the second byte says; two would not be as long as each other
		return frames == 0 || frames == 3
	}
	return false
}
