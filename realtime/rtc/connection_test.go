package rtc

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pion/ice/v4"
	"github.com/pion/stun/v4"
	"github.com/pion/webrtc/v4"

	"voicebridge/internal/testkit"
	"voicebridge/realtime/media"
)

// ports counts the ports of this process, from a number that is hardly that of another
// test process.
var ports = func() *atomic.Int64 {
	n := new(atomic.Int64)
	n.Store(int64(os.Getpid()) * 89)
	return n
}()

// freePort finds an unused UDP port below those that systems give away by themselves: another test
// would take one of those before it is used.
func freePort(t testing.TB) int {
	t.Helper()
	for range 1000 {
		port := int(10_000 + ports.Add(1)%20_000)
		if conn, err := net.ListenUDP("udp", &net.UDPAddr{Port: port}); err == nil {
			_ = conn.Close()
			return port
		}
	}
	t.Fatal("no UDP port is free")
	return 0
}

func TestConfig(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		cfg  Config
		want string // part of the error
	}{
		{"port", Config{UDPPort: 70000}, "UDP port 70000"},
		{"public IP", Config{PublicIPs: []string{"example.org"}}, `public IP "example.org"`},
		{"ICE server", Config{ICEServers: []ICEServer{{URLs: []string{"http://x"}}}}, `ICE server "http://x"`},
		{"TURN without credential", Config{ICEServers: []ICEServer{{URLs: []string{"turn:turn.example.org"}}}}, "credential"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if _, err := New(tt.cfg); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("New: %v, want %q in it", err, tt.want)
			}
		})
	}
}

func TestPortTaken(t *testing.T) {
	t.Parallel()
	port := freePort(t)
	newAPI(t, Config{UDPPort: port})
	if _, err := New(Config{UDPPort: port, Loopback: true}); err == nil || !strings.Contains(err.Error(), fmt.Sprint(port)) {
		t.Errorf("second API on port %d: %v", port, err)
	}
}

func TestPublicIPs(t *testing.T) {
	t.Parallel()
	port := freePort(t)
	a := newAPI(t, Config{UDPPort: port, PublicIPs: []string{"203.0.113.9"}})
	p, answer, err := a.Answer(testContext(t), readSDP(t, "chrome_offer.sdp"), media.Handlers{})
	must(t, err)
	defer closePeer(t, p)
	if want := fmt.Sprintf(" 203.0.113.9 %d typ host", port); !strings.Contains(answer, want) || strings.Contains(answer, " 127.0.0.1 ") {
		t.Errorf("answer lacks %q, or has another address:\n%s", want, answer)
	}
}

// TestNoAddressOfALink checks that addresses that only the machines of one link can reach are not bound.
func TestNoAddressOfALink(t *testing.T) {
	t.Parallel()
	for _, address := range newAPI(t, Config{UDPPort: freePort(t)}).mux.GetListenAddresses() {
		if ip := address.(*net.UDPAddr).IP; ip.IsLinkLocalUnicast() {
			t.Errorf("%s is bound", ip)
		}
	}
}

// TestPublicIPLeadsToAnyAddress connects a browser through a NAT that leads to one of the machine's addresses,
// whichever.
func TestPublicIPLeadsToAnyAddress(t *testing.T) {
	t.Parallel()
	a := newAPI(t, Config{UDPPort: freePort(t), PublicIPs: []string{"203.0.113.9"}})
	for _, address := range a.mux.GetListenAddresses() {
		ip := address.(*net.UDPAddr).IP
		if ip.To4() == nil {
			continue
		}
		t.Run(ip.String(), func(t *testing.T) {
			t.Parallel()
			b := newRawBrowser(t, a, rawOptions{
				settings: func(s *webrtc.SettingEngine) { s.SetIPFilter(net.IP.IsLoopback) }, // a public server does not ask loopback
				answer:   func(answer string) string { return strings.ReplaceAll(answer, "203.0.113.9", ip.String()) },
			})
			b.rec.waitState(t, media.StateConnected)
		})
	}
}

