package bench

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
)

// Limits of a Config.
const (
	maxCalls   = 5000
	maxSeconds = 3600
	maxSetUps  = 10_000
	maxTools   = 64
)

// What the model's words are.
const (
	// answerEvents is how many events tell one answer.
	answerEvents = 256
	// stampBytes is how many bytes of each event say when it was sent.
	stampBytes = 10
	// maxEvents and maxEventBytes bound what one call says.
	maxEvents     = 200
	maxEventBytes = 1000
)

// defaultEventBytes are the sizes of text of an event: that of a word, and that of
// a sentence.
var defaultEventBytes = []int{10, 80}

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
	// Events is how many events of its words each model tells a second, beside the sound;
	// 0 leaves the rounds with words out. Up to 200.
	Events int
	// EventBytes are the sizes of the text of an event, one round for each; none means
	// 10 and 80.
	EventBytes []int
	// NoLoad leaves out the rounds without words.
	NoLoad bool
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
	return errors.Join(append(errs, c.validateWords())...)
}

func (c Config) tell(format string, args ...any) {
	if c.Progress != nil {
		_, _ = fmt.Fprintf(c.Progress, format+"\n", args...) // progress is not worth failing for
	}
}

// eventSizes are the sizes of text that are measured.
func (c Config) eventSizes() []int {
	if c.Events == 0 {
		return nil
	}
	if len(c.EventBytes) == 0 {
		return defaultEventBytes
	}
	return c.EventBytes
}

func (c Config) validateWords() error {
	if c.Events < 0 || c.Events > maxEvents {
		return fmt.Errorf("%d events a second: it must be 0 to %d", c.Events, maxEvents)
	}
	if i := slices.IndexFunc(c.EventBytes, func(n int) bool { return n < stampBytes || n > maxEventBytes }); i >= 0 {
		return fmt.Errorf("%d bytes of text in an event: it must be %d to %d", c.EventBytes[i], stampBytes, maxEventBytes)
	}
	return nil
}
