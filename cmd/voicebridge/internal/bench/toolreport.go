package bench

import (
	"fmt"
	"slices"
)

// count takes over the counts. The last batch must have been answered.
func (r *Tools) count(b *batches) {
	r.Batches, r.Asked, r.Answered = b.batch, b.asked, b.answered.Load()
	r.BatchTime = Times{milli(b.took.quantile(0.5)), milli(b.took.quantile(0.95))}
	r.Batch = map[string]int{}
	for i := range b.size {
		r.Batch[b.useOf(i).name]++
	}
}

// compare fills in Added and Ratio.
func (r *Tools) compare() {
	each := func(f func(a, b Path) Quantiles) Compared {
		ways := func(with, without Paths) Ways {
			return Ways{Up: f(with.Up, without.Up), Down: f(with.Down, without.Down)}
		}
		return Compared{ways(r.With.Calls, r.Without.Calls), ways(r.With.Beside, r.Without.Beside)}
	}
	r.Added, r.Ratio = each(less), each(by)
}

// A round is doubtful if the call beside it slows down at p99 by more than both limits.
const (
	besideRatio = 2
	besideLimit = 1000 // µs
)

// notes returns reasons to doubt the round.
func (r Tools) notes() []string {
	var out []string
	note := func(format string, args ...any) {
		out = append(out, fmt.Sprintf("tools in one of %d calls: ", r.Calls)+fmt.Sprintf(format, args...))
	}
	for _, u := range uses[:min(len(uses), r.AtOnce)] {
		if r.Batch[u.name] == 0 {
			note("the bridge does not offer %s", u.name)
		}
	}
	if r.With.PerSecond == 0 {
		note("no tool answered in the measured time")
	}
	added, ratio := r.Added.Beside, r.Ratio.Beside
	if slower := func(added, ratio Quantiles) bool { return added.P99 > besideLimit && ratio.P99 > besideRatio }; slower(added.Up, ratio.Up) || slower(added.Down, ratio.Down) {
		note("the call beside it, through a bridge without tools, became slower, too, by %.1f ms up and %.1f ms down (p99): "+
			"that much of the added latency comes from too few cores", added.Up.P99/1000, added.Down.P99/1000)
	}
	for _, half := range []struct {
		name string
		half Half
	}{{"without tools", r.Without}, {"with tools", r.With}} {
		for _, why := range half.half.doubts() {
			note("%s: %s", half.name, why)
		}
	}
	return out
}

func (h Half) doubts() []string {
	return slices.Concat(h.Generator.doubts(h.OthersCPU), lossDoubts([]namedPath{
		{"up", h.Calls.Up}, {"down", h.Calls.Down}, {"beside up", h.Beside.Up}, {"beside down", h.Beside.Down},
	}))
}
