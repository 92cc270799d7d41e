// Package bench measures how many calls a machine carries, at which latency, and what they cost it: processor time,
// memory, and the time until a call is ready.
//
// It has both ends of every call in one process, so that one clock stamps and reads each packet, and runs the bridge as
// a process of its own, whose resource use the operating system reports:
//
//	this process            another process            this process
//	browsers  ◀──UDP──▶     the bridge     ◀──UDP──▶   the upstream, which sends the audio back and speaks
//
// The upstream is the simulator, over either transport. Over WebSocket no packet comes back, as sound is decoded and
// encoded on the way: then audio has no times, and what is measured is what that costs.
package bench

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	// warmUp is how long packets flow before they count.
	warmUp = time.Second
	// grace is how long packets that were sent in the measured time may take to arrive.
	grace = 500 * time.Millisecond
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
	// Progress gets the number of calls of each round before it begins.
	Progress func(calls int)
}

func (c *Config) validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(len(c.Calls) > 0, "nothing to measure: give a number of calls")
	for _, n := range c.Calls {
		check(n >= 1 && n <= 5000, "%d calls at once: it must be 1 to 5000", n)
	}
	long := c.Duration < time.Millisecond || c.Duration > time.Hour
	check(!long, "a duration of %s: it must be up to 3600 s", c.Duration)
	check(c.Events >= 0 && c.Events <= 200, "%d events a second: it must be 0 to 200", c.Events)
	return errors.Join(errs...)
}

// Run measures. It fails when a call cannot be made or is lost, when the bridge ends, and when ctx ends; the report then
// has what was measured until then.
func Run(ctx context.Context, c Config) (Report, error) {
	report := newReport(c)
	if err := c.validate(); err != nil {
		return report, fmt.Errorf("check settings: %w", err)
	}
	for _, n := range c.Calls {
		if c.Progress != nil {
			c.Progress(n)
		}
		round, err := measure(ctx, c, n)
		if err != nil {
			return report, fmt.Errorf("measure %d calls: %w", n, err)
		}
		report.Rounds = append(report.Rounds, round)
	}
	report.Notes = report.doubts()
	return report, nil
}

// measure measures n calls at once.
func measure(ctx context.Context, c Config, n int) (round Round, err error) {
	r := &rig{load: newLoad()}
	r.alive, r.end = context.WithCancelCause(ctx)
	defer func() { err = r.close(err) }()

	if err := r.open(c, n); err != nil {
		return round, err
	}
	idle, usageErr := r.bridge.usage()
	if err := r.dial(n); err != nil {
		return round, err
	}

	sending, stop := context.WithCancel(r.alive)
	defer stop()
	r.send(sending, c.Events)
	if err := wait(r.alive, time.Now().Add(warmUp)); err != nil {
		return round, err
	}
	began := time.Now()
	before, _ := r.bridge.usage() // if idle was read
	ends := r.load.open(c.Duration)
	if err := wait(r.alive, ends); err != nil {
		return round, err
	}
	after, _ := r.bridge.usage()
	seconds := time.Since(began).Seconds()
	if err := wait(r.alive, ends.Add(grace)); err != nil {
		return round, err
	}

	stop()
	r.all.Wait()
	l := r.load
	round = Round{Calls: n, Audio: l.audio.path(), Words: l.words.path(), Ready: l.ready.path()}
	round.LateP99 = l.late.path().P99
	if usageErr == nil {
		round.Bridge = newProcess(n, idle, before, after, seconds)
	}
	return round, nil
}

// wait waits until a time. It returns the cause if ctx ends first.
func wait(ctx context.Context, until time.Time) error {
	select {
	case <-time.After(time.Until(until)):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
