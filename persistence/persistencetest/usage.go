package persistencetest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"voicebridge/persistence"
	"voicebridge/persistence/records"
	"voicebridge/thread"
)

// usage sums responses of two owners around midnight UTC, whatever the time zones of the
// process and the database.
func (s suite) usage(t *testing.T) {
	b := s.setup(t)
	ctx := t.Context()
	second, stranger := newThread(t, b.store, "anna"), newThread(t, b.store, "bert")
	first := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	odd := time.FixedZone("odd", 5*60*60+45*60)
	n := 0
	save := func(key thread.Key, at time.Time, in, out, cached int64, cost *float64) {
		t.Helper()
		n++
		err := b.store.Records.SaveResponse(ctx, key, records.Response{
			ID: fmt.Sprint("r", n), Model: "m", Status: "completed", CreatedAt: at.In(odd), CostUSD: cost,
			Usage: thread.Usage{InputTokens: in, OutputTokens: out, CachedTokens: cached},
		})
		must(t, err)
	}
	save(b.key, first.Add(-time.Microsecond), 1, 1, 1, new(1.0)) // the day before
	save(b.key, first, 10, 20, 5, new(0.1))
	save(b.key, first.Add(24*time.Hour-time.Microsecond), 100, 200, 50, new(0.2))
	save(b.key, first.Add(24*time.Hour), 7, 0, 0, nil)
	save(b.key, first.Add(25*time.Hour), 0, 0, 0, nil) // it failed and used nothing
	save(second, first.Add(time.Hour), 3, 4, 0, new(0.5))
	save(second, first.Add(2*time.Hour), 30, 40, 0, nil)
	save(second, first.Add(48*time.Hour), 9, 9, 9, new(9.0)) // the day after
	save(stranger, first.Add(time.Hour), 1000, 1000, 1000, new(1000.0))
	must(t, errOf(b.store.RenameThread(ctx, second, "renamed")))
	want := []records.DayUsage{
		{ThreadID: b.key.Thread, Title: "a title", Day: "2026-03-02", Responses: 2, InputTokens: 7, Unpriced: 2},
		{ThreadID: second.Thread, Title: "renamed", Day: "2026-03-01", Responses: 2, InputTokens: 33, OutputTokens: 44, CostUSD: new(0.5), Unpriced: 1},
		{ThreadID: b.key.Thread, Title: "a title", Day: "2026-03-01", Responses: 2, InputTokens: 110, OutputTokens: 220, CachedTokens: 55, CostUSD: new(0.3)},
	}
	// Any time of a day stands for that day.
	got, err := b.store.Records.UsageByDay(ctx, "anna", first.Add(5*time.Hour), first.Add(29*time.Hour).In(odd))
	if d := diff(want, got); err != nil || d != "" {
		t.Errorf("UsageByDay() = %v, differs (-want +got):\n%s", err, d)
	}
	if got, err := b.store.Records.UsageByDay(ctx, "bert", first, first); err != nil || len(got) != 1 || got[0].InputTokens != 1000 {
		t.Errorf("UsageByDay() of another = %+v, %v", got, err)
	}
	if got, err := b.store.Records.UsageByDay(ctx, "nobody", first, first); err != nil || got == nil || len(got) != 0 {
		t.Errorf("UsageByDay() of nobody = %#v, %v", got, err)
	}
	must(t, b.store.DeleteThread(ctx, second))
	if got, err := b.store.Records.UsageByDay(ctx, "anna", first, first); err != nil || len(got) != 1 {
		t.Errorf("UsageByDay() after a thread was deleted = %+v, %v", got, err)
	}
}

func (s suite) usageLimits(t *testing.T) {
	b := s.setup(t)
	day := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		owner       string
		first, last time.Time
	}{
		"no owner":     {"", day, day},
		"a long owner": {strings.Repeat("x", thread.MaxIDBytes+1), day, day},
		"backwards":    {"anna", day, day.AddDate(0, 0, -1)},
		"too long":     {"anna", day, day.AddDate(0, 0, records.MaxUsageDays)},
		"for ever":     {"anna", time.Time{}, day.AddDate(7000, 0, 0)},
		"the year 0":   {"anna", time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC)},
		"the last day": {"anna", time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC), time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)},
	} {
		wantErr(t, "UsageByDay() "+name, errOf(b.store.Records.UsageByDay(t.Context(), c.owner, c.first, c.last)), persistence.ErrInvalid)
	}
	must(t, errOf(b.store.Records.UsageByDay(t.Context(), "anna", day, day.AddDate(0, 0, records.MaxUsageDays-1))))
	if _, err := b.store.Records.UsageByDay(t.Context(), "anna\x00", day, day); err != nil {
		wantErr(t, "UsageByDay() of a strange owner", err, persistence.ErrInvalid)
	}
}
