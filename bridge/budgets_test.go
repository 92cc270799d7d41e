package bridge

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"voicebridge/bridge/internal/session"
	"voicebridge/persistence/records"
)

// fakeUsage is what one owner has spent.
type fakeUsage struct {
	mu  sync.Mutex
	usd float64
	err error
}

func (u *fakeUsage) set(usd float64, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.usd, u.err = usd, err
}

func (u *fakeUsage) UsageByDay(_ context.Context, owner string, first, last time.Time) ([]records.DayUsage, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if owner != "ada" || !first.Equal(last) || u.err != nil {
		return nil, errors.Join(u.err, errors.New("not asked for today"))
	}
	return []records.DayUsage{{CostUSD: new(u.usd / 2)}, {}, {CostUSD: new(u.usd / 2)}}, nil
}

// TestBudgetIsShared ends a call because of what its owner spends in other calls, even if
// the database was away in between.
func TestBudgetIsShared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, func(b *bubble) {
			b.cfg.Budget, b.cfg.OwnerSpentUSD = session.Budget{OwnerDayUSD: 4, WarnPercent: 50}, 1
		})
		b.ready()
		spent := &fakeUsage{}
		ctx, cancel := context.WithCancel(t.Context())
		var watching sync.WaitGroup
		watching.Go(func() { budgets{usage: spent, live: func() []*call { return []*call{b.call} }, log: quiet()}.run(ctx) })
		spent.set(2, nil)
		time.Sleep(budgetEvery) // virtual
		synctest.Wait()
		if !b.browser.has(`"scope":"owner_day","spent_usd":2,"limit_usd":4`) {
			t.Errorf("the browser was not warned: %q", b.browser.sent)
		}
		spent.set(5, errors.New("away"))
		time.Sleep(2 * budgetEvery)
		synctest.Wait()
		if b.call.ends.Load() {
			t.Error("ended while the owner's spending is unknown")
		}
		spent.set(5, nil)
		b.end(EndBudget)
		cancel()
		watching.Wait()
	})
}
