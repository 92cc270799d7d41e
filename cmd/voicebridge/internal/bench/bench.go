package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
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
