package rtc

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/pion/webrtc/v4"

	"voicebridge/internal/testkit"
	"voicebridge/realtime/media"
)

func randomBytes(n int) []byte {
	b := make([]byte, n)
	random := rand.NewChaCha8([32]byte{byte(n)})
	_, _ = random.Read(b) // never fails
	return b
}

func TestMessageSizes(t *testing.T) {
	t.Parallel()
	a := newAPI(t, Config{})
	p := newPair(t, a, a)
	ctx := testContext(t)
	came := 0
	for _, tt := range []struct {
		size int
		want error
	}{
		{0, nil}, {1, nil}, {readBuffer, nil}, {readBuffer + 1, nil}, {64 << 10, nil}, {256 << 10, nil},
		{256<<10 + 1, media.ErrTooLarge}, {1 << 20, media.ErrTooLarge}, {5, nil},
	} {
		data := randomBytes(tt.size)
		err := p.offerer.Send(ctx, data)
		if !errors.Is(err, tt.want) {
			t.Errorf("%d bytes: %v, want %v", tt.size, err, tt.want)
		}
		if err != nil {
			continue
		}
		came++
		if got := p.ans.waitMessages(t, came)[came-1]; !bytes.Equal(got, data) {
			t.Errorf("%d bytes: %d bytes came, which differ", tt.size, len(got))
		}
	}
	testkit.Equal(t, p.offerer.MaxMessageSize(), maxBrowserMessage, "limit")
	testkit.Equal(t, media.State(p.answerer.state.Load()), media.StateConnected, "state")
}

// TestUpstreamMessageSizes has an upstream send more than a browser may: the session with all its tools.
func TestUpstreamMessageSizes(t *testing.T) {
	t.Parallel()
	a := newAPI(t, Config{})
	p := newPair(t, a, a)
	data := randomBytes(maxUpstreamMessage)
	must(t, p.answerer.Send(testContext(t), data))
	if got := p.off.waitMessages(t, 1)[0]; !bytes.Equal(got, data) {
		t.Errorf("%d bytes came, which differ", len(got))
	}
	if err := p.answerer.Send(testContext(t), randomBytes(maxUpstreamMessage+1)); !errors.Is(err, media.ErrTooLarge) {
		t.Errorf("a larger message: %v", err)
	}
}

func TestTrySend(t *testing.T) {
	t.Parallel()
	a := newAPI(t, Config{})
	p := newPair(t, a, a)
	must(t, p.offerer.Send(testContext(t), []byte("1")))
	for _, tt := range []struct {
		name string
		data []byte
		want bool
	}{
		{"an event", []byte("2"), true}, {"nothing", nil, true}, {"too large", randomBytes(maxBrowserMessage + 1), false}, {"another", []byte("3"), true},
	} {
		if p.offerer.TrySend(tt.data) != tt.want {
			t.Errorf("%s: TrySend() = %t", tt.name, !tt.want)
		}
	}
	p.offerer.channel.slot <- struct{}{} // as while Send is sending
	if p.offerer.TrySend([]byte("x")) {
		t.Error("sent beside another message")
	}
	testkit.Take(t, "the slot", p.offerer.channel.slot)
	if got := bytes.Join(p.ans.waitMessages(t, 4), []byte(" ")); string(got) != "1 2  3" {
		t.Errorf("%q came", got)
	}
	must(t, p.offerer.Close())
	if p.offerer.TrySend([]byte("x")) {
		t.Error("sent after the end")
	}
	unconnected, _, err := a.Offer(testContext(t), media.Handlers{})
	must(t, err)
	if unconnected.TrySend([]byte("x")) {
		t.Error("sent before there was a channel")
	}
	must(t, unconnected.Close())
}

// TestLastMessages closes peers at once after they have sent, also one whose state follows its open channel late.
func TestLastMessages(t *testing.T) {
	t.Parallel()
	for _, state := range []media.State{media.StateNew, media.StateConnected} {
		t.Run(state.String(), func(t *testing.T) {
			t.Parallel()
			a := newAPI(t, Config{})
			p := newPair(t, a, a).connected(t).open(t)
			data := randomBytes(64 << 10)
			p.answerer.state.Store(int32(state))
			for range 4 {
				must(t, p.answerer.Send(testContext(t), data))
			}
			must(t, p.answerer.Close())
			p.off.waitMessages(t, 4)
		})
	}
}

func TestManyMessages(t *testing.T) {
	t.Parallel()
	a := newAPI(t, Config{})
	p := newPair(t, a, a)
	ctx := testContext(t)
	const n = 1000
	var wg sync.WaitGroup
	for _, from := range []*Peer{p.offerer, p.answerer} {
		wg.Go(func() {
			for i := range n {
				if err := from.Send(ctx, fmt.Appendf(nil, "%d %s", i, bytes.Repeat([]byte("."), i%700))); err != nil {
					t.Errorf("message %d: %v", i, err)
					return
				}
			}
		})
	}
	wg.Wait()
	for _, to := range []*recorder{p.ans, p.off} {
		for i, got := range to.waitMessages(t, n) {
			if want := fmt.Sprint(i, " "); !bytes.HasPrefix(got, []byte(want)) {
				t.Fatalf("message %d begins %.10q", i, got)
			}
		}
	}
}

