package bench

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"runtime"
	"slices"
	"text/tabwriter"
	"time"
)

// Report is the result of a benchmark. Its JSON form is for programs, WriteTable for people.
type Report struct {
	Version   string    `json:"version"`
	StartedAt time.Time `json:"started_at"`
	Machine   Machine   `json:"machine"`
	// Seconds is the measured time of each half of a round, EventsPerSecond how many events carry words in each call.
	Seconds         float64 `json:"seconds"`
	EventsPerSecond int     `json:"events_per_second_per_call"`
	Rounds          []Round `json:"rounds"`
	// Notes are reasons to doubt the figures.
	Notes []string `json:"notes"`
}

// Machine is the machine that ran both the load generator and the bridge.
type Machine struct {
	OS    string `json:"goos"`
	Arch  string `json:"goarch"`
	Cores int    `json:"cores"`
	Go    string `json:"go_version"`
}

// Round is a number of simultaneous calls, without the bridge (direct) and with it.
type Round struct {
	Calls   int   `json:"calls"`
	Direct  Paths `json:"direct"`
	Bridged Paths `json:"bridged"`
	// Bridge is nil where the system does not report what processes use.
	Bridge *Process `json:"bridge"`
	// LateP99 is how far the load generator was behind its schedule, in µs.
	LateP99 float64 `json:"generator_late_p99_us"`
}

// Paths are the ways of packets and events, and set-ups.
type Paths struct {
	// Up are packets from the browser to the upstream, Down those to the browser; Words are the events with the model's
	// words.
	Up    Path `json:"up"`
	Down  Path `json:"down"`
	Words Path `json:"words"`
	// Ready is the time from the offer until the caller is heard.
	Ready Path `json:"ready"`
}

// Path is what happened to the packets or events of one way. Times are in µs.
type Path struct {
	P50  float64 `json:"p50_us"`
	P99  float64 `json:"p99_us"`
	Sent int     `json:"sent"`
	Lost int     `json:"lost"`
	// Wrong ones were changed, belonged to another call, or arrived after a later one or twice.
	Wrong int `json:"wrong"`
}

// Process is what the bridge used of the machine.
type Process struct {
	// CPU is in percent of one core, in total and per call.
	CPU        float64 `json:"cpu_percent"`
	CPUPerCall float64 `json:"cpu_percent_per_call"`
	// Memory is resident, in KiB: before the first call, with all calls, and the difference per call.
	IdleRSS    int64   `json:"idle_rss_kib"`
	RSS        int64   `json:"rss_kib"`
	RSSPerCall float64 `json:"rss_kib_per_call"`
}

func newReport(c Config) Report {
	return Report{
		Version: c.Version, StartedAt: time.Now().UTC().Truncate(time.Second), Seconds: c.Duration.Seconds(), EventsPerSecond: c.Events,
		Machine: Machine{OS: runtime.GOOS, Arch: runtime.GOARCH, Cores: runtime.NumCPU(), Go: runtime.Version()},
		Rounds:  []Round{}, Notes: []string{},
	}
}

func newRound(calls int, direct, bridged half) Round {
	r := Round{Calls: calls, Direct: direct.paths(), Bridged: bridged.paths(), LateP99: bridged.late.path().P99}
	if bridged.known && bridged.seconds > 0 {
		cpu := 100 * (bridged.after.cpu - bridged.before.cpu).Seconds() / bridged.seconds
		r.Bridge = &Process{
			CPU: round(cpu, 2), CPUPerCall: round(cpu/float64(calls), 3), IdleRSS: bridged.idle.rss, RSS: bridged.after.rss,
			RSSPerCall: round(float64(bridged.after.rss-bridged.idle.rss)/float64(calls), 1),
		}
	}
	return r
}

func (h *half) paths() Paths {
	return Paths{Up: h.up.path(), Down: h.down.path(), Words: h.words.path(), Ready: h.ready.path()}
}

func (s *samples) path() Path {
	slices.Sort(s.times)
	at := func(q float64) float64 {
		if len(s.times) == 0 {
			return 0
		}
		return round(float64(s.times[max(int(math.Ceil(q*float64(len(s.times)))), 1)-1])/1e3, 1)
	}
	return Path{P50: at(0.5), P99: at(0.99), Sent: s.sent, Lost: max(s.sent-len(s.times), 0), Wrong: s.wrong}
}

// round rounds to a number of decimals.
func round(v float64, decimals int) float64 {
	scale := math.Pow10(decimals)
	return math.Round(v*scale) / scale
}

// lateLimit is how many µs behind its schedule the load generator may be.
const lateLimit = 5000

