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

const (
	defaultWarmUp = time.Second
	// grace is how long packets that were sent in the window may take to arrive.
	grace = 500 * time.Millisecond
)

// Config says what is measured.
type Config struct {
	// Calls are the numbers of simultaneous calls, one round for each; up to 5000.
	Calls []int
	// Duration of what is counted in each round, without and with the bridge;
	// whole seconds are shown. 1 ms to an hour.
	Duration time.Duration
	// WarmUp is how long packets flow before they count; 0 means 1 s.
	WarmUp time.Duration
	// SetUps is how many calls are set up one after the other to measure how long
	// that takes, each without and with the bridge; 0 leaves it out.
	SetUps int
	// Tools is how many tools run at once in one call while its latency is measured,
	// on one call and on the first of Calls that is larger; 0 leaves it out. Up to 64.
	Tools int
	// Bridge is how the bridge is started.
	Bridge Command
	// Version is the bridge's, for the report.
	Version string
	// Progress is told in a line what is being done; nil is told nothing.
	Progress io.Writer
}

func (c Config) validate() error {
	var errs []error
	if len(c.Calls) == 0 && c.SetUps == 0 && c.Tools == 0 {
		errs = append(errs, errors.New("there is nothing to measure: name a number of calls, of set-ups or of tools"))
	}
	for _, n := range c.Calls {
		if n < 1 || n > maxCalls {
			errs = append(errs, fmt.Errorf("%d calls at once: it must be 1 to %d", n, maxCalls))
		}
	}
	if c.Duration < time.Millisecond || c.Duration > maxSeconds*time.Second {
		errs = append(errs, fmt.Errorf("a duration of %s: it must be up to %d s", c.Duration, maxSeconds))
	}
	if c.SetUps < 0 || c.SetUps > maxSetUps {
		errs = append(errs, fmt.Errorf("%d set-ups: it must be 0 to %d", c.SetUps, maxSetUps))
	}
	if c.Tools < 0 || c.Tools > maxTools {
		errs = append(errs, fmt.Errorf("%d tools at once: it must be 0 to %d", c.Tools, maxTools))
	}
	return errors.Join(errs...)
}

func (c Config) tell(format string, args ...any) {
	if c.Progress != nil {
		_, _ = fmt.Fprintf(c.Progress, format+"\n", args...) // progress is not worth failing for
	}
}
