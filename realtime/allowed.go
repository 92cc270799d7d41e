package realtime

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"maps"
	"math"
	"regexp"
	"strings"
)

// What the API lets clients send (OpenAPI description; shared limits as far as they are known). Whoever checks, takes
// or merges what a client sends reads it from here.

// MaxItemID is how many characters the ids of items and function calls may have, and MaxEventID those of events.
const (
	MaxItemID  = 32
	MaxEventID = 512
)

var (
	text     = Field{Kind: String}
	flag     = Field{Kind: Bool}
	anyOther = Field{Kind: Object, Of: &Field{}}
	id       = Field{Kind: String, Low: 1, High: MaxItemID}
)

func oneOf(values ...string) Field { return Field{Kind: String, Enum: values} }

func listOf(f Field) Field { return Field{Kind: List, Of: &f} }

func object(fields map[string]Field, required ...string) Field {
	return Field{Kind: Object, Fields: fields, Required: required}
}

func orNull(f Field) Field {
	f.Null = true
	return f
}

func locked(l Lock, f Field) Field {
	f.Lock = l
	return f
}

func set(by Who, f Field) Field {
	f.Who = by
	return f
}

// SessionFields are those of a session object.
var SessionFields = Field{Kind: Object, Parts: true, Required: []string{"type"}, Fields: map[string]Field{
	"type":              oneOf("realtime"),
	"model":             {Kind: String, Lock: AtCreation},
	"instructions":      set(ByApp, text),
	"output_modalities": set(ByApp, modalities),
	"audio": {Kind: Object, Parts: true, Fields: map[string]Field{
		"input": {Kind: Object, Parts: true, Fields: map[string]Field{
			"format":          format,
			"noise_reduction": set(ByClient, orNull(noiseReduction)),
			"transcription":   set(ByClient, orNull(transcription)),
			"turn_detection":  set(ByClient, orNull(turnDetection)),
		}},
		"output": {Kind: Object, Parts: true, Fields: map[string]Field{
			"format": format,
			"voice":  set(ByClient, locked(OnceSpoken, voice)),
			"speed":  {Kind: Number, Low: 0.25, High: 1.5, Lock: WhileAnswered, Who: ByClient},
		}},
	}},
	"tools":               set(ByClient, tools),
	"tool_choice":         toolChoice,
	"parallel_tool_calls": parallel,
	"reasoning":           reasoning,
	"max_output_tokens":   set(ByApp, maxTokens),
	"truncation": {Kind: String, Enum: []string{"auto", "disabled"}, Or: &Field{
		Kind: Object, Required: []string{"type", "retention_ratio"}, Fields: map[string]Field{
			"type": oneOf("retention_ratio"), "retention_ratio": {Kind: Number, High: 1},
			"token_limits": object(map[string]Field{"post_instructions": {Kind: Integer, High: math.MaxInt32}}),
		},
	}},
	"tracing": {
		Kind: String, Enum: []string{"auto"}, Null: true, Lock: OnceSet,
		Or: &Field{Kind: Object, Fields: map[string]Field{
			"workflow_name": text, "group_id": text, "metadata": anyOther,
		}},
	},
	"include": orNull(listOf(oneOf("item.input_audio_transcription.logprobs"))),
	"prompt":  prompt,
}}

// ResponseFields are those of the response in response.create.
var ResponseFields = Field{Kind: Object, Null: true, Fields: map[string]Field{
	"instructions": set(ByApp, text), "output_modalities": set(ByClient, modalities),
	"audio": object(map[string]Field{"output": object(map[string]Field{"voice": voice, "format": format})}),
	"tools": set(ByApp, tools), "tool_choice": set(ByApp, toolChoice),
	"parallel_tool_calls": parallel, "reasoning": reasoning,
	"max_output_tokens": set(ByClient, maxTokens), "conversation": oneOf("auto", "none"),
	"input": listOf(inputItem),
	"metadata": {
		Kind: Object, Null: true, High: 16, Who: ByClient,
		Key: &Field{Kind: String, High: 64}, Of: &Field{Kind: String, High: 512},
	},
	"prompt": prompt,
}}

