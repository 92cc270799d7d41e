package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"
)

// Run measures. It fails when a call cannot be made or is lost, when the bridge ends, and when ctx ends; the report then
// holds what was measured until then.
func Run(ctx context.Context, c Config) (Report, error) {
	c.WarmUp = cmp.Or(c.WarmUp, defaultWarmUp)
	c.Bridge.Ready = cmp.Or(c.Bridge.Ready, "bridge.ready")
	report := newReport(c)
	if err := c.validate(); err != nil {
		return report, fmt.Errorf("check settings: %w", err)
	}
	for _, n := range c.Calls {
		if c.Progress != nil {
			_, _ = fmt.Fprintf(c.Progress, "%d calls at once, without and with the bridge, %s each\n", n, c.Duration) // its failure is no reason to stop
		}
		round, err := measureRound(ctx, c, n)
		if err != nil {
			return report, fmt.Errorf("measure %d calls: %w", n, err)
		}
		report.Rounds = append(report.Rounds, round)
	}
	report.Notes = report.doubts()
	return report, nil
}

// measureRound measures n calls without the bridge, then with it.
func measureRound(ctx context.Context, c Config, n int) (Round, error) {
	direct, err := measureHalf(ctx, c, nil, n)
	if err != nil {
		return Round{}, fmt.Errorf("without the bridge: %w", err)
	}
	bridged, err := measureHalf(ctx, c, &c.Bridge, n)
	if err != nil {
		return Round{}, fmt.Errorf("with the bridge: %w", err)
	}
	return newRound(n, direct, bridged), nil
}

func measureHalf(ctx context.Context, c Config, command *Command, n int) (h half, err error) {
	r, err := openRig(ctx, command, n)
	if err != nil {
		return h, err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	h.idle, err = r.usage()
	h.known = err == nil
	l := newLoad(n)
	defer func() { err = errors.Join(r.explain(err), r.hangUp(l)) }()
	if err := r.dial(l); err != nil {
		return h, err
	}
	sending, stop := context.WithCancel(r.alive)
	defer stop()
	sent := l.send(sending, c.Events)
	if err := wait(r.alive, time.Now().Add(c.WarmUp)); err != nil {
		return h, err
	}
	began := time.Now()
	h.before, _ = r.usage()
	ends := l.open(c.Duration)
	if err := wait(r.alive, ends); err != nil {
		return h, err
	}
	h.after, _ = r.usage()
	h.seconds = time.Since(began).Seconds()
	if err := wait(r.alive, ends.Add(grace)); err != nil {
		return h, err
	}
	stop()
	<-sent
	h.collect(l)
	return h, nil
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
