package config

import (
	"strings"
	"testing"

	"voicebridge/internal/testkit"
)

// TestNamedUpstream reads which upstream the environment names, by its name in the list, its profile or its address.
func TestNamedUpstream(t *testing.T) {
	t.Parallel()
	const list = `VOICEBRIDGE_UPSTREAMS=[{"name":"a","profile":"openai"},{"name":"b","profile":"realtime","url":"ws://h/r"}]`
	for name, c := range map[string]struct {
		environ string
		names   string // of the list
		first   string // transport, address, key and its header of the first one
		problem string
	}{
		"an address of a WebSocket":      {environ: "VOICEBRIDGE_REALTIME_URL=ws://h:1/v1/realtime?x=y OPENAI_API_KEY=sk-1", names: "realtime", first: "websocket ws://h:1/v1/realtime?x=y Authorization Bearer sk-1"},
		"a key and a header of its own":  {environ: "VOICEBRIDGE_REALTIME_URL=wss://h/r VOICEBRIDGE_REALTIME_API_KEY=k VOICEBRIDGE_REALTIME_API_KEY_HEADER=api-key OPENAI_API_KEY=sk-1", names: "realtime", first: "websocket wss://h/r api-key k"},
		"it comes before a profile":      {environ: "VOICEBRIDGE_REALTIME_URL=ws://h/r VOICEBRIDGE_UPSTREAM=xai", names: "realtime", first: "websocket ws://h/r Authorization Bearer "},
		"but not before the simulator":   {environ: "VOICEBRIDGE_REALTIME_URL=ws://h/r VOICEBRIDGE_UPSTREAM=simulator", names: "simulator", first: "webrtc  Authorization Bearer "},
		"nor before a list":              {environ: "VOICEBRIDGE_REALTIME_URL=ws://h/r " + list, names: "a b", first: "webrtc https://api.openai.com/v1/realtime/calls Authorization Bearer "},
		"a profile with its usual key":   {environ: "VOICEBRIDGE_UPSTREAM=xai XAI_API_KEY=x-1", names: "xai", first: "websocket wss://api.x.ai/v1/realtime Authorization Bearer x-1"},
		"a profile with an address":      {environ: "VOICEBRIDGE_UPSTREAM=azure AZURE_OPENAI_API_KEY=z VOICEBRIDGE_REALTIME_URL=https://h/calls", names: "azure", first: "webrtc https://h/calls api-key z"},
		"a profile that needs no key":    {environ: "VOICEBRIDGE_UPSTREAM=speech-to-speech", names: "speech-to-speech", first: "websocket ws://127.0.0.1:8765/v1/realtime Authorization Bearer "},
		"one of the list":                {environ: "VOICEBRIDGE_UPSTREAM=b " + list, names: "b a", first: "websocket ws://h/r Authorization Bearer "},
		"a profile beside a list":        {environ: "VOICEBRIDGE_UPSTREAM=simulator " + list, names: "simulator a b", first: "webrtc  Authorization Bearer "},
		"OpenAI's profile elsewhere":     {environ: "OPENAI_API_KEY=sk-1 OPENAI_BASE_URL=http://p/v1/ " + list, names: "a b", first: "webrtc http://p/v1/realtime/calls Authorization Bearer sk-1"},
		"neither a name nor a profile":   {environ: "VOICEBRIDGE_UPSTREAM=nope " + list, problem: `upstream (VOICEBRIDGE_UPSTREAM): "nope" is neither`},
		"a profile without its key":      {environ: "VOICEBRIDGE_UPSTREAM=xai", problem: "xai needs XAI_API_KEY"},
		"a profile without an address":   {environ: "VOICEBRIDGE_UPSTREAM=realtime", problem: "the profile realtime needs VOICEBRIDGE_REALTIME_URL"},
		"a WebSocket's address is wrong": {environ: "VOICEBRIDGE_REALTIME_URL=ws:///r", problem: "realtime.url (VOICEBRIDGE_REALTIME_URL)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg, err := Load(Sources{File: noFile(t), Environ: strings.Split(c.environ, " ")})
			if c.problem != "" {
				if err == nil || !strings.Contains(err.Error(), c.problem) {
					t.Fatalf("got %v, want %s", err, c.problem)
				}
				return
			}
			must(t, err)
			if names := strings.Join(namesOf(cfg.Upstreams), " "); names != c.names {
				t.Fatalf("the list is %q, want %q", names, c.names)
			}
			if c.first == "" {
				return
			}
			u := &cfg.Upstreams[0]
			p := u.Settled()
			testkit.Equal(t, u.By()+" "+u.Address()+" "+p.KeyHeader+" "+p.KeyPrefix+u.Key.Reveal(), c.first, "u.By")
		})
	}
	cfg, err := Load(Sources{File: noFile(t), Environ: []string{"VOICEBRIDGE_UPSTREAM=xai", "XAI_API_KEY=x"}})
	must(t, err)
	if u := cfg.Upstreams[0]; u.Model != "grok-voice-latest" || u.Voice != "eve" {
		t.Errorf("the model is %q, the voice %q", u.Model, u.Voice)
	}
}

func namesOf(upstreams []Upstream) (all []string) {
	for _, u := range upstreams {
		all = append(all, u.Name)
	}
	return all
}
