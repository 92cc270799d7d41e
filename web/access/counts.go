package access

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"
)

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
