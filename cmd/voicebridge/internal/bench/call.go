package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pion/rtp"

	"voicebridge/realtime"
	"voicebridge/realtime/rtc"
)

// connectTimeout bounds how long it may take to set up a call, closeTimeout how long requests may take at the end.
const (
	connectTimeout = 30 * time.Second
	closeTimeout   = 10 * time.Second
)

const offeredModel = "load"

// call is the caller's end of one call, and what the upstream's end says in it.
type call struct {
	peer  *rtc.Peer
	id    string
	words speaker
	all   sync.WaitGroup

	sequence uint64 // of the last packet sent
	packet   rtp.Packet
	payload  [payloadSize]byte
}

// dialOne makes one call and returns when it is ready. lost is called, perhaps more than once, when the call ends or something goes
// wrong in it.
func (r *rig) dialOne(l *load, c *call, lost func(error)) error {
	ctx, cancel := context.WithTimeout(r.alive, connectTimeout)
	defer cancel()
	began := time.Now()
	open, ready := make(chan struct{}), make(chan struct{}, 1)
	var offer string
	var err error
	c.peer, offer, err = r.api.Offer(r.alive, rtc.Handlers{
		Open: func() { close(open) },
		Message: func(raw []byte) {
			event, err := realtime.Decode(raw)
			switch {
			case err != nil:
				lost(err)
			case event.Type == "bridge.ready":
				select {
				case ready <- struct{}{}:
					l.ready.add(time.Since(began))
				default:
				}
			case event.Type == realtime.TypeAudioTranscriptDelta:
				if at, ok := spokenAt(event.Delta); ok {
					l.words.arrived(at)
				}
			case event.Type == realtime.TypeError && event.Error != nil:
				lost(event.Error)
			case event.Type == "bridge.ended":
				var ended struct{ Reason string }
				_ = json.Unmarshal(raw, &ended) // it has been decoded
				lost(errors.New("the bridge ended it: " + ended.Reason))
			}
		},
		State: func(s rtc.State) {
			if s == rtc.StateFailed || s == rtc.StateClosed {
				lost(fmt.Errorf("connection %s", s))
			}
		},
	})
	if err != nil {
		return err
	}
	made, err := r.client.CreateCall(ctx, offer, []byte(`{"type":"realtime","model":"`+offeredModel+`"}`))
	c.id = made.ID
	if err != nil {
		return err
	}
	if err := c.peer.Accept(ctx, made.Answer); err != nil {
		return err
	}
	flow := new(rtc.Flow)
	flow.Open()
	c.all.Go(func() { _ = c.peer.Forward(r.alive, echoed{&l.audio}, flow) }) // it ends with the call
	for _, done := range []chan struct{}{open, ready} {
		select {
		case <-done:
		case <-ctx.Done():
			return fmt.Errorf("it is not ready: %w", context.Cause(ctx))
		}
	}
	select {
	case c.words.session = <-r.sessions:
		c.words.name = c.id
		return nil
	default:
		return errors.New("it is ready without a session upstream")
	}
}

// hangUp ends the call at both ends and joins its goroutines, within closeTimeout.
func (c *call) hangUp(client *realtime.Client) error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	var err error
	if c.id != "" {
		err = client.Hangup(ctx, c.id)
	}
	if c.peer != nil {
		err = errors.Join(err, c.peer.Close())
	}
	c.all.Wait()
	return err
}
