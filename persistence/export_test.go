package persistence

import (
	"context"
	"time"
)

// Hurry makes a store look for what others did, and test its line to them, more
// often. It is called before Serve and Watch.
func Hurry(s *Store, every time.Duration) {
	s.poll.Store(int64(every))
	s.eng.(*postgresEngine).testEvery = every
}

// Silence keeps a store from saying that it lives. It is called before Serve.
func Silence(s *Store) { s.lease.every = time.Hour }

// Beat says that a store lives.
func Beat(ctx context.Context, s *Store) error { return s.beat(ctx) }

// Stored adds up what an owner stores, whatever was added up before.
func Stored(ctx context.Context, s *Store, owner string) (int64, error) {
	s.storedLess(owner)
	return s.stored(ctx, owner)
}

// Sent counts the notes that a store has sent to others, or is about to.
func Sent(s *Store) int64 {
	o := s.eng.(*postgresEngine).outbox
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.count
}

// ForgetRates deletes rates of which nothing is used, as the clean-up does.
func ForgetRates(ctx context.Context, s *Store) error { return s.forgetRates(ctx) }
