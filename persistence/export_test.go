package persistence

import "time"

// LockKey lets a test wait until an instance is gone.
var LockKey = lockKey

// Hurry makes a store look for what others did, and test its line to them, more
// often. It is called before Serve and Watch.
func Hurry(s *Store, every time.Duration) {
	s.poll = every
	s.eng.(*postgresEngine).testEvery = every
}
