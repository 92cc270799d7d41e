package rtc

import (
	"strings"
	"sync/atomic"
	"testing"

	"github.com/pion/webrtc/v4"

	"voicebridge/internal/testkit"
)

// withLine adds a line to the section of the data channel, which is the last one.
func withLine(line string) func(string) string {
	return func(offer string) string { return offer + line + "\r\n" }
}

// TestSnap has browsers with and without SCTP's handshake in their offer, and some whose line is of no use. The channel
// opens in the ordinary way for all that did not offer it.
func TestSnap(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		snap, want bool
		offer      func(string) string
	}{
		"a browser with SNAP":         {snap: true, want: true},
		"a browser without":           {},
		"a line that is no base64":    {offer: withLine("a=sctp-init:%%%")},
		"an empty line":               {offer: withLine("a=sctp-init:")},
		"a line that is no INIT":      {offer: withLine("a=sctp-init:AgAABA==")},
		"an INIT cut off":             {offer: withLine("a=sctp-init:AQAAFAAAAAE=")},
		"an INIT that says too large": {offer: withLine("a=sctp-init:AQD//wAAAAEAEAAA//////8AAAAB")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var answered atomic.Bool
			b := newRawBrowser(t, newAPI(t, Config{}), rawOptions{
				settings: func(s *webrtc.SettingEngine) { s.EnableSctpSnap(tt.snap) },
				offer:    tt.offer,
				answer: func(answer string) string {
					answered.Store(strings.Contains(answer, "\na=sctp-init:"))
					return answer
				},
			})
			if answered.Load() != tt.want {
				t.Errorf("the answer has the handshake: %t", !tt.want)
			}
			converse(t, b)
		})
	}
}

// TestNegotiatedChannel has a browser that opens its channel by itself, as OpenAI's guide to WARP has it, and one that
// announces others beside it.
func TestNegotiatedChannel(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		stream uint16
		line   string
		snap   bool
	}{
		"OpenAI's example":           {stream: 4, line: "a=dcmap:4", snap: true},
		"without SNAP":               {stream: 0, line: "a=dcmap:0"},
		"an odd stream, as RFC 8864": {stream: 7, line: `a=dcmap:7 subprotocol="";label="oai-events"`},
		"the last stream":            {stream: 65534, line: "a=dcmap:65534", snap: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newRawBrowser(t, newAPI(t, Config{}), rawOptions{
				settings: func(s *webrtc.SettingEngine) { s.EnableSctpSnap(tt.snap) },
				channel:  &webrtc.DataChannelInit{Negotiated: new(true), ID: new(tt.stream)},
				offer:    withLine(tt.line),
			})
			converse(t, b)
			second, err := b.pc.CreateDataChannel(channelLabel, nil)
			must(t, err)
			closed := make(chan struct{})
			second.OnClose(func() { close(closed) })
			testkit.Take(t, "that it is closed", closed)
			converse(t, b)
		})
	}
}

// converse sends a message each way.
func converse(t *testing.T, b *rawBrowser) {
	t.Helper()
	came := make(chan string, 1)
	b.dc.OnMessage(func(m webrtc.DataChannelMessage) { came <- string(m.Data) })
	must(t, b.peer.Send(testContext(t), []byte("to the browser")))
	select {
	case got := <-came:
		testkit.Equal(t, got, "to the browser", "came")
	case <-testContext(t).Done():
		t.Fatal("nothing came")
	}
	b.rec.mu.Lock()
	before := len(b.rec.messages)
	b.rec.mu.Unlock()
	must(t, b.dc.SendText("to the server"))
	if got := b.rec.waitMessages(t, before+1); string(got[before]) != "to the server" {
		t.Errorf("%q came", got)
	}
}

// TestChannelOfUpstream has an upstream that was told the stream of the channel, and opens it by itself.
func TestChannelOfUpstream(t *testing.T) {
	t.Parallel()
	p := newPair(t, newAPI(t, Config{DataChannel: 4}), newAPI(t, Config{})).open(t)
	for _, from := range []*Peer{p.offerer, p.answerer} {
		must(t, from.Send(testContext(t), []byte("x")))
	}
	p.off.waitMessages(t, 1)
	p.ans.waitMessages(t, 1)
}
