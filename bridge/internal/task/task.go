// Package task runs functions beside their caller, which can wait for their end.
package task

import "time"

// Go runs f and closes the channel when it has returned.
func Go(f func()) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	return done
}

// Await waits for the end, but no longer than limit.
func Await(done <-chan struct{}, limit time.Duration) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
}
