package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"voicebridge/realtime"
	"voicebridge/realtime/rtc"
)

// typeBridgeReady and typeBridgeEnded are the bridge's own events.
const (
	typeBridgeReady = "bridge.ready"
	typeBridgeEnded = "bridge.ended"
)

// offeredSession is the session that a browser asks for. The bridge uses its own model.
var offeredSession = []byte(`{"type":"realtime","model":"` + offeredModel + `"}`)

const offeredModel = "load"

// browser is the caller's end of one call. It makes the offer, as a page does; whether the call
// passes through a bridge depends on where the offer goes.
type browser struct {
	client *realtime.Client
	// readyType is the type of the event after which the caller's audio reaches the upstream.
	readyType string

	peer     *rtc.Peer
	id       string // id of the call
	sender   *sender
	receiver receiver

	began, answered time.Time
	opened, ready   moment

	// alive ends, with its cause, when the call does.
	alive context.Context
	end   context.CancelCauseFunc
	all   sync.WaitGroup

	mu     sync.Mutex
	reason string // the last error or end that the other side reported
}

// dial makes a call and returns it once answered. hangUp must be called.
func dial(ctx context.Context, api *rtc.API, client *realtime.Client, m *measurement, readyType string, number uint32) (*browser, error) {
	b := &browser{client: client, readyType: readyType, receiver: receiver{m: m, way: downward}}
	b.opened.init()
	b.ready.init()
	b.receiver.started.init()
	b.alive, b.end = context.WithCancelCause(context.WithoutCancel(ctx))
	peer, offer, err := api.Offer(ctx, rtc.Handlers{Open: b.opened.mark, Message: b.message, State: b.state})
	if err != nil {
		return nil, err
	}
	b.peer = peer
	b.sender = newSender(m, upward, number, peer)
	if err := b.connect(ctx, offer); err != nil {
		return nil, errors.Join(err, b.hangUp(ctx))
	}
	return b, nil
}

func (b *browser) connect(ctx context.Context, offer string) error {
	b.began = time.Now()
	call, err := b.client.CreateCall(ctx, offer, offeredSession)
	b.answered = time.Now()
	b.id = call.ID
	if err != nil {
		return err
	}
	if err := b.peer.Accept(ctx, call.Answer); err != nil {
		return err
	}
	flow := new(rtc.Flow)
	flow.Open()
	b.all.Go(func() { _ = b.peer.Forward(b.alive, &b.receiver, flow) }) // it ends with the call
	return nil
}

func (b *browser) message(raw []byte) {
	event, err := realtime.Decode(raw)
	switch {
	case err != nil:
		b.setReason("an event that cannot be read")
	case event.Type == b.readyType:
		b.ready.mark()
	case event.Type == realtime.TypeAudioTranscriptDelta:
		b.receiver.m.receiveWords(event.Delta)
	case event.Type == realtime.TypeError && event.Error != nil:
		b.setReason(event.Error.Error())
	case event.Type == typeBridgeEnded:
		var ended struct{ Reason string }
		if json.Unmarshal(raw, &ended) == nil {
			b.setReason("the bridge ended the call: " + ended.Reason)
		}
	}
}

func (b *browser) setReason(reason string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reason = reason
}

func (b *browser) state(s rtc.State) {
	if s != rtc.StateFailed && s != rtc.StateClosed {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.reason != "" {
		b.end(fmt.Errorf("connection %s (%s)", s, b.reason))
		return
	}
	b.end(fmt.Errorf("connection %s", s))
}

// await waits for events of the call.
func (b *browser) await(ctx context.Context, moments ...*moment) error {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	for _, m := range moments {
		select {
		case <-m.done:
		case <-b.alive.Done():
			return fmt.Errorf("call %s ended: %w", b.id, context.Cause(b.alive))
		case <-ctx.Done():
			b.mu.Lock()
			defer b.mu.Unlock()
			if b.reason != "" {
				return fmt.Errorf("call %s is not ready: %w (%s)", b.id, context.Cause(ctx), b.reason)
			}
			return fmt.Errorf("call %s is not ready: %w", b.id, context.Cause(ctx))
		}
	}
	return nil
}

// hangUp ends the call at both ends and joins its goroutines, within closeTimeout. It does so even
// after ctx has ended.
func (b *browser) hangUp(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	err := b.client.Hangup(ctx, b.id)
	err = errors.Join(err, b.peer.Close())
	b.end(errHungUp)
	b.all.Wait()
	return err
}

var errHungUp = errors.New("hung up")

const (
	// connectTimeout bounds how long it may take to set up a call.
	connectTimeout = 30 * time.Second
	// closeTimeout bounds how long running requests may take at the end.
	closeTimeout = 10 * time.Second
)
