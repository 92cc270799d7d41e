package bench

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	// trickle is how often the upstream sends a packet while set-up is measured. At one packet each
	// 20 ms, waiting for the first would hide the differences of interest.
	trickle = 2 * time.Millisecond
	// warmUpCalls is how many uncounted calls come first: they load code and open the connections
	// that HTTP keeps.
	warmUpCalls = 2
)

// stages are the times of set-ups, with or without the bridge.
type stages struct{ answer, channel, sound, ready histogram }

// measureSetUp sets up calls one after the other, alternating without and with the bridge.
func measureSetUp(ctx context.Context, c Config) (out SetUp, err error) {
	bridged, err := openRig(ctx, &c.Bridge, 1, trickle)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, bridged.close()) }()
	direct, err := openRig(ctx, nil, 1, trickle)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, direct.close()) }()

	var without, with stages
	var cpu time.Duration
	known := true
	for i := -warmUpCalls; i < c.SetUps; i++ {
		if err := direct.setUp(&without, i >= 0); err != nil {
			return out, fmt.Errorf("without the bridge: %w", err)
		}
		before, noBefore := readUsage(bridged.bridge.pid)
		if err := bridged.setUp(&with, i >= 0); err != nil {
			return out, fmt.Errorf("with the bridge: %w", bridged.explain(err))
		}
		after, noAfter := readUsage(bridged.bridge.pid)
		known = known && noBefore == nil && noAfter == nil
		if i >= 0 {
			cpu += after.cpu - before.cpu
		}
	}
	out = SetUp{
		Calls:   c.SetUps,
		Answer:  compareStages(&without.answer, &with.answer),
		Channel: compareStages(&without.channel, &with.channel),
		Sound:   compareStages(&without.sound, &with.sound),
		Ready:   compareStages(&without.ready, &with.ready),
	}
	if known {
		out.BridgeCPU = new(round(milli(cpu)/float64(c.SetUps), 3))
	}
	return out, nil
}

// setUp makes one call, waits until it is up, and ends it.
func (r *rig) setUp(s *stages, counts bool) error {
	b, err := r.dial(r.alive, 1)
	if err != nil {
		return err
	}
	err = b.await(r.alive, &b.receiver.started)
	if err := errors.Join(err, b.hangUp(r.alive)); err != nil || !counts {
		return err
	}
	s.answer.record(b.answered.Sub(b.began))
	s.channel.record(b.opened.at.Sub(b.began))
	s.sound.record(b.receiver.started.at.Sub(b.began))
	s.ready.record(b.ready.at.Sub(b.began))
	return nil
}
