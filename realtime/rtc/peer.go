package rtc

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pion/rtp"
	"github.com/pion/transport/v5/packetio"
	"github.com/pion/webrtc/v4"
)

// State is the state of a peer, as passed to Handlers.State.
type State int32

// The states of a peer. StateNew is never passed to Handlers.State.
const (
	// StateNew is before the first connection.
	StateNew State = iota
	// StateConnected means that ICE and DTLS are up: audio can flow.
	StateConnected
	// StateDisconnected means that nothing has come for 5 s. StateConnected may follow.
	StateDisconnected
	// StateFailed means that the connection is lost: nothing came for 9 s, the handshake failed, or the remote broke
	// the protocol. Close the peer. Only a peer made by Answer that has heard nothing for 9 s can be revived by Restart
	// instead: its Done stays open, and StateConnected may follow.
	StateFailed
	// StateClosed is the last state, reported once, when the remote has closed the connection or its data channel, or
	// when Close has joined everything.
	StateClosed
)

// String returns the state's name in lower case.
func (s State) String() string {
	switch s {
	case StateNew:
		return "new"
	case StateConnected:
		return "connected"
	case StateDisconnected:
		return "disconnected"
	case StateFailed:
		return "failed"
	case StateClosed:
		return "closed"
	default:
		return "unknown"
	}
}

// Handlers are called from the peer's goroutines, each kind in order. They must return at once and must not call Close.
// Any of them may be nil.
type Handlers struct {
	// Message takes one data-channel message, text or binary, and owns the slice. It is never called after StateClosed
	// was reported. While it runs, the remote's next messages wait in the receive window.
	Message func(data []byte)
	// TooLarge is called in place of Message for a message above our limit, which was dropped.
	// size is in bytes.
	TooLarge func(size int)
	// Open is called when the data channel opens, before the first Message.
	Open func()
	// State is called with StateConnected, StateDisconnected, StateFailed and StateClosed.
	State func(State)
}

// Time limits of Close.
const (
	flushCap = 500 * time.Millisecond
	closeCap = 5 * time.Second
)

// Peer is one WebRTC connection: audio each way and a data channel. Its methods are safe for concurrent use unless they
// say otherwise.
type Peer struct {
	api   *API
	log   *slog.Logger
	h     Handlers
	pc    *webrtc.PeerConnection
	track *webrtc.TrackLocalStaticRTP
	// maxMessage is the largest message in bytes that is accepted.
	maxMessage int
	// restarts is set if the peer outlives a lost ICE connection.
	restarts bool

	// of a peer made by Offer
	offered webrtc.SessionDescription
	routes  *routes // set by Accept, before Pion gathers

	negotiation sync.Mutex        // held while descriptions are exchanged anew
	remote      remoteDescription // of a peer made by Answer

	done    chan struct{} // closed when the peer has ended, for whatever reason
	endOnce sync.Once
	final   atomic.Int32  // the State that ended the peer
	changed chan struct{} // holds a token when Pion's state has changed
	state   atomic.Int32  // the State reported last

	// deliver is held while a message is handed on; silent forbids further ones.
	deliver sync.Mutex
	silent  atomic.Bool

	goroutines sync.WaitGroup
	closeOnce  sync.Once
	closing    atomic.Bool
	closed     chan struct{} // closed when Close is complete
	closeErr   error

	channel channel
	in      inbound
	out     outbound
}

// inbound is the remote's audio.
type inbound struct {
	unread  *packetio.Buffer // the packets that Forward has not taken yet
	reading atomic.Bool
	named   atomic.Int32 // sources of RTP and RTCP so far
	stats   receiverStats

	// The rest belongs to the one Forward that runs.

	ssrc   uint32    // of the source that is heard
	source uint32    // names it among all of the API's; 0 before there is one
	heard  time.Time // when its last packet came
	opus   uint8     // its payload type
}

// maxUnread is how many bytes of audio wait for Forward, some 10 s; what arrives then is dropped.
const maxUnread = 64 << 10

func (in *inbound) init() {
	in.opus = 0xff // none
	in.unread = packetio.NewBuffer()
	in.unread.SetLimitSize(maxUnread)
}

// outbound is the audio to the remote.
type outbound struct {
	held   atomic.Bool // the remote does not want to hear anything
	turn   sync.Mutex  // only tried, never waited for
	splice splice
	packet rtp.Packet // reused, so that a packet costs no allocation
	stats  senderStats
}

func (p *Peer) signal() {
	select {
	case p.changed <- struct{}{}:
	default: // there is a token already
	}
}

// end marks the peer as ended; the first reason wins. It never blocks.
func (p *Peer) end(why State) {
	p.endOnce.Do(func() {
		p.final.Store(int32(why))
		close(p.done)
		_ = p.in.unread.Close() // never fails
	})
}

func (p *Peer) tell(s State) {
	if State(p.state.Swap(int32(s))) == s || p.h.State == nil {
		return
	}
	p.h.State(s)
}

// tellClosed reports StateClosed once no message is being handed on, and lets none follow.
func (p *Peer) tellClosed() {
	p.silent.Store(true)
	p.deliver.Lock()
	defer p.deliver.Unlock()
	p.tell(StateClosed)
}

// Done is closed when the peer has ended: by Close, by the remote, or because the connection is lost. Close must still
// be called.
func (p *Peer) Done() <-chan struct{} { return p.done }

// Close ends the peer. It gives buffered data up to 500 ms to leave, closes the connection, joins every goroutine of
// the peer and reports StateClosed. After 5 s it returns an error and lets the rest end on its own. It is idempotent,
// and all callers wait until it is complete. It must not be called from a handler, since it waits for handlers to
// return.
func (p *Peer) Close() error {
	p.closeOnce.Do(p.close)
	<-p.closed
	return p.closeErr
}

func (p *Peer) close() {
	defer close(p.closed)
	defer p.api.remove(p)
	p.closing.Store(true)
	p.flush()
	p.end(StateClosed)

	joined := make(chan error, 1)
	go func() {
		p.channel.close()
		err := p.pc.GracefulClose()
		p.goroutines.Wait()
		joined <- err
	}()
	select {
	case err := <-joined:
		if err != nil {
			p.closeErr = fmt.Errorf("close peer: %w", err)
		}
	case <-time.After(closeCap):
		p.closeErr = fmt.Errorf("close peer: not joined after %s", closeCap)
		p.log.Warn("peer close timed out")
		p.silent.Store(true)
		p.tell(StateClosed) // even if a message handler hangs
		return
	}
	p.tellClosed()
}

// flush waits, within limits, until everything sent has been acknowledged.
func (p *Peer) flush() {
	if State(p.state.Load()) != StateConnected {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), flushCap)
	defer cancel()
	p.channel.flush(ctx, p.done)
}

// await waits for ready, unless ctx or the peer ends first.
func (p *Peer) await(ctx context.Context, ready <-chan struct{}) error {
	select {
	case <-p.done:
		return ErrClosed
	default:
	}
	select {
	case <-ready:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-p.done:
		return ErrClosed
	}
}
