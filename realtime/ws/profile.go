package ws

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"voicebridge/realtime"
	"voicebridge/realtime/media"
	"voicebridge/realtime/pcm"
)

// Profile is what an upstream does differently from others of the same wire. Its zero values are OpenAI's ways.
type Profile struct {
	Name string
	// Address is where it is, empty if every operator has another. {model} and {session} in it are replaced, by the
	// model and by a name that no other session has; a model that is not named so is added to the query, unless
	// ModelInSession.
	Address        string
	ModelInSession bool
	// Calls is the address of the calls route, for WebRTC.
	Calls string
	// KeyHeader carries the key, after KeyPrefix: Authorization and "Bearer ", if both are empty.
	KeyHeader, KeyPrefix string
	Protocols            []string // of the WebSocket
	// RateIn and RateOut are the samples a second of the caller's and the model's sound.
	RateIn, RateOut int
	Shape           Shape
	History         History
	// KeepsAudio means that it knows no conversation.item.truncate: it is not told what was played.
	KeepsAudio bool
	// NoDeletion, NoImages and NoResponseSettings say what else it does not know: conversation.item.delete, images,
	// instructions and tool_choice of one response.
	NoDeletion, NoImages, NoResponseSettings bool
	// MaxSession is how long a session lives, if session.created does not say.
	MaxSession time.Duration
	// MaxEvent is the largest event that it takes, in bytes.
	MaxEvent int
	// Laws means that it takes sound of telephones, µ-law and A-law at 8 kHz, and law is what a session has of it.
	Laws bool
	law  media.Format
}

// Shape is how sessions, responses and tools are written.
type Shape struct {
	// Beta means the names of events and contents before general availability.
	Beta bool
	// Moved are the parts of a session that are elsewhere.
	Moved []Moved
	// PCM is how a format is called that is not an object.
	PCM string
	// Keyterms is how a transcription is told of words: KeytermsPrompt, the name of a list, or KeytermsNone.
	// Empty: keywords and prompt.
	Keyterms string
	// NestedTools have their declarations below "function".
	NestedTools bool
}

// Moved is a part of a session: its path in OpenAI's sessions and here.
type Moved struct{ OpenAI, Here string }

// Other ways of Shape.Keyterms than a list.
const (
	KeytermsPrompt = "prompt" // a text
	KeytermsNone   = "none"
)

// History is how a session is told what was said before.
type History string

// The forms of history.
const (
	// HistoryItems are items as they were, one for each message.
	HistoryItems History = "items"
	// HistoryPacked is one item with all of it.
	HistoryPacked History = "packed"
	// HistoryInstructions are words at the end of the instructions.
	HistoryInstructions History = "instructions"
	// historyByModel are items, but for models of Gemini, which answer items aloud: words in the instructions.
	historyByModel History = "by model"
)

// The shapes. Source: OpenAI's guide about the interface before general availability; xAI's from livekit-plugins-xai,
// which moves the first two, and pipecat's events for it, which name the language.
var (
	shapeXAI = Shape{Keyterms: "keyterms", Moved: []Moved{
		{"audio.output.voice", "voice"},
		{"audio.input.turn_detection", "turn_detection"},
		{"audio.input.transcription.language", "audio.input.transcription.language_hint"},
	}}
	// ShapeBeta is the shape that the API had before general availability.
	ShapeBeta = Shape{Beta: true, PCM: "pcm16", Keyterms: KeytermsPrompt, Moved: []Moved{
		{"output_modalities", "modalities"},
		{"audio.output.voice", "voice"},
		{"audio.output.speed", "speed"},
		{"audio.output.format", "output_audio_format"},
		{"audio.input.format", "input_audio_format"},
		{"audio.input.transcription", "input_audio_transcription"},
		{"audio.input.noise_reduction", "input_audio_noise_reduction"},
		{"audio.input.turn_detection", "turn_detection"},
		{"max_output_tokens", "max_response_output_tokens"},
	}}
	shapeQwen = func() Shape {
		s := ShapeBeta
		s.PCM, s.NestedTools, s.Keyterms = "pcm", true, KeytermsNone
		return s
	}()
)