// ClientEvents are the events of a client, by their types.
var ClientEvents = Field{
	Kind: Object, By: "type", Fields: map[string]Field{"event_id": {Kind: String, Null: true, High: MaxEventID}},
	Cases: map[string]Field{
		TypeSessionUpdate: object(map[string]Field{"session": SessionFields}, "session"),
		TypeItemCreate:    object(map[string]Field{"item": item, "previous_item_id": orNull(text)}, "item"),
		TypeItemRetrieve:  object(map[string]Field{"item_id": text}, "item_id"),
		TypeItemDelete:    object(map[string]Field{"item_id": text}, "item_id"),
		TypeItemTruncate: object(map[string]Field{
			"item_id": text, "content_index": {Kind: Integer, High: 100}, "audio_end_ms": {Kind: Integer, High: 1e9},
		}, "item_id", "content_index", "audio_end_ms"),
		TypeResponseCreate:    object(map[string]Field{"response": ResponseFields}),
		TypeResponseCancel:    object(map[string]Field{"response_id": text}),
		TypeInputAppend:       object(map[string]Field{"audio": text}),
		TypeInputCommit:       {},
		TypeInputClear:        {},
		TypeOutputBufferClear: {},
	},
}

// SecretFields are those of a request for a client secret.
var SecretFields = object(map[string]Field{
	"session": SessionFields,
	"expires_after": object(map[string]Field{
		"anchor": oneOf("created_at"), "seconds": {Kind: Integer, Low: 10, High: 7200},
	}),
})

var (
	modalities = Field{Kind: List, Low: 1, High: 1, Of: new(oneOf("audio", "text"))} // audio has a transcript anyway
	format     = Field{Kind: Object, By: "type", Cases: map[string]Field{
		"audio/pcm":  object(map[string]Field{"rate": {Kind: Integer, Low: 24000, High: 24000}}),
		"audio/pcmu": {}, "audio/pcma": {},
	}}
	noiseReduction = object(map[string]Field{"type": oneOf("near_field", "far_field")})
	voice          = Field{
		Kind: String, Or: new(object(map[string]Field{"id": text}, "id")),
		Enum: []string{"alloy", "ash", "ballad", "cedar", "coral", "echo", "marin", "sage", "shimmer", "verse"},
	}
	maxTokens = Field{Kind: Integer, Low: 1, High: 4096, Or: new(oneOf("inf"))}
	parallel  = Field{Kind: Bool, Except: noReasoning}
	reasoning = Field{Kind: Object, Null: true, Except: noReasoning, Fields: map[string]Field{"effort": effort}}
	effort    = oneOf("minimal", "low", "medium", "high", "xhigh")
	prompt    = orNull(object(map[string]Field{
		"id": text, "version": orNull(text), "variables": orNull(anyOther),
	}, "id"))
)

// noReasoning are the models without reasoning.
var noReasoning = regexp.MustCompile(`^gpt-realtime(-mini|-1\.5)?(-20\d\d-\d\d-\d\d)?$`)

var turnDetection = Field{
	Kind: Object, By: "type", Fields: map[string]Field{"create_response": flag, "interrupt_response": flag},
	Cases: map[string]Field{
		"server_vad": object(map[string]Field{
			"threshold":           {Kind: Number, High: 1},
			"prefix_padding_ms":   {Kind: Integer, High: 10_000},
			"silence_duration_ms": {Kind: Integer, High: 30_000},
			"idle_timeout_ms":     {Kind: Integer, Null: true, Low: 5000, High: 30_000},
		}),
		"semantic_vad": object(map[string]Field{"eagerness": oneOf("low", "medium", "high", "auto")}),
	},
}

// CheckTurnDetection returns what is wrong with an object that decides that a speaker's turn is over, null for none:
// the field and why, empty if nothing is.
func CheckTurnDetection(object json.RawMessage) (field, reason string) {
	d := json.NewDecoder(bytes.NewReader(object))
	d.UseNumber()
	var value any
	if err := d.Decode(&value); err != nil {
		return "", "it is not JSON"
	}
	if e := orNull(turnDetection).Check("", value, ""); e != nil {
		return e.Param, strings.TrimSuffix(e.Message, ".")
	}
	return "", ""
}

