package simulator

import (
	"encoding/base64"
	"maps"
	"math"
	"slices"
	"strings"

	"voicebridge/realtime"
)

// sessionSchema holds the known names in a session object, with the check of each value.
var sessionSchema = fields{
	"type":                isOneOf("realtime"),
	"model":               isString,
	"instructions":        isString,
	"output_modalities":   isModalities,
	"audio":               isObject(audioSchema),
	"tools":               isTools,
	"tool_choice":         isToolChoice,
	"parallel_tool_calls": isBool,
	"reasoning":           nullable(isReasoning),
	"max_output_tokens":   isMaxTokens,
	"truncation":          isTruncation,
	"tracing":             nullable(isTracing),
	"include":             nullable(isList(isOneOf("item.input_audio_transcription.logprobs"))),
	"prompt":              nullable(isPrompt),
}

var audioSchema = fields{
	"input": isObject(fields{
		"format":          isFormat,
		"noise_reduction": nullable(isObject(fields{"type": isOneOf("near_field", "far_field")})),
		"transcription":   nullable(isTranscription),
		"turn_detection":  nullable(isTurnDetection),
	}),
	"output": isObject(fields{
		"format": isFormat, "voice": isVoice, "speed": isNumber(0.25, 1.5),
	}),
}

var isModalities = is("an array", func(param string, list []any) *realtime.Error {
	if len(list) != 1 || (list[0] != "audio" && list[0] != "text") {
		return refuse("invalid_value", param, "Invalid modalities: %v. Supported combinations are: ['text'] and ['audio'].", list)
	}
	return nil
})

func isFormat(param string, v any) *realtime.Error {
	f := fields{"type": isOneOf("audio/pcm", "audio/pcmu", "audio/pcma")}
	if o, ok := v.(object); ok && o["type"] == "audio/pcm" {
		f["rate"] = isInteger(24000, 24000)
	}
	return f.with("type")(param, v)
}

func isVoice(param string, v any) *realtime.Error {
	if _, ok := v.(object); ok {
		return fields{"id": isString}.with("id")(param, v)
	}
	return isOneOf("alloy", "ash", "ballad", "cedar", "coral", "echo", "marin", "sage", "shimmer", "verse")(param, v)
}

var isTurnDetection = byType(map[string]check{
	"server_vad": isObject(fields{
		"type": isString, "threshold": isNumber(0, 1), "prefix_padding_ms": isInteger(0, 10_000),
		"silence_duration_ms": isInteger(0, 10_000), "idle_timeout_ms": nullable(isInteger(5000, 30_000)),
		"create_response": isBool, "interrupt_response": isBool,
	}),
	"semantic_vad": isObject(fields{
		"type": isString, "eagerness": isOneOf("low", "medium", "high", "auto"),
		"create_response": isBool, "interrupt_response": isBool,
	}),
})

// isTranscription checks what each model of transcription takes.
func isTranscription(param string, v any) *realtime.Error {
	err := fields{
		"model": isString, "language": isString, "prompt": isString,
		"delay":    isOneOf("minimal", "low", "medium", "high", "xhigh"),
		"keywords": isList(isString), "languages": isList(isString),
	}.with("model")(param, v)
	if err != nil {
		return err
	}
	o := v.(object)
	model := o["model"].(string)
	whisper, lists := model == "gpt-realtime-whisper", model == "gpt-transcribe" || model == "gpt-live-transcribe"
	for _, rule := range []struct {
		name    string
		allowed bool
	}{{"delay", whisper}, {"keywords", lists}, {"languages", lists}, {"prompt", !whisper}} {
		if _, ok := o[rule.name]; ok && !rule.allowed {
			return unsupported(below(param, rule.name), model)
		}
	}
	return nil
}

// unsupported refuses a field that the model does not have.
func unsupported(param, model string) *realtime.Error {
	return refuse("invalid_value", param, "'%s' is not supported with the '%s' model.", param, model)
}

func isMaxTokens(param string, v any) *realtime.Error {
	if v == "inf" {
		return nil
	}
	return isInteger(1, 4096)(param, v)
}

func isTruncation(param string, v any) *realtime.Error {
	if _, ok := v.(object); ok {
		return fields{
			"type": isOneOf("retention_ratio"), "retention_ratio": isNumber(0, 1),
			"token_limits": isObject(fields{"post_instructions": isInteger(0, math.MaxInt32)}),
		}.with("type", "retention_ratio")(param, v)
	}
	return isOneOf("auto", "disabled")(param, v)
}

func isTracing(param string, v any) *realtime.Error {
	if o, ok := v.(object); ok {
		return fields{"workflow_name": isString, "group_id": isString, "metadata": isMap}.of(param, o)
	}
	return isOneOf("auto")(param, v)
}

var (
	isReasoning = isObject(fields{"effort": isOneOf("minimal", "low", "medium", "high", "xhigh")})
	isPrompt    = fields{"id": isString, "version": nullable(isString), "variables": nullable(isMap)}.with("id")
)

var isToolChoiceObject = byType(map[string]check{
	"function": fields{"type": isString, "name": isString}.with("name"),
	"mcp":      fields{"type": isString, "server_label": isString, "name": nullable(isString)}.with("server_label"),
})

func isToolChoice(param string, v any) *realtime.Error {
	if _, ok := v.(object); ok {
		return isToolChoiceObject(param, v)
	}
	return isOneOf("auto", "none", "required")(param, v)
}

var isTools = isList(byType(map[string]check{
	"function": fields{"type": isString, "name": isFunctionName, "description": isString, "parameters": isMap}.with("name"),
	// Remote MCP servers are not run here; the declaration is kept.
	"mcp": func(param string, v any) *realtime.Error { return missing(param, v.(object), "server_label") },
}))

var isFunctionName = is("a string", func(param, name string) *realtime.Error {
	if len(name) == 0 || len(name) > 64 || strings.IndexFunc(name, notNameRune) >= 0 {
		return refuse("invalid_value", param, "Invalid '%s': '%s' does not match the pattern '^[a-zA-Z0-9_-]{1,64}$'.", param, name)
	}
	return nil
})

func notNameRune(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' && r != '-'
}

// The limits of metadata.
const (
	maxPairs = 16
	maxKey   = 64 // characters
	maxValue = 512
)

var isMetadata = is("an object", func(param string, o object) *realtime.Error {
	if len(o) > maxPairs {
		return refuse("invalid_value", param, "Invalid '%s': at most %d pairs are allowed.", param, maxPairs)
	}
	for _, name := range slices.Sorted(maps.Keys(o)) {
		if err := isUpTo(maxKey)(param, name); err != nil {
			return err
		}
		if err := isUpTo(maxValue)(below(param, name), o[name]); err != nil {
			return err
		}
	}
	return nil
})

var isBase64 = is("a string", func(param, s string) *realtime.Error {
	if _, err := base64.StdEncoding.DecodeString(s); err != nil {
		return refuse("invalid_value", param, "Invalid '%s': expected base64, but got an invalid string.", param)
	}
	return nil
})

// isImage checks a data URL of a PNG or JPEG.
var isImage = is("a string", func(param, url string) *realtime.Error {
	head, data, _ := strings.Cut(url, ",")
	if head != "data:image/png;base64" && head != "data:image/jpeg;base64" || isBase64(param, data) != nil {
		return refuse("invalid_value", param, "Invalid '%s': expected a base64-encoded data URL of a PNG or JPEG image.", param)
	}
	return nil
})
