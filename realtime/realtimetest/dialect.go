package realtimetest

import "strings"

// Dialect is how one kind of upstream wants to be spoken to, and speaks.
type Dialect struct {
	// KeyHeader has the key, after KeyPrefix; NoHeader must not be there.
	KeyHeader, KeyPrefix, NoHeader string
	// Beta means the sessions and names of before general availability.
	Beta bool
	// RateIn and RateOut are samples a second.
	RateIn, RateOut int
	session         shape
	// events are the client's, without type and event_id.
	events map[string]object
	// silent means that an item is announced once, and not again when it is done; ghosts are items that are named as
	// predecessors and were never announced.
	silent, ghosts bool
	// cumulative transcriptions are told as a whole each time.
	cumulative bool
	// limited means that session.created says when the session ends.
	limited bool
}

// Realtime is the Realtime API as it is generally available. Source: OpenAI's API reference.
func Realtime() Dialect {
	return Dialect{
		KeyHeader: "Authorization", KeyPrefix: "Bearer ", NoHeader: "Api-Key", RateIn: 24000, RateOut: 24000, limited: true,
		session: object{
			"type!": words{"realtime"}, "model": text(0), "instructions": text(0), "output_modalities": modalities{"audio", "text"},
			"audio": object{
				"input": object{
					"format": format, "noise_reduction": maybe{object{"type!": words{"near_field", "far_field"}}},
					"transcription":  maybe{object{"model": text(0), "language": text(0), "prompt": text(0), "delay": text(0), "keywords": list{text(0)}, "languages": list{text(0)}}},
					"turn_detection": turns,
				},
				"output": object{"format": format, "voice": either{object{"id!": text(0)}, text(0)}, "speed": number{0.25, 1.5}},
			},
			"tools": list{flatTool}, "tool_choice": toolChoice, "parallel_tool_calls": flag{}, "reasoning": reasoning,
			"max_output_tokens": limit, "tracing": tracing, "include": include, "prompt": maybe{prompt},
			"truncation": either{words{"auto", "disabled"}, object{"type!": words{"retention_ratio"}, "retention_ratio!": number{0, 1}, "token_limits": object{"post_instructions": whole{0, 1e9}}}},
		},
		events: map[string]object{
			"session.update":             {"session!": anything{}},
			"input_audio_buffer.append":  {"audio!": text(15 << 20)},
			"input_audio_buffer.commit":  {},
			"input_audio_buffer.clear":   {},
			"conversation.item.create":   {"item!": items("output_text"), "previous_item_id": maybe{text(0)}},
			"conversation.item.retrieve": {"item_id!": text(0)},
			"conversation.item.delete":   {"item_id!": text(0)},
			"conversation.item.truncate": {"item_id!": text(0), "content_index!": exactly(0), "audio_end_ms!": whole{0, 1e9}},
			"response.cancel":            {"response_id": text(0)},
			"response.create": {"response": object{
				"instructions": text(0), "output_modalities": modalities{"audio", "text"}, "audio": object{"output": object{"voice": text(0), "format": format}},
				"tools": list{flatTool}, "tool_choice": toolChoice, "parallel_tool_calls": flag{}, "reasoning": reasoning, "max_output_tokens": limit,
				"conversation": words{"auto", "none"}, "input": list{either{object{"type!": words{"item_reference"}, "id!": text(0)}, items("output_text")}}, "metadata": maybe{metadata{}}, "prompt": maybe{prompt},
			}},
		},
	}
}

// Azure is that with Azure's key.
func Azure() Dialect {
	d := Realtime()
	d.KeyHeader, d.KeyPrefix, d.NoHeader = "Api-Key", "", "Authorization"
	return d
}

