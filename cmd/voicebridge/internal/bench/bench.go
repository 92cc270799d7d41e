package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
)

// Run measures. It fails when a call cannot be made or is lost, when the bridge ends, and when ctx
// ends; the report then holds what was measured until then.
func Run(ctx context.Context, c Config) (Report, error) {
	c.WarmUp = cmp.Or(c.WarmUp, defaultWarmUp)
	report := newReport(c)
	if err := c.validate(); err != nil {
		return report, fmt.Errorf("check settings: %w", err)
	}
	if c.SetUps > 0 {
		c.tell("set-up: %d calls one after the other, without and with the bridge", c.SetUps)
		setUp, err := measureSetUp(ctx, c)
		if err != nil {
			return report, fmt.Errorf("measure set-up: %w", err)
		}
		report.SetUp = &setUp
	}
	for _, n := range c.Calls {
		if c.NoLoad {
			break
		}
		c.tell("load: %d calls at once, without and with the bridge, %s each", n, c.Duration)
		row, err := measureLoad(ctx, c, n)
		if err != nil {
			return report, fmt.Errorf("measure %d calls: %w", n, err)
		}
		report.Load = append(report.Load, row)
		report.Notes = append(report.Notes, row.notes()...)
	}
	for _, n := range c.Calls {
		for _, size := range c.eventSizes() {
			c.tell("words: %d events a second with %d bytes of text in each of %d calls, without and with them, %s each", c.Events, size, n, c.Duration)
			row, err := measureWords(ctx, c, n, size)
			if err != nil {
				return report, fmt.Errorf("measure %d calls with words: %w", n, err)
			}
			report.Words = append(report.Words, row)
			report.Notes = append(report.Notes, row.notes()...)
		}
	}
	for _, n := range c.callsWithTools() {
		c.tell("tools: %d at once in one of %d calls, without and with them, %s each", c.Tools, n, c.Duration)
		row, err := measureTools(ctx, c, n)
		if err != nil {
			return report, fmt.Errorf("measure %d tools in one of %d calls: %w", c.Tools, n, err)
		}
		report.Tools = append(report.Tools, row)
		report.Notes = append(report.Notes, row.notes()...)
	}
	return report, nil
}

// callsWithTools returns the numbers of calls for the rounds with tools: one, and the first larger
// number in the settings.
func (c Config) callsWithTools() []int {
	if c.Tools == 0 {
		return nil
	}
	out := []int{1}
	if i := slices.IndexFunc(c.Calls, func(n int) bool { return n > 1 }); i >= 0 {
		out = append(out, c.Calls[i])
	}
	return out
}

// measureLoad is one round: n calls without the bridge, then with it.
func measureLoad(ctx context.Context, c Config, n int) (row Load, err error) {
	bridged, err := openRig(ctx, &c.Bridge, n, 0)
	if err != nil {
		return row, err
	}
	defer func() { err = errors.Join(err, bridged.close()) }()
	direct, err := openRig(ctx, nil, n, 0)
	if err != nil {
		return row, err
	}
	without, err := direct.flow(c, n)
	if err = errors.Join(err, direct.close()); err != nil {
		return row, fmt.Errorf("without the bridge: %w", err)
	}
	idle, idleErr := readUsage(bridged.bridge.pid)
	with, err := bridged.flow(c, n)
	if err != nil {
		return row, fmt.Errorf("with the bridge: %w", bridged.explain(err))
	}
	row = Load{
		Calls: n, Direct: without.paths, Bridged: with.paths, Generator: with.generator, OthersCPU: with.others,
		DirectSetUp: round(without.setUp.Seconds(), 3), BridgedSetUp: round(with.setUp.Seconds(), 3),
	}
	row.perSecond()
	row.compare()
	if idleErr == nil && with.used != nil {
		row.Bridge = newProcess(n, with, idle)
	}
	return row, nil
}