// TestOnePort has 20 browsers call on one port: each is heard by its own peer.
func TestOnePort(t *testing.T) {
	t.Parallel()
	browsers, server := newAPI(t, Config{}), newAPI(t, Config{UDPPort: freePort(t)})
	var wg sync.WaitGroup
	pairs := make([]*pair, 20)
	for i := range pairs {
		pairs[i] = newPair(t, browsers, server).connected(t)
	}
	for i, p := range pairs {
		wg.Go(func() {
			if err := p.offerer.Send(testContext(t), fmt.Appendf(nil, "browser %d", i)); err != nil {
				t.Errorf("browser %d: %v", i, err)
			}
			if err := p.answerer.Send(testContext(t), fmt.Appendf(nil, "server %d", i)); err != nil {
				t.Errorf("server %d: %v", i, err)
			}
		})
	}
	wg.Wait()
	for i, p := range pairs {
		testkit.Equal(t, string(p.ans.waitMessages(t, 1)[0]), fmt.Sprint("browser ", i), "server %d", i)
		testkit.Equal(t, string(p.off.waitMessages(t, 1)[0]), fmt.Sprint("server ", i), "browser %d", i)
	}
}

// TestVanish has a remote vanish silently.
func TestVanish(t *testing.T) {
	t.Parallel()
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	must(t, err)
	mux := ice.NewUDPMuxDefault(ice.UDPMuxParams{UDPConn: conn})
	t.Cleanup(func() { _ = mux.Close() })
	b := newRawBrowser(t, newAPI(t, Config{}), rawOptions{settings: func(s *webrtc.SettingEngine) { s.SetICEUDPMux(mux) }})
	b.rec.waitState(t, media.StateConnected)
	_ = conn.Close()
	b.rec.waitState(t, media.StateDisconnected)
	b.rec.waitState(t, media.StateFailed)
	select {
	case <-b.peer.Done():
		t.Error("the peer ended although a restart could revive it")
	default:
	}
	closePeer(t, b.peer)
	b.rec.waitState(t, media.StateClosed)
}

// hostilePackets are packets that anybody may send to a media port.
func hostilePackets(random *rand.Rand, ufrag string) [][]byte {
	noise := make([]byte, 1+random.IntN(1400))
	for i := range noise {
		noise[i] = byte(random.Uint32())
	}
	rtpLike := append([]byte{0x80, 111}, noise...)
	rtcpLike := append([]byte{0x80, 200}, noise...)
	hello := append([]byte{22, 0xfe, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 60, 1}, noise...)
	binding := func(integrity string) []byte {
		m, err := stun.Build(stun.TransactionID, stun.BindingRequest, stun.NewUsername(ufrag+":evil"),
			stun.NewShortTermIntegrity(integrity), stun.Fingerprint)
		if err != nil {
			return nil
		}
		return m.Raw
	}
	return [][]byte{noise, rtpLike, rtcpLike, hello, binding("guess"), binding(""), {}, {0}}
}

