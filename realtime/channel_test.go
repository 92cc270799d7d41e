package realtime

import (
	"errors"
	"testing"
)

func TestWithChannel(t *testing.T) {
	t.Parallel()
	const audio, data = "v=0\r\ns=-\r\nm=audio 9 UDP/TLS/RTP/SAVPF 111\r\na=mid:0\r\n", "m=application 9 UDP/DTLS/SCTP webrtc-datachannel\r\na=mid:1\r\n"
	const video = "m=video 9 UDP/TLS/RTP/SAVPF 96\r\na=mid:2\r\n"
	for name, tt := range map[string]struct {
		offer, dcid, want string
		err               error
	}{
		"none":          {offer: audio + data, want: audio + data},
		"last section":  {offer: audio + data, dcid: "4", want: audio + data + "a=dcmap:4\r\n"},
		"in the middle": {offer: audio + data + video, dcid: "65534", want: audio + data + "a=dcmap:65534\r\n" + video},
		"the first":     {offer: audio + data + data, dcid: "0", want: audio + data + "a=dcmap:0\r\n" + data},
		"bare newlines": {offer: "v=0\nm=application 9 x y\na=b", dcid: "1", want: "v=0\nm=application 9 x y\na=b\r\na=dcmap:1\r\n"},
		"no section":    {offer: audio, dcid: "4", want: audio},
		"no offer":      {dcid: "4"},
		"too large":     {offer: audio + data, dcid: "65535", err: ErrBadChannel},
		"negative":      {offer: audio + data, dcid: "-1", err: ErrBadChannel},
		"a line":        {offer: audio + data, dcid: "4\r\na=x", err: ErrBadChannel},
		"no number":     {offer: audio + data, dcid: "oai-events", err: ErrBadChannel},
	} {
		if got, err := WithChannel(tt.offer, tt.dcid); got != tt.want || !errors.Is(err, tt.err) {
			t.Errorf("%s: %q, %v, want %q, %v", name, got, err, tt.want, tt.err)
		}
	}
}
