package rtc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

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
	// TooLarge is called in place of Message for a message above our limit (Config.MaxMessageSize), which was dropped.
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

// legKind is what all peers of one kind have in common.
type legKind struct {
	name       string
	settings   webrtc.SettingEngine
	config     webrtc.Configuration
	maxMessage int
	restarts   bool
}

// newPeer makes the peer connection with its audio track; negotiation follows.
func (a *API) newPeer(kind legKind, h Handlers) (*Peer, error) {
	config := kind.config
	config.Certificates = []webrtc.Certificate{a.cert}
	config.BundlePolicy = webrtc.BundlePolicyMaxBundle
	p := &Peer{
		api: a, log: a.log.With("leg", kind.name), h: h, maxMessage: kind.maxMessage, restarts: kind.restarts,
		done: make(chan struct{}), changed: make(chan struct{}, 1), closed: make(chan struct{}),
	}
	p.channel.init()
	p.in.init()
	kind.settings.BufferFactory = p.buffer
	pion, err := newPionAPI(kind.settings)
	if err != nil {
		return nil, err
	}
	pc, err := pion.NewPeerConnection(config)
	if err != nil {
		return nil, fmt.Errorf("make peer connection: %w", err)
	}
	track, err := webrtc.NewTrackLocalStaticRTP(opusCapability(), "audio", "voicebridge")
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make audio track: %w", err), pc.Close())
	}
	_, err = pc.AddTransceiverFromTrack(track, webrtc.RTPTransceiverInit{
		Direction: webrtc.RTPTransceiverDirectionSendrecv,
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("add audio track: %w", err), pc.Close())
	}
	p.pc, p.track = pc, track
	if err := a.add(p); err != nil {
		return nil, errors.Join(err, pc.Close())
	}
	pc.OnConnectionStateChange(func(webrtc.PeerConnectionState) { p.signal() })
	pc.OnTrack(p.onTrack)
	pc.OnDataChannel(p.onDataChannel)
	p.goroutines.Go(p.watch)
	return p, nil
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
	})
}

// watch is the peer's own goroutine. It reports states in order and sends RTCP reports.
func (p *Peer) watch() {
	reports := time.NewTicker(reportEvery)
	defer reports.Stop()
	for {
		select {
		case <-p.done:
			p.last()
			return
		case <-p.changed:
			p.follow(p.pc.ConnectionState())
		case now := <-reports.C:
			p.report(now)
			p.checkStall()
		}
	}
}

// last reports how the peer ended, unless Close does.
func (p *Peer) last() {
	if State(p.final.Load()) == StateFailed {
		p.tell(StateFailed)
		return
	}
	if !p.closing.Load() {
		p.channel.awaitRead() // the remote is gone, so the reader ends
	}
	if !p.closing.Load() {
		p.tellClosed()
	}
}

// follow adopts a state of Pion's connection.
func (p *Peer) follow(state webrtc.PeerConnectionState) {
	switch state {
	case webrtc.PeerConnectionStateConnected:
		p.tell(StateConnected)
	case webrtc.PeerConnectionStateDisconnected:
		p.tell(StateDisconnected)
	case webrtc.PeerConnectionStateFailed:
		if p.restarts && p.pc.SCTP().Transport().State() != webrtc.DTLSTransportStateFailed {
			p.tell(StateFailed)
			return
		}
		p.end(StateFailed)
	case webrtc.PeerConnectionStateClosed:
		p.end(StateClosed)
	}
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
	limit := time.NewTimer(closeCap)
	defer limit.Stop()
	select {
	case err := <-joined:
		if err != nil {
			p.closeErr = fmt.Errorf("close peer: %w", err)
		}
	case <-limit.C:
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
