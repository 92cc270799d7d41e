package bridge

import (
	"context"

	"voicebridge/realtime"
	"voicebridge/realtime/rtc"
)

// Upstream is the realtime voice model that calls talk to. Dialling, sending,
// events, media and closing are all a driver has to offer.
type Upstream interface {
	// Name is the driver's name as it is saved with a call.
	Name() string
	// Dial creates a call. created is told the upstream's id of the call before
	// any media flows, so that it can be saved: what a crash leaves behind can
	// then be hung up. Errors: *realtime.APIError when the upstream refused.
	Dial(ctx context.Context, d Dial) (UpstreamLeg, error)
	// HangUp ends a call by its id, also one of an earlier process. A call that
	// is gone already is no error.
	HangUp(ctx context.Context, id string) error
}

// Dial describes a call to be created.
type Dial struct {
	// Session is the session object with the fields that are fixed at creation.
	Session []byte
	// Handlers receive the leg's events; see [rtc.Handlers].
	Handlers rtc.Handlers
	// Created is called once with the upstream's id of the call.
	Created func(id string) error
}

// UpstreamLeg is the connection to a created call.
type UpstreamLeg interface {
	leg
	// ID is the upstream's id of the call.
	ID() string
}

// leg is one WebRTC connection as the call sees it; *rtc.Peer is one.
type leg interface {
	rtc.AudioSink
	Send(ctx context.Context, data []byte) error
	MaxMessageSize() int
	Forward(ctx context.Context, dst rtc.AudioSink, flow *rtc.Flow) error
	Close() error
}

// Realtime is the driver for the OpenAI Realtime API over WebRTC and for
// servers that speak it.
type Realtime struct {
	name   string
	api    *rtc.API
	client *realtime.Client
}

// NewRealtime returns a driver that creates calls through client and connects to
// them with peers of api.
func NewRealtime(name string, api *rtc.API, client *realtime.Client) *Realtime {
	return &Realtime{name: name, api: api, client: client}
}

// Name implements [Upstream].
func (r *Realtime) Name() string { return r.name }

// HangUp implements [Upstream].
func (r *Realtime) HangUp(ctx context.Context, id string) error { return r.client.Hangup(ctx, id) }

// Dial implements [Upstream].
func (r *Realtime) Dial(ctx context.Context, d Dial) (UpstreamLeg, error) {
	peer, offer, err := r.api.Offer(ctx, d.Handlers)
	if err != nil {
		return nil, err
	}
	call, err := r.client.CreateCall(ctx, offer, d.Session)
	leg := &realtimeLeg{Peer: peer, id: call.ID}
	if err == nil {
		err = r.connect(ctx, leg, call, d)
	}
	if err == nil {
		return leg, nil
	}
	_ = peer.Close()
	if call.ID != "" {
		// The upstream holds a session that nobody will use: it would bill.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), hangUpTimeout)
		defer cancel()
		_ = r.client.Hangup(ctx, call.ID)
	}
	return nil, err
}

func (r *Realtime) connect(ctx context.Context, leg *realtimeLeg, call realtime.Call, d Dial) error {
	if err := d.Created(call.ID); err != nil {
		return err
	}
	return leg.Accept(ctx, call.Answer)
}

type realtimeLeg struct {
	*rtc.Peer
	id string
}

func (l *realtimeLeg) ID() string { return l.id }
