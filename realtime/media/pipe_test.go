package media_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"voicebridge/internal/testkit"
	"voicebridge/realtime/media"
)

// end takes what comes out at an end of a pipe.
type end struct {
	got     []string
	packets []media.Packet
}

func (e *end) handlers() media.Handlers {
	return media.Handlers{
		Message: func(data []byte) { e.got = append(e.got, string(data)) },
		Open:    func() { e.got = append(e.got, "open") },
		State:   func(s media.State) { e.got = append(e.got, s.String()) },
	}
}

func (e *end) WriteAudio(p *media.Packet) error {
	e.packets = append(e.packets, p.Clone())
	return nil
}

// TestPipe sends events, the last one just before the end: all come, in order, between what the connection says of
// itself. Nothing can be sent afterwards.
func TestPipe(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, b := media.NewPipe()
		var of end
		if !a.TrySend([]byte("1")) { // before anybody listens
			t.Error("there is no room for the first event")
		}
		b.Start(of.handlers())
		data := []byte("2")
		if err := a.Send(t.Context(), data); err != nil {
			t.Error(err)
		}
		data[0] = 'x' // who sent it may use it again
		if err := a.Send(t.Context(), make([]byte, a.MaxMessageSize()+1)); !errors.Is(err, media.ErrTooLarge) {
			t.Errorf("a large event: %v", err)
		}
		_ = a.Close()
		synctest.Wait()
		testkit.Equal(t, of.got, []string{"connected", "open", "1", "2", "closed"}, "came out")
		if err := b.Send(t.Context(), data); !errors.Is(err, media.ErrClosed) || b.TrySend(data) {
			t.Errorf("an event after the end: %v", err)
		}
		if err := b.WriteAudio(new(media.Packet)); !errors.Is(err, media.ErrClosed) {
			t.Errorf("a packet after the end: %v", err)
		}
		if err := b.Forward(t.Context(), &of, new(media.Flow)); !errors.Is(err, media.ErrClosed) {
			t.Errorf("forward after the end: %v", err)
		}
		_ = b.Close()
	})
}

// TestPipeFull sends to an end that takes nothing: sending waits until ctx or the connection ends.
func TestPipeFull(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, b := media.NewPipe()
		for a.TrySend([]byte("x")) {
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := a.Send(ctx, []byte("x")); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("sent: %v", err)
		}
		time.AfterFunc(time.Second, func() { _ = b.Close() })
		if err := a.Send(t.Context(), []byte("x")); !errors.Is(err, media.ErrClosed) {
			t.Errorf("sent: %v", err)
		}
		_ = a.Close()
	})
}

// TestPipeSound sends two streams with a pause between them, and while the gate is shut: what comes out is one stream
// without loss. What came early follows, but for what is older than 5 s.
func TestPipeSound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, b := media.NewPipe()
		var flow media.Flow
		flow.KeepEarly()
		var to end
		go func() { _ = b.Forward(t.Context(), &to, &flow) }()
		send := func(p *media.Packet, n int) {
			for range n {
				p.Payload = fmt.Append(nil, p.Source, p.Sequence)
				if err := a.WriteAudio(p); err != nil {
					t.Error(err)
				}
				p.Sequence++
				p.Timestamp += media.FrameStep
				time.Sleep(media.FrameTime)
			}
		}
		first, second := media.Packet{Source: 1, Sequence: 1000, Timestamp: 77}, media.Packet{Source: 2}
		send(&first, 300)
		flow.Open()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if n := len(to.packets); n != 250 || string(to.packets[0].Payload) != "1 1050" {
			t.Fatalf("%d early packets", n)
		}
		flow.Shut()
		send(&first, 10)
		synctest.Wait()
		flow.Open()
		send(&second, 10)
		synctest.Wait()
		if n := len(to.packets); n != 260 || flow.Gated.Load() != 10 {
			t.Fatalf("%d packets, %d held up by the gate", n, flow.Gated.Load())
		}
		for i, p := range to.packets[1:] {
			last := to.packets[i]
			step := uint32(1)
			if i == 249 { // 0.2 s behind the gate
				step = 11
			}
			if p.Source != last.Source || p.Sequence != last.Sequence+1 || p.Timestamp != last.Timestamp+step*media.FrameStep {
				t.Errorf("%+v follows %+v", p, last)
			}
		}
		_ = a.Close()
	})
}
