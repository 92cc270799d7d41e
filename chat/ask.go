package chat

import (
	"context"
	"errors"
	"strings"
	"time"

	"voicebridge/llm"
	"voicebridge/persistence"
	"voicebridge/persistence/records"
	"voicebridge/thread"
)

// ask sends a request that belongs to no turn of the thread, records what it used, and returns the answer's first
// bytes, up to limit of them. record says what it was for.
func (c *Config) ask(
	ctx context.Context, key thread.Key, provider llm.Provider, record records.Response, req llm.Request, limit int,
) (string, error) {
	record.ID, record.Model = persistence.NewID(), req.Model
	record.Status, record.CreatedAt = "completed", time.Now()
	var answer strings.Builder
	var usage llm.Usage
	for d, err := range provider.Stream(ctx, req) {
		if err != nil {
			return "", err
		}
		if answer.Len() < limit {
			answer.WriteString(d.Text)
		}
		if d.Usage != nil {
			usage = *d.Usage
		}
	}
	record.Usage = thread.Usage{
		InputTokens: usage.InputTokens, OutputTokens: usage.OutputTokens, CachedTokens: usage.CachedTokens,
	}
	record.RawUsage, record.FinishedAt = usage.Raw, new(time.Now())
	if c.Cost != nil {
		record.CostUSD = c.Cost(provider.Name(), req.Model, usage)
	}
	err := c.Store.Records.SaveResponse(ctx, key, record)
	if err != nil && !errors.Is(err, persistence.ErrNotFound) { // the thread may have been deleted meanwhile
		c.Logger.Warn("response not saved", "thread_id", key.Thread, "error", err)
	}
	for _, o := range c.Observers {
		if o, ok := o.(RequestObserver); ok {
			o.RequestFinished(provider.Name(), record)
		}
	}
	return answer.String(), nil
}
