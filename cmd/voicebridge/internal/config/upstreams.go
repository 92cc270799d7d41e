package config

import (
	"cmp"
	"net/http"
	"regexp"
	"strings"

	"voicebridge/llm/speech"
	"voicebridge/realtime/ws"
	"voicebridge/web/access"
)

// Upstream is one that calls may talk to.
type Upstream struct {
	// How clients and records call it: up to 32 of a-z, 0-9 and -.
	Name string `yaml:"name" min:"1" max:"32" format:"name"`
	// What it is. realtime is any other server that speaks OpenAI's Realtime API as of 2025; live is OpenAI's GPT-Live;
	// simulator without a url is the built-in one; cascade is a text model between two servers of speech.
	Profile string `yaml:"profile" min:"1" enum:"openai,azure,xai,inworld,localai,speech-to-speech,vllm,qwen,litellm,realtime,live,cascade,simulator"`
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
	// How it is told what was said before: one item for each message, one for all, or as part of the instructions. Empty:
	// as in the profile.
	History string `yaml:"history" enum:",items,packed,instructions"`
	// A variable with further headers: name=value, with the value URL-encoded, separated by commas.
	HeadersEnv string `yaml:"headers_env" format:"variable"`
	// Of the profile cascade: in place of the settings cascade, all of them.
	Cascade *Cascade `yaml:"cascade"`

	// Key and Headers are what the variables hold.
	Key     access.Secret            `yaml:"-"`
	Headers map[string]access.Secret `yaml:"-"`
	// KeyHeader carries the key, if not as in the profile.
	KeyHeader string `yaml:"-"`
	// Unlisted means that it is made of the other settings.
	Unlisted bool `yaml:"-"`
}

// The profiles that are also upstreams by themselves, and the transports.
const (
	UpstreamOpenAI     = "openai"
	UpstreamLiveName   = "live"
	UpstreamCascade    = "cascade"
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

// IsLive reports whether it is GPT-Live.
func (u *Upstream) IsLive() bool { return u.Profile == UpstreamLiveName }

// IsCascade reports whether it is a cascade.
func (u *Upstream) IsCascade() bool { return u.Profile == UpstreamCascade }

// Speech returns the servers of a cascade, which client reaches.
func (u *Upstream) Speech(client *http.Client) (*speech.Transcriber, *speech.Speaker, error) {
	s, v := &u.Cascade.STT, &u.Cascade.TTS
	stt, err := speech.NewTranscriber(speech.Server{
		URL: s.URL, Path: s.Path, APIKey: s.Key.Reveal(), Model: cmp.Or(u.TranscriptionModel, s.Model), HTTPClient: client,
	})
	if err != nil {
		return nil, nil, err
	}
	tts, err := speech.NewSpeaker(speech.SpeakerConfig{
		Server: speech.Server{URL: v.URL, Path: v.Path, APIKey: v.Key.Reveal(), Model: v.Model, HTTPClient: client},
		Voice:  cmp.Or(u.Voice, v.Voice), Format: v.Format, Rate: v.Rate,
	})
	return stt, tts, err
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
	c := &ws.Client{
		Profile: u.Settled(), URL: u.URL, APIKey: u.Key.Reveal(), Model: cmp.Or(u.Model, model), Header: http.Header{},
	}
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

// isSocket reports whether address is that of a WebSocket.
func isSocket(address string) bool {
	return strings.HasPrefix(address, "ws://") || strings.HasPrefix(address, "wss://")
}
