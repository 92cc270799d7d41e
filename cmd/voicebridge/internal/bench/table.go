package bench

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// WriteTable writes the report for people.
func (r Report) WriteTable(w io.Writer) error {
	out := bufio.NewWriter(w)
	r.writeHead(out)
	if r.SetUp != nil {
		r.SetUp.write(out)
	}
	if len(r.Load) > 0 {
		r.writeLatency(out)
		r.writeUse(out)
	}
	if len(r.Words) > 0 {
		r.writeWords(out)
	}
	if len(r.Tools) > 0 {
		r.writeTools(out)
	}
	if r.Against != nil {
		r.Against.write(out)
	}
	if len(r.Notes) > 0 {
		fmt.Fprintln(out, "\nDoubtful:")
		for _, note := range r.Notes {
			fmt.Fprintln(out, "  "+note)
		}
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("write table: %w", err)
	}
	return nil
}

func (r Report) writeHead(w io.Writer) {
	m, s := r.Machine, r.Settings
	fmt.Fprintf(w, "voicebridge %s bench, %s: %s/%s, %d cores, %s\n", r.Version, r.StartedAt.Format(time.RFC3339), m.OS, m.Arch, m.Cores, m.Go)
	fmt.Fprintln(w, "The load generator (browsers and upstream) and the bridge share this machine and its loopback: compare what is")
	fmt.Fprintln(w, "measured with the bridge with what is measured without it (direct) in the same run, and trust ratios more than times.")
	fmt.Fprintf(w, "Each call sends %d packets/s each way with %d bytes of payload, for %g s after %g s that do not count.\n",
		s.PacketsPerSecond, s.PayloadBytes, s.Seconds, s.WarmUpSeconds)
}

// columns aligns figures to the right.
func columns(w io.Writer, title string, rows func(t io.Writer)) {
	fmt.Fprintf(w, "\n%s\n", title)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	rows(t)
	_ = t.Flush() // w is a buffer and keeps its error for its own Flush
}

func (s SetUp) write(w io.Writer) {
	title := fmt.Sprintf("Set-up of one call after the other, %d times: ms since the offer was posted", s.Calls)
	columns(w, title, func(t io.Writer) {
		fmt.Fprintln(t, "\tdirect\t\tbridged\t\tadded\t\t")
		fmt.Fprintln(t, "\tp50\tp95\tp50\tp95\tp50\tp95\t")
		for _, row := range []struct {
			name  string
			stage Stage
		}{
			{"SDP answer", s.Answer}, {"data channel open", s.Channel}, {"first audio at the browser", s.Sound},
			{"ready (the caller is heard)", s.Ready},
		} {
			v := row.stage
			fmt.Fprintf(t, "%-27s\t%.1f\t%.1f\t%.1f\t%.1f\t%+.1f\t%+.1f\t\n", row.name,
				v.Direct.P50, v.Direct.P95, v.Bridged.P50, v.Bridged.P95, v.Added.P50, v.Added.P95)
		}
	})
	fmt.Fprintf(w, "Processor time of the bridge for setting up and ending one call: %s\n", shown(s.BridgeCPU, "%.1f ms", unknown))
}

func (r Report) writeLatency(w io.Writer) {
	columns(w, "One-way latency of a packet in µs; up is browser to upstream", func(t io.Writer) {
		fmt.Fprintln(t, "calls\t\tdirect\t\tbridged\t\tadded\t\tratio\t\tpackets\tlost\tout of\t")
		fmt.Fprintln(t, "\t\tp50\tp99\tp50\tp99\tp50\tp99\tp50\tp99\tbridged\t\torder\t")
		for _, l := range r.Load {
			for _, row := range []struct {
				name            string
				direct, bridged Path
				added, ratio    Quantiles
			}{
				{"up", l.Direct.Up, l.Bridged.Up, l.Added.Up, l.Ratio.Up},
				{"down", l.Direct.Down, l.Bridged.Down, l.Added.Down, l.Ratio.Down},
			} {
				fmt.Fprintf(t, "%d\t%-4s\t%.0f\t%.0f\t%.0f\t%.0f\t%+.0f\t%+.0f\t%.2f\t%.2f\t%d\t%d\t%d\t\n", l.Calls, row.name,
					row.direct.P50, row.direct.P99, row.bridged.P50, row.bridged.P99, row.added.P50, row.added.P99,
					row.ratio.P50, row.ratio.P99, row.bridged.Sent, row.bridged.Lost, row.bridged.Disordered)
			}
		}
	})
}

const unknown = "not available"