// XAI has voice and turn detection at the top of a session, and knows neither truncation nor items that are done.
// Source: xAI's page about the voice agent, as pipecat's and LiveKit's plugins for it have its fields.
func XAI() Dialect {
	d := Realtime()
	d.silent, d.ghosts, d.cumulative, d.limited = true, true, true, false
	d.session = object{
		"type": words{"realtime"}, "model": text(0), "instructions": text(0), "voice": text(0), "tools": list{flatTool}, "tool_choice": toolChoice,
		"output_modalities": modalities{"audio", "text"}, "reasoning": object{"effort": words{"none", "high"}},
		"turn_detection": maybe{byType{"server_vad": {
			"threshold": number{0.1, 0.9}, "prefix_padding_ms": whole{0, 10_000}, "silence_duration_ms": whole{0, 10_000}, "idle_timeout_ms": maybe{whole{0, 1e6}},
			"create_response": flag{}, "interrupt_response": flag{},
		}}},
		"audio": object{
			"input": object{
				"format":        format,
				"transcription": maybe{object{"model": text(0), "language_hint": text(0), "keyterms": list{text(50)}}},
			},
			"output": object{"format": format, "speed": number{0.7, 1.5}},
		},
	}
	d.events["response.create"] = object{"response": object{"modalities": modalities{"audio", "text", "text audio"}, "output_modalities": modalities{"audio", "text"}}}
	for _, unknown := range []string{"conversation.item.truncate", "conversation.item.retrieve"} {
		delete(d.events, unknown)
	}
	return d
}

// Beta is the API before general availability. Source: OpenAI's guide for moving away from it.
func Beta() Dialect {
	d := Realtime()
	d.Beta = true
	pcm := words{"pcm16", "g711_ulaw", "g711_alaw"}
	d.session = object{
		"model": text(0), "instructions": text(0), "modalities": modalities{"text", "text audio"}, "voice": text(0), "speed": number{0.25, 1.5},
		"input_audio_format": pcm, "output_audio_format": pcm, "input_audio_noise_reduction": maybe{object{"type!": words{"near_field", "far_field"}}},
		"input_audio_transcription": maybe{object{"model": text(0), "language": text(0), "prompt": text(0)}}, "turn_detection": turns,
		"tools": list{flatTool}, "tool_choice": toolChoice, "temperature": number{0.6, 1.2}, "max_response_output_tokens": limit, "tracing": tracing,
	}
	d.events["conversation.item.create"] = object{"item!": items("text"), "previous_item_id": maybe{text(0)}}
	d.events["response.create"] = object{"response": object{
		"instructions": text(0), "modalities": modalities{"text", "text audio"}, "voice": text(0), "output_audio_format": pcm, "tools": list{flatTool}, "tool_choice": toolChoice,
		"temperature": number{0.6, 1.2}, "max_response_output_tokens": limit, "conversation": words{"auto", "none"}, "input": list{either{object{"type!": words{"item_reference"}, "id!": text(0)}, items("text")}}, "metadata": maybe{metadata{}},
	}}
	return d
}

// Qwen is Alibaba's: the beta's shape with 16 kHz in, nested tools, and few events. Source: Model Studio's reference of
// Qwen-Omni-Realtime, client events.
func Qwen() Dialect {
	d := Beta()
	d.RateIn, d.limited = 16000, false
	tool := object{"type!": words{"function"}, "function!": object{"name!": text(0), "description": text(0), "parameters": anyObject{}}}
	d.session = object{
		"instructions": text(0), "modalities": modalities{"text", "text audio"}, "voice": text(0), "input_audio_format": words{"pcm"}, "output_audio_format": words{"pcm"},
		"input_audio_transcription": maybe{object{"model": text(0)}}, "turn_detection": turns, "tools": list{tool}, "tool_choice": toolChoice, "max_response_output_tokens": limit,
		"temperature": number{0, 2}, "top_p": number{0, 1}, "top_k": whole{0, 1000}, "max_tokens": whole{1, 1 << 20}, "seed": whole{0, 1 << 31}, "smooth_output": maybe{flag{}},
	}
	for _, unknown := range []string{"conversation.item.truncate", "conversation.item.retrieve", "conversation.item.delete"} {
		delete(d.events, unknown)
	}
	d.events["response.create"] = object{"response": object{"modalities": modalities{"text", "text audio"}}}
	return d
}

