package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"time"
)

// Run measures. It fails when a call cannot be made or is lost, when the bridge
// ends, and when ctx does; the report then holds what was measured before.
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
		c.tell("load: %d calls at once, without and with the bridge, %s each", n, c.Duration)
		row, err := measureLoad(ctx, c, n)
		if err != nil {
			return report, fmt.Errorf("measure %d calls: %w", n, err)
		}
		report.Load = append(report.Load, row)
		report.Notes = append(report.Notes, row.notes()...)
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

// callsWithTools are the numbers of calls that are measured with tools in one of
// them: one, and the first larger number of the settings.
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
	row.compare()
	if idleErr == nil && with.used != nil {
		row.Bridge = newProcess(n, with, idle)
	}
	return row, nil
}

// percent is the share of one core, rounded to what can be known.
func percent(used time.Duration, seconds float64) float64 {
	if seconds <= 0 {
		return 0
	}
	return round(100*used.Seconds()/seconds, 3)
}

// round keeps a number of decimals.
func round(v float64, decimals int) float64 {
	scale := math.Pow10(decimals)
	return math.Round(v*scale) / scale
}

// micro is a duration in µs with one decimal.
func micro(d time.Duration) float64 { return round(float64(d)/1e3, 1) }

// milli is a duration in ms with three decimals.
func milli(d time.Duration) float64 { return round(float64(d)/1e6, 3) }

// machine is what this runs on.
func machine() Machine {
	return Machine{OS: runtime.GOOS, Arch: runtime.GOARCH, Cores: runtime.NumCPU(), Go: runtime.Version(), Shared: true}
}
