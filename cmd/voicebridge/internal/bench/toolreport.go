package bench

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// Tools is one round with tools: a number of calls through the bridge, first without tools and then
// with tools running all the time in one of them.
type Tools struct {
	Calls  int `json:"calls"`
	AtOnce int `json:"tools_at_once"`
	// Batch counts the tools that run at once, by name.
	Batch   map[string]int `json:"batch"`
	Without Half           `json:"without_tools"`
	With    Half           `json:"with_tools"`
	// Added is With minus Without, in µs. Ratio is With divided by Without.
	Added Compared `json:"added_us"`
	Ratio Compared `json:"ratio"`

	// Batches, Asked and Answered cover the whole round: how often the tools were started together,
	// how many calls that made, and how many were answered. Each was answered once and each batch
	// had one response.create; otherwise the round fails.
	Batches  uint64 `json:"batches"`
	Asked    uint64 `json:"tool_calls"`
	Answered uint64 `json:"answered_once"`
	// BatchTime is the time from the beginning of a batch to its response.create.
	BatchTime Times `json:"batch_time"`
}

// Half is one half of a round with tools.
type Half struct {
	Calls Paths `json:"calls"`
	// Beside is one call through another bridge, without tools, at the same time: tools affect it
	// only by keeping the processors busy.
	Beside Paths `json:"beside"`
	// PerSecond is how many tool calls were answered per second.
	PerSecond float64 `json:"tools_per_second"`
	// BridgeCPU and ToolsCPU are what the bridge and the processes of its tools used, in percent of
	// one core; nil where the system does not report it.
	BridgeCPU *float64  `json:"bridge_cpu_percent"`
	ToolsCPU  *float64  `json:"tools_cpu_percent"`
	Generator Generator `json:"generator"`
	// OthersCPU is what the rest of the machine used, in percent of one core.
	OthersCPU *float64 `json:"others_cpu_percent"`
}

// Compared compares the halves, for the calls through the bridge and for the one
// beside them.
type Compared struct {
	Calls  Ways `json:"calls"`
	Beside Ways `json:"beside"`
}

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

// A round is doubtful if the call beside slows down at p99 by more than both limits.
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

func (r Report) writeTools(w io.Writer) {
	first := r.Tools[0]
	var batch []string
	for _, name := range slices.Sorted(maps.Keys(first.Batch)) {
		batch = append(batch, fmt.Sprintf("%d %s", first.Batch[name], name))
	}
	title := fmt.Sprintf("One-way latency in µs through the bridge while %d tools run at once in one call (%s), on %d cores;\n"+
		"beside: a call at the same time through another bridge, which runs no tools and feels only that the cores are busy",
		first.AtOnce, strings.Join(batch, ", "), r.Machine.Cores)
	columns(w, title, func(t io.Writer) {
		fmt.Fprintln(t, "calls\t\twithout\t\twith\t\tadded\t\tratio\t\tpackets\tlost\tlost\tout of\t")
		fmt.Fprintln(t, "\t\tp50\tp99\tp50\tp99\tp50\tp99\tp50\tp99\twith\twithout\twith\torder\t")
		for _, tools := range r.Tools {
			tools.writeLatency(t)
		}
	})
	columns(w, "What the tools did, and what was used meanwhile; CPU in % of one core", func(t io.Writer) {
		fmt.Fprintln(t, "calls\ttools/s\ttool\tanswered\tbatches\tbatch ms\t\tbridge\ttools'\tgenerator\tothers'\tgenerator\t")
		fmt.Fprintln(t, "\t\tcalls\tonce\t\tp50\tp95\tCPU\tCPU\tCPU\tCPU\tlate p99 µs\t")
		for _, tools := range r.Tools {
			h := tools.With
			fmt.Fprintf(t, "%d\t%.1f\t%d\t%d\t%d\t%.0f\t%.0f\t%s\t%s\t%s\t%s\t%.0f\t\n", tools.Calls, h.PerSecond, tools.Asked, tools.Answered,
				tools.Batches, tools.BatchTime.P50, tools.BatchTime.P95,
				orDash(h.BridgeCPU), orDash(h.ToolsCPU), orDash(h.Generator.CPU), orDash(h.OthersCPU), h.Generator.LateP99)
		}
	})
}

func (r Tools) writeLatency(t io.Writer) {
	for _, row := range []struct {
		name          string
		without, with Path
		added, ratio  Quantiles
	}{
		{"up", r.Without.Calls.Up, r.With.Calls.Up, r.Added.Calls.Up, r.Ratio.Calls.Up},
		{"down", r.Without.Calls.Down, r.With.Calls.Down, r.Added.Calls.Down, r.Ratio.Calls.Down},
		{"beside up", r.Without.Beside.Up, r.With.Beside.Up, r.Added.Beside.Up, r.Ratio.Beside.Up},
		{"beside down", r.Without.Beside.Down, r.With.Beside.Down, r.Added.Beside.Down, r.Ratio.Beside.Down},
	} {
		fmt.Fprintf(t, "%d\t%-11s\t%.0f\t%.0f\t%.0f\t%.0f\t%+.0f\t%+.0f\t%.2f\t%.2f\t%d\t%d\t%d\t%d\t\n", r.Calls, row.name,
			row.without.P50, row.without.P99, row.with.P50, row.with.P99, row.added.P50, row.added.P99,
			row.ratio.P50, row.ratio.P99, row.with.Sent, row.without.Lost, row.with.Lost, row.with.Disordered)
	}
}
