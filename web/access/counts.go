package access

import (
	"context"
	"maps"
	"sync"

	"golang.org/x/sync/semaphore"

	"voicebridge/web/problem"
)

// liveCalls is what the limits need to know about live calls.
type liveCalls interface {
	Live(owner, threadID string) (callID string, ok bool)
	Count() int
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

// ByteLimit limits how many bytes are in use at once, in total and per owner. It is safe for concurrent use.
type ByteLimit struct {
	total    *semaphore.Weighted
	perOwner int64
	mu       sync.Mutex
	owners   map[string]*ownersBytes
}

type ownersBytes struct {
	*semaphore.Weighted

	users int // who hold some of it, or wait for it
}

// NewByteLimit returns an unused limit.
func NewByteLimit(limit, perOwner int64) *ByteLimit {
	return &ByteLimit{total: semaphore.NewWeighted(limit), perOwner: perOwner, owners: make(map[string]*ownersBytes)}
}

// Take waits until the owner may use n bytes more; release, called once, gives them back. The error is that of ctx.
func (l *ByteLimit) Take(ctx context.Context, owner string, n int64) (release func(), err error) {
	own := l.enter(owner)
	if err := own.Acquire(ctx, n); err != nil {
		l.leave(owner, own)
		return nil, err
	}
	if err := l.total.Acquire(ctx, n); err != nil {
		own.Release(n)
		l.leave(owner, own)
		return nil, err
	}
	return func() {
		l.total.Release(n)
		own.Release(n)
		l.leave(owner, own)
	}, nil
}

func (l *ByteLimit) enter(owner string) *ownersBytes {
	l.mu.Lock()
	defer l.mu.Unlock()
	own := l.owners[owner]
	if own == nil {
		own = &ownersBytes{Weighted: semaphore.NewWeighted(l.perOwner)}
		l.owners[owner] = own
	}
	own.users++
	return own
}

func (l *ByteLimit) leave(owner string, own *ownersBytes) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if own.users--; own.users == 0 {
		delete(l.owners, owner)
	}
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

// ErrTooManyCalls refuses a call of an owner who has as many as are allowed.
var ErrTooManyCalls = problem.TooMany("too_many_calls", "You have reached your limit of live calls. End one first.",
	problem.RetryFull)

// NewCallLimit returns an unused limit.
func NewCallLimit(calls liveCalls, others elsewhere, limit, perOwner int) *CallLimit {
	return &CallLimit{
		calls: calls, others: others, max: limit, perOwner: perOwner,
		starting: make(map[string]int), live: make(map[string]map[string]string),
	}
}

// Take counts a call that is being set up. done, called once, says which call it became, or with an
// empty id that it became none. moving means that the call replaces a live one. Calls on other
// instances count once they are saved: if several instances set up calls at the same moment, the
// bridge refuses to save those that exceed the owner's limit.
func (l *CallLimit) Take(
	ctx context.Context, owner string, moving bool,
) (done func(threadID, callID string), err error) {
	others := 0
	if !moving {
		if others, err = l.others.CallsElsewhere(ctx, owner); err != nil {
			return nil, err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.prune(owner)
	if len(l.live) > l.max { // most of these owners have no calls any more, and may not come back
		for owner := range l.live {
			l.prune(owner)
		}
	}
	if !moving && l.calls.Count()+l.pending >= l.max {
		return nil, problem.TooMany("too_many_calls",
			"The server has reached its limit of live calls. Try again later.", problem.RetryFull)
	}
	if !moving && len(l.live[owner])+l.starting[owner]+others >= l.perOwner {
		return nil, ErrTooManyCalls
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
	maps.DeleteFunc(l.live[owner], func(threadID, callID string) bool {
		id, ok := l.calls.Live(owner, threadID)
		return !ok || id != callID
	})
	if len(l.live[owner]) == 0 {
		delete(l.live, owner)
	}
}
