package simulator

import (
	"bytes"
	"encoding/json"
	"maps"
	"regexp"
	"slices"

	"voicebridge/realtime"
)

// settings is the effective configuration of a session: the JSON object as shown, and the parts
// that the simulator acts on.
type settings struct {
	shown object

	modality      string // audio or text
	transcribe    bool
	logprobs      bool           // with transcriptions
	turnDetection *turnDetection // nil: push to talk
	tools         []tool
	choice        any // tool_choice
}

// turnDetection is the turn detection in force.
type turnDetection struct {
	threshold float64
	prefixMS  int64
	silenceMS int64
	idleMS    int64
	create    bool
	interrupt bool
}

// tool is a declared function.
type tool struct {
	name       string
	parameters object
}

func newSettings(model string) *settings {
	s := &settings{shown: object{
		"type": "realtime", "object": "realtime.session", "id": newID("sess_"), "model": model,
		"instructions":      "You are a simulator. Answer with prepared sentences.",
		"output_modalities": []any{"audio"},
		"audio": object{
			"input": object{
				"format":          object{"type": "audio/pcm", "rate": json.Number("24000")},
				"noise_reduction": nil, "transcription": nil,
				"turn_detection": object{"type": "server_vad"},
			},
			"output": object{
				"format": object{"type": "audio/pcm", "rate": json.Number("24000")},
				"voice":  "marin", "speed": json.Number("1.0"),
			},
		},
		"tools": []any{}, "tool_choice": "auto", "max_output_tokens": "inf", "truncation": "auto",
		"tracing": nil, "include": nil, "prompt": nil,
	}}
	s.derive()
	return s
}

// progress is how far a session has come, which locks some of its settings.
type progress struct {
	created   bool // it exists: its model cannot change
	spoken    bool // it has produced audio: its voice cannot change
	answering bool // a response is in progress: its speed cannot change
}

// update checks a patch, and merges it completely or not at all.
func (s *settings) update(patch object, now progress) *realtime.Error {
	if err := missing("session", patch, "type"); err != nil {
		return err
	}
	if err := sessionSchema.of("session", patch); err != nil {
		return err
	}
	if err := s.checkModel("session", patch); err != nil {
		return err
	}
	if model, ok := patch["model"]; ok && now.created && model != s.shown["model"] {
		return refuse("invalid_value", "session.model", "The model of a session cannot be changed.")
	}
	if old, tracing := s.shown["tracing"], patch["tracing"]; old != nil && tracing != nil && !sameJSON(old, tracing) {
		return refuse("invalid_value", "session.tracing", "Tracing is enabled, so its configuration cannot be changed.")
	}
	merged := mergeObjects(s.shown, patch, "audio", "input", "output")
	if now.spoken && !sameJSON(voiceOf(merged), voiceOf(s.shown)) {
		return voiceLocked("session")
	}
	if now.answering && speedOf(merged) != speedOf(s.shown) {
		return refuse("invalid_value", "session.audio.output.speed", "The speed can only be changed between turns, not while a response is in progress.")
	}
	s.shown = merged
	s.derive()
	return nil
}

func voiceLocked(param string) *realtime.Error {
	return refuse("cannot_update_voice", param+".audio.output.voice", "Cannot update a conversation's voice if assistant audio is present.")
}

// checkResponse checks the overrides of response.create, besides their form.
func (s *settings) checkResponse(params object, spoken bool) *realtime.Error {
	if voice := voiceOf(params); spoken && voice != nil && !sameJSON(voice, voiceOf(s.shown)) {
		return voiceLocked("response")
	}
	return s.checkModel("response", params)
}

// noReasoning are the models without reasoning.
var noReasoning = regexp.MustCompile(`^gpt-realtime(-mini|-1\.5)?(-20\d\d-\d\d-\d\d)?$`)

// checkModel refuses what only reasoning models take.
func (s *settings) checkModel(param string, o object) *realtime.Error {
	model, _ := s.shown["model"].(string)
	for _, name := range []string{"parallel_tool_calls", "reasoning"} {
		if o[name] != nil && noReasoning.MatchString(model) {
			return unsupported(below(param, name), model)
		}
	}
	return nil
}

// mergeObjects returns base with the members of patch; named members are merged in turn, all others
// replaced. base is not changed.
func mergeObjects(base, patch object, deep ...string) object {
	out := maps.Clone(base)
	for name, v := range patch {
		b, isObj := out[name].(object)
		p, isPatch := v.(object)
		if isObj && isPatch && slices.Contains(deep, name) {
			v = mergeObjects(b, p, deep...)
		}
		out[name] = v
	}
	return out
}

func voiceOf(session object) any {
	voice, _ := lookup(session, "audio", "output", "voice")
	return voice
}

func speedOf(session object) float64 {
	speed, _ := lookup(session, "audio", "output", "speed")
	n, _ := speed.(json.Number)
	f, _ := n.Float64() // it was checked
	return f
}

func sameJSON(a, b any) bool {
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	return bytes.Equal(x, y)
}

// derive reads what the simulator acts on and adds the defaults of the turn detection to what is shown.
func (s *settings) derive() {
	s.modality = s.shown["output_modalities"].([]any)[0].(string)
	audio := s.shown["audio"].(object)
	input := audio["input"].(object)
	s.transcribe = input["transcription"] != nil
	include, _ := s.shown["include"].([]any)
	s.logprobs = len(include) > 0 // nothing else can be included
	s.turnDetection = nil
	if td, ok := input["turn_detection"].(object); ok {
		td = mergeObjects(turnDetectionDefaults(td), td)
		s.turnDetection = readTurnDetection(td)
		s.shown = mergeObjects(s.shown, object{"audio": object{"input": object{"turn_detection": td}}}, "audio", "input")
	}
	s.choice = s.shown["tool_choice"]
	s.tools = readTools(s.shown["tools"])
}

func readTools(v any) []tool {
	list, _ := v.([]any)
	var tools []tool
	for _, t := range list {
		o, _ := t.(object)
		if o["type"] != "function" {
			continue
		}
		name, _ := o["name"].(string)
		parameters, _ := o["parameters"].(object)
		tools = append(tools, tool{name: name, parameters: parameters})
	}
	return tools
}

func turnDetectionDefaults(td object) object {
	d := object{"create_response": true, "interrupt_response": true}
	if td["type"] == "semantic_vad" {
		d["eagerness"] = "auto"
		return d
	}
	d["threshold"], d["prefix_padding_ms"] = json.Number("0.5"), json.Number("300")
	d["silence_duration_ms"], d["idle_timeout_ms"] = json.Number("500"), nil
	return d
}

func readTurnDetection(td object) *turnDetection {
	number := func(name string, or float64) float64 {
		n, ok := td[name].(json.Number)
		if !ok {
			return or
		}
		f, _ := n.Float64() // it was checked
		return f
	}
	silence := number("silence_duration_ms", 500)
	if td["type"] == "semantic_vad" {
		// The simulator understands no meaning: eagerness becomes a length of silence.
		silence = map[any]float64{"low": 1500, "medium": 800, "auto": 800, "high": 400}[td["eagerness"]]
	}
	return &turnDetection{
		threshold: number("threshold", 0.5), prefixMS: int64(number("prefix_padding_ms", 300)),
		silenceMS: int64(silence), idleMS: int64(number("idle_timeout_ms", 0)),
		create: td["create_response"] == true, interrupt: td["interrupt_response"] == true,
	}
}
