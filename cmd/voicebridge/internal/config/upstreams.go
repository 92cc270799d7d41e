package config

import (
	"cmp"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"voicebridge/realtime/live"
	"voicebridge/realtime/ws"
	"voicebridge/web/access"
)

// Upstream is one that calls may talk to.
type Upstream struct {
	// How clients and records call it: up to 32 of a-z, 0-9 and -.
	Name string `yaml:"name" min:"1" max:"32" format:"name"`
	// What it is. realtime is any other server that speaks OpenAI's Realtime API as of 2025; live is OpenAI's GPT-Live;
	// simulator without a url is the built-in one.
	Profile string `yaml:"profile" min:"1" enum:"openai,azure,xai,inworld,localai,speech-to-speech,vllm,qwen,litellm,realtime,live,simulator"`
	// Empty: webrtc for openai, live and simulator, websocket for others.
	Transport string `yaml:"transport" enum:",webrtc,websocket"`
	// Of a WebSocket its address, in which {model} is replaced; of WebRTC the whole address of the calls route. Empty: the
	// profile's, or for openai what openai_base_url says.
	URL string `yaml:"url"`
	// The variable that holds its key. Empty: OPENAI_API_KEY for openai, none for others.
	APIKeyEnv string `yaml:"api_key_env" format:"variable"`
	// Empty: realtime.model.
	Model string `yaml:"model" max:"200"`
	// Empty: realtime.voice.
	Voice string `yaml:"voice" max:"200"`
	// Empty: realtime.transcription_model.
	TranscriptionModel string `yaml:"transcription_model" max:"200"`
	// Samples a second of the caller's voice: 8000, 16000, 24000 or 48000; 0: the profile's.
	RateIn int `yaml:"rate_in" min:"0" max:"48000"`
	// The same of the model's voice.
	RateOut int `yaml:"rate_out" min:"0" max:"48000"`
	// How sessions are written. Empty: as in the profile.
	Shape string `yaml:"shape" enum:",ga,beta"`
	// How it is told what was said before: one item for each message, one for all, or as part of the instructions. Empty: as in
	// the profile.
	History string `yaml:"history" enum:",items,packed,instructions"`
	// A variable with further headers: name=value, with the value URL-encoded, separated by commas.
	HeadersEnv string `yaml:"headers_env" format:"variable"`
	// Of the profile live: who does what the voice delegates, where that is another than for all.
	Live UpstreamLive `yaml:"live,flow"`

	// Key and Headers are what the variables hold.
	Key     access.Secret            `yaml:"-"`
	Headers map[string]access.Secret `yaml:"-"`
	// KeyHeader carries the key, if not as in the profile.
	KeyHeader string `yaml:"-"`
}

// Live is who does what the voice of GPT-Live delegates.
type Live struct {
	// `responses` is a model of OpenAI's, which calls the tools; `chat` is a text turn on the same thread, by the model for text and with
	// its tools.
	Delegate live.Delegate `yaml:"delegate" default:"responses" enum:"responses,chat"`
	// Of responses: the model that does the work.
	Model string `yaml:"model" default:"gpt-6-luna" min:"1" max:"200"`
	// Of responses: how long it thinks. Empty: as long as it wants.
	Effort string `yaml:"effort" enum:",none,minimal,low,medium,high,xhigh"`
	// Of responses: what it is told beside the instructions of the voice.
	Instructions string `yaml:"instructions" max:"32768"`
}

// UpstreamLive is Live for one upstream. What is empty is that of all.
type UpstreamLive struct {
	// With the profile simulator: it is GPT-Live that is simulated. `live: true` is short for that.
	On bool `yaml:"on"`
	// Who does the work.
	Delegate live.Delegate `yaml:"delegate" enum:",responses,chat"`
	// The model that does it.
	Model string `yaml:"model" max:"200"`
	// How long it thinks.
	Effort string `yaml:"effort" enum:",none,minimal,low,medium,high,xhigh"`
	// What it is told.
	Instructions string `yaml:"instructions" max:"32768"`
}

