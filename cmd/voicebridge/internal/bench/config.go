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

// Config says what is measured.
type Config struct {
	// Calls are the numbers of simultaneous calls, one round each; up to 5000.
	Calls []int
	// Duration is the measured time of each round: 1 ms to an hour.
	Duration time.Duration
	// Events is how many events per second carry the model's words in each call, alongside the audio; up to 200.
	Events int
	// Socket has the bridge reach the upstream over WebSocket, where the sound of the model's words comes with them.
	Socket bool
	// Record has the calls recorded.
	Record bool
	// Bridge says how to start the bridge.
	Bridge Command
	// Version is the bridge's, for the report.
	Version string
	// Progress gets a line for each round; it may be nil.
	Progress io.Writer
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
