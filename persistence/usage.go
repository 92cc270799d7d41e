package persistence

import (
	"context"
	"fmt"
	"math"
	"time"

	"voicebridge/persistence/internal/dbtype"
	"voicebridge/persistence/internal/pgdb"
)

// Limits of [Store.UsageByDay].
const (
	// MaxUsageDays is how many days it sums at once.
	MaxUsageDays = 366
	maxUsageRows = 10_000
)

// DayUsage is what the responses of one thread took on one day of UTC.
type DayUsage struct {
	ThreadID string
	Title    string // of the thread, as it is now
	Day      string // YYYY-MM-DD
	// Responses counts all that began on the day, also those that failed.
	Responses int64
	// Tokens, as the upstreams counted them. CachedTokens are among InputTokens.
	InputTokens, OutputTokens, CachedTokens int64
	// CostUSD is the sum of the costs that are known, nil when none is.
	CostUSD *float64
	// Unpriced counts the responses that used tokens and whose cost is not known.
	Unpriced int64
}

// UsageByDay sums what the owner's responses took, by thread and day, the latest
// day first. first and last name days by their date in UTC, and both are
// included. Threads that were deleted took what they had used with them. More
// than MaxUsageDays, or more threads and days than fit into one answer (10000),
// are ErrInvalid.
func (s *Store) UsageByDay(ctx context.Context, owner string, first, last time.Time) ([]DayUsage, error) {
	since, before := midnight(first), midnight(last).AddDate(0, 0, 1)
	switch days := before.Sub(since) / (24 * time.Hour); {
	case !validID(owner):
		return nil, fmt.Errorf("sum usage: %w owner: it is not 1 to %d bytes of text", ErrInvalid, MaxIDBytes)
	case days < 1 || days > MaxUsageDays:
		return nil, fmt.Errorf("sum usage: %w range: 1 to %d days", ErrInvalid, MaxUsageDays)
	case since.Year() < 1 || before.Year() > 9999:
		return nil, fmt.Errorf("sum usage: %w range: the years are 1 to 9999", ErrInvalid)
	}
	rows, err := s.eng.read().UsageByDay(ctx, pgdb.UsageByDayParams{
		Owner: owner, Since: dbtype.At(since), Before: dbtype.At(before), MaxRows: maxUsageRows + 1,
	})
	if err != nil {
		return nil, s.fail("sum usage", err)
	}
	if len(rows) > maxUsageRows {
		return nil, fmt.Errorf("sum usage: %w range: there are more than %d threads and days in it", ErrInvalid, maxUsageRows)
	}
	usage := make([]DayUsage, 0, len(rows))
	for _, r := range rows {
		u := DayUsage{
			ThreadID: r.ThreadID, Title: r.Title, Day: r.Day, Responses: r.Responses, Unpriced: r.Unpriced,
			InputTokens: r.InputTokens, OutputTokens: r.OutputTokens, CachedTokens: r.CachedTokens,
		}
		if r.Priced > 0 {
			u.CostUSD = new(microdollars(r.CostUsd))
		}
		usage = append(usage, u)
	}
	return usage, nil
}

// midnight is the beginning of a time's day in UTC.
func midnight(t time.Time) time.Time { return t.UTC().Truncate(24 * time.Hour) }

// microdollars cuts the noise that sums of floating-point numbers have.
func microdollars(dollars float64) float64 { return math.Round(dollars*1e6) / 1e6 }