// TestSpray sends hostile packets to the shared port during a call. The call goes on, and another one can be made.
func TestSpray(t *testing.T) {
	t.Parallel()
	port := freePort(t)
	browsers, server := newAPI(t, Config{}), newAPI(t, Config{UDPPort: port})
	p := newPair(t, browsers, server).connected(t).open(t)
	ctx, run := beside(t)
	run(func() { speak(ctx, p.offerer, 1, 1, 1) })
	got := newCollector()
	var flow media.Flow
	flow.Open()
	run(func() { _ = p.answerer.Forward(ctx, got, &flow) })
	first := got.next(t)

	params, err := p.answerer.pc.SCTP().Transport().ICETransport().GetLocalParameters()
	must(t, err)
	evil, err := net.DialUDP("udp4", nil, &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
	must(t, err)
	defer evil.Close()
	random := rand.New(rand.NewPCG(1, 2))
	for range 600 {
		for _, b := range hostilePackets(random, params.UsernameFragment) {
			_, _ = evil.Write(b) // a port that refuses is fine, too
		}
	}
	must(t, p.offerer.Send(ctx, []byte("still here")))
	p.ans.waitMessages(t, 1)
	second := newPair(t, browsers, server).connected(t)
	must(t, second.offerer.Send(ctx, []byte("another call")))
	second.ans.waitMessages(t, 1)

	for len(got.packets) > 0 {
		got.next(t)
	}
	last := got.next(t) // audio still arrives
	if span := uint64(last.Sequence-first.Sequence) + 1; span-min(span, flow.Packets.Load()) > 5 {
		t.Errorf("%d packets of %d came", flow.Packets.Load(), span)
	}
	if flow.Errors.Load() > 0 {
		t.Errorf("%d packets could not be read", flow.Errors.Load())
	}
}

// TestLateBrowser has the browser learn of our answer 3 s late, as over a slow network or when the upstream delays the
// answer.
func TestLateBrowser(t *testing.T) {
	t.Parallel()
	b := newRawBrowser(t, newAPI(t, Config{}), rawOptions{prepare: func(p *Peer) {
		select {
		case <-time.After(3 * time.Second): // the delay under test
		case <-p.Done():
			t.Error("the peer gave up")
		}
	}})
	b.rec.waitState(t, media.StateConnected)
}

// TestUpstreamTCP reaches an upstream that is reachable by TCP only.
func TestUpstreamTCP(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	must(t, err)
	logs := pionLoggers{testLogger(t)}
	mux := webrtc.NewICETCPMux(logs.NewLogger("tcp"), listener, 8)
	t.Cleanup(func() { _ = mux.Close() })
	var s webrtc.SettingEngine
	s.LoggerFactory = logs
	s.SetIncludeLoopbackCandidate(true)
	s.SetICEMulticastDNSMode(ice.MulticastDNSModeDisabled)
	s.SetNetworkTypes([]webrtc.NetworkType{webrtc.NetworkTypeTCP4})
	s.SetICETCPMux(mux)
	pc, err := webrtc.NewAPI(webrtc.WithSettingEngine(s)).NewPeerConnection(webrtc.Configuration{})
	must(t, err)
	t.Cleanup(func() { _ = pc.GracefulClose() })
	a := newAPI(t, Config{})
	rec := newRecorder()
	p, offer, err := a.Offer(testContext(t), rec.handlers())
	must(t, err)
	t.Cleanup(func() { closePeer(t, p) })
	must(t, pc.SetRemoteDescription(webrtc.SessionDescription{Type: webrtc.SDPTypeOffer, SDP: offer}))
	answer, err := pc.CreateAnswer(nil)
	must(t, err)
	gathered := webrtc.GatheringCompletePromise(pc)
	must(t, pc.SetLocalDescription(answer))
	testkit.Take(t, "the addresses", gathered)
	must(t, p.Accept(testContext(t), pc.LocalDescription().SDP))
	rec.waitState(t, media.StateConnected)
	pair, err := p.pc.SCTP().Transport().ICETransport().GetSelectedCandidatePair()
	if err != nil || pair == nil || pair.Remote.Protocol != webrtc.ICEProtocolTCP {
		t.Errorf("connected by %v, %v", pair, err)
	}
}

// TestCloseAtAnyTime closes peers in each phase, several times at once, while they are in use.
func TestCloseAtAnyTime(t *testing.T) {
	t.Parallel()
	closeAll := func(peers ...*Peer) {
		var wg sync.WaitGroup
		for _, p := range peers {
			for range 3 {
				wg.Go(func() { closePeer(t, p) })
			}
		}
		wg.Wait()
	}
	t.Run("after Offer", func(t *testing.T) {
		t.Parallel()
		p, _, err := newAPI(t, Config{}).Offer(testContext(t), media.Handlers{})
		must(t, err)
		closeAll(p)
		if err := p.Accept(testContext(t), readSDP(t, "upstream_answer.sdp")); !errors.Is(err, media.ErrClosed) {
			t.Errorf("Accept after Close: %v", err)
		}
	})
	t.Run("while connecting", func(t *testing.T) {
		t.Parallel()
		a := newAPI(t, Config{})
		for range 10 {
			p := newPair(t, a, a)
			closeAll(p.offerer, p.answerer)
		}
	})
	t.Run("while in use", func(t *testing.T) {
		t.Parallel()
		a := newAPI(t, Config{})
		for range 3 {
			p := newPair(t, a, a).connected(t).open(t)
			ctx, cancel := context.WithCancel(testContext(t))
			var wg sync.WaitGroup
			for _, peer := range []*Peer{p.offerer, p.answerer} {
				var flow media.Flow
				wg.Go(func() { speak(ctx, peer, 1, 1, 1) })
				wg.Go(func() {
					if err := peer.Forward(ctx, newCollector(), &flow); !errors.Is(err, media.ErrClosed) {
						t.Errorf("Forward: %v", err)
					}
				})
				wg.Go(func() {
					for peer.Send(ctx, randomBytes(50_000)) == nil {
					}
				})
			}
			p.ans.waitMessages(t, 3)
			closeAll(p.offerer, p.answerer)
			cancel()
			wg.Wait()
		}
	})
	t.Run("by the API", func(t *testing.T) {
		t.Parallel()
		a := newAPI(t, Config{})
		p := newPair(t, a, a).connected(t)
		if err := a.Close(); err != nil {
			t.Error(err)
		}
		p.off.waitState(t, media.StateClosed)
		p.ans.waitState(t, media.StateClosed)
		if _, _, err := a.Offer(testContext(t), media.Handlers{}); !errors.Is(err, media.ErrClosed) {
			t.Errorf("Offer after Close: %v", err)
		}
		if _, _, err := a.Answer(testContext(t), readSDP(t, "chrome_offer.sdp"), media.Handlers{}); !errors.Is(err, media.ErrClosed) {
			t.Errorf("Answer after Close: %v", err)
		}
	})
	t.Run("before the start", func(t *testing.T) {
		t.Parallel()
		a := newAPI(t, Config{})
		cause := errors.New("browser left")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		if _, _, err := a.Offer(ctx, media.Handlers{}); !errors.Is(err, cause) {
			t.Errorf("Offer: %v", err)
		}
	})
}

// TestCloseFromHandler does what is forbidden: Close waits for its own caller, but gives up in time.
func TestCloseFromHandler(t *testing.T) {
	t.Parallel()
	a := newAPI(t, Config{})
	ctx := testContext(t)
	result := make(chan error, 1)
	peers := make(chan *Peer, 1)
	answerer := newRecorder()
	offerer, offer, err := a.Offer(ctx, media.Handlers{State: func(s media.State) {
		if s == media.StateConnected {
			result <- (<-peers).Close()
		}
	}})
	must(t, err)
	peers <- offerer
	p, answer, err := a.Answer(ctx, offer, answerer.handlers())
	must(t, err)
	t.Cleanup(func() { closePeer(t, p) })
	must(t, offerer.Accept(ctx, answer))
	select {
	case err := <-result:
		if err == nil {
			t.Error("Close from a handler reports no error")
		}
	case <-ctx.Done():
		t.Fatal("Close from a handler hangs")
	}
	answerer.waitState(t, media.StateClosed)
}

// deadSTUN is a STUN server that never answers.
func deadSTUN(t *testing.T) ICEServer {
	t.Helper()
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return ICEServer{URLs: []string{"stun:" + conn.LocalAddr().String()}}
}

// TestGatherCap answers in time although the STUN server is dead.
func TestGatherCap(t *testing.T) {
	t.Parallel()
	for _, port := range []int{0, freePort(t)} {
		t.Run(fmt.Sprint("port ", port), func(t *testing.T) {
			t.Parallel()
			a := newAPI(t, Config{UDPPort: port, ICEServers: []ICEServer{deadSTUN(t)}})
			p, answer, err := a.Answer(testContext(t), readSDP(t, "chrome_offer.sdp"), media.Handlers{})
			must(t, err)
			defer closePeer(t, p)
			if !strings.Contains(answer, " typ host") {
				t.Error("answer has no candidates")
			}
		})
	}
	t.Run("caller leaves", func(t *testing.T) {
		t.Parallel()
		a := newAPI(t, Config{ICEServers: []ICEServer{deadSTUN(t)}})
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if _, _, err := a.Answer(ctx, readSDP(t, "chrome_offer.sdp"), media.Handlers{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Answer: %v", err)
		}
	})
}
