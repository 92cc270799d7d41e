package rtc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pion/ice/v4"
	"github.com/pion/webrtc/v4"

	"voicebridge/internal/testkit"
	"voicebridge/realtime/media"
)

// offerAgain makes the browser's next offer, with new ICE credentials if restart
// is set and with all candidates.
func (b *rawBrowser) offerAgain(t testing.TB, restart bool) string {
	t.Helper()
	offer, err := b.pc.CreateOffer(&webrtc.OfferOptions{ICERestart: restart})
	must(t, err)
	gathered := webrtc.GatheringCompletePromise(b.pc)
	must(t, b.pc.SetLocalDescription(offer))
	testkit.Take(t, "the addresses", gathered)
	return b.pc.LocalDescription().SDP
}

func (b *rawBrowser) accept(t testing.TB, answer string) {
	t.Helper()
	must(t, b.pc.SetRemoteDescription(webrtc.SessionDescription{Type: webrtc.SDPTypeAnswer, SDP: answer}))
}

func (b *rawBrowser) restart(t testing.TB) {
	t.Helper()
	answer, err := b.peer.Restart(testContext(t), b.offerAgain(t, true))
	must(t, err)
	b.accept(t, answer)
}

// attribute returns the first value of an attribute in a session description.
func attribute(text, key string) string {
	_, rest, _ := strings.Cut(text, "\na="+key+":")
	value, _, _ := strings.Cut(rest, "\r\n")
	return value
}

// attributes are all values of an attribute, sorted: candidates come in any order.
func attributes(text, key string) (values []string) {
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, "a="+key+":"); ok {
			values = append(values, value)
		}
	}
	slices.Sort(values)
	return values
}

// exchange proves that messages pass both ways, in order and once.
type exchange struct {
	*rawBrowser
	got  chan string
	sent int
}

func newExchange(b *rawBrowser) *exchange {
	e := &exchange{rawBrowser: b, got: make(chan string, 100)}
	b.dc.OnMessage(func(m webrtc.DataChannelMessage) { e.got <- string(m.Data) })
	return e
}

func (e *exchange) check(t testing.TB) {
	t.Helper()
	ctx := testContext(t)
	want := fmt.Sprint("message ", e.sent)
	must(t, e.peer.Send(ctx, []byte(want)))
	select {
	case got := <-e.got:
		testkit.Equal(t, got, want, "the browser")
	case <-ctx.Done():
		t.Fatal("no message came")
	}
	must(t, e.dc.SendText(want))
	e.sent++
	messages := e.rec.waitMessages(t, e.sent)
	if len(messages) != e.sent || string(messages[e.sent-1]) != want {
		t.Errorf("the peer got %q, want %q at the end", messages, want)
	}
}

// TestRestart restarts ICE several times while sound flows both ways. The data channel and the streams go on, on
// separate ports and on a shared one.
func TestRestart(t *testing.T) {
	t.Parallel()
	for _, port := range []int{0, freePort(t)} {
		t.Run(fmt.Sprint("port ", port), func(t *testing.T) {
			t.Parallel()
			b := newRawBrowser(t, newAPI(t, Config{UDPPort: port}), rawOptions{})
			e := newExchange(b)
			b.rec.waitState(t, media.StateConnected)
			e.check(t)
			ctx, run := beside(t)
			got := newCollector()
			var flow media.Flow
			flow.Open()
			run(func() { speak(ctx, microphone{b.track}, 1, 100, 5000) })
			run(func() { speak(ctx, b.peer, 2, 300, 7000) })
			run(func() {
				if err := b.peer.Forward(ctx, got, &flow); !errors.Is(err, context.Canceled) {
					t.Errorf("Forward: %v", err)
				}
			})
			last := got.next(t)
			for range 3 {
				old := b.pc.RemoteDescription().SDP
				b.restart(t)
				if attribute(old, "ice-ufrag") == attribute(b.pc.RemoteDescription().SDP, "ice-ufrag") {
					t.Error("our ICE credentials did not change")
				}
				e.check(t)
				for len(got.packets) > 0 {
					last = got.next(t)
				}
				next := got.next(t)
				for next.Source == last.Source && !newer(next.Sequence, last.Sequence) {
					next = got.next(t) // it came late, over the path from before
				}
				if next.Source != last.Source || !newer(next.Sequence, last.Sequence) ||
					next.Timestamp-last.Timestamp != uint32(next.Sequence-last.Sequence)*frameStep {
					t.Errorf("stream %d: %d/%d follows %d/%d of %d", next.Source, next.Sequence, next.Timestamp,
						last.Sequence, last.Timestamp, last.Source)
				}
			}
			testkit.Equal(t, flow.Errors.Load(), 0, "packets could not be passed on")
			if n, state := b.peer.out.stats.packets.Load(), media.State(b.peer.state.Load()); n == 0 || state != media.StateConnected {
				t.Errorf("%d packets sent, %s", n, state)
			}
		})
	}
}

