package e2e

import (
	"errors"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pion/ice/v4"
	"github.com/pion/rtp"
	"github.com/pion/webrtc/v4"

	"voicebridge/internal/testkit"
	"voicebridge/realtime"
	"voicebridge/realtime/media"
	"voicebridge/realtime/simulator"
	"voicebridge/thread"
)

// roaming is a browser made with Pion alone, whose network the test controls.
type roaming struct {
	*caller
	pc    *webrtc.PeerConnection
	track *webrtc.TrackLocalStaticRTP
	net   *network
}

// network is the one UDP socket of a browser. Its address may change, and without a socket
// nothing goes out or comes in.
type network struct {
	mu      sync.Mutex
	socket  net.PacketConn // nil when there is none
	changed chan struct{}
	closed  bool
}

func newNetwork(socket net.PacketConn) *network {
	return &network{socket: socket, changed: make(chan struct{})}
}

// move closes the socket and continues with another one, which may be nil.
func (n *network) move(socket net.PacketConn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.socket != nil {
		_ = n.socket.Close()
	}
	n.socket = socket
	close(n.changed)
	n.changed = make(chan struct{})
}

// ReadFrom waits for a packet, on whatever socket there is.
func (n *network) ReadFrom(p []byte) (int, net.Addr, error) {
	for {
		n.mu.Lock()
		socket, changed, closed := n.socket, n.changed, n.closed
		n.mu.Unlock()
		if closed {
			return 0, nil, net.ErrClosed
		}
		if socket == nil {
			<-changed
			continue
		}
		if count, from, err := socket.ReadFrom(p); err == nil {
			return count, from, nil
		}
	}
}

// WriteTo loses what cannot be sent, as networks do.
func (n *network) WriteTo(p []byte, to net.Addr) (int, error) {
	n.mu.Lock()
	socket := n.socket
	n.mu.Unlock()
	if socket != nil {
		_, _ = socket.WriteTo(p, to)
	}
	return len(p), nil
}

// Close ends the reader.
func (n *network) Close() error {
	n.mu.Lock()
	n.closed = true
	n.mu.Unlock()
	n.move(nil)
	return nil
}

// LocalAddr is never sent to anyone: the program learns where packets come from.
func (n *network) LocalAddr() net.Addr { return &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9} }

func (n *network) SetDeadline(time.Time) error      { return nil }
func (n *network) SetReadDeadline(time.Time) error  { return nil }
func (n *network) SetWriteDeadline(time.Time) error { return nil }

// roam makes a call from a network.
func (r *rig) roam(t *testing.T, network *network, session string) *roaming {
	t.Helper()
	b := &roaming{caller: newCaller(t, r), net: network}
	mux := ice.NewUDPMuxDefault(ice.UDPMuxParams{UDPConn: network})
	var s webrtc.SettingEngine
	s.SetIncludeLoopbackCandidate(true)
	s.SetICEMulticastDNSMode(ice.MulticastDNSModeDisabled)
	s.SetNetworkTypes([]webrtc.NetworkType{webrtc.NetworkTypeUDP4})
	s.SetICEUDPMux(mux)
	var engine webrtc.MediaEngine
	var err error
	fail := func(errs ...error) {
		t.Helper()
		must(t, errors.Join(errs...))
	}
	fail(engine.RegisterDefaultCodecs())
	b.pc, err = webrtc.NewAPI(webrtc.WithSettingEngine(s), webrtc.WithMediaEngine(&engine)).NewPeerConnection(webrtc.Configuration{})
	fail(err)
	t.Cleanup(func() { fail(b.pc.GracefulClose(), mux.Close(), network.Close()) })
	b.track, err = webrtc.NewTrackLocalStaticRTP(webrtc.RTPCodecCapability{MimeType: webrtc.MimeTypeOpus, ClockRate: 48000, Channels: 2}, "mic", "browser")
	fail(err)
	_, err = b.pc.AddTrack(b.track)
	fail(err)
	channel, err := b.pc.CreateDataChannel("oai-events", nil)
	fail(err)
	channel.OnMessage(func(m webrtc.DataChannelMessage) { b.message(m.Data) })
	channel.OnClose(func() { b.update(func() { b.closed = true }) })
	b.send = func(data []byte) error { return channel.SendText(string(data)) }
	b.pc.OnTrack(func(track *webrtc.TrackRemote, _ *webrtc.RTPReceiver) {
		for {
			packet, _, err := track.ReadRTP()
			if err != nil {
				return
			}
			_ = b.WriteAudio(&media.Packet{Source: packet.SSRC, Sequence: packet.SequenceNumber, Timestamp: packet.Timestamp, Payload: packet.Payload})
		}
	})
	kind, content := callForm(t, b.nextOffer(false), session)
	got := r.call(t, b.caller, simulator.Faults{}, "/v1/realtime/calls", kind, content)
	if got.status != http.StatusCreated {
		t.Fatalf("call: %d %s", got.status, got.body)
	}
	b.id, b.thread = strings.TrimPrefix(got.header.Get("Location"), "/v1/realtime/calls/"), got.header.Get("X-Thread-Id")
	b.take(got.body)
	return b
}