// modalities are lists of words, of which each is written with spaces between the words.
type modalities []string

func (m modalities) check(path string, v any) *refusal {
	values, ok := v.([]any)
	if !ok {
		return &refusal{"invalid_type", "An array is expected.", path}
	}
	var got strings.Builder
	for i, value := range values {
		word, _ := value.(string)
		if i > 0 {
			got.WriteString(" ")
		}
		got.WriteString(word)
	}
	return words(m).check(path, got.String())
}

var (
	limit = either{words{"inf"}, whole{1, 4096}}
	turns = maybe{byType{
		"server_vad": {
			"threshold": number{0, 1}, "prefix_padding_ms": whole{0, 1e6}, "silence_duration_ms": whole{0, 1e6}, "idle_timeout_ms": maybe{whole{5000, 30000}},
			"create_response": flag{}, "interrupt_response": flag{},
		},
		"semantic_vad": {"eagerness": words{"low", "medium", "high", "auto"}, "create_response": flag{}, "interrupt_response": flag{}},
	}}
	format     = byType{"audio/pcm": {"rate!": exactly(24000)}, "audio/pcmu": {}, "audio/pcma": {}}
	flatTool   = byType{"function": {"name!": text(64), "description": text(0), "parameters": anyObject{}}}
	reasoning  = object{"effort": words{"minimal", "low", "medium", "high", "xhigh"}}
	tracing    = maybe{either{words{"auto"}, object{"workflow_name": text(0), "group_id": text(0), "metadata": anyObject{}}}}
	include    = maybe{list{words{"item.input_audio_transcription.logprobs"}}}
	prompt     = object{"id!": text(0), "version": maybe{text(0)}, "variables": maybe{anyObject{}}}
	toolChoice = either{words{"auto", "none", "required"}, byType{"function": {"name!": text(0)}}}
)

// byRole is a message.
type byRole map[string]shape

func (b byRole) check(path string, v any) *refusal {
	t, _ := v.(tree)
	role, _ := t["role"].(string)
	content, ok := b[role]
	if !ok {
		return invalid(below(path, "role"), "Invalid value: '%s'.", role)
	}
	return object{
		"id": text(32), "type!": words{"message"}, "object": words{"realtime.item"}, "status": words{"completed", "incomplete", "in_progress"}, "role!": text(0), "content!": list{content},
	}.check(path, v)
}

// either of two kinds of items, told apart by their type.
type ofType map[string]shape

func (o ofType) check(path string, v any) *refusal {
	t, _ := v.(tree)
	kind, _ := t["type"].(string)
	s, ok := o[kind]
	if !ok {
		return invalid(below(path, "type"), "Invalid value: '%s'.", kind)
	}
	return s.check(path, v)
}

// items are what a client may create; said is how an assistant's text is called.
func items(said string) shape {
	call := object{"id": text(32), "type!": text(0), "object": words{"realtime.item"}, "status": text(0), "call_id!": text(32)}
	made, output := object{"name!": text(0), "arguments!": text(0)}, object{"output!": text(0)}
	for name, s := range call {
		made[name], output[name] = s, s
	}
	return ofType{
		"message": byRole{
			"user": byType{
				"input_text": {"text!": text(0)}, "input_audio": {"audio!": text(0), "transcript": text(0)},
				"input_image": {"image_url!": text(0), "detail": words{"auto", "low", "high"}},
			},
			"assistant": byType{said: {"text!": text(0)}},
			"system":    byType{"input_text": {"text!": text(0)}},
		},
		"function_call": made, "function_call_output": output,
	}
}

// metadata are up to 16 names of 64 characters with texts of 512.
type metadata struct{}

func (metadata) check(path string, v any) *refusal {
	t, ok := v.(tree)
	if !ok || len(t) > 16 {
		return invalid(path, "An object of at most 16 texts is expected.")
	}
	for name, value := range t {
		if len(name) > 64 {
			return invalid(below(path, name), "The name is longer than 64 characters.")
		}
		if r := text(512).check(below(path, name), value); r != nil {
			return r
		}
	}
	return nil
}