// Over returns the settings of one upstream.
func (l Live) Over(own UpstreamLive) Live {
	return Live{
		Delegate: cmp.Or(own.Delegate, l.Delegate), Model: cmp.Or(own.Model, l.Model), Effort: cmp.Or(own.Effort, l.Effort),
		Instructions: cmp.Or(own.Instructions, l.Instructions),
	}
}

// The profiles that are also upstreams by themselves, and the transports.
const (
	UpstreamOpenAI     = "openai"
	UpstreamLiveName   = "live"
	UpstreamSimulator  = "simulator"
	TransportWebRTC    = "webrtc"
	TransportWebSocket = "websocket"
)

var (
	shortName    = regexp.MustCompile(`^[a-z0-9-]{1,32}$`)
	variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

// By returns the transport.
func (u *Upstream) By() string {
	switch u.Profile {
	case UpstreamOpenAI, UpstreamSimulator, UpstreamLiveName:
		return cmp.Or(u.Transport, TransportWebRTC)
	}
	return cmp.Or(u.Transport, TransportWebSocket)
}

// BuiltIn reports whether it is the simulator of this process.
func (u *Upstream) BuiltIn() bool { return u.Profile == UpstreamSimulator && u.URL == "" }

// IsLive reports whether it is GPT-Live, or a simulator of that.
func (u *Upstream) IsLive() bool {
	return u.Profile == UpstreamLiveName || u.Profile == UpstreamSimulator && u.Live.On
}

// Settled returns the profile with what the settings change of it.
func (u *Upstream) Settled() ws.Profile {
	name := u.Profile
	if name == UpstreamSimulator || name == UpstreamLiveName {
		name = "realtime"
	}
	p, _ := ws.Find(name) // it is one of the enum
	p.RateIn, p.RateOut = cmp.Or(u.RateIn, p.RateIn), cmp.Or(u.RateOut, p.RateOut)
	switch u.Shape {
	case "ga":
		p.Shape = ws.Shape{}
	case "beta":
		p.Shape = ws.ShapeBeta
	}
	p.History = cmp.Or(ws.History(u.History), p.History)
	if u.KeyHeader != "" && !strings.EqualFold(u.KeyHeader, p.KeyHeader) {
		p.KeyHeader, p.KeyPrefix = u.KeyHeader, ""
	}
	return p
}

// Client returns a client of its sessions by WebSocket; model is that of other upstreams.
func (u *Upstream) Client(model string) *ws.Client {
	c := &ws.Client{Profile: u.Settled(), URL: u.URL, APIKey: u.Key.Reveal(), Model: cmp.Or(u.Model, model), Header: http.Header{}}
	for name, value := range u.Headers {
		c.Header.Set(name, value.Reveal())
	}
	return c
}

// Address returns where it is, empty for the built-in simulator.
func (u *Upstream) Address() string {
	p := u.Settled()
	if u.By() == TransportWebRTC {
		return cmp.Or(u.URL, p.Calls)
	}
	return cmp.Or(u.URL, p.Address)
}

// usual is what a profile takes that VOICEBRIDGE_UPSTREAM names by itself: the variable of its key, whether it answers nobody
// without one, and names in the place of OpenAI's.
type usual struct {
	key                         string
	needsKey                    bool
	model, voice, transcription string
}

// usuals are those of the profiles whose vendors have one. Source: the vendors' pages about keys and models.
var usuals = map[string]usual{
	"azure":   {key: "AZURE_OPENAI_API_KEY", needsKey: true},
	"xai":     {key: "XAI_API_KEY", needsKey: true, model: "grok-voice-latest", voice: "eve", transcription: "grok-transcribe"},
	"inworld": {key: "INWORLD_API_KEY", needsKey: true},
	"localai": {key: "LOCALAI_API_KEY"},
	"vllm":    {key: "VLLM_API_KEY"},
	"qwen":    {key: "DASHSCOPE_API_KEY", needsKey: true, model: "qwen3.8-omni-flash-realtime"},
	"litellm": {key: "LITELLM_API_KEY"},
	"live":    {key: "OPENAI_API_KEY", model: live.Model},
}

// nameUpstream puts the upstream that the setting upstream names to the head of the list. Without a list, openai and the
// simulator need none, and the address of a WebSocket is an upstream by itself. initial are the settings of an empty
// environment.
func (l *loader) nameUpstream(environ []string, initial Realtime) {
	c := &l.cfg
	listed := slices.IndexFunc(c.Upstreams, func(u Upstream) bool { return u.Name == c.Upstream })
	_, known := ws.Find(c.Upstream)
	known = known || c.Upstream == UpstreamLiveName
	alone := len(c.Upstreams) == 0
	switch {
	case alone && isSocket(c.Realtime.URL) && c.Upstream != UpstreamSimulator:
		c.Upstreams = []Upstream{{
			Name: "realtime", Profile: "realtime", Transport: TransportWebSocket, URL: c.Realtime.URL, Key: c.VoiceKey(), KeyHeader: c.Realtime.APIKeyHeader,
		}}
	case c.Upstream == "" || alone && (c.Upstream == UpstreamOpenAI || c.Upstream == UpstreamSimulator):
	case listed >= 0:
		first := c.Upstreams[listed]
		c.Upstreams = slices.Insert(slices.Delete(c.Upstreams, listed, listed+1), 0, first)
	case known || c.Upstream == UpstreamSimulator:
		c.Upstreams = slices.Insert(c.Upstreams, 0, l.usualUpstream(environ, initial))
	default:
		l.note(fmt.Errorf("%s: %q is neither the name of one of upstreams nor a profile", named("upstream"), c.Upstream))
	}
}

// usualUpstream returns the profile that the setting upstream names, with its usual key.
func (l *loader) usualUpstream(environ []string, initial Realtime) Upstream {
	c, way := &l.cfg, usuals[l.cfg.Upstream]
	u := Upstream{Name: c.Upstream, Profile: c.Upstream}
	keyless := !c.VoiceKey().IsSet() && c.OpenAIBaseURL == openAIURL && c.Realtime.URL == ""
	if c.Upstream == UpstreamLiveName && keyless {
		u.Profile, u.Live.On = UpstreamSimulator, true
	}
	if u.Profile == UpstreamSimulator {
		return u
	}
	if u.URL = c.Realtime.URL; u.URL != "" {
		u.Transport = TransportWebRTC
		if isSocket(u.URL) {
			u.Transport = TransportWebSocket
		}
	}
	if u.Profile == UpstreamLiveName {
		u.Transport = TransportWebRTC
		u.URL = cmp.Or(u.URL, strings.TrimSuffix(c.OpenAIBaseURL, "/")+"/live/sessions")
	}
	if u.Address() == "" {
		l.note(fmt.Errorf("%s: the profile %s needs VOICEBRIDGE_REALTIME_URL", named("upstream"), c.Upstream))
	}
	u.Key = cmp.Or(c.Secrets.RealtimeKey, access.NewSecret(strings.TrimSpace(lookup(environ, way.key))))
	if u.Profile == UpstreamLiveName {
		u.Key = c.VoiceKey()
	}
	if way.needsKey && !u.Key.IsSet() {
		l.note(fmt.Errorf("%s: %s needs %s", named("upstream"), c.Upstream, way.key))
	}
	if err := checkKey(u.Key.Reveal()); err != nil {
		l.note(fmt.Errorf("%s: %w", way.key, err))
	}
	if c.Realtime.Model == initial.Model {
		u.Model = way.model
	}
	if c.Realtime.Voice == initial.Voice {
		u.Voice = way.voice
	}
	if c.Realtime.TranscriptionModel == initial.TranscriptionModel {
		u.TranscriptionModel = way.transcription
	}
	return u
}

// isSocket reports whether address is that of a WebSocket.
func isSocket(address string) bool {
	return strings.HasPrefix(address, "ws://") || strings.HasPrefix(address, "wss://")
}
