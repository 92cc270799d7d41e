package config

import (
	"fmt"

	"voicebridge/llm"
	"voicebridge/realtime"
)

// Price is what a model costs, in US dollars for a million tokens. Audio and
// cached tokens that have no price of their own cost as much as the others.
type Price struct {
	Model       string   `koanf:"model"`
	Input       float64  `koanf:"input"`
	Output      float64  `koanf:"output"`
	CachedInput *float64 `koanf:"cached_input"`
	AudioInput  *float64 `koanf:"audio_input"`
	CachedAudio *float64 `koanf:"cached_audio_input"`
	AudioOutput *float64 `koanf:"audio_output"`
}

// or is the price p, or else if there is none.
func or(p *float64, otherwise float64) float64 {
	if p == nil {
		return otherwise
	}
	return *p
}

// text is what a text request takes.
func (p Price) text(u llm.Usage) float64 {
	return p.sum(realtime.Usage{
		InputTokens: u.InputTokens, OutputTokens: u.OutputTokens, Cached: u.CachedTokens, CachedText: u.CachedTokens,
	})
}

// sum is what a response takes. Tokens that are not said to be audio are text.
func (p Price) sum(u realtime.Usage) float64 {
	audio := or(p.AudioInput, p.Input)
	cachedText := max(u.Cached-u.CachedAudio, 0)
	text := max(u.InputTokens-u.InputAudio-cachedText, 0)
	dollars := float64(text)*p.Input + float64(cachedText)*or(p.CachedInput, p.Input) +
		float64(max(u.InputAudio-u.CachedAudio, 0))*audio + float64(u.CachedAudio)*or(p.CachedAudio, audio) +
		float64(max(u.OutputTokens-u.OutputAudio, 0))*p.Output + float64(u.OutputAudio)*or(p.AudioOutput, p.Output)
	return dollars / 1e6
}

// VoiceCost is what a response of the voice model takes; nil when nobody has said.
func (c *Config) VoiceCost(u realtime.Usage) *float64 {
	for _, p := range c.Prices {
		if p.Model == c.Realtime.Model {
			return new(p.sum(u))
		}
	}
	return nil
}

// TextCost is what a request of a text turn takes; nil when nobody has said.
func (c *Config) TextCost(_, model string, u llm.Usage) *float64 {
	for _, p := range c.Prices {
		if p.Model == model {
			return new(p.text(u))
		}
	}
	return nil
}

func (c *Config) checkPrices(w *checks) {
	for i, p := range c.Prices {
		key := fmt.Sprintf("prices[%d]", i)
		w.present(key+".model", p.Model)
		for _, v := range []float64{p.Input, p.Output, or(p.CachedInput, 0), or(p.AudioInput, 0), or(p.CachedAudio, 0), or(p.AudioOutput, 0)} {
			if v < 0 || v > 1e6 {
				w.wrong(key, "%v is no price of a million tokens", v)
			}
		}
	}
}
