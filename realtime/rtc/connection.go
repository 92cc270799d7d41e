package rtc

import (
	"errors"
	"fmt"
	"time"

	"github.com/pion/rtcp"
	"github.com/pion/webrtc/v4"

	"voicebridge/realtime/media"
	"voicebridge/realtime/transcode"
)

// legKind is what all peers of one kind have in common.
type legKind struct {
	name       string
	settings   webrtc.SettingEngine
	config     webrtc.Configuration
	maxMessage int
	restarts   bool
}

// newPeer makes the peer connection with its audio track; negotiation follows.
func (a *API) newPeer(kind legKind, h media.Handlers) (*Peer, error) {
	config := kind.config
	config.Certificates = []webrtc.Certificate{a.cert}
	config.BundlePolicy = webrtc.BundlePolicyMaxBundle
	p := &Peer{
		api: a, log: a.log.With("leg", kind.name), h: h, maxMessage: kind.maxMessage, restarts: kind.restarts,
		done: make(chan struct{}), changed: make(chan struct{}, 1), closed: make(chan struct{}),
	}
	p.channel.init()
	p.in.init()
	p.out.encoded = transcode.ToOpus(p)
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
	p.out.sent.to, p.out.sent.bare = track.WriteRTP, a.bare
	if err := a.add(p); err != nil {
		return nil, errors.Join(err, pc.Close())
	}
	pc.OnConnectionStateChange(func(s webrtc.PeerConnectionState) {
		if s == webrtc.PeerConnectionStateConnected {
			p.h.Reach(media.StepDTLS)
		}
		p.signal()
	})
	pc.OnICEConnectionStateChange(func(s webrtc.ICEConnectionState) {
		if s == webrtc.ICEConnectionStateConnected {
			p.h.Reach(media.StepICE)
		}
	})
	pc.OnTrack(func(*webrtc.TrackRemote, *webrtc.RTPReceiver) {}) // see Peer.buffer
	pc.OnDataChannel(p.onDataChannel)
	p.goroutines.Go(p.watch)
	return p, nil
}

// watch is the peer's own goroutine. It reports states in order and sends RTCP reports.
func (p *Peer) watch() {
	reports := time.Tick(reportEvery)
	for {
		select {
		case <-p.done:
			p.last()
			return
		case <-p.changed:
			p.follow(p.pc.ConnectionState())
		case now := <-reports:
			p.report(now)
			p.checkStall()
		}
	}
}

// last reports how the peer ended, unless Close will.
func (p *Peer) last() {
	if media.State(p.final.Load()) == media.StateFailed {
		p.tell(media.StateFailed)
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
		p.tell(media.StateConnected)
	case webrtc.PeerConnectionStateDisconnected:
		p.tell(media.StateDisconnected)
	case webrtc.PeerConnectionStateFailed:
		if p.restarts && p.pc.SCTP().Transport().State() != webrtc.DTLSTransportStateFailed {
			p.tell(media.StateFailed)
			return
		}
		p.end(media.StateFailed)
	case webrtc.PeerConnectionStateClosed:
		p.end(media.StateClosed)
	}
}

// report sends a sender report while audio goes out, otherwise a receiver report. Browsers derive their round-trip time
// and our loss from it.
func (p *Peer) report(now time.Time) {
	if media.State(p.state.Load()) != media.StateConnected {
		return
	}
	own, ok := p.ownSource()
	if !ok {
		return
	}
	var receptions []rtcp.ReceptionReport
	if r, ok := p.in.stats.report(now); ok {
		receptions = append(receptions, r)
	}
	packet := p.out.stats.report(own, receptions, now)
	if packet == nil {
		return
	}
	if err := p.pc.WriteRTCP([]rtcp.Packet{packet}); err != nil {
		p.log.Debug("RTCP report not sent", "error", err)
	}
}
