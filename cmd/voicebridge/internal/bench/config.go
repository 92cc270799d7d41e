package bench

import (
	"errors"
	"fmt"
	"io"
	"time"
)

// Limits of a Config.
const (
	maxCalls   = 5000
	maxSeconds = 3600
	maxSetUps  = 10_000
	maxTools   = 64
)

// Limits on the events with the model's words.
const (
	// answerEvents is how many events make up one answer.
	answerEvents = 256
	// stampBytes is how many bytes of each event hold the time of sending.
	stampBytes = 10
	// maxEvents per second and maxEventBytes are limits for one call.
	maxEvents     = 200
	maxEventBytes = 1000
)

// defaultEventBytes are the text sizes of an event: about a word, and about a sentence.
var defaultEventBytes = []int{10, 80}

const (
	defaultWarmUp = time.Second
	// grace is how long packets that were sent in the window may take to arrive.
	grace = 500 * time.Millisecond
)

// Config says what is measured.
type Config struct {
	// Calls are the numbers of simultaneous calls, one round each; up to 5000.
	Calls []int
	// Duration is the measured time of each round, without and with the bridge: 1 ms to an hour.
	Duration time.Duration
	// WarmUp is how long packets flow before they count; 0 means 1 s.
	WarmUp time.Duration
	// SetUps is how many calls are set up one after the other, each without and with the bridge, to
	// measure how long that takes; 0 skips this.
	SetUps int
	// Tools is how many tools run at once in one call while latency is measured, in rounds with one
	// call and with the first larger number of Calls; 0 skips them. Up to 64.
	Tools int
	// Events is how many events per second carry each model's words, alongside the audio; 0 skips
	// the rounds with words. Up to 200.
	Events int
	// EventBytes are the text sizes of an event, one round each; empty means 10 and 80.
	EventBytes []int
	// NoLoad skips the rounds with audio only.
	NoLoad bool
	// Bridge says how to start the bridge.
	Bridge Command
	// Version is the bridge's, for the report.
	Version string
	// Progress gets a line for each step; it may be nil.
	Progress io.Writer
}

func (c Config) validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(len(c.Calls) > 0 || c.SetUps != 0 || c.Tools != 0, "nothing to measure: give a number of calls, set-ups or tools")
	for _, n := range c.Calls {
		check(n >= 1 && n <= maxCalls, "%d calls at once: it must be 1 to %d", n, maxCalls)
	}
	check(c.Duration >= time.Millisecond && c.Duration <= maxSeconds*time.Second, "a duration of %s: it must be up to %d s", c.Duration, maxSeconds)
	check(c.SetUps >= 0 && c.SetUps <= maxSetUps, "%d set-ups: it must be 0 to %d", c.SetUps, maxSetUps)
	check(c.Tools >= 0 && c.Tools <= maxTools, "%d tools at once: it must be 0 to %d", c.Tools, maxTools)
	check(c.Events >= 0 && c.Events <= maxEvents, "%d events a second: it must be 0 to %d", c.Events, maxEvents)
	for _, n := range c.EventBytes {
		check(n >= stampBytes && n <= maxEventBytes, "%d bytes of text in an event: it must be %d to %d", n, stampBytes, maxEventBytes)
	}
	return errors.Join(errs...)
}

func (c Config) tell(format string, args ...any) {
	if c.Progress != nil {
		_, _ = fmt.Fprintf(c.Progress, format+"\n", args...) // failed progress output is no reason to stop
	}
}

// eventSizes returns the text sizes to measure.
func (c Config) eventSizes() []int {
	if c.Events == 0 {
		return nil
	}
	if len(c.EventBytes) == 0 {
		return defaultEventBytes
	}
	return c.EventBytes
}

// Command says how to start the bridge: a program that serves, prints a line with its address and
// reads its settings from the environment.
type Command struct {
	Path string
	Args []string // without the program's name
	// Environ is added to the settings of the measurement.
	Environ []string
	// Dir is where the bridge's folder is made; empty means the system's temporary folder.
	Dir string
	// Relay marks a bare relay: it passes on what the upstream says and has no events of its own.
	Relay bool
	// Database is the address of its database; empty means an SQLite file in its folder.
	Database string
}

// atOnce is how many calls are set up or ended at the same time.
const atOnce = 8
