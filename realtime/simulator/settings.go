package simulator

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"

	"voicebridge/realtime"
	"voicebridge/realtime/media"
	"voicebridge/realtime/pcm"
)

// settings is the effective configuration of a session: all of it as shown, and the parts that the simulator acts on.
type settings struct {
	shown realtime.Settings

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

const (
	turnsPath = "audio.input.turn_detection"
	voicePath = "audio.output.voice"
)

func newSettings(model string) *settings {
	pcm := object{"type": "audio/pcm", "rate": 24000}
	s := &settings{shown: realtime.Settings{}}
	for path, value := range map[string]any{
		"type": "realtime", "object": "realtime.session", "id": newID("sess_"), "model": model,
		"instructions":       "You are a simulator. Answer with prepared sentences.",
		"output_modalities":  []string{"audio"},
		"audio.input.format": pcm, "audio.input.noise_reduction": nil, "audio.input.transcription": nil,
		turnsPath:             object{"type": "server_vad"},
		"audio.output.format": pcm, voicePath: "marin", "audio.output.speed": 1,
		"tools": []any{}, "tool_choice": "auto", "max_output_tokens": "inf", "truncation": "auto",
		"tracing": nil, "include": nil, "prompt": nil,
	} {
		s.show(path, value)
	}
	s.derive()
	return s
}

func (s *settings) show(path string, value any) {
	s.shown[path], _ = json.Marshal(value) // it was JSON, or is written here
}

// value decodes one of the settings.
func (s *settings) value(path string) any {
	v, _ := read[any](s.shown[path]) // it was checked
	return v
}

func (s *settings) model() string { return s.value("model").(string) }

// update merges a session object, which was checked, completely or not at all. locks are those in force.
func (s *settings) update(session json.RawMessage, locks ...realtime.Lock) *realtime.Error {
	patch, err := realtime.SessionFields.Settings(session, func(string, realtime.Field) bool { return true })
	if err != nil {
		return err
	}
	for _, path := range slices.Sorted(maps.Keys(patch)) {
		lock, old, own := realtime.SessionFields.At(path).Lock, s.shown[path], patch[path]
		isSet := string(old) != "null" && string(own) != "null"
		locked := slices.Contains(locks, lock) || lock == realtime.OnceSet && isSet
		if locked && !sameJSON(old, own) {
			return lockedError(lock, "session."+path)
		}
	}
	maps.Copy(s.shown, patch)
	s.derive()
	return nil
}

// lockedErrors are the codes and messages about fields that can no longer change; %s is the field's name.
var lockedErrors = map[realtime.Lock]struct{ code, message string }{
	realtime.AtCreation: {"invalid_value", "The %s of a session cannot be changed."},
	realtime.OnceSet:    {"invalid_value", "The %s is enabled, so its configuration cannot be changed."},
	realtime.OnceSpoken: {"cannot_update_voice", "Cannot update a conversation's %s if assistant audio is present."},
	realtime.WhileAnswered: {
		"invalid_value", "The %s can only be changed between turns, not while a response is in progress.",
	},
}

func lockedError(lock realtime.Lock, param string) *realtime.Error {
	e := lockedErrors[lock]
	return refuse(e.code, param, e.message, param[strings.LastIndex(param, ".")+1:])
}

// checkVoice refuses another voice for one response once the session has spoken.
func (s *settings) checkVoice(params object, spoken bool) *realtime.Error {
	voice, ok := lookup(params, "audio", "output", "voice")
	if ok && spoken && !reflect.DeepEqual(voice, s.value(voicePath)) {
		return lockedError(realtime.OnceSpoken, "response."+voicePath)
	}
	return nil
}

func sameJSON(a, b json.RawMessage) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}

// derive reads what the simulator acts on and adds the defaults of the turn detection to what is shown.
func (s *settings) derive() {
	s.modality = s.value("output_modalities").([]any)[0].(string)
	s.transcribe = s.value("audio.input.transcription") != nil
	include, _ := s.value("include").([]any)
	s.logprobs = len(include) > 0 // nothing else can be included
	s.turnDetection = nil
	if given, ok := s.value(turnsPath).(object); ok {
		td := turnDetectionDefaults(given)
		maps.Copy(td, given)
		s.turnDetection = readTurnDetection(td)
		s.show(turnsPath, td)
	}
	s.choice = s.value("tool_choice")
	s.tools = readTools(s.value("tools"))
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

// encodings are those of a session's formats.
var encodings = map[string]pcm.Encoding{"audio/pcm": pcm.Linear, "audio/pcmu": pcm.ULaw, "audio/pcma": pcm.ALaw}

// format returns the format of the sound in events: of a side of the session.
func (s *settings) format(side string) media.Format {
	o, _ := s.value("audio." + side + ".format").(object)
	name, _ := o["type"].(string)
	if encoding := encodings[name]; encoding != pcm.Linear {
		return media.Format{Encoding: encoding, Rate: 8000}
	}
	return media.Format{Rate: 24000}
}
