package rtc

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pion/ice/v4"
	"github.com/pion/webrtc/v4"

	"voicebridge/realtime/media"
)

// lossyConn drops and delays packets in both directions.
type lossyConn struct {
	net.PacketConn
	loss   atomic.Uint32 // per cent
	jitter time.Duration
	late   sync.WaitGroup
}

func (c *lossyConn) lose() bool { return rand.Uint32N(100) < c.loss.Load() }

func (c *lossyConn) ReadFrom(b []byte) (int, net.Addr, error) {
	for {
		n, from, err := c.PacketConn.ReadFrom(b)
		if err != nil || !c.lose() {
			return n, from, err
		}
	}
}

func (c *lossyConn) WriteTo(b []byte, to net.Addr) (int, error) {
	if c.lose() {
		return len(b), nil
	}
	later := append([]byte(nil), b...)
	c.late.Add(1)
	time.AfterFunc(rand.N(c.jitter), func() {
		defer c.late.Done()
		_, _ = c.PacketConn.WriteTo(later, to) // the socket may be closed by now
	})
	return len(b), nil
}

// TestBadNetwork keeps a call up over a network that loses 5 % each way, delays packets by up to 30 ms and then fails
// for 2 s.
func TestBadNetwork(t *testing.T) {
	t.Parallel()
	socket, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	must(t, err)
	conn := &lossyConn{PacketConn: socket, jitter: 30 * time.Millisecond}
	conn.loss.Store(5)
	mux := ice.NewUDPMuxDefault(ice.UDPMuxParams{UDPConn: conn, Logger: pionLoggers{testLogger(t)}.NewLogger("mux")})
	t.Cleanup(func() {
		_ = mux.Close()
		conn.late.Wait()
	})
	opened := make(chan struct{})
	b := newRawBrowser(t, newAPI(t, Config{}), rawOptions{settings: func(s *webrtc.SettingEngine) { s.SetICEUDPMux(mux) }})
	b.dc.OnOpen(func() { close(opened) })
	select {
	case <-opened:
	case <-time.After(patience):
		t.Fatal("the data channel never opened")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	got := newCollector()
	var flow media.Flow
	flow.Open()
	wg.Go(func() { speak(ctx, microphone{b.track}, 1, 1, 1) })
	wg.Go(func() { _ = b.peer.Forward(ctx, got, &flow) })
	first := got.next(t)

	send := func(from, to int) {
		for i := from; i < to; i++ {
			must(t, b.dc.SendText(fmt.Sprint("message ", i)))
		}
	}
	send(0, 100)
	b.rec.waitMessages(t, 100)
	conn.loss.Store(100)
	send(100, 120)
	select {
	case <-time.After(2 * time.Second): // the outage itself
	case <-b.peer.Done():
		t.Fatal("the peer did not outlive 2 s without a network")
	}
	conn.loss.Store(5)
	for i, m := range b.rec.waitMessages(t, 120) {
		if string(m) != fmt.Sprint("message ", i) {
			t.Fatalf("message %d is %q", i, m)
		}
	}
	for len(got.packets) > 0 {
		got.next(t)
	}
	if p := got.next(t); p.Sequence-first.Sequence < 50 {
		t.Errorf("audio is at %d, began at %d", p.Sequence, first.Sequence)
	}
	if s := &b.peer.in.stats; s.lost() <= 0 || s.jitter.Load() == 0 {
		t.Errorf("a bad network does not show: %d lost, jitter %d", s.lost(), s.jitter.Load())
	}
}