// shown formats a figure, or returns what stands for an unknown one.
func shown(v *float64, format, missing string) string {
	if v == nil {
		return missing
	}
	return fmt.Sprintf(format, *v)
}

func orDash(v *float64) string { return shown(v, "%.1f", "-") }

func (r Report) writeUse(w io.Writer) {
	columns(w, "What the bridge used; CPU in % of one core, memory resident", func(t io.Writer) {
		fmt.Fprintln(t, "calls\tCPU\tCPU per\tCPU µs per\tmemory\tmemory\tmemory per\tgenerator\tothers'\tgenerator\t")
		fmt.Fprintln(t, "\t\tcall\tpacket\tidle MB\tMB\tcall KB\tCPU\tCPU\tlate p99 µs\t")
		for _, l := range r.Load {
			fmt.Fprintf(t, "%d\t", l.Calls)
			if p := l.Bridge; p != nil {
				const mb = 1024
				fmt.Fprintf(t, "%.1f\t%.2f\t%.1f\t%.1f\t%.1f\t%.0f\t", p.CPU, p.CPUPerCall, p.CPUPerPacket,
					float64(p.IdleRSS)/mb, float64(p.RSS)/mb, p.RSSPerCall)
			} else {
				fmt.Fprint(t, "-\t-\t-\t-\t-\t-\t")
			}
			fmt.Fprintf(t, "%s\t%s\t%.0f\t\n", orDash(l.Generator.CPU), orDash(l.OthersCPU), l.Generator.LateP99)
		}
	})
	if slices.ContainsFunc(r.Load, func(l Load) bool { return l.Bridge == nil }) {
		fmt.Fprintln(w, "- CPU and memory are "+unknown+": only Linux reports them.")
	}
	fmt.Fprintln(w, "Idle is before the first call; with few calls, memory per call includes what the first call loads.")
	columns(w, fmt.Sprintf("Set-up of all calls, %d at a time: seconds until all are ready", atOnce), func(t io.Writer) {
		fmt.Fprintln(t, "calls\tdirect\tbridged\tdirect per s\tbridged per s\t")
		for _, l := range r.Load {
			fmt.Fprintf(t, "%d\t%.2f\t%.2f\t%.0f\t%.0f\t\n", l.Calls, l.DirectSetUp, l.BridgedSetUp, l.DirectPerSecond, l.BridgedPerSecond)
		}
	})
}

func (a Against) write(w io.Writer) {
	columns(w, "Compared with "+a.Of, func(t io.Writer) {
		fmt.Fprintln(t, "\tthis\tother\tratio\t")
		for _, f := range a.Figures {
			fmt.Fprintf(t, "%s\t%.3g\t%.3g\t%.2f\t\n", f.Name, f.This, f.Other, f.Ratio)
		}
	})
}

func (r Report) writeWords(w io.Writer) {
	columns(w, "With the model's words as events alongside the audio; CPU in % of one core per call, latencies in µs", func(t io.Writer) {
		fmt.Fprintln(t, "calls\tevents/s\tbytes\tCPU\tCPU\tCPU µs\taudio up p99\taudio up p99\tdown p99\tdown p99\tp99 ratio\tevent\tevent\tevents\tlost\t")
		fmt.Fprintln(t, "\tper call\t\twithout\twith\tper event\twithout\twith\twithout\twith\tup, down\tp50\tp99\t\t\t")
		for _, v := range r.Words {
			a, b := v.Without.Audio, v.With.Audio
			fmt.Fprintf(t, "%d\t%d\t%d\t%s\t%s\t%s\t%.0f\t%.0f\t%.0f\t%.0f\t%.2f, %.2f\t%.0f\t%.0f\t%d\t%d\t\n",
				v.Calls, v.EventsPerSecond, v.EventBytes, shown(v.Without.CPUPerCall, "%.3f", "-"), shown(v.With.CPUPerCall, "%.3f", "-"), orDash(v.CPUPerEvent),
				a.Up.P99, b.Up.P99, a.Down.P99, b.Down.P99, v.AudioRatio.Up.P99, v.AudioRatio.Down.P99,
				v.Events.P50, v.Events.P99, v.Events.Sent, v.Events.Lost)
		}
	})
}

func (r Report) writeTools(w io.Writer) {
	first := r.Tools[0]
	var batch []string
	for _, name := range slices.Sorted(maps.Keys(first.Batch)) {
		batch = append(batch, fmt.Sprintf("%d %s", first.Batch[name], name))
	}
	title := fmt.Sprintf("One-way latency in µs through the bridge while %d tools run at once in one call (%s), on %d cores;\n"+
		"beside: a call at the same time through another bridge, which runs no tools and is affected only by busy cores",
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
