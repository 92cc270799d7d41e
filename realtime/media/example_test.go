package media_test

import (
	"context"
	"fmt"

	"voicebridge/realtime/media"
)

// printer is a Sink.
type printer string

func (p printer) WriteAudio(packet *media.Packet) error {
	fmt.Println(p, packet.Sequence)
	return nil
}

// A sink is replaced while sound flows, and nothing is lost.
func ExampleSwitch_Hold() {
	var s media.Switch
	say := func(number uint16) {
		if err := s.WriteAudio(&media.Packet{Sequence: number, Payload: []byte{0xf8}}); err != nil {
			panic(err)
		}
	}
	s.Set(printer("old upstream"))
	say(1)
	s.Hold()
	say(2)
	say(3)
	held, err := s.Release(context.Background(), printer("new upstream"))
	if err != nil {
		panic(err)
	}
	say(4)
	fmt.Println(held.Sent, "held packets sent,", held.Dropped, "dropped")
	// Output:
	// old upstream 1
	// new upstream 2
	// new upstream 3
	// new upstream 4
	// 2 held packets sent, 0 dropped
}
