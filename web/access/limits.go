package access

import (
	"context"
	"errors"
	"math"
	"net/netip"
	"strings"
	"sync"
	"time"

	"voicebridge/persistence"
	"voicebridge/web/problem"

	"golang.org/x/time/rate"
)

// Limits limits what clients may use. A zero field means its default.
type Limits struct {
	MaxCalls         int // live calls of this process; default 200
	MaxCallsPerOwner int // default 20
	SetupsPerMinute  int // calls started from one address; default 60
	SignInsPerMinute int // sign-ins and wrong tokens from one address; default 10
	MaxSockets       int // thread sockets of this process; default 2000
	SocketsPerOwner  int // default 200
	TextsPerMinute   int // messages, queued messages and threads per owner; default 120
	TurnsPerOwner    int // simultaneous text turns per owner; default 16
	// ThreadsPerOwner limits one owner's threads; default 10,000.
	ThreadsPerOwner int
	// StoredBytesPerOwner limits one owner's messages and images; default 4 GiB.
	StoredBytesPerOwner int64
	// ImageBytesPerOwner limits all images of one owner; default 1 GiB.
	ImageBytesPerOwner int64
	// AllowedModels are the models that clients may name, as provider/model or provider/*; empty
	// allows all configured ones.
	AllowedModels []string
}

// MayUse reports whether clients may name the model; either name may be empty, for the configured
// one.
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
	set(&l.ThreadsPerOwner, 10_000)
	if l.StoredBytesPerOwner <= 0 {
		l.StoredBytesPerOwner = 4 << 30
	}
	if l.ImageBytesPerOwner <= 0 {
		l.ImageBytesPerOwner = 1 << 30
	}
	return l
}

// liveCalls is what the limits need to know about live calls.
type liveCalls interface {
	Live(owner, threadID string) (callID string, ok bool)
	Count() int
}

// Records are what all instances share; *persistence.Store implements it.
type Records interface {
	// TakeRate counts one use of something with a limit per minute, or says how long to wait.
	TakeRate(ctx context.Context, name string, perMinute int) (wait time.Duration, err error)
	// CallsElsewhere and TurnsElsewhere count the owner's calls and turns on other instances.
	CallsElsewhere(ctx context.Context, owner string) (int, error)
	TurnsElsewhere(ctx context.Context, owner string) (int, error)
	// CheckThreads and CheckStored return persistence.ErrQuota if the owner has no room left.
	CheckThreads(ctx context.Context, owner string, limit int) error
	CheckStored(ctx context.Context, owner string, limit int64) error
}

// Allowances are the counters for [Limits]. Without authentication the only owner is the one local
// user, for whom the limits per owner do not apply, nor does the limit on set-ups from this
// machine.
type Allowances struct {
	local   bool // there is one local user
	Setups  *RateLimit
	SignIns *RateLimit
	// Guesses counts wrong tokens and sign-ins together.
	Guesses *Guesses
	Calls   *CallLimit
	Sockets *CountLimit
	// Texts and Turns are per owner.
	Texts *RateLimit
	Turns *CountLimit
	// ImageBytesPerOwner is 0 for the one local user.
	ImageBytesPerOwner int64
	records            Records
	limits             Limits
}

// NewAllowances returns new counters. now is their clock. Zero limits mean their defaults.
func NewAllowances(l Limits, calls liveCalls, records Records, authenticated bool, now func() time.Time) *Allowances {
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
		records: records, limits: l,
		Texts:              NewRateLimit(l.TextsPerMinute, now),
		Turns:              NewCountLimit(math.MaxInt, l.TurnsPerOwner),
		ImageBytesPerOwner: l.ImageBytesPerOwner,
		Guesses:            newGuesses(l.SignInsPerMinute, signIns),
		local:              !authenticated,
		Setups:             NewRateLimit(l.SetupsPerMinute, now),
		SignIns:            signIns,
		Calls:              NewCallLimit(calls, records, l.MaxCalls, perOwner),
		Sockets:            NewCountLimit(l.MaxSockets, socketsPerOwner),
	}
}

// SetUp counts a call set-up from the address, or returns a 429.
func (l *Allowances) SetUp(ctx context.Context, address string) error {
	if ip, err := netip.ParseAddr(address); err == nil && l.local && ip.Unmap().IsLoopback() {
		return nil
	}
	address = network(address)
	if err := l.Setups.Take(address); err != nil {
		return err
	}
	return l.together(ctx, "set-ups of "+address, l.limits.SetupsPerMinute)
}

// SignIn counts a sign-in from the address, or returns a 429.
func (l *Allowances) SignIn(ctx context.Context, address string) error {
	if err := l.SignIns.Take(address); err != nil {
		return err
	}
	return l.together(ctx, "sign-ins of "+address, l.limits.SignInsPerMinute)
}

// together counts one use for all instances, or returns a 429. Each instance counts on its own
// first: what it refuses causes no database query.
func (l *Allowances) together(ctx context.Context, name string, perMinute int) error {
	wait, err := l.records.TakeRate(ctx, name, perMinute)
	if err == nil && wait > 0 {
		err = tooOften(wait)
	}
	return err
}

