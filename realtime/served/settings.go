package served

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

// Settings is the effective configuration of a session: all of it as shown, and the parts that the session acts on.
type Settings struct {
	shown realtime.Settings

	modality      string // audio or text
	transcribe    bool
	logprobs      bool           // with transcriptions
	turnDetection *TurnDetection // nil: push to talk
	fixed         bool           // the client has set the silence that ends a turn
	tools         []Tool
	choice        any // tool_choice
}

// TurnDetection is the turn detection in force. Its lengths are in ms.
type TurnDetection struct {
	Threshold float64 // from 0 to 1
	Prefix    int64   // of sound before speech that belongs to it
	Silence   int64   // that ends a turn

	fixed, semantic   bool // the client has set the silence; its length means an eagerness
	idle              int64
	create, interrupt bool
}

// Tool is a declared function.
type Tool struct {
	Name, Description string
	Parameters        map[string]any // a JSON schema
}

const (
	turnsPath = "audio.input.turn_detection"
	voicePath = "audio.output.voice"
)

// NewSettings returns the defaults of a session with a model.
func NewSettings(model string) *Settings {
	pcm := object{"type": "audio/pcm", "rate": 24000}
	s := &Settings{shown: realtime.Settings{}}
	for path, value := range map[string]any{
		"type": "realtime", "object": "realtime.session", "id": NewID("sess_"), "model": model,
		"instructions": "", "output_modalities": []string{"audio"},
		"audio.input.format": pcm, "audio.input.noise_reduction": nil, "audio.input.transcription": nil,
		turnsPath:             object{"type": "server_vad"},
		"audio.output.format": pcm, voicePath: "marin", "audio.output.speed": 1,
		"tools": []any{}, "tool_choice": "auto", "max_output_tokens": "inf", "truncation": "auto",
		"tracing": nil, "include": nil, "prompt": nil,
	} {
		s.Show(path, value)
	}
	s.derive()
	return s
}

// Show has events show a value, which the session does not act on.
func (s *Settings) Show(path string, value any) {
	s.shown[path], _ = json.Marshal(value) // it was JSON, or is written here
}

// Shown is all of it as events show it.
func (s *Settings) Shown() realtime.Settings { return s.shown }

// value decodes one of the settings.
func (s *Settings) value(path string) any {
	v, _ := Read[any](s.shown[path]) // it was checked
	return v
}

func (s *Settings) model() string { return s.value("model").(string) }

// Update merges a session object, which was checked, completely or not at all. locks are those in force.
func (s *Settings) Update(session json.RawMessage, locks ...realtime.Lock) *realtime.Error {
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
	if own, ok := patch[turnsPath]; ok {
		s.fixed = realtime.Member(own, "silence_duration_ms") != nil
	}
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
func (s *Settings) checkVoice(params object, spoken bool) *realtime.Error {
	voice, ok := Lookup(params, "audio", "output", "voice")
	if ok && spoken && !reflect.DeepEqual(voice, s.value(voicePath)) {
		return lockedError(realtime.OnceSpoken, "response."+voicePath)
	}
	return nil
}

// transcription returns what is set about how the caller's words are written down.
func (s *Settings) transcription() (language, prompt string, keywords []string) {
	o, _ := s.value("audio.input.transcription").(object)
	language, _ = o["language"].(string)
	prompt, _ = o["prompt"].(string)
	list, _ := o["keywords"].([]any)
	for _, v := range list {
		word, _ := v.(string)
		keywords = append(keywords, word)
	}
	return language, prompt, keywords
}

// speed returns how fast the assistant speaks; 1 is usual.
func (s *Settings) speed() float64 {
	n, _ := s.value("audio.output.speed").(json.Number)
	f, _ := n.Float64() // it was checked
	return f
}

func sameJSON(a, b json.RawMessage) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}

// derive reads what the session acts on and adds the defaults of the turn detection to what is shown.
func (s *Settings) derive() {
	s.modality = s.value("output_modalities").([]any)[0].(string)
	s.transcribe = s.value("audio.input.transcription") != nil
	include, _ := s.value("include").([]any)
	s.logprobs = len(include) > 0 // nothing else can be included
	s.turnDetection = nil
	if given, ok := s.value(turnsPath).(object); ok {
		td := turnDetectionDefaults(given)
		maps.Copy(td, given)
		s.turnDetection = readTurnDetection(td)
		s.turnDetection.fixed = s.fixed
		s.Show(turnsPath, td)
	}
	s.choice = s.value("tool_choice")
	s.tools = readTools(s.value("tools"))
}

func readTools(v any) []Tool {
	list, _ := v.([]any)
	var tools []Tool
	for _, t := range list {
		o, _ := t.(object)
		if o["type"] != "function" {
			continue
		}
		t := Tool{}
		t.Name, _ = o["name"].(string)
		t.Description, _ = o["description"].(string)
		t.Parameters, _ = o["parameters"].(object)
		tools = append(tools, t)
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

func readTurnDetection(td object) *TurnDetection {
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
		// Nothing here understands meaning: eagerness becomes a length of silence.
		silence = map[any]float64{"low": 1500, "medium": 800, "auto": 800, "high": 400}[td["eagerness"]]
	}
	return &TurnDetection{
		semantic:  td["type"] == "semantic_vad",
		Threshold: number("threshold", 0.5), Prefix: int64(number("prefix_padding_ms", 300)),
		Silence: int64(silence), idle: int64(number("idle_timeout_ms", 0)),
		create: td["create_response"] == true, interrupt: td["interrupt_response"] == true,
	}
}

// encodings are those of a session's formats.
var encodings = map[string]pcm.Encoding{"audio/pcm": pcm.Linear, "audio/pcmu": pcm.ULaw, "audio/pcma": pcm.ALaw}

// format returns the format of the sound in events: of a side of the session.
func (s *Settings) format(side string) media.Format {
	o, _ := s.value("audio." + side + ".format").(object)
	name, _ := o["type"].(string)
	if encoding := encodings[name]; encoding != pcm.Linear {
		return media.Format{Encoding: encoding, Rate: 8000}
	}
	return media.Format{Rate: 24000}
}
