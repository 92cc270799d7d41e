package chat

import (
	"time"

	"voicebridge/persistence/records"
	"voicebridge/thread"
)

// Course is what a turn spent its time on.
type Course struct {
	Begun, Ended time.Time
	// FirstToken is the time until the first piece of the answer; 0 means never.
	FirstToken time.Duration
	// Requests are the requests to the model, Tools the finished tool calls, and Saves the first transactions, at most
	// 64.
	Requests []records.Response
	Tools    []thread.ToolCall
	Saves    []Interval
}

// Interval is when something was done.
type Interval struct{ Begun, Ended time.Time }
