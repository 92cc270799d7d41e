package access

import (
	"cmp"
	"context"
	"errors"
	"math"
	"net/netip"
	"strings"
	"time"
	"voicebridge/persistence"
	"voicebridge/web/problem"
)

// Limits limits what clients may use. A zero field means its default.
type Limits struct {
	MaxCalls         int // live calls of this process; default 200
	MaxCallsPerOwner int // default 20
	SetupsPerMinute  int // calls started from one address; default 60
	SignInsPerMinute int // wrong tokens from one address, also to sign in; default 10
	MaxSockets       int // thread sockets of this process; default 2000
	SocketsPerOwner  int // default 200
	TextsPerMinute   int // messages, queued messages and threads per owner; default 120
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

// Limits on the memory of bodies, in bytes. Decoding and saving an image takes up to ten times as much for a moment.
const (
	maxBodies         = 256 << 20
	maxBodiesPerOwner = 32 << 20
)

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
	l.MaxCalls = cmp.Or(max(0, l.MaxCalls), 200)
	l.MaxCallsPerOwner = cmp.Or(max(0, l.MaxCallsPerOwner), 20)
	l.SetupsPerMinute = cmp.Or(max(0, l.SetupsPerMinute), 60)
	l.SignInsPerMinute = cmp.Or(max(0, l.SignInsPerMinute), 10)
	l.MaxSockets = cmp.Or(max(0, l.MaxSockets), 2000)
	l.SocketsPerOwner = cmp.Or(max(0, l.SocketsPerOwner), 200)
	l.TextsPerMinute = cmp.Or(max(0, l.TextsPerMinute), 120)
	l.ThreadsPerOwner = cmp.Or(max(0, l.ThreadsPerOwner), 10_000)
	l.StoredBytesPerOwner = cmp.Or(max(0, l.StoredBytesPerOwner), 4<<30)
	l.ImageBytesPerOwner = cmp.Or(max(0, l.ImageBytesPerOwner), 1<<30)
	return l
}

// Records is what the limits need of the store, which all instances share; *persistence.Store
// implements it.
type Records interface {
	// CallsElsewhere counts the owner's calls on other instances.
	CallsElsewhere(ctx context.Context, owner string) (int, error)
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
	Guesses *Guesses
	Calls   *CallLimit
	Sockets *CountLimit
	// Bodies is the memory of large bodies, as they arrive and until what they hold is saved.
	Bodies *ByteLimit
	// Texts is per owner.
	Texts *RateLimit
	// ImageBytesPerOwner is 0 for the one local user.
	ImageBytesPerOwner int64
	records            Records
	rates              Rates
	limits             Limits
}

// NewAllowances returns new counters. now is their clock. Zero limits mean their defaults.
func NewAllowances(l Limits, calls liveCalls, records Records, rates Rates, authenticated bool, now func() time.Time) *Allowances {
	l = l.withDefaults()
	perOwner, socketsPerOwner := l.MaxCallsPerOwner, l.SocketsPerOwner
	if !authenticated {
		perOwner, socketsPerOwner = math.MaxInt, l.MaxSockets
	}
	if !authenticated {
		l.ImageBytesPerOwner = 0
	}
	return &Allowances{
		records: records, rates: rates, limits: l,
		Texts:              NewRateLimit(l.TextsPerMinute, now),
		ImageBytesPerOwner: l.ImageBytesPerOwner,
		Guesses:            newGuesses(l.SignInsPerMinute, rates, now),
		local:              !authenticated,
		Setups:             NewRateLimit(l.SetupsPerMinute, now),
		Calls:              NewCallLimit(calls, records, l.MaxCalls, perOwner),
		Sockets:            NewCountLimit(l.MaxSockets, socketsPerOwner),
		Bodies:             NewByteLimit(maxBodies, maxBodiesPerOwner),
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

// OwnerCalls is the limit of one owner's live calls in all processes; 0 means none.
func (l *Allowances) OwnerCalls() int {
	if l.local {
		return 0
	}
	return l.limits.MaxCallsPerOwner
}

// together counts one use for all instances, or returns a 429. Each instance counts on its own
// first: what it refuses causes no database query.
func (l *Allowances) together(ctx context.Context, name string, perMinute int) error {
	wait, err := l.rates.TakeRate(ctx, name, perMinute)
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

// Thread returns a 429 if the owner has as many threads as are allowed, or the error of Room.
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

// Text counts a text of the owner, or returns a 429 or the error of Room. The one local user has no
// such limit.
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
