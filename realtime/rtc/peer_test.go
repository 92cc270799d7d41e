package rtc

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"testing"

	"voicebridge/internal/testkit"
	"voicebridge/realtime/media"
)

func TestLoopback(t *testing.T) {
	t.Parallel()
	a := newAPI(t, Config{})
	p := newPair(t, a, a)
	ctx := testContext(t)

	// Sent before the channel is open: waits for it.
	must(t, p.offerer.Send(ctx, []byte("early")))
	must(t, p.answerer.Send(ctx, []byte("back")))
	if got := p.ans.waitMessages(t, 1)[0]; string(got) != "early" {
		t.Errorf("answerer got %q", got)
	}
	if got := p.off.waitMessages(t, 1)[0]; string(got) != "back" {
		t.Errorf("offerer got %q", got)
	}

	for _, dir := range []struct {
		name     string
		from, to *Peer
	}{{"offerer to answerer", p.offerer, p.answerer}, {"answerer to offerer", p.answerer, p.offerer}} {
		audio, cancel := context.WithCancel(ctx)
		var wg sync.WaitGroup
		wg.Go(func() { speak(audio, dir.from, 7, 100, 5000) })
		var flow media.Flow
		flow.Open()
		got := make(chan media.Packet, 100)
		err := dir.to.Forward(audio, sinkFunc(func(p *media.Packet) error {
			got <- p.Clone()
			if len(got) == 10 {
				cancel()
			}
			return nil
		}), &flow)
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: Forward: %v", dir.name, err)
		}
		wg.Wait()
		first := testkit.Take(t, "what comes", got)
		for i := range uint16(9) {
			next := testkit.Take(t, "what comes", got)
			if next.Sequence != first.Sequence+i+1 || next.Timestamp != first.Timestamp+uint32(i+1)*frameStep {
				t.Errorf("%s: packet %d has number %d, timestamp %d after %d, %d", dir.name, i+1,
					next.Sequence, next.Timestamp, first.Sequence, first.Timestamp)
			}
		}
		if !bytes.Equal(first.Payload, []byte{0xf8, 0xff, 0xfe}) {
			t.Errorf("%s: payload %x", dir.name, first.Payload)
		}
		if n := flow.Packets.Load(); n < 10 {
			t.Errorf("%s: flow counts %d packets", dir.name, n)
		}
	}

	closePeer(t, p.offerer)
	closePeer(t, p.offerer)
	p.ans.waitState(t, media.StateClosed)
	p.off.waitState(t, media.StateClosed)
	if err := p.answerer.Send(ctx, []byte("late")); !errors.Is(err, media.ErrClosed) {
		t.Errorf("Send after the end: %v", err)
	}
	if err := p.offerer.WriteAudio(&media.Packet{}); !errors.Is(err, media.ErrClosed) {
		t.Errorf("WriteAudio after Close: %v", err)
	}
	if err := p.offerer.Forward(ctx, p.answerer, &media.Flow{}); !errors.Is(err, media.ErrClosed) {
		t.Errorf("Forward after Close: %v", err)
	}
}
