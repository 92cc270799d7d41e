package simulator

// frameSamples is the length of a packet of our clips: 20 ms at 48 kHz.
const frameSamples = 960

// oggPackets returns the Opus packets of an Ogg file (RFC 3533, RFC 7845) without the two header packets. It is for our
// own clips only, and checks nothing.
func oggPackets(file []byte) (packets [][]byte) {
	var packet []byte
	for len(file) > 0 {
		segments := int(file[26])
		table, body := file[27:27+segments], file[27+segments:]
		for _, n := range table {
			packet = append(packet, body[:n]...)
			body = body[n:]
			if n < 255 { // a shorter segment ends the packet
				packets = append(packets, packet)
				packet = nil
			}
		}
		file = body
	}
	return packets[2:]
}
