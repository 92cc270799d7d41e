package main

import (
	"testing"

	"voicebridge/bridge"
	"voicebridge/cmd/voicebridge/internal/config"
	"voicebridge/internal/testkit"
	"voicebridge/realtime/realtimetest"
)

// TestOtherVoiceServers reaches Azure and LocalAI with the settings from their documentation alone.
func TestOtherVoiceServers(t *testing.T) {
	for exchange, environ := range map[string][]string{
		"azure_created": {"VOICEBRIDGE_REALTIME_API_KEY=" + realtimetest.Key, "VOICEBRIDGE_REALTIME_API_KEY_HEADER=api-key", "VOICEBRIDGE_REALTIME_MODEL=my-deployment",
			"OPENAI_API_KEY=key-of-another-server"},
		"localai_created": {"VOICEBRIDGE_UPSTREAM=openai", "VOICEBRIDGE_REALTIME__CALL_BODY=json", "VOICEBRIDGE_REALTIME_MODEL=gpt-realtime"},
	} {
		t.Run(exchange, func(t *testing.T) {
			environ = append(environ, "VOICEBRIDGE_REALTIME_URL="+realtimetest.Replay(t, exchange))
			t.Chdir(t.TempDir())
			cfg, err := config.Load(config.Sources{Environ: environ})
			must(t, err)
			testkit.Equal(t, cfg.Driver(), config.UpstreamOpenAI, "the driver")
			session := `{"type":"realtime","model":"` + cfg.Realtime.Model + `"}`
			call, err := realtimeClient(&cfg, &cfg.Upstreams[0]).CreateCall(t.Context(), "v=0", []byte(session))
			if err != nil || call.Answer == "" {
				t.Errorf("CreateCall() = %+v, %v", call, err)
			}
		})
	}
}

// TestSettingsOfRoutes leaves to a cascade what it does not say: the settings of calls are for models that hear and speak.
func TestSettingsOfRoutes(t *testing.T) {
	t.Parallel()
	r := new(config.Realtime)
	r.Model, r.Voice, r.TranscriptionModel = "m", "v", "t"
	for route, want := range map[bridge.Route]bridge.Route{
		{}:                      {Model: "m", Voice: "v", TranscriptionModel: "t"},
		{Voice: "own"}:          {Model: "m", Voice: "own", TranscriptionModel: "t"},
		{Own: true, Model: "o"}: {Own: true, Model: "o"},
	} {
		testkit.Equal(t, filled(route, r), want, "%+v", route)
	}
}

// TestDataChannelOfUpstream tells OpenAI alone on which stream the data channel is: others may not know of it.
func TestDataChannelOfUpstream(t *testing.T) {
	for address, want := range map[string]int{
		"https://api.openai.com/v1": 4, "https://api.openai.com.example.org/v1": 0, "https://x.openai.azure.com/openai/v1": 0, "http://127.0.0.1:1/v1": 0,
	} {
		t.Chdir(t.TempDir())
		cfg, err := config.Load(config.Sources{Environ: []string{"OPENAI_API_KEY=k", "OPENAI_BASE_URL=" + address}})
		must(t, err)
		a := app{cfg: cfg}
		if got, media := realtimeClient(&cfg, &cfg.Upstreams[0]).DataChannel, a.mediaConfig().DataChannel; got != want || int(media) != want {
			t.Errorf("%s: the call names stream %d, its peer has %d, want %d", address, got, media, want)
		}
	}
}
