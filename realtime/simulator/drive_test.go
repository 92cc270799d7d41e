package simulator_test

import (
	"sync/atomic"
	"testing"
	"time"

	"voicebridge/realtime/media"
	"voicebridge/realtime/simulator"
)

// driven is the sink of the audio of its call.
type driven struct {
	session *simulator.Session
	packets atomic.Int64
}

func (d *driven) WriteAudio(*media.Packet) error { d.packets.Add(1); return nil }

// TestDrive has another package listen and speak.
func TestDrive(t *testing.T) {
	d := &driven{}
	b := newBench(t, simulator.Config{Deaf: true, Drive: func(s *simulator.Session) media.Sink {
		d.session = s
		return d
	}})
	c := b.dial(sessionAudio)
	d.session.Do(func() { d.session.Emit(map[string]any{"type": "test.event"}) })
	c.next("test.event")
	for packets := 0; packets == 0 || d.packets.Load() == 0; packets, _, _ = c.sink.counts() {
		c.packet([]byte{0xf8, 0xff, 0xfe})
		must(t, d.session.WriteAudio(&media.Packet{Source: 9, Sequence: c.seq, Timestamp: c.mic, Payload: []byte{0xf8, 0xff, 0xfe}}))
		select {
		case <-time.After(20 * time.Millisecond):
		case <-c.ctx.Done():
			t.Fatal("no audio arrived")
		}
	}
}
