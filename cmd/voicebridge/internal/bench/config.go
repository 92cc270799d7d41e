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
	maxEvents  = 200
)

const (
	defaultWarmUp = time.Second
	// grace is how long packets that were sent in the measured time may take to arrive.
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
	// Events is how many events per second carry the model's words in each call, alongside the audio; up to 200.
	Events int
	// Bridge says how to start the bridge.
	Bridge Command
	// Version is the bridge's, for the report.
	Version string
	// Progress gets a line for each round; it may be nil.
	Progress io.Writer
}

// Command says how to start the bridge: a program that serves, prints a line with its address and reads its settings from
// the environment.
type Command struct {
	Path string
	Args []string // without the program's name
	// Environ is added to the settings of the measurement.
	Environ []string
	// Dir is where the bridge's folder is made; empty means the system's temporary folder.
	Dir string
	// Database is the address of its database; empty means an SQLite file in its folder.
	Database string
	// Ready is the type of the event after which a caller is heard; empty means bridge.ready.
	Ready string
}

func (c Config) validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(len(c.Calls) > 0, "nothing to measure: give a number of calls")
	for _, n := range c.Calls {
		check(n >= 1 && n <= maxCalls, "%d calls at once: it must be 1 to %d", n, maxCalls)
	}
	check(c.Duration >= time.Millisecond && c.Duration <= maxSeconds*time.Second, "a duration of %s: it must be up to %d s", c.Duration, maxSeconds)
	check(c.Events >= 0 && c.Events <= maxEvents, "%d events a second: it must be 0 to %d", c.Events, maxEvents)
	return errors.Join(errs...)
}
