// Package leg holds the two sides of a call: the connection of the caller's browser and the upstream's sessions, each
// with goroutines that send its events and forward its audio. It passes what it receives to the call as session.Input,
// and makes no decisions.
package leg
