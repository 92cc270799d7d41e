package config

import (
	"cmp"
	"net/http"
	"regexp"
	"strings"

	"voicebridge/realtime/live"
	"voicebridge/realtime/ws"
	"voicebridge/web/access"
)

// Upstream is one that calls may talk to.
type Upstream struct {
	// How clients and records call it: up to 32 of a-z, 0-9 and -.
	Name string `koanf:"name" min:"1" max:"32" format:"name"`
	// What it is. realtime is any other server that speaks OpenAI's Realtime API as of 2025; live is OpenAI's GPT-Live; simulator without
	// a url is the built-in one.
	Profile string `koanf:"profile" enum:"openai,azure,xai,inworld,localai,speech-to-speech,vllm,qwen,litellm,realtime,live,simulator"`
	// Empty: webrtc for openai, live and simulator, websocket for others.
	Transport string `koanf:"transport" enum:",webrtc,websocket"`
	// Of a WebSocket its address, in which {model} is replaced; of WebRTC the whole address of the calls route. Empty: the
	// profile's, or for openai what openai_base_url says.
	URL string `koanf:"url"`
	// The variable that holds its key. Empty: OPENAI_API_KEY for openai, none for others.
	APIKeyEnv string `koanf:"api_key_env" format:"variable"`
	// Empty: realtime.model.
	Model string `koanf:"model" max:"200"`
	// Empty: realtime.voice.
	Voice string `koanf:"voice" max:"200"`
	// Empty: realtime.transcription_model.
	TranscriptionModel string `koanf:"transcription_model" max:"200"`
	// Samples a second of the caller's voice: 8000, 16000, 24000 or 48000; 0: the profile's.
	RateIn int `koanf:"rate_in" min:"0" max:"48000"`
	// The same of the model's voice.
	RateOut int `koanf:"rate_out" min:"0" max:"48000"`
	// How sessions are written. Empty: as in the profile.
	Shape string `koanf:"shape" enum:",ga,beta"`
	// How it is told what was said before: one item for each message, one for all, or as part of the instructions. Empty: as in
	// the profile.
	History string `koanf:"history" enum:",items,packed,instructions"`
	// A variable with further headers: name=value, with the value URL-encoded, separated by commas.
	HeadersEnv string `koanf:"headers_env" format:"variable"`
	// Of the profile live: who does what the voice delegates, where that is another than for all.
	Live UpstreamLive `koanf:"live" yaml:",flow"`

	// Key and Headers are what the variables hold.
	Key     access.Secret            `koanf:"-"`
	Headers map[string]access.Secret `koanf:"-"`
	// KeyHeader carries the key, if not as in the profile.
	KeyHeader string `koanf:"-"`
}

// Live is who does what the voice of GPT-Live delegates.
type Live struct {
	// `responses` is a model of OpenAI's, which calls the tools; `chat` is a text turn on the same thread, by the model for text and with
	// its tools.
	Delegate live.Delegate `koanf:"delegate" default:"responses" enum:"responses,chat"`
	// Of responses: the model that does the work.
	Model string `koanf:"model" default:"gpt-6-luna" min:"1" max:"200"`
	// Of responses: how long it thinks. Empty: as long as it wants.
	Effort string `koanf:"effort" enum:",none,minimal,low,medium,high,xhigh"`
	// Of responses: what it is told beside the instructions of the voice.
	Instructions string `koanf:"instructions" max:"32768"`
}

// UpstreamLive is Live for one upstream. What is empty is that of all.
type UpstreamLive struct {
	// With the profile simulator: it is GPT-Live that is simulated. `live: true` is short for that.
	On bool `koanf:"on"`
	// Who does the work.
	Delegate live.Delegate `koanf:"delegate" enum:",responses,chat"`
	// The model that does it.
	Model string `koanf:"model" max:"200"`
	// How long it thinks.
	Effort string `koanf:"effort" enum:",none,minimal,low,medium,high,xhigh"`
	// What it is told.
	Instructions string `koanf:"instructions" max:"32768"`
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
	if u.Profile == UpstreamOpenAI || u.Profile == UpstreamSimulator || u.Profile == UpstreamLiveName {
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