// Room returns a 413 if the owner has stored as much as is allowed. The one local user has no such
// limit.
func (l *Allowances) Room(ctx context.Context, owner string) error {
	if l.local {
		return nil
	}
	err := l.records.CheckStored(ctx, owner, l.limits.StoredBytesPerOwner)
	if errors.Is(err, persistence.ErrQuota) {
		return problem.TooLarge("", "You have used up your storage. Delete conversations first.")
	}
	return err
}

// Thread returns a 429 if the owner has as many threads as is allowed, or the error of Room.
func (l *Allowances) Thread(ctx context.Context, owner string) error {
	if l.local {
		return nil
	}
	err := l.records.CheckThreads(ctx, owner, l.limits.ThreadsPerOwner)
	if errors.Is(err, persistence.ErrQuota) {
		return problem.TooMany("too_many_threads", "You have reached your limit of conversations. Delete some first.", problem.RetryFull)
	}
	if err != nil {
		return err
	}
	return l.Room(ctx, owner)
}

// Text counts a text of the owner, or returns a 429. The one local user has no such limit.
func (l *Allowances) Text(ctx context.Context, owner string) error {
	if l.local {
		return nil
	}
	err := l.Texts.Take(owner)
	if err == nil {
		err = l.together(ctx, "texts of "+owner, l.limits.TextsPerMinute)
	}
	if e, ok := errors.AsType[*problem.Error](err); ok {
		return problem.TooMany("rate_limit_exceeded", "You are sending messages too fast. Try again later.", e.RetryAfter)
	}
	if err != nil {
		return err
	}
	return l.Room(ctx, owner)
}

// Turn counts a text turn of the owner until release is called, or returns a 429.
func (l *Allowances) Turn(ctx context.Context, owner string) (release func(), err error) {
	if err := l.Text(ctx, owner); err != nil {
		return nil, err
	}
	if l.local {
		return func() {}, nil
	}
	elsewhere, err := l.records.TurnsElsewhere(ctx, owner)
	if err != nil {
		return nil, err
	}
	release, ok := l.Turns.TakeBeside(owner, elsewhere)
	if !ok {
		return nil, problem.TooMany("too_many_turns", "You have reached your limit of answers in progress. Wait for one, or use the queue.", problem.RetryFull)
	}
	return release, nil
}

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
	return problem.TooMany("rate_limit_exceeded", "Too many requests from this address. Try again later.", max(wait, time.Second))
}

// forget drops the addresses that have their full allowance again or, if there are none, any one: a
// crowd must not make this grow.
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

// CountLimit limits how many of something exist at once, in total and per owner. It is safe for
// concurrent use.
type CountLimit struct {
	max, perOwner int
	mu            sync.Mutex
	total         int
	owners        map[string]int
}

// NewCountLimit returns an unused limit.
func NewCountLimit(limit, perOwner int) *CountLimit {
	return &CountLimit{max: limit, perOwner: perOwner, owners: make(map[string]int)}
}

// Take counts one more; release, called once, gives it back.
func (l *CountLimit) Take(owner string) (release func(), ok bool) { return l.TakeBeside(owner, 0) }

// TakeBeside is Take for an owner who has more elsewhere.
func (l *CountLimit) TakeBeside(owner string, elsewhere int) (release func(), ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.total >= l.max || l.owners[owner]+elsewhere >= l.perOwner {
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

// CallLimit limits live calls. Calls end on their own, so it asks the bridge which of those it
// admitted are still live. It is safe for concurrent use.
type CallLimit struct {
	calls         liveCalls
	others        elsewhere
	max, perOwner int
	mu            sync.Mutex
	starting      map[string]int
	live          map[string]map[string]string // owner → thread → call
	pending       int
}

// elsewhere is what a CallLimit needs from other instances.
type elsewhere interface {
	CallsElsewhere(ctx context.Context, owner string) (int, error)
}

// NewCallLimit returns an unused limit.
func NewCallLimit(calls liveCalls, others elsewhere, limit, perOwner int) *CallLimit {
	return &CallLimit{
		calls: calls, others: others, max: limit, perOwner: perOwner,
		starting: make(map[string]int), live: make(map[string]map[string]string),
	}
}

// Take reserves a place for a call that is being set up. done, called once, says which call it
// became, or with an empty id that it became none. moving means that the call replaces a live one.
// Calls on other instances count once they are saved: calls set up on several instances at the same
// moment may exceed the owner's limit.
func (l *CallLimit) Take(ctx context.Context, owner string, moving bool) (done func(threadID, callID string), err error) {
	others := 0
	if !moving {
		if others, err = l.others.CallsElsewhere(ctx, owner); err != nil {
			return nil, err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.prune(owner)
	if !moving && l.calls.Count()+l.pending >= l.max {
		return nil, problem.TooMany("too_many_calls", "The server has reached its limit of live calls. Try again later.", problem.RetryFull)
	}
	if !moving && len(l.live[owner])+l.starting[owner]+others >= l.perOwner {
		return nil, problem.TooMany("too_many_calls", "You have reached your limit of live calls. End one first.", problem.RetryFull)
	}
	l.pending++
	l.starting[owner]++
	return func(threadID, callID string) { l.endStart(owner, threadID, callID) }, nil
}

func (l *CallLimit) endStart(owner, threadID, callID string) {
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
