package config

import (
	"cmp"
	"regexp"
	"slices"

	"voicebridge/llm"
	"voicebridge/realtime"
)

// or returns the price p, or otherwise if p is nil.
func or(p *float64, otherwise float64) float64 { return *cmp.Or(p, &otherwise) }

// sum returns the cost of a response in US dollars. Tokens not marked as audio count as text.
func (p Price) sum(u realtime.Usage) float64 {
	audio := or(p.AudioInput, p.Input)
	cachedText := max(u.Cached-u.CachedAudio, 0)
	text := max(u.InputTokens-u.InputAudio-cachedText, 0)
	dollars := float64(text)*p.Input + float64(cachedText)*or(p.CachedInput, p.Input) +
		float64(max(u.InputAudio-u.CachedAudio, 0))*audio + float64(u.CachedAudio)*or(p.CachedAudio, audio) +
		float64(max(u.OutputTokens-u.OutputAudio, 0))*p.Output + float64(u.OutputAudio)*or(p.AudioOutput, p.Output)
	return dollars / 1e6
}

// shippedPrices are list prices of 2026-11-22, without discounts for batches, regions or long prompts.
//
// Source: the model pages of developers.openai.com, platform.claude.com and ai.google.dev.
func shippedPrices() []Price {
	voice := func(model string, input, cached, output, audioIn, audioCached, audioOut float64) Price {
		return Price{
			Model: model, Input: input, CachedInput: &cached, Output: output, AudioInput: &audioIn, CachedAudio: &audioCached,
			AudioOutput: &audioOut,
		}
	}
	text := func(model string, input, cached, output float64) Price {
		return Price{Model: model, Input: input, CachedInput: &cached, Output: output}
	}
	minute := func(model string, dollars float64) Price { return Price{Model: model, Minute: &dollars} }
	return []Price{
		voice("gpt-realtime-2.1", 4, 0.4, 24, 32, 0.4, 64),
		voice("gpt-realtime-2", 4, 0.4, 24, 32, 0.4, 64),
		voice("gpt-realtime-2.1-mini", 0.6, 0.06, 2.4, 10, 0.3, 20),
		voice("gpt-realtime-1.5", 4, 0.4, 16, 32, 0.4, 64),
		minute("gpt-live-1.1", 0.05),
		minute("gpt-live-1", 0.05),
		minute("gpt-transcribe", 0.0045),
		minute("gpt-live-transcribe", 0.017),
		minute("gpt-realtime-whisper", 0.017),
		text("gpt-4o-transcribe", 2.5, 2.5, 10),
		text("gpt-5.4", 2.5, 0.25, 15),
		text("gpt-5.4-mini", 0.75, 0.075, 4.5),
		text("claude-sonnet-5", 2, 0.2, 10),
		text("gemini-3.8-flash", 0.75, 0.075, 3.75),
	}
}

// snapshot matches the date at the end of the name of a dated model version.
var snapshot = regexp.MustCompile(`-\d{4}-?\d{2}-?\d{2}$`)

// Price returns what a model costs, from the operator's entries or else the built-in ones; ok is
// false if the price is unknown. A dated version costs as much as its model.
func (c *Config) Price(model string) (p Price, ok bool) {
	return find(slices.Concat(c.Prices, shippedPrices()), model)
}

func find(prices []Price, model string) (p Price, ok bool) {
	for _, name := range []string{model, snapshot.ReplaceAllString(model, "")} {
		for _, p := range prices {
			if p.Model == name {
				return p, true
			}
		}
	}
	return Price{}, false
}

// countsTokens reports whether p is a price of tokens, and not only of minutes.
func (p Price) countsTokens() bool {
	return p.Minute == nil && p.Characters == nil || p.Input != 0 || p.Output != 0
}

// isFree reports whether the built-in simulator answers by that name, whichever model it plays.
func (c *Config) isFree(upstream string) bool {
	return slices.ContainsFunc(c.Upstreams, func(u Upstream) bool { return u.Name == upstream && u.BuiltIn() })
}

// VoiceCost returns the cost of a voice model's response in US dollars, nil if unknown: no price, or nothing counted.
func (c *Config) VoiceCost(upstream, model string, u realtime.Usage) *float64 {
	if c.isFree(upstream) {
		return new(0.0)
	}
	if p, ok := c.Price(model); ok {
		return p.ofTokens(u)
	}
	return nil
}

// ofTokens returns the cost of tokens, nil if they have no price or none were counted.
func (p Price) ofTokens(u realtime.Usage) *float64 {
	if !p.countsTokens() || u.InputTokens+u.OutputTokens == 0 {
		return nil
	}
	return new(p.sum(u))
}

// TranscriptionCost returns the cost of writing down or making speech in US dollars; nil if there is no
// price, or none for the unit in which the usage is given, or nothing was counted.
func (c *Config) TranscriptionCost(upstream, model string, u realtime.Usage) *float64 {
	p, ok := c.Price(model)
	switch {
	case c.isFree(upstream):
		return new(0.0)
	case !ok:
		return nil
	case u.Type == "characters" && p.Characters != nil:
		return new(float64(u.Characters) / 1e6 * *p.Characters)
	case u.Type == "characters":
		return nil
	case u.Type != "duration":
		return p.ofTokens(u)
	case p.Minute == nil || u.Seconds == 0:
		return nil
	}
	return new(u.Seconds / 60 * *p.Minute)
}

// TextCost returns the cost of a text turn's request in US dollars, nil if unknown: no price, or nothing counted.
func (c *Config) TextCost(provider, model string, u llm.Usage) *float64 {
	if provider == ProviderSimulator {
		return new(0.0)
	}
	p, ok := c.Price(model)
	if !ok {
		return nil
	}
	cost := p.ofTokens(realtime.Usage{InputTokens: u.InputTokens, OutputTokens: u.OutputTokens, Cached: u.CachedTokens})
	if cost != nil {
		*cost += p.Input / 1e6 * (writeExtra*float64(u.CacheWrites-u.HourWrites) + hourExtra*float64(u.HourWrites))
	}
	return cost
}

// What is written into a cache costs more than other input, by these shares of its price: for five minutes and for an
// hour. Source: "Prompt caching", platform.claude.com.
const writeExtra, hourExtra = 0.25, 1
