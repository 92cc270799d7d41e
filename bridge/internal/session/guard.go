package session

import "time"

// guard keeps a call within its limits.
type guard struct {
	*core
	limits   Limits
	spent    float64
	day      ownerDay
	warned   map[string]bool
	activeAt time.Time
}

func newGuard(c *core) *guard {
	return &guard{
		core: c, limits: c.Limits, day: ownerDay{read: c.Limits.OwnerSpentUSD, others: c.Limits.OwnerSpentUSD},
		warned: make(map[string]bool), activeAt: c.now,
	}
}

// active records that something is going on.
func (g *guard) active() { g.activeAt = g.now }

// idleAt is when the call ends for being idle; zero means never.
func (g *guard) idleAt() time.Time {
	if g.limits.Idle <= 0 || g.phase != live {
		return time.Time{}
	}
	return g.activeAt.Add(g.limits.Idle)
}

// ownerDay is what the owner has spent in one day, in this call and elsewhere.
type ownerDay struct {
	date   string  // empty: the day when the call began
	read   float64 // as read from the database
	others float64 // before the call, or the day, began
	before float64 // what the call had spent until then
}

// total is at least the database's figure, which may lack the call's latest responses.
func (d ownerDay) total(call float64) float64 { return max(d.read, d.others+call-d.before) }

// ownerSpent takes the owner's spending on a day, as read from the database.
func (g *guard) ownerSpent(in OwnerSpent) (over bool) {
	if g.day.date != "" && g.day.date != in.Day {
		g.day = ownerDay{before: g.spent}
		delete(g.warned, scopeOwnerDay)
	}
	g.day.date, g.day.read = in.Day, in.USD
	return g.check()
}

// charge adds a cost, and reports whether a budget is used up.
func (g *guard) charge(cost *float64) (over bool) {
	if cost == nil {
		return false
	}
	g.spent += *cost
	return g.check()
}

// The scopes of a budget.
const (
	scopeCall     = "call"
	scopeOwnerDay = "owner_day"
)

// check warns once for each budget, and reports whether one is used up.
func (g *guard) check() (over bool) {
	for _, b := range []struct {
		scope        string
		spent, limit float64
	}{{scopeCall, g.spent, g.limits.CallUSD}, {scopeOwnerDay, g.day.total(g.spent), g.limits.OwnerDayUSD}} {
		if b.limit <= 0 {
			continue
		}
		if b.spent >= b.limit*float64(g.limits.WarnPercent)/100 && !g.warned[b.scope] {
			g.warned[b.scope] = true
			g.notify(budgetEvent{Type: "bridge.budget.warning", Scope: b.scope, SpentUSD: b.spent, LimitUSD: b.limit})
		}
		over = over || b.spent >= b.limit
	}
	return over
}
