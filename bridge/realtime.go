package bridge

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"voicebridge/bridge/internal/leg"
	"voicebridge/bridge/internal/session"
	"voicebridge/bridge/internal/task"
	"voicebridge/realtime"
	"voicebridge/realtime/media"
	"voicebridge/realtime/rtc"
	"voicebridge/thread"
)

// Realtime is the driver for the OpenAI Realtime API over WebRTC and for compatible servers.
type Realtime struct {
	name   string
	offer  offering
	client *realtime.Client
}

// offering makes a peer and its offer.
type offering func(ctx context.Context, h media.Handlers) (offerer, string, error)

// offerer is a peer that waits for the answer to its offer; *rtc.Peer implements it.
type offerer interface {
	leg.Peer
	Accept(ctx context.Context, answer string) error
}

func offeringBy(api *rtc.API) offering {
	return func(ctx context.Context, h media.Handlers) (offerer, string, error) {
		peer, offer, err := api.Offer(ctx, h)
		if err != nil {
			return nil, "", err
		}
		return peer, offer, nil
	}
}

// NewRealtime returns a driver that creates calls through client and connects to them with peers of api.
func NewRealtime(name string, api *rtc.API, client *realtime.Client) *Realtime {
	return &Realtime{name: name, offer: offeringBy(api), client: client}
}

func (r *Realtime) Name() string { return r.name }

func (r *Realtime) HangUp(ctx context.Context, id string) error { return r.client.Hangup(ctx, id) }

func (r *Realtime) Dial(ctx context.Context, d Dial) (UpstreamLeg, error) {
	d.Handlers = hiding(d.Handlers, r.client.APIKey)
	l := new(realtimeLeg)
	d.Handlers.Message = l.listening(d.Handlers.Message)
	peer, offer, err := r.offer(ctx, d.Handlers)
	if err != nil {
		return nil, err
	}
	l.offerer, l.sound = peer, media.NewFiller(peer) // before anything is said
	call, err := r.create(ctx, offer, d)
	if err == nil {
		d.Handlers.Reach(media.StepAnswer)
	}
	l.id, l.replayer = call.ID, replayer{prefix: d.ItemPrefix, limit: peer.MaxMessageSize}
	if err == nil {
		err = r.connect(ctx, l, call, d)
	}
	if err == nil {
		return l, nil
	}
	_ = peer.Close()
	if call.ID != "" {
		d.Later(func(<-chan struct{}) { r.drop(ctx, call) })
	}
	return nil, err
}

// hiding returns handlers of events in which an upstream says no secret that it was sent.
func hiding(h media.Handlers, secrets ...string) media.Handlers {
	take := h.Message
	h.Message = func(data []byte) { take(realtime.HideSecrets(data, secrets...)) }
	return h
}

// create asks for a call. If ctx ends first, the upstream may create it all the same: it is hung up once that is known.
func (r *Realtime) create(ctx context.Context, offer string, d Dial) (realtime.Call, error) {
	if ctx.Err() != nil {
		return realtime.Call{}, fmt.Errorf("create call: %w", context.Cause(ctx))
	}
	client := *r.client
	client.SafetyIdentifier = safetyIdentifier(d.Owner)
	request, cancel := context.WithCancel(context.WithoutCancel(ctx)) // the client has a time limit of its own
	var call realtime.Call
	var err error
	answered := task.Go(func() { call, err = client.CreateCall(request, offer, d.Session) })
	select {
	case <-answered:
		cancel()
		return call, err
	case <-ctx.Done():
	}
	d.Later(func(ending <-chan struct{}) {
		defer cancel()
		select {
		case <-answered:
		case <-ending:
			cancel()
			<-answered
		}
		r.drop(ctx, call)
	})
	return realtime.Call{}, fmt.Errorf("create call: %w", context.Cause(ctx))
}

// drop hangs up a call that nobody will use: it costs money.
func (r *Realtime) drop(ctx context.Context, call realtime.Call) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leg.HangUpTimeout)
	defer cancel()
	_ = r.client.Hangup(ctx, call.ID) // nothing without an id
}

// safetyIdentifier returns the hash by which the upstream knows an owner. It is the same in all calls, so that the
// upstream can act against one owner who abuses it instead of all, and it names no person. Source: "Safety identifiers"
// in OpenAI's safety best practices.
func safetyIdentifier(owner string) string {
	if owner == "" {
		return ""
	}
	sum := sha256.Sum256([]byte("voicebridge owner " + owner))
	return hex.EncodeToString(sum[:])
}

func (r *Realtime) connect(ctx context.Context, l *realtimeLeg, call realtime.Call, d Dial) error {
	// The handshakes begin while the call is saved. No sound flows before both are done.
	var refused error
	accepted := task.Go(func() { refused = l.Accept(ctx, call.Answer) })
	err := d.Created(call.ID)
	if err == nil {
		l.history, err = d.History(ctx)
	}
	<-accepted
	return errors.Join(err, refused)
}

type realtimeLeg struct {
	offerer
	replayer

	id    string
	sound *media.Filler // to the peer
}

// WriteAudio sends a packet of the caller, and what it takes for the upstream to notice that the caller has stopped.
func (l *realtimeLeg) WriteAudio(p *media.Packet) error { return l.sound.WriteAudio(p) }

// listening returns a handler of events that notices when the upstream hears somebody speak.
func (l *realtimeLeg) listening(take func([]byte)) func([]byte) {
	return func(data []byte) {
		if bytes.Contains(data, []byte(`"input_audio_buffer.`)) {
			switch ev, _ := realtime.Decode(data); ev.Type {
			case realtime.TypeInputSpeechStarted:
				l.sound.Hears(true)
			case realtime.TypeInputSpeechStopped, realtime.TypeInputCommitted:
				l.sound.Hears(false)
			}
		}
		take(data)
	}
}

func (l *realtimeLeg) Can() Capabilities {
	return Capabilities{
		OutputBuffer: true, Truncation: true, TruncatesItself: true, Deletion: true, Images: true,
		ResponseSettings: true, CallItems: true, Early: true,
	}
}

func (l *realtimeLeg) ID() string { return l.id }

// replayer is what a session is told of its thread, as items.
type replayer struct {
	history []thread.Message
	prefix  string // of the items' ids
	limit   func() int
	items   int
}

func (t *replayer) Opening() [][]byte { return t.Append(t.history) }

func (t *replayer) Append(messages []thread.Message) [][]byte {
	var events [][]byte
	for _, item := range replayItems(messages, t.limit(), t.newID) {
		events = append(events, realtime.ItemCreate(session.ReplayPrefix+item.ID, item, ""))
	}
	return events
}

func (t *replayer) newID() string {
	t.items++
	return fmt.Sprintf("%s%d", t.prefix, t.items)
}
