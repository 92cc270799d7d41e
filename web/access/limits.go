package access

import (
	"errors"
	"math"
	"net/netip"
	"strings"
	"sync"
	"time"

	"voicebridge/web/problem"

	"golang.org/x/time/rate"
)

// Limits bound what callers may use. A zero field means its default.
type Limits struct {
	MaxCalls         int // live calls of this process; default 200
	MaxCallsPerOwner int // default 20
	SetupsPerMinute  int // calls started from one address; default 60
	SignInsPerMinute int // sign-ins and wrong tokens from one address; default 10
	MaxSockets       int // thread sockets of this process; default 2000
	SocketsPerOwner  int // default 200
	TextsPerMinute   int // messages, queued messages and threads of one owner; default 120
	TurnsPerOwner    int // text turns of one owner at once; default 16
	// ImageBytesPerOwner is what all images of one owner may have; default 1 GiB.
	ImageBytesPerOwner int64
	// AllowedModels are the models that callers may name, as provider/model or
	// provider/*; empty allows all that are configured.
	AllowedModels []string
}

// MayUse reports whether callers may name the model; either name may be empty, for
// the configured one.
func (l Limits) MayUse(provider, model string) bool {
	if len(l.AllowedModels) == 0 || provider == "" && model == "" {
		return true
	}
	for _, allowed := range l.AllowedModels {
		p, m, _ := strings.Cut(allowed, "/")
		if (provider == "" || p == provider) && (model == "" || m == "*" || m == model) {
			return true
		}
	}
	return false
}

func (l Limits) withDefaults() Limits {
	set := func(field *int, def int) {
		if *field <= 0 {
			*field = def
		}
	}
	set(&l.MaxCalls, 200)
	set(&l.MaxCallsPerOwner, 20)
	set(&l.SetupsPerMinute, 60)
	set(&l.SignInsPerMinute, 10)
	set(&l.MaxSockets, 2000)
	set(&l.SocketsPerOwner, 200)
	set(&l.TextsPerMinute, 120)
	set(&l.TurnsPerOwner, 16)
	if l.ImageBytesPerOwner <= 0 {
		l.ImageBytesPerOwner = 1 << 30
	}
	return l
}

// liveCalls is what the limits need of the live calls.
type liveCalls interface {
	Live(owner, threadID string) (callID string, ok bool)
	Count() int
}

// Allowances hold the counters of [Limits]. One local user is the only owner there is, so the
// limit by owner does not apply without authentication, nor that of set-ups from
// this machine.
type Allowances struct {
	local   bool // there is one local user
	Setups  *RateLimit
	SignIns *RateLimit
	// Guesses counts wrong tokens, together with sign-ins.
	Guesses *Guesses
	Calls   *CallLimit
	Sockets *CountLimit
	// Texts and Turns are by owner.
	Texts *RateLimit
	Turns *CountLimit
	// ImageBytesPerOwner is 0 for the one local user.
	ImageBytesPerOwner int64
}

// NewAllowances returns the counters by the clock now. Zero limits are their defaults.
func NewAllowances(l Limits, calls liveCalls, authenticated bool, now func() time.Time) *Allowances {
	l = l.withDefaults()
	perOwner, socketsPerOwner := l.MaxCallsPerOwner, l.SocketsPerOwner
	if !authenticated {
		perOwner, socketsPerOwner = l.MaxCalls, l.MaxSockets
	}
	signIns := NewRateLimit(l.SignInsPerMinute, now)
	if !authenticated {
		l.ImageBytesPerOwner = 0
	}
	return &Allowances{
		Texts:              NewRateLimit(l.TextsPerMinute, now),
		Turns:              NewCountLimit(math.MaxInt, l.TurnsPerOwner),
		ImageBytesPerOwner: l.ImageBytesPerOwner,
		Guesses:            newGuesses(l.SignInsPerMinute, signIns),
		local:              !authenticated,
		Setups:             NewRateLimit(l.SetupsPerMinute, now),
		SignIns:            signIns,
		Calls:              NewCallLimit(calls, l.MaxCalls, perOwner),
		Sockets:            NewCountLimit(l.MaxSockets, socketsPerOwner),
	}
}

// SetUp counts a call that is started from the address, or is a 429.
func (l *Allowances) SetUp(address string) error {
	if ip, err := netip.ParseAddr(address); err == nil && l.local && ip.Unmap().IsLoopback() {
		return nil
	}
	return l.Setups.Take(network(address))
}

// Text counts a text of the owner, or is a 429. The one local user has no such limit.
func (l *Allowances) Text(owner string) error {
	if l.local {
		return nil
	}
	if err := l.Texts.Take(owner); err != nil {
		e, _ := errors.AsType[*problem.Error](err)
		return problem.TooMany("rate_limit_exceeded", "You have sent too many texts in a minute. Try again later.", e.RetryAfter)
	}
	return nil
}

