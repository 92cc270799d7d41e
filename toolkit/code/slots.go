package code

import (
	"context"
	"fmt"
	"sync"
)

// slots limit how many programs run, in total and per owner. Programs wait in order of arrival,
// separately for each owner: an owner with many programs delays only their own.
type slots struct {
	all chan struct{}

	mu     sync.Mutex
	owners map[string]*share
}

// share is one owner's part of the slots.
type share struct {
	taken chan struct{}
	users int // programs that run or wait; the share is dropped with the last one
}

func newSlots(n int) *slots {
	return &slots{all: make(chan struct{}, n), owners: map[string]*share{}}
}

// enter waits for a slot. leave must be called unless there is an error, which means that ctx has
// ended.
func (p *slots) enter(ctx context.Context, owner string) (leave func(), err error) {
	own := p.share(owner)
	if !acquire(ctx, own.taken) {
		p.drop(owner)
		return nil, fmt.Errorf("%d other programs of this user are running", cap(own.taken))
	}
	if !acquire(ctx, p.all) {
		<-own.taken
		p.drop(owner)
		return nil, fmt.Errorf("%d other programs are running", cap(p.all))
	}
	return func() {
		<-p.all
		<-own.taken
		p.drop(owner)
	}, nil
}

// acquire takes a free slot, or waits for one until ctx ends.
func acquire(ctx context.Context, slots chan struct{}) bool {
	select {
	case slots <- struct{}{}:
		return true
	default:
	}
	select {
	case slots <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func (p *slots) share(owner string) *share {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.owners[owner]
	if s == nil {
		s = &share{taken: make(chan struct{}, max(1, cap(p.all)-1))}
		p.owners[owner] = s
	}
	s.users++
	return s
}

func (p *slots) drop(owner string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.owners[owner]
	if s.users--; s.users == 0 {
		delete(p.owners, owner)
	}
}
