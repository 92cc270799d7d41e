package rtc_test

import (
	"context"
	"fmt"
	"time"

	"github.com/pion/rtp"

	"voicebridge/realtime/rtc"
)

// Two peers in one process: the first offers as to an upstream, the second answers
// as to a browser. HTTP would carry the two descriptions.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	api, err := rtc.New(rtc.Config{Loopback: true})
	if err != nil {
		panic(err)
	}
	defer api.Close()

	caller, offer, err := api.Offer(ctx, rtc.Handlers{})
	if err != nil {
		panic(err)
	}
	received := make(chan string, 1)
	_, answer, err := api.Answer(ctx, offer, rtc.Handlers{Message: func(data []byte) { received <- string(data) }})
	if err != nil {
		panic(err)
	}
	if err := caller.Accept(ctx, answer); err != nil {
		panic(err)
	}
	// Send waits until the data channel is open.
	if err := caller.Send(ctx, []byte(`{"type":"response.create"}`)); err != nil {
		panic(err)
	}
	fmt.Println(<-received)
	// Output: {"type":"response.create"}
}

// printer is an AudioSink.
type printer string

func (p printer) WriteRTP(packet *rtp.Packet) error {
	fmt.Println(p, packet.SequenceNumber)
	return nil
}

// A sink is replaced while sound flows, and nothing is lost.
func ExampleSwitch_Hold() {
	var s rtc.Switch
	say := func(number uint16) {
		if err := s.WriteRTP(&rtp.Packet{Header: rtp.Header{SequenceNumber: number}, Payload: []byte{0xf8}}); err != nil {
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
