package bridge_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"voicebridge/bridge"
	"voicebridge/bridge/internal/task"
	"voicebridge/realtime/media"
	"voicebridge/realtime/rtc"
	"voicebridge/realtime/simulator"
	"voicebridge/realtime/transcode"
)

// exchange makes connections in memory as WebRTC does: one end offers, the other one answers, and once the first has
// the answer a pair of queues joins them.
type exchange struct {
	mu      sync.Mutex
	offers  int
	answers map[string]*memoryPeer // who answered, by the name of the answer
}

// memoryPeer is one end. It stands for a *rtc.Peer.
type memoryPeer struct {
	exchange *exchange
	h        media.Handlers
	joined   chan struct{} // closed when there is a Pipe
	gone     chan struct{} // closed by Close
	close    func()
	*media.Pipe
	encoded media.Sink // makes Opus for it

	// of one that answers
	remote        *media.Pipe
	offer, answer string
	failing       *time.Timer
}

func (x *exchange) newPeer(h media.Handlers) *memoryPeer {
	p := &memoryPeer{exchange: x, h: h, joined: make(chan struct{}), gone: make(chan struct{})}
	p.close = sync.OnceFunc(func() { close(p.gone) })
	return p
}

func (p *memoryPeer) join(pipe *media.Pipe) {
	p.Pipe, p.encoded = pipe, transcode.ToOpus(pipe)
	close(p.joined)
}

// description is that of a connection with a name.
func description(name string) string {
	return strings.ReplaceAll("v=0\no=- 1 1 IN IP4 127.0.0.1\ns=-\nt=0 0\nm=audio 9 UDP/TLS/RTP/SAVPF 111\nc=IN IP4 0.0.0.0\n"+
		"a=rtpmap:111 opus/48000/2\na=fingerprint:sha-256 "+strings.Repeat("AB:", 31)+"AB\na=ice-pwd:"+strings.Repeat("x", 22)+
		"\na=ice-ufrag:"+name+"\na=end-of-candidates\n", "\n", "\r\n")
}

func (x *exchange) Offer(_ context.Context, h media.Handlers) (*memoryPeer, string, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.offers++
	h.Reach(media.StepOffer)
	return x.newPeer(h), description(fmt.Sprintf("offer%d", x.offers)), nil
}

// connectWithin is how long one end may take to connect, as with WebRTC.
const connectWithin = 9 * time.Second

