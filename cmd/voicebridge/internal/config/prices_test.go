package config

import (
	"math"
	"strings"
	"testing"

	"voicebridge/llm"
	"voicebridge/realtime"
)

const priceList = `prices:
  - {model: gpt-realtime-2.1, input: 4, cached_input: 0.4, audio_input: 32, cached_audio_input: 0.5, output: 16, audio_output: 64}
  - {model: small, input: 1, output: 2}
`

func TestPrices(t *testing.T) {
	t.Parallel()
	cfg, err := Load(Sources{File: write(t, priceList)})
	must(t, err)
	tokens := cfg
	tokens.Realtime.TranscriptionModel = "gpt-4o-transcribe"
	for name, tt := range map[string]struct {
		got  *float64
		want float64
	}{
		"voice": {cfg.VoiceCost("openai", cfg.Realtime.Model, realtime.Usage{
			InputTokens: 1000, InputAudio: 600, Cached: 500, CachedAudio: 200, OutputTokens: 100, OutputAudio: 80,
		}), (100*4 + 300*0.4 + 400*32 + 200*0.5 + 20*16 + 80*64) / 1e6},
		"text without prices for cached tokens": {cfg.TextCost("x", "small", llm.Usage{InputTokens: 100, CachedTokens: 40, OutputTokens: 10}), (100*1 + 10*2) / 1e6},
		"text with a price that comes with us":  {cfg.TextCost("x", "gpt-5.4-mini-2026-03-17", llm.Usage{InputTokens: 1e6, CachedTokens: 5e5, OutputTokens: 1e6}), 0.375 + 0.0375 + 4.5},
		"a cache that was written":              {cfg.TextCost("x", "small", llm.Usage{InputTokens: 100, CacheWrites: 80, HourWrites: 40}), (100 + 40*0.25 + 40) / 1e6},
		"counts that cannot be":                 {cfg.TextCost("x", "small", llm.Usage{InputTokens: 10, CachedTokens: 40}), 40.0 / 1e6},
		"a transcription by duration":           {cfg.TranscriptionCost("openai", cfg.Realtime.TranscriptionModel, realtime.Usage{Type: "duration", Seconds: 90}), 0.00675},
		"a transcription by tokens": {tokens.TranscriptionCost("openai", tokens.Realtime.TranscriptionModel, realtime.Usage{
			Type: "tokens", InputTokens: 1000, InputAudio: 900, OutputTokens: 100,
		}), (1000*2.5 + 100*10) / 1e6},
	} {
		if tt.got == nil || math.Abs(*tt.got-tt.want) > 1e-12 {
			t.Errorf("%s: %v, want %v", name, tt.got, tt.want)
		}
	}
	if got := cfg.TextCost("x", "small", llm.Usage{}); got != nil {
		t.Errorf("a request of which nothing was counted costs %v", *got)
	}
	if got := cfg.TextCost("x", "unknown", llm.Usage{InputTokens: 1}); got != nil {
		t.Errorf("a model without a price costs %v", *got)
	}
	named := cfg
	named.Upstreams = []Upstream{{Name: "sim", Profile: UpstreamSimulator}, {Name: "far", Profile: UpstreamSimulator, URL: "https://host"}}
	for _, free := range []*float64{
		cfg.VoiceCost("simulator", cfg.Realtime.Model, realtime.Usage{OutputTokens: 1}), cfg.TextCost("simulator", "unknown", llm.Usage{InputTokens: 1}),
		named.VoiceCost("sim", "unknown", realtime.Usage{OutputTokens: 1}), named.TranscriptionCost("sim", "gpt-live-1", realtime.Usage{Type: "duration", Seconds: 60}),
	} {
		if free == nil || *free != 0 {
			t.Errorf("the built-in simulator costs %v", free)
		}
	}
	if far := named.VoiceCost("far", cfg.Realtime.Model, realtime.Usage{OutputTokens: 1}); far == nil || *far == 0 {
		t.Errorf("an upstream elsewhere costs %v", far)
	}
	minutes := cfg
	minutes.Realtime.Model, minutes.Prices = "mine", []Price{{Model: "mine", Minute: new(1.0)}}
	if voice, text := minutes.VoiceCost("openai", minutes.Realtime.Model, realtime.Usage{OutputTokens: 1}), minutes.TextCost("x", "mine", llm.Usage{OutputTokens: 1}); voice != nil || text != nil {
		t.Errorf("tokens cost %v and %v with a price per minute", voice, text)
	}
	for kind, c := range map[string]Config{"tokens": cfg, "duration": tokens} {
		if got := c.TranscriptionCost("openai", c.Realtime.TranscriptionModel, realtime.Usage{Type: kind, InputTokens: 1, Seconds: 1}); got != nil {
			t.Errorf("a transcription by %s without such a price costs %v", kind, *got)
		}
	}
	// What was not counted is unpriced, never free.
	for name, got := range map[string]*float64{
		"a response":                   cfg.VoiceCost("openai", cfg.Realtime.Model, realtime.Usage{}),
		"a response of a total":        cfg.VoiceCost("openai", cfg.Realtime.Model, realtime.Usage{TotalTokens: 9}),
		"a transcription":              tokens.TranscriptionCost("openai", tokens.Realtime.TranscriptionModel, realtime.Usage{}),
		"a transcription of no length": cfg.TranscriptionCost("openai", cfg.Realtime.TranscriptionModel, realtime.Usage{Type: "duration"}),
	} {
		if got != nil {
			t.Errorf("%s that was not counted costs %v", name, *got)
		}
	}
	_, err = Load(Sources{File: write(t, "prices:\n  - {input: -1, output: 1}\n  - {model: a, inputs: 1}\n")})
	for _, want := range []string{"prices[0].model", "prices[0].input: -1 is not between 0 and 1000000", "prices[1].inputs"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not name %s", err, want)
		}
	}
}