// transcription depends on its model: each takes other hints.
var (
	transcription = object(map[string]Field{
		"model": text, "language": text,
		"prompt":   {Kind: String, Except: whisper},
		"delay":    {Kind: String, Enum: effort.Enum, Only: whisper},
		"keywords": {Kind: List, Of: &text, Only: listening}, "languages": {Kind: List, Of: &text, Only: listening},
	}, "model")
	whisper   = regexp.MustCompile(`^gpt-realtime-whisper$`)
	listening = regexp.MustCompile(`^gpt-(live-)?transcribe$`)
)

// Keyterms returns the member of a transcription by which its model learns names and words, and its value: keywords, a
// prompt that lists them, or none.
func Keyterms(model string, terms []string) (name string, value any) {
	switch {
	case listening.MatchString(model), model == "grok-transcribe": // xAI's, as ws writes it
		return "keywords", terms
	case whisper.MatchString(model):
		return "", nil
	}
	return "prompt", strings.Join(terms, ", ")
}

var (
	tools = listOf(Field{Kind: Object, By: "type", Cases: map[string]Field{
		"function": object(map[string]Field{"name": toolName, "description": text, "parameters": anyOther}, "name"),
		"mcp":      {Required: []string{"server_label"}, Of: &Field{}},
	}})
	toolName = Field{
		Kind: String, Is: namePattern.MatchString,
		Want: "a string that matches the pattern '" + namePattern.String() + "'",
	}
	toolChoice = Field{
		Kind: String, Enum: []string{"auto", "none", "required"},
		Or: &Field{Kind: Object, By: "type", Cases: map[string]Field{
			"function": object(map[string]Field{"name": text}, "name"),
			"mcp":      object(map[string]Field{"server_label": text, "name": orNull(text)}, "server_label"),
		}},
	}
	namePattern = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
)

var detail = oneOf("auto", "low", "high") // of an image

// item is what clients create. Audio of the assistant is not among it.
var item = Field{
	Kind: Object, By: "type", Fields: map[string]Field{
		"id": id, "object": oneOf("realtime.item"), "status": oneOf("completed", "incomplete", "in_progress"),
	},
	Cases: map[string]Field{
		ItemMessage: {By: "role", Cases: map[string]Field{
			"user": content(map[string]Field{
				ContentInputText:  textPart,
				ContentInputAudio: object(map[string]Field{"audio": base64Text, "transcript": orNull(text)}, "audio"),
				ContentInputImage: object(map[string]Field{"image_url": image, "detail": detail}, "image_url"),
			}),
			"assistant": content(map[string]Field{ContentOutputText: textPart}),
			"system":    content(map[string]Field{ContentInputText: textPart}),
		}},
		ItemFunctionCall: object(map[string]Field{
			"call_id": id, "name": text, "arguments": text,
		}, "name", "arguments"),
		ItemFunctionCallOutput: object(map[string]Field{"call_id": id, "output": text}, "call_id", "output"),
	},
}

// inputItem is an item for one response, or a reference to one of the conversation.
var inputItem = func() Field {
	f := item
	f.Cases = maps.Clone(f.Cases)
	f.Cases["item_reference"] = Field{Required: []string{"id"}}
	return f
}()

func content(parts map[string]Field) Field {
	return object(map[string]Field{
		"content": {Kind: List, Low: 1, Of: &Field{Kind: Object, By: "type", Cases: parts}},
	}, "content")
}

var (
	textPart   = object(map[string]Field{"text": text}, "text")
	base64Text = Field{Kind: String, Is: isBase64, Want: "base64"}
	image      = Field{Kind: String, Is: isImage, Want: "a base64-encoded data URL of a PNG or JPEG image"}
)

func isBase64(s string) bool {
	_, err := base64.StdEncoding.DecodeString(s)
	return err == nil
}

func isImage(url string) bool {
	head, data, _ := strings.Cut(url, ",")
	return (head == "data:image/png;base64" || head == "data:image/jpeg;base64") && isBase64(data)
}
