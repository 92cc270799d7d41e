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
	"strings"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/realtime"
)

// client makes the call of walk.mjs.
type client struct {
	Seen struct {
		First     string    `json:"first"`
		Said      []string  `json:"said"`
		Errors    []string  `json:"errors"`
		HeardMS   float64   `json:"heardMS"`
		AfterDone int       `json:"afterDone"`
		AfterStop float64   `json:"afterStop"`
		Ran       []float64 `json:"ran"`
		Answers   int       `json:"answers"`
	}

	conn           *realtime.RealtimeConnection
	speech         []byte
	thread         string
	speaking       string          // the item of the latest sound
	done, answered map[string]bool // responses, items
}

func main() {
	speech, err := speech(os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	c := &client{speech: speech, done: map[string]bool{}, answered: map[string]bool{}}
	if err := c.walk(context.Background(), os.Args[1]); err != nil {
		log.Fatalf("%v, after %+v", err, c.Seen)
	}
	if err := json.NewEncoder(os.Stdout).Encode(c.Seen); err != nil {
		log.Fatal(err)
	}
}

// step is something that the client does, and what it waits for then.
type step struct {
	does  func(context.Context) error
	until func() bool
}

// walk takes one step after the other.
func (c *client) walk(ctx context.Context, base string) error {
	count := func() step {
		before := 0.0
		return step{func(ctx context.Context) error {
			before = c.Seen.HeardMS
			return c.say(ctx, "Count.")
		}, func() bool { return c.Seen.HeardMS > before+1000 }}
	}
	typed := func(words, answer string) step {
		return step{func(ctx context.Context) error { return c.say(ctx, words) }, c.said("assistant: " + answer)}
	}
	if err := c.open(ctx, base); err != nil {
		return err
	}
	for _, s := range []step{
		{c.speak, func() bool { return c.said("assistant: It is noon.")() && c.Seen.HeardMS > 500 }},
		typed("Ask my tool.", "It said so."),
		typed("Say that you draw a chart, and do.", "There it is."),
		count(),
		{c.speak, c.said("assistant: Here.")},
		count(),
		{c.interrupt, func() bool { return true }},
		typed("Echo: after that", "Yes."),
	} {
		if err := c.take(ctx, s); err != nil {
			return err
		}
	}
	c.Seen.AfterStop = c.Seen.HeardMS - c.Seen.AfterStop
	limited, cancel := context.WithTimeout(ctx, 500*time.Millisecond) // for a second answer, or an error
	defer cancel()
	_ = c.take(limited, step{func(context.Context) error { return nil }, func() bool { return false }})
	c.Seen.Answers = len(c.answered)
	c.conn.Abort()
	if err := c.open(ctx, base, option.WithQuery("thread_id", c.thread)); err != nil {
		return err
	}
	defer c.conn.Abort()
	return c.take(ctx, typed("What did I say?", "You said: Echo: after that"))
}

func (c *client) open(ctx context.Context, base string, more ...option.RequestOption) (err error) {
	api := openai.NewClient(option.WithBaseURL(base), option.WithAPIKey("none"))
	c.conn, err = api.Realtime.Connect(ctx, realtime.RealtimeConnectionOptions{}, append(more, option.WithQuery("model", "gpt-realtime"))...)
	if err != nil {
		return err
	}
	return c.send(ctx, realtime.RealtimeClientEventUnionParam{OfSessionUpdate: &realtime.SessionUpdateEventParam{
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
	}})
}

// take takes a step: it reads until there is what it waits for.
func (c *client) take(ctx context.Context, s step) error {
	if err := s.does(ctx); err != nil {
		return err
	}
	for !s.until() {
		event, err := c.conn.Recv(ctx)
		if err != nil {
			return err
		}
		if err := c.note(ctx, event); err != nil {
			return err
		}
	}
	return nil
}

func (c *client) said(words string) func() bool {
	return func() bool {
		return slices.ContainsFunc(c.Seen.Said, func(line string) bool { return strings.HasPrefix(line, words) })
	}
}

// note takes an event of the server.
func (c *client) note(ctx context.Context, event realtime.RealtimeServerEventUnion) error {
	if c.Seen.First == "" {
		c.Seen.First = event.Type
	}
	if event.Type == "bridge.ready" { // which the library does not know
		var ready struct {
			ThreadID string `json:"thread_id"`
		}
		defer func() { c.thread = ready.ThreadID }()
		return json.Unmarshal([]byte(event.RawJSON()), &ready)
	}
	switch ev := event.AsAny().(type) {
	case realtime.RealtimeErrorEvent:
		c.Seen.Errors = append(c.Seen.Errors, ev.Error.Message)
	case realtime.ConversationItemAdded:
		if item, ok := ev.Item.AsAny().(realtime.RealtimeConversationItemAssistantMessage); ok {
			c.answered[item.ID] = true
		}
	case realtime.ConversationItemInputAudioTranscriptionCompletedEvent:
		c.Seen.Said = append(c.Seen.Said, "user: "+ev.Transcript)
	case realtime.ResponseAudioTranscriptDoneEvent:
		c.Seen.Said = append(c.Seen.Said, "assistant: "+ev.Transcript)
	case realtime.ResponseAudioDeltaEvent:
		c.speaking = ev.ItemID
		c.Seen.HeardMS += float64(base64.StdEncoding.DecodedLen(len(ev.Delta))) / 48
		if c.done[ev.ResponseID] {
			c.Seen.AfterDone++
		}
	case realtime.ResponseDoneEvent:
		c.done[ev.Response.ID] = true
	case realtime.ResponseFunctionCallArgumentsDoneEvent:
		if ev.Name != "ask_me" {
			return nil // one of the server's
		}
		var args struct{ A float64 }
		if err := json.Unmarshal([]byte(ev.Arguments), &args); err != nil {
			return err
		}
		c.Seen.Ran = append(c.Seen.Ran, args.A)
		return c.create(ctx, realtime.ConversationItemParamOfFunctionCallOutput(ev.CallID, "Yes."))
	}
	return nil
}

func (c *client) send(ctx context.Context, events ...realtime.RealtimeClientEventUnionParam) error {
	for i := range events {
		if err := c.conn.Send(ctx, events[i]); err != nil {
			return err
		}
	}
	return nil
}

// create sends an item, and asks for an answer.
func (c *client) create(ctx context.Context, item realtime.ConversationItemUnionParam) error {
	return c.send(ctx,
		realtime.RealtimeClientEventUnionParam{OfConversationItemCreate: &realtime.ConversationItemCreateEventParam{Item: item}},
		realtime.RealtimeClientEventUnionParam{OfResponseCreate: &realtime.ResponseCreateEventParam{}},
	)
}

func (c *client) say(ctx context.Context, words string) error {
	return c.create(ctx, realtime.ConversationItemParamOfRealtimeUserMessageItem([]realtime.RealtimeConversationItemUserMessageContentParam{
		{Type: "input_text", Text: param.NewOpt(words)},
	}))
}

func (c *client) speak(ctx context.Context) error {
	var events []realtime.RealtimeClientEventUnionParam
	for part := range slices.Chunk(c.speech, 4800) {
		events = append(events, realtime.RealtimeClientEventUnionParam{OfInputAudioBufferAppend: &realtime.InputAudioBufferAppendEventParam{
			Audio: base64.StdEncoding.EncodeToString(part),
		}})
	}
	return c.send(ctx, events...)
}

// interrupt stops the answer; AfterStop is how much was heard by then.
func (c *client) interrupt(ctx context.Context) error {
	c.Seen.AfterStop = c.Seen.HeardMS
	return c.send(ctx,
		realtime.RealtimeClientEventUnionParam{OfResponseCancel: &realtime.ResponseCancelEventParam{}},
		realtime.RealtimeClientEventUnionParam{OfConversationItemTruncate: &realtime.ConversationItemTruncateEventParam{ItemID: c.speaking, AudioEndMs: 900}},
	)
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
