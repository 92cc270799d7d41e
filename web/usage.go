package web

import (
	"context"
	"math"
	"time"

	"voicebridge/web/problem"
)

// usageDays is the default number of days.
const usageDays = 30

// usageFigures are the totals of some responses.
type usageFigures struct {
	Responses    int64 `json:"responses"`
	InputTokens  int64 `json:"input_tokens"`
	OutputTokens int64 `json:"output_tokens"`
	CachedTokens int64 `json:"cached_tokens"` // part of the input tokens
	// CostUSD is the sum of the known costs; null if none is known.
	CostUSD *float64 `json:"cost_usd"`
	// Unpriced is how many responses were given, or used tokens, and have no known cost.
	Unpriced int64 `json:"unpriced_responses"`
}

type usageRow struct {
	ThreadID string `json:"thread_id" openapi:"$ref: '#/components/schemas/ID'"`
	Title    string `json:"title"`
	// Day is one of UTC.
	Day string `json:"day" openapi:"format: date"`
	usageFigures
}

type usageAnswer struct {
	From  string       `json:"from"` // the first and the last day
	To    string       `json:"to"`
	Usage []usageRow   `json:"usage"` // latest day first
	Total usageFigures `json:"total"`
}

type usageDaysOf struct {
	From string `query:"from"`
	To   string `query:"to"`
}

// usage returns what the owner's threads used, by thread and day.
func (a *api) usage(ctx context.Context, who caller, in usageDaysOf) (answer usageAnswer, err error) {
	last, err := dayOf("to", in.To, a.now().UTC())
	if err != nil {
		return answer, err
	}
	first, err := dayOf("from", in.From, last.AddDate(0, 0, 1-usageDays))
	if err != nil {
		return answer, err
	}
	days, err := a.Store.Records.UsageByDay(ctx, who.Owner, first, last)
	answer = usageAnswer{
		From: first.Format(time.DateOnly), To: last.Format(time.DateOnly), Usage: make([]usageRow, 0, len(days)),
	}
	for _, d := range days {
		figures := usageFigures{d.Responses, d.InputTokens, d.OutputTokens, d.CachedTokens, d.CostUSD, d.Unpriced}
		answer.Usage = append(answer.Usage, usageRow{d.ThreadID, d.Title, d.Day, figures})
		answer.Total.add(figures)
	}
	return answer, err
}

func (u *usageFigures) add(more usageFigures) {
	u.Responses += more.Responses
	u.InputTokens += more.InputTokens
	u.OutputTokens += more.OutputTokens
	u.CachedTokens += more.CachedTokens
	u.Unpriced += more.Unpriced
	if more.CostUSD == nil {
		return
	}
	sum := *more.CostUSD
	if u.CostUSD != nil {
		sum += *u.CostUSD
	}
	sum = math.Round(sum*1e6) / 1e6 // floating-point numbers add noise
	u.CostUSD = &sum
}

// dayOf reads a UTC day of the query; it defaults to def.
func dayOf(name, text string, def time.Time) (time.Time, error) {
	if text == "" {
		return def, nil
	}
	day, err := time.Parse(time.DateOnly, text)
	if err != nil || day.Year() < 1970 || day.Year() > 9998 {
		return time.Time{}, problem.BadRequest("invalid_value", name, name+" must be a day such as 2026-01-31.")
	}
	return day, nil
}
