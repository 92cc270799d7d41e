package chat

import (
	"time"

	"voicebridge/persistence"
	"voicebridge/toolkit"
)

// Course is what a turn spent its time on.
type Course struct {
	Begun, Ended time.Time
	// FirstToken is how long it took until the first piece of the answer; 0 is never.
	FirstToken time.Duration
	// Requests are those to the model, Tools the calls that have ended, Saves the
	// transactions, the first maxSaves of them.
	Requests []persistence.ResponseRecord
	Tools    []toolkit.Record
	Saves    []Interval
}

// Interval is when something was done.
type Interval struct{ Begun, Ended time.Time }
