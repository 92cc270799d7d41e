package records

import (
	"context"
	"fmt"
	"time"

	"voicebridge/persistence/internal/database"
	"voicebridge/persistence/internal/dbtype"
	"voicebridge/persistence/internal/pgdb"
	"voicebridge/thread"
)

// Limits of [Store.UsageByDay].
const (
	// MaxUsageDays is the longest range, in days.
	MaxUsageDays = 366
	maxUsageRows = 10_000
)

// DayUsage is the usage of one thread's responses on one UTC day.
type DayUsage struct {
	ThreadID string
	Title    string // the thread's current title
	Day      string // YYYY-MM-DD
	// Responses counts all that began on the day, including failed ones.
	Responses int64
	// Tokens as counted by the upstreams. InputTokens includes CachedTokens.
	InputTokens, OutputTokens, CachedTokens int64
	// CostUSD is the sum of the known costs, nil if none is known.
	CostUSD *float64
	// Unpriced counts the responses that were given, or used tokens, and whose cost is unknown.
	Unpriced int64
}

// UsageByDay sums the usage of the owner's responses by thread and day, latest day first. first and
// last are UTC dates, both included. The usage of deleted threads is gone with them. ErrInvalid
// means that the range has more than MaxUsageDays, or the result more than 10,000 rows.
func (s *Store) UsageByDay(ctx context.Context, owner string, first, last time.Time) ([]DayUsage, error) {
	since, before := midnight(first), midnight(last).AddDate(0, 0, 1)
	switch days := before.Sub(since) / (24 * time.Hour); {
	case !thread.ValidID(owner):
		return nil, fmt.Errorf("sum usage: %w",
			database.Invalid("owner: it is not 1 to %d bytes of text", thread.MaxIDBytes))
	case days < 1 || days > MaxUsageDays:
		return nil, fmt.Errorf("sum usage: %w",
			database.Invalid("range: from the first to the last day, 1 to %d days", MaxUsageDays))
	case since.Year() < 1 || before.Year() > 9999:
		return nil, fmt.Errorf("sum usage: %w", database.Invalid("range: the years are 1 to 9999"))
	}
	rows, err := s.db.Read().UsageByDay(ctx, pgdb.UsageByDayParams{
		Owner: owner, Since: dbtype.At(since), Before: dbtype.At(before), MaxRows: maxUsageRows + 1,
	})
	if err != nil {
		return nil, s.db.Fail("sum usage", err)
	}
	if len(rows) > maxUsageRows {
		return nil, fmt.Errorf("sum usage: %w",
			database.Invalid("range: there are more than %d threads and days in it", maxUsageRows))
	}
	usage := make([]DayUsage, 0, len(rows))
	for _, r := range rows {
		u := DayUsage{
			ThreadID: r.ThreadID, Title: r.Title, Day: r.Day, Responses: r.Responses, Unpriced: r.Unpriced,
			InputTokens: r.InputTokens, OutputTokens: r.OutputTokens, CachedTokens: r.CachedTokens,
		}
		if r.Priced > 0 {
			u.CostUSD = new(microdollars(r.CostUSD))
		}
		usage = append(usage, u)
	}
	return usage, nil
}

// midnight returns the beginning of a time's UTC day.
func midnight(t time.Time) time.Time { return t.UTC().Truncate(24 * time.Hour) }