// Profiles are the upstreams that are known.
var Profiles = []Profile{
	{
		Name: "openai", Address: "wss://api.openai.com/v1/realtime", Calls: "https://api.openai.com/v1/realtime/calls",
		Laws: true,
	},
	{Name: "azure", KeyHeader: "api-key", Laws: true},
	{
		Name: "xai", Address: "wss://api.x.ai/v1/realtime", Shape: shapeXAI, MaxSession: 120 * time.Minute,
		History:    HistoryPacked, // each item costs money
		KeepsAudio: true, NoResponseSettings: true,
	},
	{
		Name: "inworld", Address: "wss://api.inworld.ai/api/v1/realtime/session?key={session}&protocol=realtime",
		Calls: "https://api.inworld.ai/v1/realtime/calls", ModelInSession: true,
		KeyPrefix: "Basic ", KeepsAudio: true, NoDeletion: true,
	},
	{Name: "localai"},
	{Name: "speech-to-speech", Address: "ws://127.0.0.1:8765/v1/realtime"},
	{
		Name: "vllm", RateIn: 16000,
		History: HistoryInstructions, KeepsAudio: true, NoDeletion: true, NoImages: true, NoResponseSettings: true,
	},
	{
		Name: "qwen", Address: "wss://dashscope-intl.aliyuncs.com/api-ws/v1/realtime", RateIn: 16000, Shape: shapeQwen,
		History: HistoryInstructions, KeepsAudio: true, NoDeletion: true, NoImages: true, NoResponseSettings: true,
	},
	{Name: "litellm", History: historyByModel},
	{Name: "realtime"},
}

// Find returns a profile by its name.
func Find(name string) (Profile, bool) {
	i := slices.IndexFunc(Profiles, func(p Profile) bool { return p.Name == name })
	if i < 0 {
		return Profile{}, false
	}
	return Profiles[i].withDefaults(), true
}

const (
	defaultRate  = 24000
	defaultEvent = 1 << 20
)

// of returns the profile of a session with a model.
func (p Profile) of(model string) Profile {
	if p = p.withDefaults(); p.History != historyByModel {
		return p
	}
	p.History = HistoryItems
	if strings.Contains(strings.ToLower(model), "gemini") {
		p.History = HistoryInstructions
	}
	return p
}

func (p Profile) withDefaults() Profile {
	if p.KeyHeader == "" {
		p.KeyHeader, p.KeyPrefix = "Authorization", cmp.Or(p.KeyPrefix, "Bearer ")
	}
	p.RateIn, p.RateOut = cmp.Or(p.RateIn, defaultRate), cmp.Or(p.RateOut, defaultRate)
	p.History, p.MaxEvent = cmp.Or(p.History, HistoryItems), cmp.Or(p.MaxEvent, defaultEvent)
	return p
}

// laws are the formats of telephones, by their names.
var laws = map[string]media.Format{
	"audio/pcmu": {Rate: 8000, Encoding: pcm.ULaw}, "audio/pcma": {Rate: 8000, Encoding: pcm.ALaw},
}

// formatOf returns what a session says of the format of a side, input or output; zero if that is none that we know.
func formatOf(session []byte, side string) media.Format {
	var said struct {
		Type string `json:"type"`
		Rate int    `json:"rate"`
	}
	_ = json.Unmarshal(realtime.Member(session, "audio", side, "format"), &said) // what is no object says nothing
	if law, ok := laws[said.Type]; ok {
		return law
	}
	if said.Type != "audio/pcm" || !slices.Contains(pcm.Rates, said.Rate) {
		return media.Format{}
	}
	return media.Format{Rate: said.Rate}
}

// address returns where to dial.
func (p *Profile) address(base, model, session string) (string, error) {
	base = cmp.Or(base, p.Address)
	named := p.ModelInSession || strings.Contains(base, "{model}")
	base = strings.NewReplacer("{model}", url.QueryEscape(model), "{session}", url.QueryEscape(session)).Replace(base)
	u, err := url.Parse(base)
	if err != nil || u.Host == "" {
		return "", fmt.Errorf("the address of an upstream of the profile %q is not one", p.Name)
	}
	switch u.Scheme {
	case "http", "https":
		u.Scheme = "ws" + strings.TrimPrefix(u.Scheme, "http")
	case "ws", "wss":
	default:
		const not = "the address of an upstream of the profile %q begins with %q, not with wss"
		return "", fmt.Errorf(not, p.Name, u.Scheme)
	}
	if q := u.Query(); !named && model != "" && !q.Has("model") {
		q.Set("model", model)
		u.RawQuery = q.Encode()
	}
	return u.String(), nil
}
