package rtc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/pion/webrtc/v4"

	"voicebridge/realtime/media"
)

// Answer makes the peer for a browser's offer and returns it with the answer, which holds all candidates. Gathering
// them takes milliseconds without ICE servers and never more than 3 s; ctx can end it earlier. Errors: ErrBadSDP
// (malformed), ErrNoOpus, ErrClosed. An offer without a data channel is fine, and sections other than the first audio
// and the data channel are refused in the answer. The browser opens the channel "oai-events", unless its offer says
// on which stream both sides have one (a=dcmap, RFC 8864). Of the offer's candidates at most 32 are used: UDP, no
// port below 1024, no link-local or multicast address, loopback only as Config.Loopback says, and no private address
// when Config.PublicIPs has a public one.
//
// The browser has 9 s to connect before the peer is in StateFailed, and may offer again whenever the connection is
// lost: see Restart. Start Forward at once, with its gate shut: audio that nobody reads would pile up.
func (a *API) Answer(ctx context.Context, offer string, h media.Handlers) (*Peer, string, error) {
	remote, err := checkSDP(offer, maxOfferSize)
	if err != nil {
		return nil, "", fmt.Errorf("read offer: %w", err)
	}
	kind := legKind{
		name: "browser", settings: a.browser, config: a.leg, maxMessage: maxBrowserMessage, restarts: true,
	}
	p, err := a.newPeer(kind, h)
	if err != nil {
		return nil, "", err
	}
	p.remote, p.repairs = remote, true
	p.channel.limit.Store(int64(remote.maxMessageSize))
	if remote.stream != nil {
		err = p.makeChannel(remote.stream)
	}
	var answer string
	if err == nil {
		answer, err = p.answer(ctx, offer)
	}
	if err != nil {
		return nil, "", errors.Join(err, p.Close())
	}
	h.Reach(media.StepAnswer)
	return p, answer, nil
}

// Restart takes a later offer from the peer connection whose first offer Answer took, and returns the answer with all
// candidates. If the offer has new ICE credentials, ICE restarts (RFC 8839, 4.4.3.1.1): the browser's network has
// changed, or the connection was lost. DTLS, the data channel and the audio stream with its numbering go on, and
// Forward keeps waiting; sound pauses until a path is found. Handlers.State is called as for a new connection. The
// same offer given twice gets the same answer.
//
// Errors: ErrOtherPeer (nothing has changed: make a new peer with Answer), ErrBadSDP and ErrNoOpus (nothing has changed
// either, unless the peer has ended), ErrClosed (too late: the browser needs a new peer connection), and the cause of
// ctx's end.
func (p *Peer) Restart(ctx context.Context, offer string) (string, error) {
	remote, err := checkSDP(offer, maxOfferSize)
	if err != nil {
		return "", fmt.Errorf("read offer: %w", err)
	}
	p.negotiation.Lock()
	defer p.negotiation.Unlock()
	if ctx.Err() != nil {
		return "", fmt.Errorf("restart: %w", context.Cause(ctx))
	}
	select {
	case <-p.done:
		return "", fmt.Errorf("restart: %w", media.ErrClosed)
	default:
	}
	if err := remote.continues(p.remote); err != nil {
		return "", fmt.Errorf("read offer: %w", err)
	}
	// An earlier offer, whose sender did not wait for the answer, may still be gathering: its last candidate would
	// count as the last of this one.
	if err := p.gather(ctx, webrtc.GatheringCompletePromise(p.pc)); err != nil {
		return "", err
	}
	answer, err := p.answer(ctx, offer)
	if err != nil {
		if p.pc.SignalingState() != webrtc.SignalingStateStable {
			p.end(media.StateFailed) // Pion cannot roll an offer back
		}
		return "", err
	}
	p.remote = remote
	return answer, nil
}

func (p *Peer) answer(ctx context.Context, offer string) (string, error) {
	offer, dropped := p.api.candidates.trim(offer)
	if dropped > 0 {
		p.log.Debug("candidates of the browser ignored", "dropped", dropped)
	}
	offer = withUsableInit(withDirections(offer))
	if err := p.setRemote(webrtc.SDPTypeOffer, sendrecv(offer)); err != nil {
		return "", err
	}
	desc, err := p.pc.CreateAnswer(nil)
	if err != nil {
		return "", fmt.Errorf("make answer: %w: %w", ErrBadSDP, err)
	}
	gathered := webrtc.GatheringCompletePromise(p.pc)
	if err := p.pc.SetLocalDescription(desc); err != nil {
		return "", fmt.Errorf("set answer: %w: %w", ErrBadSDP, err)
	}
	if err := p.gather(ctx, gathered); err != nil {
		return "", err
	}
	p.out.held.Store(!hears(offer))
	return announced(narrowed(settled(p.pc.LocalDescription().SDP, offer, p.api.opus), offer), p.api.public), nil
}