// TestRestartAfterLoss revives a peer whose connection ICE considers lost for good.
func TestRestartAfterLoss(t *testing.T) {
	t.Parallel()
	socket, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	must(t, err)
	conn := &lossyConn{PacketConn: socket, jitter: time.Millisecond}
	mux := ice.NewUDPMuxDefault(ice.UDPMuxParams{UDPConn: conn, Logger: pionLoggers{testLogger(t)}.NewLogger("mux")})
	t.Cleanup(func() {
		_ = mux.Close()
		conn.late.Wait()
	})
	b := newRawBrowser(t, newAPI(t, Config{}), rawOptions{settings: func(s *webrtc.SettingEngine) { s.SetICEUDPMux(mux) }})
	e := newExchange(b)
	b.rec.waitState(t, media.StateConnected)
	e.check(t)
	ctx, run := beside(t)
	run(func() { speak(ctx, microphone{b.track}, 1, 100, 5000) })
	got := collect(ctx, run, b.peer)
	got.next(t)

	conn.loss.Store(100)
	must(t, b.dc.SendText("said into the gap"))
	b.rec.waitState(t, media.StateFailed)
	conn.loss.Store(0)
	b.restart(t)
	b.rec.wait(t, "connected again", func() bool {
		return slices.Equal(b.rec.states, []media.State{media.StateConnected, media.StateDisconnected, media.StateFailed, media.StateConnected})
	})
	e.sent++
	testkit.Equal(t, string(b.rec.waitMessages(t, e.sent)[e.sent-1]), "said into the gap", "message")
	e.check(t)
	for len(got.packets) > 0 {
		got.next(t)
	}
	got.next(t)
}

// TestRestartIsIdempotent sends the same offer twice, as a browser does that never got the answer, and then one without
// new credentials.
func TestRestartIsIdempotent(t *testing.T) {
	t.Parallel()
	b := newRawBrowser(t, newAPI(t, Config{}), rawOptions{})
	e := newExchange(b)
	b.rec.waitState(t, media.StateConnected)
	ctx := testContext(t)
	offer := b.offerAgain(t, true)
	first, err := b.peer.Restart(ctx, offer)
	must(t, err)
	second, err := b.peer.Restart(ctx, offer)
	must(t, err)
	for _, key := range []string{"ice-ufrag", "ice-pwd", "candidate"} {
		if a, b := attributes(first, key), attributes(second, key); len(a) == 0 || !slices.Equal(a, b) {
			t.Errorf("%s: %q, then %q", key, a, b)
		}
	}
	b.accept(t, second)
	e.check(t)
	answer, err := b.peer.Restart(ctx, b.offerAgain(t, false))
	must(t, err)
	if attribute(answer, "ice-ufrag") != attribute(second, "ice-ufrag") {
		t.Error("an offer with the same credentials restarted ICE")
	}
	b.accept(t, answer)
	e.check(t)
}

