// Package leg has the two sides of a call: the connection of the caller's browser and
// the sessions of the upstream, each with the goroutines that send its events and pass
// its sound on. What they are told goes to the call as session.Input; they decide
// nothing.
package leg
