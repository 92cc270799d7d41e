package access

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"time"

	"voicebridge/persistence"
	"voicebridge/web/problem"
)

// Limits are what protects the process. Those per owner are not for the one local user.
type Limits struct {
	// Live calls in this process.
	MaxCalls int `yaml:"max_calls" default:"200" min:"1" max:"100000"`
	// Live calls in all processes together.
	MaxCallsPerOwner int `yaml:"max_calls_per_owner" default:"20" min:"1" max:"100000"`
	// Call set-ups, in all processes together.
	SetupsPerMinute int `yaml:"setups_per_minute_per_ip" default:"60" min:"1" max:"100000"`
	// Wrong tokens, also to sign in, in all processes together.
	SignInsPerMinute int `yaml:"sign_ins_per_minute_per_ip" default:"10" min:"1" max:"100000"`
	// WebSockets in this process.
	MaxSockets int `yaml:"max_sockets" default:"2000" min:"1" max:"1000000"`
	// WebSockets in all processes together.
	SocketsPerOwner int `yaml:"max_sockets_per_owner" default:"200" min:"1" max:"1000000"`
	// Messages, queued messages, images and threads, in all processes together.
	TextsPerMinute int `yaml:"texts_per_minute_per_owner" default:"120" min:"1" max:"1000000"`
	// Simultaneous text turns, in all processes together.
	TurnsPerOwner int `yaml:"max_turns_per_owner" default:"16" min:"1" max:"1000000"`
	// All images together.
	ImageBytesPerOwner int64 `yaml:"image_mb_per_owner" default:"1024" min:"1" max:"1000000"`
	// Conversations.
	ThreadsPerOwner int `yaml:"max_threads_per_owner" default:"10000" min:"1" max:"100000000"`
	// Messages, images and what is kept for hooks together.
	StoredBytesPerOwner int64 `yaml:"stored_mb_per_owner" default:"4096" min:"1" max:"100000000"`
	// Models that clients may name: provider/model or provider/*; empty: all.
	AllowedModels []string `yaml:"allowed_models" format:"model"`
}

// Limits on the memory of bodies, in bytes. Decoding and saving an image takes up to ten times as much for a moment.
const (
	maxBodies         = 256 << 20
	MaxBodiesPerOwner = 32 << 20
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

// Records is what the limits need of the store, which all instances share; *records.Store
// implements it.
type Records interface {
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

// NewAllowances returns new counters. now is their clock.
func NewAllowances(
	l Limits, records Records, rates Rates, authenticated bool, now func() time.Time,
) *Allowances {
	if !authenticated {
		l.MaxCallsPerOwner, l.SocketsPerOwner, l.ImageBytesPerOwner = 0, l.MaxSockets, 0
	}
	return &Allowances{
		records: records, rates: rates, limits: l,
		Texts:              NewRateLimit(l.TextsPerMinute, now),
		ImageBytesPerOwner: l.ImageBytesPerOwner,
		Guesses:            newGuesses(l.SignInsPerMinute, rates, now),
		local:              !authenticated,
		Setups:             NewRateLimit(l.SetupsPerMinute, now),
		Sockets:            NewCountLimit(l.MaxSockets, l.SocketsPerOwner),
		Bodies:             NewByteLimit(maxBodies, MaxBodiesPerOwner),
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

// Calls are the limits of one owner's live calls in all processes, 0 for none, and of all in this one.
func (l *Allowances) Calls() (ofOwner, all int) { return l.limits.MaxCallsPerOwner, l.limits.MaxCalls }

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
		return problem.TooMany("too_many_threads", "You have reached your limit of conversations. Delete some first.",
			problem.RetryFull)
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
		return problem.TooMany("rate_limit_exceeded", "You are sending messages too fast. Try again later.",
			e.RetryAfter)
	}
	if err != nil {
		return err
	}
	return l.Room(ctx, owner)
}