// TestRestartRefused sends offers that cannot continue the peer, which stays as it is.
func TestRestartRefused(t *testing.T) {
	t.Parallel()
	a := newAPI(t, Config{})
	b := newRawBrowser(t, a, rawOptions{})
	e := newExchange(b)
	b.rec.waitState(t, media.StateConnected)
	own := b.offerAgain(t, true)
	fingerprint := attribute(own, "fingerprint")
	session, _, _ := strings.Cut(own[strings.Index(own, "o=- ")+4:], " ")
	audio := own[strings.Index(own, "m=audio"):strings.Index(own, "m=application")]
	for _, tt := range []struct {
		name, offer string
		want        error
	}{
		{"another browser", readSDP(t, "chrome_offer.sdp"), ErrOtherPeer},
		{"another certificate", strings.ReplaceAll(own, fingerprint, "sha-256 "+strings.TrimSuffix(strings.Repeat("AB:", 32), ":")), ErrOtherPeer},
		{"another session", strings.Replace(own, session, "1"+session[1:]+"7", 1), ErrOtherPeer},
		{"sections changed places", strings.Replace(own, audio, "", 1) + audio, ErrBadSDP},
		{"a section is gone", strings.Replace(own, own[strings.Index(own, "m=application"):], "", 1), ErrBadSDP},
		{"other mid", strings.ReplaceAll(own, "a=mid:0", "a=mid:9"), ErrBadSDP},
		{"no sound", strings.ReplaceAll(own, "m=audio 9", "m=audio 0"), ErrNoOpus},
		{"rubbish", "v=0\r\nrubbish", ErrBadSDP},
		{"nothing", "", ErrBadSDP},
		{"too large", own + strings.Repeat("a=x\r\n", maxOfferSize/5), ErrBadSDP},
	} {
		if _, err := b.peer.Restart(testContext(t), tt.offer); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
	}
	cause := errors.New("browser left")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	if _, err := b.peer.Restart(ctx, own); !errors.Is(err, cause) {
		t.Errorf("Restart after the caller left: %v", err)
	}
	answer, err := b.peer.Restart(testContext(t), own)
	must(t, err)
	b.accept(t, answer)
	e.check(t)
	closePeer(t, b.peer)
	if _, err := b.peer.Restart(testContext(t), own); !errors.Is(err, media.ErrClosed) {
		t.Errorf("Restart after Close: %v", err)
	}
}

// TestRestartDirections has a browser change who sends: it mutes itself, or us.
func TestRestartDirections(t *testing.T) {
	t.Parallel()
	b := newRawBrowser(t, newAPI(t, Config{}), rawOptions{})
	b.rec.waitState(t, media.StateConnected)
	own := b.offerAgain(t, false)
	for _, tt := range []struct{ offered, want string }{
		{"sendonly", "recvonly"}, {"recvonly", "sendonly"}, {"inactive", "inactive"}, {"sendrecv", "sendrecv"},
	} {
		answer, err := b.peer.Restart(testContext(t), strings.Replace(own, "a=sendrecv", "a="+tt.offered, 1))
		must(t, err)
		testkit.Equal(t, directionOf(split(answer)[1]), tt.want, "%s is answered", tt.offered)
	}
}

// TestHeldCall has a browser hold the call, in each of the ways that there are, and then go on with it. Nothing is sent
// to one that does not want to hear, and in the end sound flows both ways.
func TestHeldCall(t *testing.T) {
	t.Parallel()
	for direction, sent := range map[string]uint32{"inactive": 0, "sendonly": 0, "recvonly": 3} {
		t.Run(direction, func(t *testing.T) {
			t.Parallel()
			heard := make(chan *webrtc.TrackRemote, 8)
			b := newRawBrowser(t, newAPI(t, Config{}), rawOptions{before: func(pc *webrtc.PeerConnection) {
				pc.OnTrack(func(track *webrtc.TrackRemote, _ *webrtc.RTPReceiver) { heard <- track })
			}})
			b.rec.waitState(t, media.StateConnected)
			ctx, run := beside(t)
			got := collect(ctx, run, b.peer)
			own := b.offerAgain(t, false)
			if _, err := b.peer.Restart(ctx, strings.Replace(own, "a=sendrecv", "a="+direction, 1)); err != nil {
				t.Fatal(err)
			}
			for n := range uint16(3) {
				must(t, b.peer.WriteAudio(&media.Packet{Source: 1, Sequence: n, Payload: []byte{1}}))
			}
			testkit.Equal(t, b.peer.out.stats.packets.Load(), sent, "packets are sent")
			answer, err := b.peer.Restart(ctx, own)
			must(t, err)
			b.accept(t, answer)
			run(func() { speak(ctx, b.peer, 1, 3, 3*frameStep) })
			run(func() { speak(ctx, microphone{b.track}, 1, 1, 1) })
			select {
			case <-heard:
			case <-ctx.Done():
				t.Error("the browser hears nothing")
			}
			got.next(t)
		})
	}
}

