package access

import (
	"maps"
	"sync"
	"time"
	"voicebridge/web/problem"

	"golang.org/x/time/rate"
)

// maxAddresses limits the memory of a RateLimit.
const maxAddresses = 10_000

// RateLimit limits how often per minute each address may do something. It is safe for concurrent
// use.
type RateLimit struct {
	perMinute int
	now       func() time.Time
	mu        sync.Mutex
	all       map[string]*rate.Limiter
}

// NewRateLimit returns an unused limit.
func NewRateLimit(perMinute int, now func() time.Time) *RateLimit {
	return &RateLimit{perMinute: perMinute, now: now, all: make(map[string]*rate.Limiter)}
}

// Take counts one use by the address, or returns a 429 that says when to retry.
func (r *RateLimit) Take(address string) error { return r.use(address, 1) }

// check returns a 429 if the address has nothing left; it counts nothing.
func (r *RateLimit) check(address string) error { return r.use(address, 0) }

func (r *RateLimit) use(address string, n int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	l, ok := r.all[address]
	if !ok {
		if n == 0 {
			return nil
		}
		if len(r.all) >= maxAddresses {
			r.forget(now)
		}
		l = rate.NewLimiter(rate.Limit(float64(r.perMinute)/60), r.perMinute)
		r.all[address] = l
	}
	if left := l.TokensAt(now); left >= 1 {
		l.AllowN(now, n)
		return nil
	}
	missing := 1 - l.TokensAt(now)
	wait := time.Duration(missing / float64(l.Limit()) * float64(time.Second))
	return tooOften(wait)
}

func tooOften(wait time.Duration) error {
	return problem.TooMany("rate_limit_exceeded", "Too many requests from this address. Try again later.",
		max(wait, time.Second))
}

// forget drops the addresses that have their full allowance again or, if there are none, an
// arbitrary one: many addresses must not use up the memory.
func (r *RateLimit) forget(now time.Time) {
	maps.DeleteFunc(r.all, func(_ string, l *rate.Limiter) bool { return l.TokensAt(now) >= float64(r.perMinute) })
	for address := range r.all {
		if len(r.all) < maxAddresses {
			return
		}
		delete(r.all, address)
	}
}
