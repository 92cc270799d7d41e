package session

import "time"

// guard keeps a call within its limits.
type guard struct {
	*core
	limits   Limits
	spent    float64
	warned   map[string]bool
	activeAt time.Time
}

func newGuard(c *core) *guard {
	return &guard{core: c, limits: c.Limits, warned: make(map[string]bool), activeAt: c.now}
}

// active notes that somebody does something.
func (g *guard) active() { g.activeAt = g.now }

// idleAt is when the call ends because nobody does anything; zero is never.
func (g *guard) idleAt() time.Time {
	if g.limits.Idle <= 0 || g.phase != live {
		return time.Time{}
	}
	return g.activeAt.Add(g.limits.Idle)
}

// charge adds what something has cost. It warns once of each budget, and says whether
// one is used up.
func (g *guard) charge(cost *float64) (over bool) {
	if cost == nil {
		return false
	}
	g.spent += *cost
	for _, b := range []struct {
		scope        string
		spent, limit float64
	}{{"call", g.spent, g.limits.CallUSD}, {"owner_day", g.limits.OwnerSpentUSD + g.spent, g.limits.OwnerDayUSD}} {
		if b.limit <= 0 {
			continue
		}
		if b.spent >= b.limit*float64(g.limits.WarnPercent)/100 && !g.warned[b.scope] {
			g.warned[b.scope] = true
			g.tell(budgetEvent{Type: "bridge.budget.warning", Scope: b.scope, SpentUSD: b.spent, LimitUSD: b.limit})
		}
		over = over || b.spent >= b.limit
	}
	return over
}
