package realtime_test

import (
	"fmt"

	"voicebridge/realtime"
)

// A relay reads what it needs from an event and passes the bytes on unchanged.
func ExampleDecode() {
	raw := []byte(`{"type":"response.output_audio_transcript.delta","response_id":"resp_1","item_id":"item_1","delta":"Hel","new_field":7}`)
	event, err := realtime.Decode(raw)
	if err != nil {
		panic(err)
	}
	fmt.Println(event.Type, event.ItemID, event.Delta)
	fmt.Println(len(event.Raw) == len(raw))
	// Output:
	// response.output_audio_transcript.delta item_1 Hel
	// true
}

// A result goes back to the model as an item of the conversation.
func ExampleFunctionCallOutput() {
	fmt.Printf("%s\n", realtime.FunctionCallOutput("evt_1", "item_2", "call_1", `{"celsius":-3}`))
	// Output:
	// {"type":"conversation.item.create","event_id":"evt_1","item":{"id":"item_2","type":"function_call_output","call_id":"call_1","output":"{\"celsius\":-3}"}}
}
