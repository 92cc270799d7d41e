// Package task runs functions in the background whose end can be awaited.
package task

import "time"

// Go runs f in a goroutine and returns a channel that is closed when f has returned.
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
	select {
	case <-done:
	case <-time.After(limit):
	}
}
