package session

import (
	"cmp"
	"time"

	"voicebridge/persistence"
	"voicebridge/persistence/hooked"
)

// limiter keeps a call within its limits.
type limiter struct {
	*core
	spent    float64
	sessions map[int]float64 // what those that are billed by their length have cost so far, by generation
	day      ownerDay
	warned   map[string]bool
	activeAt time.Time
	// askedFrom is since when nobody speaks, once the caller was asked whether they are there.
	askedFrom time.Time
}

func newLimiter(c *core) *limiter {
	return &limiter{
		core: c, sessions: make(map[int]float64), day: ownerDay{read: c.OwnerSpentUSD, others: c.OwnerSpentUSD},
		warned: make(map[string]bool), activeAt: c.now,
	}
}

// active records that something is going on.
func (l *limiter) active() { l.activeAt = l.now }

// heard records words of the caller.
func (l *limiter) heard() {
	l.active()
	l.askedFrom = time.Time{}
}

// silentBy is when something is done because nobody has spoken since the voice was last heard; zero means never.
func (l *limiter) silentBy(heard time.Time) time.Time {
	from, after := l.askedFrom, l.HangUpAfter
	if from.IsZero() {
		from, after = l.activeAt, cmp.Or(l.AskAfter, after)
		if heard.After(from) {
			from = heard
		}
	}
	if after <= 0 || l.phase != live || l.away || l.isLeaving {
		return time.Time{}
	}
	return from.Add(after)
}

// idleAt is when the call ends for being idle; zero means never.
func (l *limiter) idleAt() time.Time {
	if l.Idle <= 0 || l.phase != live {
		return time.Time{}
	}
	return l.activeAt.Add(l.Idle)
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
func (l *limiter) ownerSpent(in OwnerSpent) {
	if l.day.date != "" && l.day.date != in.Day {
		l.day = ownerDay{before: l.spent}
		delete(l.warned, scopeOwnerDay)
	}
	l.day.date, l.day.read = in.Day, in.USD
	l.check()
}

// charge adds a cost.
func (l *limiter) charge(cost *float64) {
	if cost != nil {
		l.spent += *cost
		l.check()
	}
}

// more returns how much more a session that is billed by its length has cost than was known, nil if nothing.
func (l *limiter) more(gen int, cost *float64) *float64 {
	before := l.sessions[gen]
	if cost == nil || *cost <= before {
		return nil
	}
	l.sessions[gen] = *cost
	return new(*cost - before)
}

// The scopes of a budget.
const (
	scopeCall     = "call"
	scopeOwnerDay = "owner_day"
)

// hookWarning is what hooks learn of a warning.
type hookWarning struct {
	CallID   string  `json:"call_id"`
	Scope    string  `json:"scope"`
	SpentUSD float64 `json:"spent_usd"`
	LimitUSD float64 `json:"limit_usd"`
}

// check warns once for each budget, and has the call end when one is used up.
func (l *limiter) check() {
	for _, b := range []struct {
		scope        string
		spent, limit float64
	}{{scopeCall, l.spent, l.CallUSD}, {scopeOwnerDay, l.day.total(l.spent), l.OwnerDayUSD}} {
		if b.limit <= 0 {
			continue
		}
		if b.spent >= b.limit*float64(l.WarnPercent)/100 && !l.warned[b.scope] {
			l.warned[b.scope] = true
			warning := budgetEvent{Type: "bridge.budget.warning", Scope: b.scope, SpentUSD: b.spent, LimitUSD: b.limit}
			l.notify(warning)
			l.save(persistence.PutHook{
				ID: l.newID(), Type: hooked.BudgetWarning,
				Data: encode(hookWarning{l.CallID, warning.Scope, warning.SpentUSD, warning.LimitUSD}),
			})
		}
		if b.spent >= b.limit {
			l.mustEnd = EndBudget
		}
	}
}