// nextOffer makes the next offer, without any address.
func (b *roaming) nextOffer(restart bool) string {
	b.t.Helper()
	offer, err := b.pc.CreateOffer(&webrtc.OfferOptions{ICERestart: restart})
	must(b.t, err)
	gathered := webrtc.GatheringCompletePromise(b.pc)
	must(b.t, b.pc.SetLocalDescription(offer))
	testkit.Receive(b.t, "the addresses of an offer", gathered)
	return withoutCandidates(b.pc.LocalDescription().SDP)
}

func (b *roaming) take(answer string) {
	b.t.Helper()
	must(b.t, b.pc.SetRemoteDescription(webrtc.SessionDescription{Type: webrtc.SDPTypeAnswer, SDP: answer}))
}

// restart restarts ICE, as a page does after a change of its network.
func (b *roaming) restart() {
	b.t.Helper()
	status, answer := b.rig.post(b.t, reconnectPath(b.caller), "application/sdp", b.nextOffer(true))
	if status != http.StatusOK {
		b.t.Fatalf("reconnect: %d %s", status, answer)
	}
	b.take(answer)
}

// isHeard waits until the model has got that many more packets.
func (b *roaming) isHeard(n int64) {
	b.t.Helper()
	want := b.session.AudioPackets() + n
	testkit.Eventually(b.t, "sound of the caller", func() bool { return b.session.AudioPackets() >= want })
}

// listenAt opens a socket on the first or the second address of a browser; the other one is then gone.
func listenAt(t *testing.T, address int) net.PacketConn {
	t.Helper()
	socket, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, byte(1+address))})
	must(t, err)
	return socket
}

// TestChangeOfAddress moves a browser to another address while its tool runs, and in the
// middle of an answer. Audio stops until ICE has restarted; the call goes on, and the
// model does not notice.
func TestChangeOfAddress(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigConfig{environ: waiting})
	takePlace(t)
	b := r.roam(t, newNetwork(listenAt(t, 0)), asksMe)
	b.next("bridge.ready")
	b.sendSilence(func(p *media.Packet) error {
		return b.track.WriteRTP(&rtp.Packet{Header: rtp.Header{Version: 2, SequenceNumber: p.Sequence, Timestamp: p.Timestamp}, Payload: p.Payload})
	})
	b.isHeard(20)
	b.say(waitPlease)
	asked := b.tool()

	b.net.move(listenAt(t, 1))
	b.deliver(asked, `{"said":"so"}`) // sent once there is a path
	b.restart()
	b.saved("answer with the tool's result", says(thread.RoleAssistant, "It said so."))
	b.isHeard(20)
	inAnswer(b.caller)
	b.hears(20)

	b.net.move(listenAt(t, 0))
	b.restart()
	b.next(realtime.TypeAudioTranscriptDelta)
	b.hears(50)
	b.isHeard(20)
	r.undisturbed(b.caller)
	r.over(b.caller, "hangup")
	r.wantLike(t, b.thread, slices.Concat([]string{
		"user text completed: " + waitPlease, "assistant voice completed: Wait.[dynamic-tool output-available]", "assistant voice completed: It said so.",
	}, interrupted))
	r.quiet()
}