// Turn counts a text turn of the owner until release is called, or is a 429.
func (l *Allowances) Turn(owner string) (release func(), err error) {
	if err := l.Text(owner); err != nil {
		return nil, err
	}
	if l.local {
		return func() {}, nil
	}
	release, ok := l.Turns.Take(owner)
	if !ok {
		return nil, problem.TooMany("too_many_turns", "You have reached your limit of answers in progress. Wait for one, or use the queue.", problem.RetryFull)
	}
	return release, nil
}

// maxAddresses bounds the memory of a RateLimit.
const maxAddresses = 10_000

// RateLimit lets each address do something so many times a minute. Safe for
// concurrent use.
type RateLimit struct {
	perMinute int
	now       func() time.Time
	mu        sync.Mutex
	all       map[string]*rate.Limiter
}

// NewRateLimit returns a limit with everything free.
func NewRateLimit(perMinute int, now func() time.Time) *RateLimit {
	return &RateLimit{perMinute: perMinute, now: now, all: make(map[string]*rate.Limiter)}
}

// Take counts one use by the address, or is a 429 that says when to come back.
func (r *RateLimit) Take(address string) error { return r.use(address, 1) }

// check is a 429 when the address has nothing left; it counts nothing.
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
	return problem.TooMany("rate_limit_exceeded", "Too many requests from this address. Try again later.", max(wait, time.Second))
}

// forget drops the addresses that have their whole allowance again, and when
// there are none, any one: a crowd must not make this grow.
func (r *RateLimit) forget(now time.Time) {
	for address, l := range r.all {
		if l.TokensAt(now) >= float64(r.perMinute) {
			delete(r.all, address)
		}
	}
	for address := range r.all {
		if len(r.all) < maxAddresses {
			return
		}
		delete(r.all, address)
	}
}

// CountLimit bounds how many of something are there at once, in all and by
// owner. Safe for concurrent use.
type CountLimit struct {
	max, perOwner int
	mu            sync.Mutex
	total         int
	owners        map[string]int
}

// NewCountLimit returns a limit with everything free.
func NewCountLimit(limit, perOwner int) *CountLimit {
	return &CountLimit{max: limit, perOwner: perOwner, owners: make(map[string]int)}
}

// Take counts one more; release, called once, takes it back.
func (l *CountLimit) Take(owner string) (release func(), ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.total >= l.max || l.owners[owner] >= l.perOwner {
		return nil, false
	}
	l.total++
	l.owners[owner]++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.total--
		if l.owners[owner]--; l.owners[owner] == 0 {
			delete(l.owners, owner)
		}
	}, true
}

// CallLimit bounds the live calls. Calls end by themselves, so it asks the
// bridge which of those it has let through are still there. Safe for concurrent
// use.
type CallLimit struct {
	calls         liveCalls
	max, perOwner int
	mu            sync.Mutex
	starting      map[string]int
	live          map[string]map[string]string // owner → thread → call
	pending       int
}

// NewCallLimit returns a limit with everything free.
func NewCallLimit(calls liveCalls, limit, perOwner int) *CallLimit {
	return &CallLimit{
		calls: calls, max: limit, perOwner: perOwner,
		starting: make(map[string]int), live: make(map[string]map[string]string),
	}
}

// Take reserves the place of a call that is being set up. done, called once,
// says which call it became; an empty id says that it became none. moving is set
// when the call takes the place of one that is live.
func (l *CallLimit) Take(owner string, moving bool) (done func(threadID, callID string), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.prune(owner)
	if !moving && l.calls.Count()+l.pending >= l.max {
		return nil, problem.TooMany("too_many_calls", "The server has reached its limit of live calls. Try again later.", problem.RetryFull)
	}
	if !moving && len(l.live[owner])+l.starting[owner] >= l.perOwner {
		return nil, problem.TooMany("too_many_calls", "You have reached your limit of live calls. End one first.", problem.RetryFull)
	}
	l.pending++
	l.starting[owner]++
	return func(threadID, callID string) { l.settle(owner, threadID, callID) }, nil
}

func (l *CallLimit) settle(owner, threadID, callID string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pending--
	if l.starting[owner]--; l.starting[owner] == 0 {
		delete(l.starting, owner)
	}
	if callID == "" {
		return
	}
	if l.live[owner] == nil {
		l.live[owner] = make(map[string]string)
	}
	l.live[owner][threadID] = callID
}

// prune forgets the owner's calls that have ended.
func (l *CallLimit) prune(owner string) {
	for threadID, callID := range l.live[owner] {
		if id, ok := l.calls.Live(owner, threadID); !ok || id != callID {
			delete(l.live[owner], threadID)
		}
	}
	if len(l.live[owner]) == 0 {
		delete(l.live, owner)
	}
}
