package rtc

import (
	"strings"
	"testing"

	"github.com/pion/ice/v4"
	"github.com/pion/webrtc/v4"

	"voicebridge/internal/testkit"
)

// rawBrowser is a remote made with Pion alone, so that it can misbehave.
type rawBrowser struct {
	pc    *webrtc.PeerConnection
	track *webrtc.TrackLocalStaticRTP
	dc    *webrtc.DataChannel
	peer  *Peer // our side
	rec   *recorder
}

// rawOptions change how a rawBrowser is made; each may be nil.
type rawOptions struct {
	settings func(*webrtc.SettingEngine)
	channel  *webrtc.DataChannelInit      // of the channel
	first    func(*webrtc.PeerConnection) // adds sections before that of audio
	before   func(*webrtc.PeerConnection)
	offer    func(string) string // edits the offer
	answer   func(string) string // edits our answer
	prepare  func(*Peer)         // called before the remote learns of our answer
}

func newRawBrowser(t testing.TB, a *API, opts rawOptions) *rawBrowser {
	t.Helper()
	var s webrtc.SettingEngine
	s.SetIncludeLoopbackCandidate(true)
	s.SetICEMulticastDNSMode(ice.MulticastDNSModeDisabled)
	s.LoggerFactory = pionLoggers{testLogger(t)}
	if opts.settings != nil {
		opts.settings(&s)
	}
	var media webrtc.MediaEngine
	must(t, media.RegisterDefaultCodecs())
	pc, err := webrtc.NewAPI(webrtc.WithSettingEngine(s), webrtc.WithMediaEngine(&media)).NewPeerConnection(webrtc.Configuration{})
	must(t, err)
	t.Cleanup(func() { _ = pc.GracefulClose() })
	b := &rawBrowser{pc: pc, rec: newRecorder()}
	if opts.first != nil {
		opts.first(pc)
	}
	if b.track, err = webrtc.NewTrackLocalStaticRTP(opusCapability(), "mic", "browser"); err != nil {
		t.Fatal(err)
	}
	if _, err = pc.AddTrack(b.track); err != nil {
		t.Fatal(err)
	}
	if b.dc, err = pc.CreateDataChannel(channelLabel, opts.channel); err != nil {
		t.Fatal(err)
	}
	if opts.before != nil {
		opts.before(pc)
	}
	offer, err := pc.CreateOffer(nil)
	must(t, err)
	gathered := webrtc.GatheringCompletePromise(pc)
	must(t, pc.SetLocalDescription(offer))
	testkit.Take(t, "the addresses", gathered)
	sdp := pc.LocalDescription().SDP
	if opts.offer != nil {
		sdp = opts.offer(sdp)
	}
	peer, answer, err := a.Answer(testContext(t), sdp, b.rec.handlers())
	must(t, err)
	t.Cleanup(func() { closePeer(t, peer) })
	b.peer = peer
	if opts.answer != nil {
		answer = opts.answer(answer)
	}
	if opts.prepare != nil {
		opts.prepare(peer)
	}
	must(t, pc.SetRemoteDescription(webrtc.SessionDescription{Type: webrtc.SDPTypeAnswer, SDP: answer}))
	return b
}

// boundless makes a remote ignore our max-message-size.
func boundless(answer string) string {
	return strings.ReplaceAll(answer, "a=max-message-size:262144", "a=max-message-size:1073741823")
}
