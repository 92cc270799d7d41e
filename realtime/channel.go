package realtime

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// maxChannel is the last stream that can carry a data channel (RFC 8831, 6.4).
const maxChannel = 65534

// ErrBadChannel means that dcid is no number of a stream.
var ErrBadChannel = errors.New("dcid is not a number from 0 to 65534")

// WithChannel returns the offer of a client that names its data channel in the query of the calls route ("dcid", OpenAI's
// guide "WebRTC with WARP") instead of announcing it once connected. The offer then says the same in the line that RFC 8864
// has for it. An empty dcid names none. Error: ErrBadChannel.
func WithChannel(offer, dcid string) (string, error) {
	if dcid == "" {
		return offer, nil
	}
	id, err := strconv.ParseUint(dcid, 10, 16)
	if err != nil || id > maxChannel {
		return "", ErrBadChannel
	}
	const section = "m=application "
	before, data, ok := strings.Cut(offer, "\n"+section)
	if !ok {
		return offer, nil
	}
	data, after, more := strings.Cut(data, "\nm=")
	if more {
		after = "m=" + after
	}
	return fmt.Sprintf("%s\n%s%s\r\na=dcmap:%d\r\n%s", before, section, strings.TrimRight(data, "\r\n"), id, after), nil
}
