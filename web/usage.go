package web

import (
	"context"
	"math"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"voicebridge/persistence/records"
	"voicebridge/web/problem"
)

// usage serves the route about tokens and costs.
type usage struct {
	store usageStore
	now   func() time.Time
}

func (h *usage) routes(r router) { r.GET("/api/usage", h.read, r.user) }

// usageStore is what the route about usage needs of the store.
type usageStore interface {
	UsageByDay(ctx context.Context, owner string, first, last time.Time) ([]records.DayUsage, error)
}

// usageDays is the default number of days.
const usageDays = 30

// usageFigures are the totals of some responses.
type usageFigures struct {
	Responses    int64 `json:"responses"`
	InputTokens  int64 `json:"input_tokens"`
	OutputTokens int64 `json:"output_tokens"`
	CachedTokens int64 `json:"cached_tokens"` // part of the input
	// CostUSD sums the known costs; null if none is known.
	CostUSD *float64 `json:"cost_usd"`
	// Unpriced counts the responses whose cost is unknown.
	Unpriced int64 `json:"unpriced_responses"`
}

type usageRow struct {
	ThreadID string `json:"thread_id"`
	Title    string `json:"title"`
	Day      string `json:"day"` // YYYY-MM-DD, UTC
	usageFigures
}

type usageAnswer struct {
	From  string       `json:"from"` // the first and the last day
	To    string       `json:"to"`
	Usage []usageRow   `json:"usage"` // latest day first
	Total usageFigures `json:"total"`
}

// read returns what the owner's threads used, by thread and day.
func (h *usage) read(c echo.Context) error {
	last, err := queryDay(c, "to", h.now().UTC())
	if err != nil {
		return err
	}
	first, err := queryDay(c, "from", last.AddDate(0, 0, 1-usageDays))
	if err != nil {
		return err
	}
	days, err := h.store.UsageByDay(c.Request().Context(), identity(c).Owner, first, last)
	if err != nil {
		return err
	}
	answer := usageAnswer{From: first.Format(time.DateOnly), To: last.Format(time.DateOnly), Usage: make([]usageRow, 0, len(days))}
	for _, d := range days {
		row := usageRow{d.ThreadID, d.Title, d.Day, usageFigures{d.Responses, d.InputTokens, d.OutputTokens, d.CachedTokens, d.CostUSD, d.Unpriced}}
		answer.Usage = append(answer.Usage, row)
		answer.Total.add(row.usageFigures)
	}
	return c.JSON(http.StatusOK, answer)
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

// queryDay reads a UTC day from the query; it defaults to def.
func queryDay(c echo.Context, name string, def time.Time) (time.Time, error) {
	text := c.QueryParam(name)
	if text == "" {
		return def, nil
	}
	day, err := time.Parse(time.DateOnly, text)
	if err != nil || day.Year() < 1970 || day.Year() > 9998 {
		return time.Time{}, problem.BadRequest("invalid_value", name, name+" must be a day such as 2026-01-31.")
	}
	return day, nil
}
