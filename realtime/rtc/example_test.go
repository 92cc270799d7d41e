package rtc_test

import (
	"context"
	"fmt"
	"time"

	"voicebridge/realtime/media"
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

	caller, offer, err := api.Offer(ctx, media.Handlers{})
	if err != nil {
		panic(err)
	}
	received := make(chan string, 1)
	_, answer, err := api.Answer(ctx, offer, media.Handlers{Message: func(data []byte) { received <- string(data) }})
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
