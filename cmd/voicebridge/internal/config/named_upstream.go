package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"voicebridge/realtime/live"
	"voicebridge/realtime/ws"
	"voicebridge/web/access"
)

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
	if c.Upstream == UpstreamLiveName && !c.VoiceKey().IsSet() && c.OpenAIBaseURL == openAIURL && c.Realtime.URL == "" {
		u.Profile, u.Live.On = UpstreamSimulator, true // which needs no key
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
		u.Transport, u.URL = TransportWebRTC, cmp.Or(u.URL, strings.TrimSuffix(c.OpenAIBaseURL, "/")+"/live/sessions")
	}
	if u.Address() == "" {
		l.note(fmt.Errorf("%s: the profile %s needs VOICEBRIDGE_REALTIME_URL", named("upstream"), c.Upstream))
	}
	u.Key = cmp.Or(c.Secrets.RealtimeKey, map[bool]access.Secret{true: c.Secrets.OpenAIKey}[c.Upstream == UpstreamLiveName], access.NewSecret(strings.TrimSpace(lookup(environ, way.key))))
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
