package chat

import (
	"context"
	"maps"
	"time"

	"voicebridge/assistant"
	"voicebridge/thread"
)

// of returns the configuration of turns on a thread, which that of its assistant is. user is the user's name, empty if
// the turn does not say it.
func (c *Config) of(ctx context.Context, key thread.Key, user string) (*Config, error) {
	a, err := c.Store.Assistants.Of(ctx, key)
	if err != nil || a.ID == "" {
		return c, err
	}
	if user == "" && c.UserName != nil {
		user = c.UserName(key.Owner)
	}
	return c.with(a.Filled(time.Now(), user)), nil
}

// with returns the configuration of turns that an assistant has: what it leaves out stays.
func (c *Config) with(a assistant.Assistant) *Config {
	out := *c
	out.assistant = a
	if a.Instructions != "" {
		out.Instructions, out.SpokenInstructions = a.Instructions, a.Instructions
	}
	if _, err := c.provider(a.Text.Provider); err == nil { // else it is gone from the settings
		out.Provider = a.Text.Provider
	}
	if a.Text.Model != "" && (a.Text.Provider == "" || a.Text.Provider == out.Provider) {
		out.Models = map[string]string{}
		maps.Copy(out.Models, c.Models)
		out.Models[out.Provider] = a.Text.Model
	}
	out.temperature = a.Text.Temperature
	for _, n := range []struct {
		to  *int
		own *int
	}{
		{&out.History.MaxTurns, a.History.MaxTurns}, {&out.History.MaxTokens, a.History.MaxTokens},
		{&out.History.TrimChunkTokens, a.History.TrimChunkTokens}, {&out.MaxToolRounds, a.History.MaxToolRounds},
	} {
		if n.own != nil {
			*n.to = *n.own
		}
	}
	out.History = out.History.withDefaults()
	out.ApproveTools = out.ApproveTools.With(a.Tools.Approve)
	return &out
}