// doubts returns reasons to doubt the figures.
func (r Report) doubts() []string {
	out := []string{}
	for _, round := range r.Rounds {
		if round.LateP99 > lateLimit {
			out = append(out, fmt.Sprintf("%d calls: the load generator was up to %.1f ms behind its schedule (p99): the machine is too small or too busy for these figures",
				round.Calls, round.LateP99/1000))
		}
		for name, p := range round.named() {
			if p.Lost != 0 || p.Wrong != 0 {
				out = append(out, fmt.Sprintf("%d calls: %s: %d of %d lost, %d wrong", round.Calls, name, p.Lost, p.Sent, p.Wrong))
			}
		}
	}
	slices.Sort(out)
	return out
}

func (r Round) named() map[string]Path {
	return map[string]Path{
		"packets up without the bridge": r.Direct.Up, "packets down without the bridge": r.Direct.Down, "words without the bridge": r.Direct.Words,
		"packets up": r.Bridged.Up, "packets down": r.Bridged.Down, "words": r.Bridged.Words,
	}
}

// busy is the share of the machine's processors up to which calls may be added: above it, latency grows.
const busy = 0.6

// capacity returns how many calls the machine carries, by processor time and by memory per GiB; 0 if unknown.
func (r Report) capacity() (calls, perGiB int) {
	if len(r.Rounds) == 0 {
		return 0, 0
	}
	p := r.Rounds[len(r.Rounds)-1].Bridge
	if p == nil || p.CPUPerCall <= 0 || p.RSSPerCall <= 0 {
		return 0, 0
	}
	return int(busy * 100 * float64(r.Machine.Cores) / p.CPUPerCall), int((1 << 20) / p.RSSPerCall)
}

// WriteTable writes the report for people.
func (r Report) WriteTable(w io.Writer) error {
	out := bufio.NewWriter(w)
	fmt.Fprintf(out, "voicebridge %s bench, %s: %s/%s, %d cores, %s\n", r.Version, r.StartedAt.Format(time.RFC3339), r.Machine.OS, r.Machine.Arch, r.Machine.Cores, r.Machine.Go)
	fmt.Fprintf(out, "Each call sends 50 packets of audio a second each way, and the model %d events with words, for %g s.\n", r.EventsPerSecond, r.Seconds)
	fmt.Fprint(out, "The load generator (browsers and upstream) and the bridge share this machine: compare with what is measured without the\n"+
		"bridge (direct) in the same run, and trust ratios more than times.\n\n")
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "calls\t\tp50 µs\t\tp99 µs\t\tsent\tlost\twrong\t")
	fmt.Fprintln(t, "\t\tdirect\tbridged\tdirect\tbridged\t\t\t\t")
	for _, l := range r.Rounds {
		for _, row := range []struct {
			name            string
			direct, bridged Path
		}{
			{"audio up", l.Direct.Up, l.Bridged.Up}, {"audio down", l.Direct.Down, l.Bridged.Down}, {"words", l.Direct.Words, l.Bridged.Words},
			{"ready", l.Direct.Ready, l.Bridged.Ready},
		} {
			d, b := row.direct, row.bridged
			fmt.Fprintf(t, "%d\t%s\t%.0f\t%.0f\t%.0f\t%.0f\t%d\t%d\t%d\t\n", l.Calls, row.name, d.P50, b.P50, d.P99, b.P99, b.Sent, b.Lost, b.Wrong)
		}
	}
	_ = t.Flush() // out keeps its error for its own Flush
	r.writeUse(out)
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

func (r Report) writeUse(w io.Writer) {
	fmt.Fprintln(w, "\nWhat the bridge used; CPU in % of one core, memory resident")
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "calls\tCPU\tper call\tidle MB\tMB\tKB per call\t")
	for _, l := range r.Rounds {
		if p := l.Bridge; p != nil {
			fmt.Fprintf(t, "%d\t%.1f\t%.2f\t%.1f\t%.1f\t%.0f\t\n", l.Calls, p.CPU, p.CPUPerCall, float64(p.IdleRSS)/1024, float64(p.RSS)/1024, p.RSSPerCall)
		} else {
			fmt.Fprintf(t, "%d\t-\t-\t-\t-\t-\t\n", l.Calls)
		}
	}
	_ = t.Flush() // as above
	if calls, perGiB := r.capacity(); calls > 0 {
		fmt.Fprintf(w, "\nAt the cost of the last round, %.0f %% of %d cores carry about %d calls, and a GiB of memory %d.\n", 100*busy, r.Machine.Cores, calls, perGiB)
	} else {
		fmt.Fprintln(w, "\nCPU and memory are not available: only Linux reports them.")
	}
}
