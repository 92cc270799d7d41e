package bridge

import (
	"context"
	"log/slog"
	"time"

	"voicebridge/bridge/internal/session"
	"voicebridge/persistence/records"
)

// budgetEvery is how often calls get their owners' spending elsewhere.
const budgetEvery = 5 * time.Second

// usage knows what owners have spent; *records.Store implements it.
type usage interface {
	UsageByDay(ctx context.Context, owner string, first, last time.Time) ([]records.DayUsage, error)
}

// budgets lets simultaneous calls, of one instance or several, share their owner's daily budget
// with each other and with text turns.
type budgets struct {
	usage usage
	live  func() []*call
	log   *slog.Logger
}

// run sends calls their owner's spending until ctx ends.
func (b budgets) run(ctx context.Context) {
	next := time.Tick(budgetEvery)
	for {
		select {
		case <-next:
			b.report(ctx)
		case <-ctx.Done():
			return
		}
	}
}

func (b budgets) report(ctx context.Context) {
	calls := make(map[string][]*call)
	for _, c := range b.live() {
		calls[c.key.Owner] = append(calls[c.key.Owner], c)
	}
	for owner, live := range calls {
		spent, err := spentToday(ctx, b.usage, owner)
		if err != nil {
			if ctx.Err() == nil {
				b.log.Warn("spending not read", "error", err)
			}
			return // the database is unavailable: try later
		}
		for _, c := range live {
			c.offer(spent)
		}
	}
}

// spentToday returns what an owner has spent today, in UTC.
func spentToday(ctx context.Context, u usage, owner string) (session.OwnerSpent, error) {
	today := time.Now().UTC()
	spent := session.OwnerSpent{Day: today.Format(time.DateOnly)}
	rows, err := u.UsageByDay(ctx, owner, today, today)
	for _, r := range rows {
		if r.CostUSD != nil {
			spent.USD += *r.CostUSD
		}
	}
	return spent, err
}