// gather waits until all candidates are there, or for the longest time that may take.
func (p *Peer) gather(ctx context.Context, gathered <-chan struct{}) error {
	select {
	case <-gathered:
		return nil
	case <-time.After(gatherCap):
		p.log.Warn("gathering candidates took too long", "cap", gatherCap)
		return nil
	case <-ctx.Done():
		return fmt.Errorf("gather candidates: %w", context.Cause(ctx))
	}
}

// Offer makes the peer for an upstream and returns it with the offer: one audio section and the data channel
// "oai-events". The offer holds no candidates, so it need not wait for any: an upstream answers with all of its own and
// learns ours from our connectivity checks (RFC 8445, 7.3.1.3). Errors: ErrClosed.
func (a *API) Offer(ctx context.Context, h media.Handlers) (*Peer, string, error) {
	if err := ctx.Err(); err != nil {
		return nil, "", fmt.Errorf("make offer: %w", context.Cause(ctx))
	}
	routes := new(routes)
	settings := a.upstream
	settings.SetIPFilter(func(ip net.IP) bool { return routes.allow(ip) })
	p, err := a.newPeer(legKind{name: "upstream", settings: settings, maxMessage: maxUpstreamMessage}, h)
	if err != nil {
		return nil, "", err
	}
	p.routes = routes
	offer, err := p.offer()
	if err != nil {
		return nil, "", errors.Join(err, p.Close())
	}
	h.Reach(media.StepOffer)
	return p, offer, nil
}

func (p *Peer) offer() (string, error) {
	var stream *uint16
	if p.api.stream != 0 {
		stream = new(p.api.stream)
	}
	if err := p.makeChannel(stream); err != nil {
		return "", err
	}
	desc, err := p.pc.CreateOffer(nil)
	if err != nil {
		return "", fmt.Errorf("make offer: %w", err)
	}
	// Setting it now would make Pion gather candidates before it is known which are useful.
	p.offered = desc
	format := fmt.Sprintf("a=fmtp:%d %s", opusPayloadType, opusFormat)
	return strings.Replace(desc.SDP, format+"\r\n", withNack(format), 1), nil
}

// Accept takes the answer to the offer that Offer made. Errors: ErrBadSDP (also for a second answer, and for one
// without the data channel), ErrNoOpus, ErrClosed. After an error the peer can only be closed.
func (p *Peer) Accept(ctx context.Context, answer string) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("read answer: %w", context.Cause(ctx))
	}
	select {
	case <-p.done:
		return fmt.Errorf("read answer: %w", media.ErrClosed)
	default:
	}
	remote, err := checkSDP(answer, maxAnswerSize)
	if err != nil {
		return fmt.Errorf("read answer: %w", err)
	}
	if remote.maxMessageSize == 0 {
		return fmt.Errorf("read answer: %w: the data channel is refused", ErrBadSDP)
	}
	p.negotiation.Lock()
	defer p.negotiation.Unlock()
	if p.pc.SignalingState() != webrtc.SignalingStateStable || p.pc.RemoteDescription() != nil {
		return fmt.Errorf("read answer: %w: there is one already", ErrBadSDP)
	}
	p.channel.limit.Store(int64(remote.maxMessageSize))
	answer, dropped := candidateRule{loopback: true}.trim(answer)
	if dropped > 0 {
		p.log.Debug("candidates of the upstream ignored", "dropped", dropped)
	}
	local, err := p.api.network.addresses()
	if err != nil {
		p.log.Debug("own addresses not known", "error", err) // then no remote is assumed to run on this machine
	}
	*p.routes = routesTo(answer, local)
	p.repairs = allowsNack(answer)
	if err := p.pc.SetLocalDescription(p.offered); err != nil {
		return fmt.Errorf("set offer: %w", err)
	}
	return p.setRemote(webrtc.SDPTypeAnswer, withUsableInit(withDirections(answer)))
}

func (p *Peer) setRemote(kind webrtc.SDPType, text string) error {
	err := p.pc.SetRemoteDescription(webrtc.SessionDescription{Type: kind, SDP: text})
	if err != nil {
		return fmt.Errorf("set remote description: %w: %w", ErrBadSDP, err)
	}
	return nil
}