// TestBinary hands binary messages on like text.
func TestBinary(t *testing.T) {
	t.Parallel()
	opened := make(chan struct{})
	b := newRawBrowser(t, newAPI(t, Config{}), rawOptions{})
	b.dc.OnOpen(func() { close(opened) })
	testkit.Take(t, "that it is open", opened)
	must(t, b.dc.Send([]byte{0, 0xff, 1}))
	if got := b.rec.waitMessages(t, 1)[0]; !bytes.Equal(got, []byte{0, 0xff, 1}) {
		t.Errorf("got %x", got)
	}
}

// TestBackPressure fills the way to a remote that does not read. Send must wait
// at the high-water mark, and nothing may be lost.
func TestBackPressure(t *testing.T) {
	t.Parallel()
	a := newAPI(t, Config{})
	gate, got := make(chan struct{}), make(chan uint32, 1000)
	ctx := testContext(t)
	offerer, offer, err := a.Offer(ctx, media.Handlers{})
	must(t, err)
	defer closePeer(t, offerer)
	answerer, answer, err := a.Answer(ctx, offer, media.Handlers{Message: func(b []byte) {
		<-gate
		got <- binary.BigEndian.Uint32(b)
	}})
	must(t, err)
	defer closePeer(t, answerer)
	must(t, offerer.Accept(ctx, answer))
	// Message by message until Send waits, which it may do only at the high-water mark.
	sent := uint32(0)
	for message := make([]byte, 32<<10); ; sent++ {
		binary.BigEndian.PutUint32(message, sent)
		send := func() error {
			short, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			return offerer.Send(short, message)
		}
		err := send()
		for errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil && buffered(offerer) < highWater {
			err = send() // not open yet, or a slow machine
		}
		if errors.Is(err, context.DeadlineExceeded) {
			break
		}
		if err != nil || sent > 300 {
			t.Fatalf("after %d messages: %v", sent, err)
		}
	}
	// At most the sender's high water and the receiver's window are waiting.
	if n := buffered(offerer); n < highWater || n > highWater+receiveBufferSize {
		t.Errorf("buffered %d bytes after %d messages", n, sent)
	}
	close(gate)
	for i := range sent {
		select {
		case n := <-got:
			if n != i {
				t.Fatalf("message %d came as number %d", n, i)
			}
		case <-ctx.Done():
			t.Fatalf("message %d of %d never came", i, sent)
		}
	}
	if err := offerer.Send(ctx, []byte{0, 0, 0, 0}); err != nil {
		t.Errorf("Send afterwards: %v", err)
	}
}