// TestRestartBeforeConnection restarts before the first connection is up, because the network changed meanwhile.
func TestRestartBeforeConnection(t *testing.T) {
	t.Parallel()
	b := newRawBrowser(t, newAPI(t, Config{}), rawOptions{answer: func(answer string) string {
		return strings.ReplaceAll(answer, "a=candidate:", "a=x-lost:")
	}, settings: func(s *webrtc.SettingEngine) {
		s.SetNetworkTypes([]webrtc.NetworkType{webrtc.NetworkTypeUDP4})
	}})
	e := newExchange(b)
	b.restart(t)
	b.rec.waitState(t, media.StateConnected)
	e.check(t)
}

// TestTrackReplaced has a browser replace its microphone's stream in a new offer: sound goes on from the new one.
func TestTrackReplaced(t *testing.T) {
	t.Parallel()
	b := newRawBrowser(t, newAPI(t, Config{}), rawOptions{})
	b.rec.waitState(t, media.StateConnected)
	ctx, run := beside(t)
	got := collect(ctx, run, b.peer)
	short, stop := context.WithCancel(ctx)
	run(func() { speak(short, microphone{b.track}, 1, 1, 1) })
	first := got.next(t)
	stop()

	must(t, b.pc.RemoveTrack(b.pc.GetSenders()[0]))
	track, err := webrtc.NewTrackLocalStaticRTP(opusCapability(), "other mic", "browser")
	must(t, err)
	if _, err := b.pc.AddTrack(track); err != nil {
		t.Fatal(err)
	}
	b.restart(t)
	run(func() { speak(ctx, microphone{track}, 1, 500, 500) })
	for next := first; next.Source == first.Source; {
		next = got.next(t)
	}
}

// TestRefusedFirst answers offers whose first sections are refused, and the offers that follow them: the candidates are
// in the first section that is in use, once.
func TestRefusedFirst(t *testing.T) {
	t.Parallel()
	video := func(direction webrtc.RTPTransceiverDirection) func(*testing.T, *webrtc.PeerConnection) {
		return func(t *testing.T, pc *webrtc.PeerConnection) {
			t.Helper()
			_, err := pc.AddTransceiverFromKind(webrtc.RTPCodecTypeVideo, webrtc.RTPTransceiverInit{Direction: direction})
			must(t, err)
		}
	}
	for name, first := range map[string][]func(*testing.T, *webrtc.PeerConnection){
		"nothing":          nil,
		"video to receive": {video(webrtc.RTPTransceiverDirectionRecvonly)},
		"two videos":       {video(webrtc.RTPTransceiverDirectionRecvonly), video(webrtc.RTPTransceiverDirectionRecvonly)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check := func(answer string) string {
				for i, part := range split(answer)[1:] {
					line, _, _ := strings.Cut(part, "\r\n")
					want := 0
					if i == len(first) {
						want = 1
					}
					if refused := strings.Contains(line, " 0 "); refused != (i < len(first)) {
						t.Errorf("section %d: %s", i, line)
					}
					if ends := strings.Count(part, "a=end-of-candidates\r\n"); ends != want || strings.Contains(part, "a=candidate:") != (want == 1) {
						t.Errorf("section %d: %d ends of candidates in\n%s", i, ends, part)
					}
				}
				return answer
			}
			var offer string
			b := newRawBrowser(t, newAPI(t, Config{}), rawOptions{
				first: func(pc *webrtc.PeerConnection) {
					for _, add := range first {
						add(t, pc)
					}
				},
				answer: check,
				offer:  func(text string) string { offer = text; return text },
			})
			e := newExchange(b)
			b.rec.waitState(t, media.StateConnected)
			e.check(t)
			// A browser names its candidates in the first section that is in use, too.
			parts, used := split(offer), len(first)+1
			for i := 1; i < used; i++ {
				parts[0] = strings.Replace(parts[0], "BUNDLE "+attribute(parts[i], "mid")+" ", "BUNDLE ", 1)
				parts[i] = strings.NewReplacer("m=video 9 ", "m=video 0 ", "a=candidate:", "a=was-candidate:", "a=ice-", "a=was-ice-", "a=end-of", "a=was-end-of").Replace(parts[i])
			}
			again := strings.Join(parts, "")
			for _, key := range []string{"ice-ufrag", "ice-pwd"} {
				again = strings.ReplaceAll(again, attribute(offer, key), "another"+attribute(offer, key))
			}
			answer, err := b.peer.Restart(testContext(t), again)
			must(t, err)
			check(answer)
		})
	}
}
