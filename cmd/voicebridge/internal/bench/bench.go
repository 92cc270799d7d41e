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
	"fmt"
	"time"
)

const (
	// warmUp is how long packets flow before they count.
	warmUp = time.Second
	// grace is how long packets that were sent in the measured time may take to arrive.
	grace = 500 * time.Millisecond
)

// Run measures. It fails when a call cannot be made or is lost, when the bridge ends, and when ctx ends; the report
// then has what was measured until then.
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
	keptIdle, _, err := r.kept(c)
	if err != nil {
		return round, err
	}
	idle, usageErr := r.bridge.usage()
	if err := r.dial(n); err != nil {
		return round, err
	}
	dialed, _ := r.bridge.usage() // if idle was read

	sending, stop := context.WithCancel(r.alive)
	defer stop()
	r.send(sending, c.Events, c.Silent)
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
	kept, profile, err := r.kept(c)
	if err != nil {
		return round, err
	}
	if c.Kept != nil {
		c.Kept(profile)
	}
	l := r.load
	round = Round{Calls: n, Audio: l.audio.path(), Words: l.words.path(), Ready: l.ready.path()}
	round.KeptPerCall = perCall(kept-keptIdle, n)
	round.LateP99 = l.late.path().P99
	if usageErr == nil {
		round.Bridge = newProcess(n, idle, before, after, seconds)
		round.Bridge.setUp(n, idle, dialed)
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