func TestSendEnds(t *testing.T) {
	t.Parallel()
	a := newAPI(t, Config{})
	p, _, err := a.Offer(testContext(t), media.Handlers{})
	must(t, err)
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	failed := make(chan error, 2)
	go func() { failed <- p.Send(ctx, []byte("x")) }()
	cancel(cause)
	if err := testkit.Take(t, "the failure", failed); !errors.Is(err, cause) {
		t.Errorf("cancelled: %v", err)
	}
	go func() { failed <- p.Send(t.Context(), []byte("x")) }()
	closePeer(t, p)
	if err := testkit.Take(t, "the failure", failed); !errors.Is(err, media.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}

// TestFlushOnClose sends and closes at once: the message must arrive.
func TestFlushOnClose(t *testing.T) {
	t.Parallel()
	a := newAPI(t, Config{})
	p := newPair(t, a, a).connected(t).open(t)
	for range 20 {
		// Small enough that even a busy machine drops nothing: Close waits 500 ms only.
		must(t, p.offerer.Send(testContext(t), randomBytes(500)))
	}
	must(t, p.offerer.Send(testContext(t), []byte("bye")))
	closePeer(t, p.offerer)
	p.ans.waitState(t, media.StateClosed)
	p.ans.mu.Lock()
	defer p.ans.mu.Unlock()
	if n := len(p.ans.messages); n != 21 || string(p.ans.messages[20]) != "bye" {
		t.Errorf("%d messages came before the end", n)
	}
	testkit.Equal(t, p.ans.after, 0, "messages came after the end")
}

// TestOversized has a remote ignore our limit. A message that the receive window holds is dropped, and the channel
// stays open.
func TestOversized(t *testing.T) {
	t.Parallel()
	opened := make(chan struct{})
	b := newRawBrowser(t, newAPI(t, Config{}), rawOptions{answer: boundless})
	b.dc.OnOpen(func() { close(opened) })
	testkit.Take(t, "that it is open", opened)
	for _, size := range []int{256<<10 + 1, 700 << 10, 900 << 10} {
		must(t, b.dc.Send(randomBytes(size)))
	}
	must(t, b.dc.SendText("still here"))
	if got := b.rec.waitMessages(t, 1)[0]; string(got) != "still here" {
		t.Errorf("got %d bytes", len(got))
	}
}

// TestBlocked has a remote send more than the receive window holds. The peer must notice that its channel is blocked
// for good, with bounded memory.
func TestBlocked(t *testing.T) {
	t.Parallel()
	opened := make(chan struct{})
	b := newRawBrowser(t, newAPI(t, Config{}), rawOptions{answer: boundless})
	b.dc.OnOpen(func() { close(opened) })
	testkit.Take(t, "that it is open", opened)
	must(t, b.dc.SendText("before"))
	b.rec.waitMessages(t, 1)
	const size = 24 << 20
	must(t, b.dc.Send(make([]byte, size)))
	b.rec.waitState(t, media.StateFailed)
	if err := b.peer.Send(testContext(t), []byte("x")); !errors.Is(err, media.ErrClosed) {
		t.Errorf("Send: %v", err)
	}
	stats := b.peer.pc.SCTP().Stats()
	if stats.BytesReceived > 4*receiveBufferSize {
		t.Errorf("%d bytes were taken in", stats.BytesReceived)
	}
	runtime.KeepAlive(b)
}

// TestOtherChannels has a remote open channels other than ours.
func TestOtherChannels(t *testing.T) {
	t.Parallel()
	refused := make(chan string, 100)
	open := func(pc *webrtc.PeerConnection, label string) {
		dc, err := pc.CreateDataChannel(label, nil)
		if err != nil {
			t.Error(err)
			return
		}
		dc.OnClose(func() { refused <- label })
	}
	opened := make(chan struct{})
	b := newRawBrowser(t, newAPI(t, Config{}), rawOptions{before: func(pc *webrtc.PeerConnection) {
		open(pc, "telemetry")
		open(pc, channelLabel) // a second one with that name
	}})
	b.dc.OnOpen(func() { close(opened) })
	testkit.Take(t, "that it is open", opened)
	got := map[string]bool{testkit.Take(t, "the refusal", refused): true, testkit.Take(t, "the refusal", refused): true}
	if !got["telemetry"] || !got[channelLabel] {
		t.Errorf("refused %v", got)
	}
	must(t, b.dc.SendText("on the first"))
	if m := b.rec.waitMessages(t, 1); string(m[0]) != "on the first" {
		t.Errorf("got %q", m[0])
	}
	for range maxRefused {
		open(b.pc, "flood")
	}
	b.rec.waitState(t, media.StateFailed)
}

// TestChannelClosed has the remote close its channel: the peer ends.
func TestChannelClosed(t *testing.T) {
	t.Parallel()
	opened := make(chan struct{})
	b := newRawBrowser(t, newAPI(t, Config{}), rawOptions{})
	b.dc.OnOpen(func() { close(opened) })
	testkit.Take(t, "that it is open", opened)
	must(t, b.dc.Close())
	b.rec.waitState(t, media.StateClosed)
	select {
	case <-b.peer.Done():
	default:
		t.Error("Done is open after media.StateClosed")
	}
}

// buffered is what Send has taken and the remote has not acknowledged, in bytes.
func buffered(p *Peer) uint64 {
	if s := p.channel.open(); s != nil {
		return s.BufferedAmount()
	}
	return 0
}

// TestStuck has checks of a channel whose reader waits. Only the second in a row that finds the window full of one
// message tells that it is blocked.
func TestStuck(t *testing.T) {
	t.Parallel()
	const full = receiveBufferSize
	type check struct {
		received, sent uint64
		busy           bool // the reader has a message
		read           bool // a message was read before the check
		want           bool
	}
	for name, checks := range map[string][]check{
		"blocked":                {{received: full}, {received: full, want: true}},
		"long blocked":           {{received: full}, {received: full, want: true}, {received: full, want: true}},
		"once":                   {{received: full}},
		"a message came between": {{received: full}, {received: 2 * full, read: true}, {received: 3 * full}, {received: 3 * full, want: true}},
		"the reader was busy":    {{received: full}, {received: full, busy: true}, {received: full}, {received: full, want: true}},
		"not full":               {{received: full / 2}, {received: full / 2}},
		"acknowledgements":       {{received: full, sent: full}, {received: full, sent: full}},
		"it counts from 0 again": {{received: full, read: true}, {received: 1}, {received: 1}},
	} {
		var s stall
		for i, c := range checks {
			if c.read {
				s.mark(c.received, c.sent)
			}
			s.reading.Store(!c.busy)
			if got := s.stuck(c.received, c.sent); got != c.want {
				t.Errorf("%s: check %d says %t", name, i+1, got)
			}
		}
	}
}
