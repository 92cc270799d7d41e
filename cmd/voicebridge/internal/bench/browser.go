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

// offeredSession is the session that a browser asks for. The bridge uses its own model.
var offeredSession = []byte(`{"type":"realtime","model":"` + offeredModel + `"}`)

const offeredModel = "load"

// closeTimeout bounds how long running requests may take at the end.
const closeTimeout = 10 * time.Second

// browser is the caller's end of one call. It makes the offer, as a page does; whether the call passes through a bridge
// depends on where the offer goes.
type browser struct {
	peer  *rtc.Peer
	offer string
	id    string // of the call

	began  time.Time
	ready  time.Time     // valid when isReady is closed
	isUp   chan struct{} // closed when the data channel is open
	isDone chan struct{} // closed when the caller is heard

	// alive ends, with its cause, when the call does.
	alive context.Context
	end   context.CancelCauseFunc
	all   sync.WaitGroup

	mu     sync.Mutex
	reason string // the last error or end that the other side reported
}

// newBrowser makes a browser whose caller is heard after an event of that type; heard takes the
// words of the model. hangUp must be called.
func newBrowser(ctx context.Context, api *rtc.API, readyType string, heard func(delta string)) (*browser, error) {
	b := &browser{began: time.Now(), isUp: make(chan struct{}), isDone: make(chan struct{})}
	b.alive, b.end = context.WithCancelCause(context.WithoutCancel(ctx))
	var ready sync.Once
	var err error
	b.peer, b.offer, err = api.Offer(ctx, rtc.Handlers{
		Open: func() { close(b.isUp) },
		Message: func(raw []byte) {
			event, err := realtime.Decode(raw)
			switch {
			case err != nil:
				b.setReason("an event that cannot be read")
			case event.Type == readyType:
				ready.Do(func() {
					b.ready = time.Now()
					close(b.isDone)
				})
			case event.Type == realtime.TypeAudioTranscriptDelta:
				heard(event.Delta)
			case event.Type == realtime.TypeError && event.Error != nil:
				b.setReason(event.Error.Error())
			case event.Type == "bridge.ended":
				var ended struct{ Reason string }
				if json.Unmarshal(raw, &ended) == nil {
					b.setReason("the bridge ended the call: " + ended.Reason)
				}
			}
		},
		State: b.state,
	})
	return b, err
}

// connect makes the call; sink takes what the browser hears.
func (b *browser) connect(ctx context.Context, client *realtime.Client, sink rtc.AudioSink) error {
	made, err := client.CreateCall(ctx, b.offer, offeredSession)
	b.id = made.ID
	if err != nil {
		return err
	}
	if err := b.peer.Accept(ctx, made.Answer); err != nil {
		return err
	}
	flow := new(rtc.Flow)
	flow.Open()
	b.all.Go(func() { _ = b.peer.Forward(b.alive, sink, flow) }) // it ends with the call
	return nil
}

func (b *browser) setReason(reason string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reason = reason
}

// because adds the reason that the other side reported to an error.
func (b *browser) because(err error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.reason != "" {
		return fmt.Errorf("%w (%s)", err, b.reason)
	}
	return err
}

func (b *browser) state(s rtc.State) {
	if s == rtc.StateFailed || s == rtc.StateClosed {
		b.end(b.because(fmt.Errorf("connection %s", s)))
	}
}

// await waits until the call is up and the caller heard.
func (b *browser) await(ctx context.Context) error {
	for _, done := range []chan struct{}{b.isUp, b.isDone} {
		select {
		case <-done:
		case <-b.alive.Done():
			return fmt.Errorf("call %s ended: %w", b.id, context.Cause(b.alive))
		case <-ctx.Done():
			return b.because(fmt.Errorf("call %s is not ready: %w", b.id, context.Cause(ctx)))
		}
	}
	return nil
}

// hangUp ends the call at both ends and joins its goroutines, within closeTimeout.
func (b *browser) hangUp(client *realtime.Client) error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	var err error
	if b.id != "" {
		err = client.Hangup(ctx, b.id)
	}
	if b.peer != nil {
		err = errors.Join(err, b.peer.Close())
	}
	b.end(errors.New("hung up"))
	b.all.Wait()
	return err
}
