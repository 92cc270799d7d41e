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

	"voicebridge/realtime/media"
)

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
	h     media.Handlers
	pc    *webrtc.PeerConnection
	track *webrtc.TrackLocalStaticRTP
	// maxMessage is the largest message in bytes that is accepted.
	maxMessage int
	// restarts is set if the peer outlives a lost ICE connection.
	restarts bool
	// repairs is set, before there is a connection, if each side repeats packets that the other one misses.
	repairs bool

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
	unread  *packetio.Buffer // the packets that Forward has not taken yet, each behind its time
	zero    time.Time        // of these times
	reading atomic.Bool
	named   atomic.Int32 // sources of RTP and RTCP so far
	stats   receiverStats

	// The rest belongs to the one Forward that runs.

	ssrc   uint32    // of the source that is heard
	source uint32    // names it, see media.NewSource; 0 before there is one
	heard  time.Time // when its last packet came
	opus   uint8     // its payload type
}

// maxUnread is how many bytes of audio wait for Forward, some 10 s; what arrives then is dropped.
const maxUnread = 64 << 10

func (in *inbound) init() {
	in.opus = 0xff // none
	in.unread, in.zero = packetio.NewBuffer(), time.Now()
	in.unread.SetLimitSize(maxUnread)
}

// outbound is the audio to the remote.
type outbound struct {
	held   atomic.Bool // the remote does not want to hear anything
	turn   sync.Mutex  // only tried, never waited for
	splice splice
	packet rtp.Packet // reused, so that a packet costs no allocation
	sent   sent
	stats  senderStats
	// encoded takes packets that are not Opus.
	encoded media.Sink
}

func (p *Peer) signal() {
	select {
	case p.changed <- struct{}{}:
	default: // there is a token already
	}
}

// end marks the peer as ended; the first reason wins. It never blocks.
func (p *Peer) end(why media.State) {
	p.endOnce.Do(func() {
		p.final.Store(int32(why))
		close(p.done)
		_ = p.in.unread.Close() // never fails
	})
}

func (p *Peer) tell(s media.State) {
	if media.State(p.state.Swap(int32(s))) == s || p.h.State == nil {
		return
	}
	p.h.State(s)
}

// tellClosed reports StateClosed once no message is being handed on, and lets none follow.
func (p *Peer) tellClosed() {
	p.silent.Store(true)
	p.deliver.Lock()
	defer p.deliver.Unlock()
	p.tell(media.StateClosed)
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
	p.end(media.StateClosed)

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
		p.tell(media.StateClosed) // even if a message handler hangs
		return
	}
	p.tellClosed()
}

// flush waits, within limits, until everything sent has been acknowledged. The channel of a new peer may be open before
// its state is known.
func (p *Peer) flush() {
	if media.State(p.state.Load()) > media.StateConnected {
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
		return media.ErrClosed
	default:
	}
	select {
	case <-ready:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-p.done:
		return media.ErrClosed
	}
}
