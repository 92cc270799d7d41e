// Command openaigo calls the server over WebSocket with OpenAI's library for Go. It is a module of its own, so that the
// server's has nothing to do with that library.
//
// openaigo BASE WAV prints one JSON object: what the client has seen. BASE is the address of the API, WAV what to say
// (48 kHz, 16 bits, mono).
package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"slices"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/realtime"
)

// seen is what the client has seen, as socket.mjs says it.
type seen struct {
	Client    string    `json:"client"`
	First     string    `json:"first"`
	Said      []string  `json:"said"`
	Errors    []string  `json:"errors"`
	HeardMS   float64   `json:"heardMS"`
	AfterDone int       `json:"afterDone"`
	Ran       []float64 `json:"ran"`
}

func main() {
	got, err := call(context.Background(), os.Args[1], os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	if err := json.NewEncoder(os.Stdout).Encode(got); err != nil {
		log.Fatal(err)
	}
}

func call(ctx context.Context, base, wav string) (*seen, error) {
	client := openai.NewClient(option.WithBaseURL(base), option.WithAPIKey("none"))
	conn, err := client.Realtime.Connect(ctx, realtime.RealtimeConnectionOptions{}, option.WithQuery("model", "gpt-realtime"))
	if err != nil {
		return nil, err
	}
	defer conn.Abort()
	speech, err := speech(wav)
	if err != nil {
		return nil, err
	}
	events := []realtime.RealtimeClientEventUnionParam{{OfSessionUpdate: &realtime.SessionUpdateEventParam{
		Session: realtime.SessionUpdateEventSessionUnionParam{OfRealtime: &realtime.RealtimeSessionCreateRequestParam{
			OutputModalities: []string{"audio"},
			Audio: realtime.RealtimeAudioConfigParam{Input: realtime.RealtimeAudioConfigInputParam{
				Format: realtime.RealtimeAudioFormatsUnionParam{OfAudioPCM: &realtime.RealtimeAudioFormatsAudioPCMParam{Type: "audio/pcm", Rate: 24_000}},
			}},
			Tools: realtime.RealtimeToolsConfigParam{{OfFunction: &realtime.RealtimeFunctionToolParam{
				Type: "function", Name: param.NewOpt("ask_me"), Description: param.NewOpt("Asks."),
				Parameters: json.RawMessage(`{"type":"object","properties":{"a":{"type":"number"}},"required":["a"]}`),
			}}},
		}},
	}}}
	for part := range slices.Chunk(speech, 4800) {
		events = append(events, realtime.RealtimeClientEventUnionParam{OfInputAudioBufferAppend: &realtime.InputAudioBufferAppendEventParam{
			Audio: base64.StdEncoding.EncodeToString(part),
		}})
	}
	for i := range events {
		if err := conn.Send(ctx, events[i]); err != nil {
			return nil, err
		}
	}
	got := &seen{Client: "openai-go"}
	return got, got.follow(ctx, conn)
}

// follow asks for more after each answer until the last one has come.
func (s *seen) follow(ctx context.Context, conn *realtime.RealtimeConnection) error {
	done := map[string]bool{} // responses: one may be announced before the end of another
	next := []string{"Draw a chart.", "Ask my tool."}
	for {
		event, err := conn.Recv(ctx)
		if err != nil {
			return fmt.Errorf("%w, after %+v", err, s)
		}
		if s.First == "" {
			s.First = event.Type
		}
		switch ev := event.AsAny().(type) {
		case realtime.RealtimeErrorEvent:
			s.Errors = append(s.Errors, ev.Error.Message)
		case realtime.ConversationItemInputAudioTranscriptionCompletedEvent:
			s.Said = append(s.Said, "> "+ev.Transcript)
		case realtime.ResponseAudioDeltaEvent:
			sound, err := base64.StdEncoding.DecodeString(ev.Delta)
			if err != nil {
				return err
			}
			s.HeardMS += float64(len(sound)) / 48
			if done[ev.ResponseID] {
				s.AfterDone++
			}
		case realtime.ResponseFunctionCallArgumentsDoneEvent:
			if ev.Name != "ask_me" {
				continue // one of the server's
			}
			var args struct{ A float64 }
			if err := json.Unmarshal([]byte(ev.Arguments), &args); err != nil {
				return err
			}
			s.Ran = append(s.Ran, args.A)
			output := realtime.ConversationItemParamOfFunctionCallOutput(ev.CallID, "Yes.")
			if err := ask(ctx, conn, output); err != nil {
				return err
			}
		case realtime.ResponseAudioTranscriptDoneEvent:
			s.Said = append(s.Said, ev.Transcript)
		case realtime.ResponseDoneEvent:
			done[ev.Response.ID] = true
			if ev.Response.Status != "completed" || !spoken(ev.Response.Output) {
				continue
			}
			if len(next) == 0 {
				return nil
			}
			question := realtime.ConversationItemParamOfRealtimeUserMessageItem([]realtime.RealtimeConversationItemUserMessageContentParam{
				{Type: "input_text", Text: param.NewOpt(next[0])},
			})
			next = next[1:]
			if err := ask(ctx, conn, question); err != nil {
				return err
			}
		}
	}
}

// ask sends an item, and asks for an answer.
func ask(ctx context.Context, conn *realtime.RealtimeConnection, item realtime.ConversationItemUnionParam) error {
	err := conn.Send(ctx, realtime.RealtimeClientEventUnionParam{OfConversationItemCreate: &realtime.ConversationItemCreateEventParam{Item: item}})
	if err != nil {
		return err
	}
	return conn.Send(ctx, realtime.RealtimeClientEventUnionParam{OfResponseCreate: &realtime.ResponseCreateEventParam{}})
}

// spoken reports whether an answer has words and calls no tools, after which there is more.
func spoken(output []realtime.ConversationItemUnion) bool {
	is := func(kind string) bool {
		return slices.ContainsFunc(output, func(item realtime.ConversationItemUnion) bool { return item.Type == kind })
	}
	return is("message") && !is("function_call")
}

// speech reads every second sample of the file: 24 kHz.
func speech(wav string) ([]byte, error) {
	file, err := os.ReadFile(wav)
	if err != nil || len(file) < 44 {
		return nil, fmt.Errorf("read %s: %d bytes, %w", wav, len(file), err)
	}
	var samples []byte
	for sample := range slices.Chunk(file[44:], 4) {
		samples = append(samples, sample[:2]...)
	}
	return samples, nil
}
