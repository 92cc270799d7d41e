package realtimetest

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"math"
	"strings"
	"time"
)

const (
	// stepSound is the sound of one event, and speed how much faster it is sent than heard.
	stepSound = 100 * time.Millisecond
	speed     = 10
)

// Reply is an answer: words with their sound, or a tool call.
type Reply struct {
	Say string
	// Sound is how long the answer sounds.
	Sound time.Duration
	// Call is the name of a tool, Arguments what it is called with.
	Call, Arguments string
}

// answers are what a session says.
type answers struct {
	*conversation

	answer    func(words string) Reply
	spoke     bool
	answering *answering
	last      string // words that are not answered yet
}

// answering is a response that is being made.
type answering struct {
	id, item string
	call     string // call_id, empty for words
	reply    Reply
	sent     time.Duration
	words    []string
	said     int // words
	aside    bool
	before   any // the item before it
}

// begin begins to answer what was said last.
func (s *answers) begin(ctx context.Context, response tree) {
	if s.answering != nil {
		return
	}
	a := &answering{id: s.id("resp"), item: s.id("item"), reply: s.answer(s.last), aside: response["conversation"] == "none"}
	a.words = strings.Fields(a.reply.Say)
	s.answering = a
	s.send(ctx, "response.created", tree{"response": s.response(a, "in_progress", "")})
	it := s.output(a, "in_progress")
	if a.reply.Call != "" {
		a.call = s.id("call")
		it = s.output(a, "in_progress")
		s.calls[a.call] = false
	}
	s.send(ctx, "response.output_item.added", tree{"response_id": a.id, "output_index": 0, "item": it})
	if !a.aside {
		a.before = s.before()
		s.announce(ctx, it, a.before)
	}
	if a.call == "" {
		s.send(ctx, "response.content_part.added", s.of(a, tree{"part": tree{"type": "audio", "transcript": ""}}))
	}
}

// of adds where an event belongs.
func (s *answers) of(a *answering, fields tree) tree {
	fields["response_id"], fields["item_id"], fields["output_index"] = a.id, a.item, 0
	if a.call == "" {
		fields["content_index"] = 0
	}
	return fields
}

func (s *answers) response(a *answering, status, reason string) tree {
	r := tree{"id": a.id, "object": "realtime.response", "status": status, "status_details": nil, "output": []any{}, "usage": nil, "metadata": nil}
	if s.d.Beta {
		r["modalities"] = []any{"text", "audio"}
	} else {
		r["output_modalities"], r["conversation_id"] = []any{"audio"}, "conv_1"
	}
	if status != "in_progress" {
		r["output"] = []any{s.output(a, map[bool]string{true: "completed", false: "incomplete"}[status == "completed"])}
		r["usage"] = tree{
			"total_tokens": 30, "input_tokens": 10, "output_tokens": 20,
			"input_token_details": tree{"text_tokens": 10, "audio_tokens": 0, "cached_tokens": 0}, "output_token_details": tree{"text_tokens": 5, "audio_tokens": 15},
		}
	}
	if reason != "" {
		r["status_details"] = tree{"type": status, "reason": reason}
	}
	return r
}

// output is the item of an answer as far as it is made.
func (s *answers) output(a *answering, status string) tree {
	if a.call != "" {
		it := tree{"id": a.item, "object": "realtime.item", "type": "function_call", "status": status, "call_id": a.call, "name": a.reply.Call, "arguments": ""}
		if status == "completed" {
			it["arguments"] = a.reply.Arguments
		}
		return it
	}
	content := []any{}
	if status != "in_progress" {
		kind := "output_audio"
		if s.d.Beta {
			kind = "audio"
		}
		content = append(content, tree{"type": kind, "transcript": strings.Join(a.words[:a.said], " ")})
	}
	return tree{"id": a.item, "object": "realtime.item", "type": "message", "role": "assistant", "status": status, "content": content}
}

// step sends the next piece of the answer.
func (s *answers) step(ctx context.Context) {
	a := s.answering
	switch {
	case a == nil:
	case a.call != "":
		s.send(ctx, "response.function_call_arguments.delta", s.of(a, tree{"call_id": a.call, "delta": a.reply.Arguments}))
		s.send(ctx, "response.function_call_arguments.done", s.of(a, tree{"call_id": a.call, "arguments": a.reply.Arguments, "name": a.reply.Call}))
		s.finish(ctx, "completed", "")
	case a.sent >= a.reply.Sound:
		s.finish(ctx, "completed", "")
	default:
		a.sent += stepSound
		n := len(a.words)
		if a.sent < a.reply.Sound {
			n = int(int64(n) * int64(a.sent) / int64(a.reply.Sound))
		}
		for ; a.said < n; a.said++ {
			word := a.words[a.said]
			if a.said > 0 {
				word = " " + word
			}
			s.send(ctx, "response.output_audio_transcript.delta", s.of(a, tree{"delta": word}))
		}
		s.spoke = true
		sound := tone(s.d.RateOut, a.sent-stepSound, stepSound)
		if it := s.items[a.item]; it != nil {
			it.sound += len(sound) / 2
		}
		s.send(ctx, "response.output_audio.delta", s.of(a, tree{"delta": base64.StdEncoding.EncodeToString(sound)}))
	}
}

// cancel ends the answer as it is.
func (s *answers) cancel(ctx context.Context, reason string) {
	s.finish(ctx, "cancelled", reason)
}

// finish sends what ends a response.
func (s *answers) finish(ctx context.Context, status, reason string) {
	a := s.answering
	s.answering = nil
	it := s.output(a, map[bool]string{true: "completed", false: "incomplete"}[status == "completed"])
	if a.call == "" {
		said := strings.Join(a.words[:a.said], " ")
		s.send(ctx, "response.output_audio.done", s.of(a, tree{}))
		s.send(ctx, "response.output_audio_transcript.done", s.of(a, tree{"transcript": said}))
		s.send(ctx, "response.content_part.done", s.of(a, tree{"part": tree{"type": "audio", "transcript": said}}))
	}
	s.send(ctx, "response.output_item.done", tree{"response_id": a.id, "output_index": 0, "item": it})
	if !a.aside {
		s.send(ctx, "conversation.item.done", tree{"previous_item_id": a.before, "item": it})
	}
	s.send(ctx, "response.done", tree{"response": s.response(a, status, reason)})
	if !s.d.silent && !s.d.Beta {
		s.send(ctx, "rate_limits.updated", tree{"rate_limits": []any{tree{"name": "tokens", "limit": 1000, "remaining": 900, "reset_seconds": 1}}})
	}
}

// tone is a sound of 440 Hz.
func tone(rate int, from, length time.Duration) []byte {
	first, n := int(from*time.Duration(rate)/time.Second), int(length*time.Duration(rate)/time.Second)
	sound := make([]byte, 0, 2*n)
	for i := range n {
		v := int16(8000 * math.Sin(2*math.Pi*440*float64(first+i)/float64(rate)))
		sound = binary.LittleEndian.AppendUint16(sound, uint16(v))
	}
	return sound
}