func (x *exchange) Answer(_ context.Context, offer string, h media.Handlers) (*memoryPeer, string, error) {
	if err := rtc.CheckOffer(offer); err != nil {
		return nil, "", err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	p := x.newPeer(h)
	here, there := media.NewPipe()
	p.join(here)
	name := "answer" + strconv.Itoa(len(x.answers))
	p.remote, p.offer, p.answer = there, offer, description(name)
	x.answers[name] = p
	p.failing = time.AfterFunc(connectWithin, func() {
		if h.State != nil {
			h.State(media.StateFailed)
		}
	})
	h.Reach(media.StepAnswer)
	return p, p.answer, nil
}

func (p *memoryPeer) Accept(_ context.Context, answer string) error {
	p.exchange.mu.Lock()
	defer p.exchange.mu.Unlock()
	other, ok := p.exchange.answers[ufrag(answer)]
	if !ok || other.answer != answer {
		return rtc.ErrBadSDP
	}
	select {
	case <-p.gone:
		return media.ErrClosed
	default:
	}
	other.failing.Stop()
	p.join(other.remote)
	p.Start(p.h)
	other.Start(other.h)
	return nil
}

func (p *memoryPeer) Restart(_ context.Context, offer string) (string, error) {
	if offer != p.offer {
		return "", rtc.ErrOtherPeer
	}
	return p.answer, nil
}

// await waits until there is a connection.
func (p *memoryPeer) await(ctx context.Context) error {
	select {
	case <-p.joined:
		return nil
	case <-p.gone:
		return media.ErrClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (p *memoryPeer) isJoined() bool {
	select {
	case <-p.joined:
		return true
	default:
		return false
	}
}

func (p *memoryPeer) Send(ctx context.Context, data []byte) error {
	if err := p.await(ctx); err != nil {
		return err
	}
	return p.Pipe.Send(ctx, data)
}

func (p *memoryPeer) TrySend(data []byte) bool { return p.isJoined() && p.Pipe.TrySend(data) }

func (p *memoryPeer) WriteAudio(packet *media.Packet) error {
	if !p.isJoined() {
		return nil
	}
	return p.encoded.WriteAudio(packet)
}

func (p *memoryPeer) Forward(ctx context.Context, dst media.Sink, flow *media.Flow) error {
	if err := p.await(ctx); err != nil {
		return err
	}
	return p.Pipe.Forward(ctx, dst, flow)
}

func (p *memoryPeer) Close() error {
	p.close()
	if p.failing != nil {
		p.failing.Stop()
	}
	p.exchange.mu.Lock()
	joined := p.isJoined()
	p.exchange.mu.Unlock()
	if !joined {
		return nil
	}
	return p.Pipe.Close()
}

// offering and answering are what bridge and simulator make their ends by.
func (x *exchange) offering(ctx context.Context, h media.Handlers) (bridge.Offerer, string, error) {
	return x.Offer(ctx, h)
}

func (x *exchange) answering(ctx context.Context, offer string, h media.Handlers) (bridge.Answerer, string, error) {
	return x.Answer(ctx, offer, h)
}

func (x *exchange) simulated(ctx context.Context, offer string, h media.Handlers) (simulator.Connection, string, error) {
	return x.Answer(ctx, offer, h)
}

// network is how the sides of a call reach each other: real, or in memory.
type network struct {
	offer     bridge.Offering
	answer    bridge.Answering
	simulated func(ctx context.Context, offer string, h media.Handlers) (simulator.Connection, string, error)
	close     func() error
	real      bool
}

func newNetwork(t *testing.T, physical bool) *network {
	t.Helper()
	if !physical {
		x := &exchange{answers: make(map[string]*memoryPeer)}
		return &network{offer: x.offering, answer: x.answering, simulated: x.simulated, close: func() error { return nil }}
	}
	api, err := rtc.New(rtc.Config{Loopback: true, Patience: testTimeout})
	must(t, err)
	return &network{
		real: true, close: api.Close,
		offer: func(ctx context.Context, h media.Handlers) (bridge.Offerer, string, error) { return api.Offer(ctx, h) },
		answer: func(ctx context.Context, offer string, h media.Handlers) (bridge.Answerer, string, error) {
			return api.Answer(ctx, offer, h)
		},
		simulated: func(ctx context.Context, offer string, h media.Handlers) (simulator.Connection, string, error) {
			return api.Answer(ctx, offer, h)
		},
	}
}

// serve serves a handler until the test ends, and returns a client that reaches it, at an address.
func (n *network) serve(t *testing.T, h http.Handler) (client *http.Client, address string) {
	t.Helper()
	transport := &http.Transport{DisableKeepAlives: true}
	var at net.Listener
	if n.real {
		var err error
		at, err = new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
		must(t, err)
		address = "http://" + at.Addr().String()
	} else {
		l := &listener{conns: make(chan net.Conn), closed: make(chan struct{})}
		at, address, transport.DialContext = l, "http://memory", l.dial
	}
	server := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	served := task.Go(func() {
		if err := server.Serve(at); !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("serve: %v", err)
		}
	})
	t.Cleanup(func() { _ = server.Close(); <-served })
	return &http.Client{Transport: transport}, address
}

// listener is the only address of a network in memory.
type listener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (l *listener) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case l.conns <- there:
		return here, nil
	case <-l.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *listener) Addr() net.Addr { return &net.UnixAddr{Name: "memory", Net: "memory"} }
