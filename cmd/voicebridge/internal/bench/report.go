package bench

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"slices"
	"text/tabwriter"
	"time"
)

// Config says what is measured.
type Config struct {
	// Calls are the numbers of simultaneous calls, one round each; up to 5000.
	Calls []int
	// Duration is the measured time of each round: 1 ms to an hour.
	Duration time.Duration
	// Events is how many events per second carry the model's words in each call, alongside the audio; up to 200.
	Events int
	// Speech is in how many percent of the time somebody speaks in each call, 0 for always. In the rest its callers send
	// as browsers do that save silence (Opus DTX), and it comes back. At 50 as many packets pass as in a conversation in
	// which there is always one who speaks and one who does not.
	Speech int
	// Socket has the bridge reach the upstream over WebSocket, where the sound of the model's words comes with them.
	Socket bool
	// SocketClients has callers come over WebSocket.
	SocketClients bool
	// Silent has nobody speak.
	Silent bool
	// Record has the calls recorded.
	Record bool
	// Kept measures what calls keep, for which the bridge collects its garbage: resident memory means little then. It gets
	// the heap profile with all calls, as text.
	Kept func(profile []byte)
	// Bridge says how to start the bridge.
	Bridge Command
	// Version is the bridge's, for the report.
	Version string
	// Progress gets the number of calls of each round before it begins.
	Progress func(calls int)
}

func (c *Config) validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(len(c.Calls) > 0, "nothing to measure: give a number of calls")
	for _, n := range c.Calls {
		check(n >= 1 && n <= 5000, "%d calls at once: it must be 1 to 5000", n)
	}
	long := c.Duration < time.Millisecond || c.Duration > time.Hour
	check(!long, "a duration of %s: it must be up to 3600 s", c.Duration)
	check(c.Speech >= 0 && c.Speech <= 100, "speech in %d %% of the time: it must be 0 to 100", c.Speech)
	check(c.Events >= 0 && c.Events <= 200, "%d events a second: it must be 0 to 200", c.Events)
	return errors.Join(errs...)
}

// Report is the result of a benchmark. Its JSON form is for programs, WriteTable for people.
type Report struct {
	Version   string    `json:"version"`
	StartedAt time.Time `json:"started_at"`
	Machine   Machine   `json:"machine"`
	// Seconds is the measured time of each round, EventsPerSecond how many events carry words in each call.
	Seconds         float64 `json:"seconds"`
	EventsPerSecond int     `json:"events_per_second_per_call"`
	// Speech is in how many percent of the time somebody speaks.
	Speech int `json:"speech_percent"`
	// Socket is whether the upstream was reached over WebSocket.
	Socket bool `json:"websocket_upstream"`
	// Record is whether calls were recorded.
	Record bool    `json:"recorded"`
	Rounds []Round `json:"rounds"`
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

// Round is a number of simultaneous calls.
type Round struct {
	Calls int `json:"calls"`
	// Audio are packets from the browser through the bridge to the upstream and back again; Words are the events with
	// the model's words, on their way to the browser. Over WebSocket no packet comes back, and Audio is zero.
	Audio Path `json:"audio"`
	Words Path `json:"words"`
	// Ready is the time from the offer until the caller is heard.
	Ready Path `json:"ready"`
	// Bridge is nil where the system does not report what processes use.
	Bridge *Process `json:"bridge"`
	// KeptPerCall is how many KiB of objects and stacks each call keeps, if that was measured.
	KeptPerCall float64 `json:"kept_kib_per_call,omitempty"`
	// LateP99 is how far the load generator was behind its schedule, in µs.
	LateP99 float64 `json:"generator_late_p99_us"`
}

// Path is what happened to packets or events. Times are in µs.
type Path struct {
	P50  float64 `json:"p50_us"`
	P99  float64 `json:"p99_us"`
	Sent int     `json:"sent"`
	Lost int     `json:"lost"`
}

// Process is what the bridge used of the machine.
type Process struct {
	// CPU is in percent of one core, in total and per call.
	CPU        float64 `json:"cpu_percent"`
	CPUPerCall float64 `json:"cpu_percent_per_call"`
	// SetUpCPU is what it takes to set up a call, in ms.
	SetUpCPU float64 `json:"set_up_cpu_ms"`
	// Memory is resident, in KiB: before the first call, with all calls, and the difference per call.
	IdleRSS    int64   `json:"idle_rss_kib"`
	RSS        int64   `json:"rss_kib"`
	RSSPerCall float64 `json:"rss_kib_per_call"`
}

func newReport(c Config) Report {
	return Report{
		Version: c.Version, StartedAt: time.Now().UTC().Truncate(time.Second), Seconds: c.Duration.Seconds(),
		EventsPerSecond: c.Events, Socket: c.Socket, Record: c.Record, Speech: cmp.Or(c.Speech, 100),
		Machine: Machine{OS: runtime.GOOS, Arch: runtime.GOARCH, Cores: runtime.NumCPU(), Go: runtime.Version()},
		Rounds:  []Round{}, Notes: []string{},
	}
}

func newProcess(calls int, idle, before, after usage, seconds float64) *Process {
	cpu := 100 * (after.cpu - before.cpu).Seconds() / seconds
	return &Process{
		CPU: round(cpu, 2), CPUPerCall: round(cpu/float64(calls), 3), IdleRSS: idle.rss, RSS: after.rss,
		RSSPerCall: perCall(after.rss-idle.rss, calls),
	}
}

func (p *Process) setUp(calls int, before, after usage) {
	p.SetUpCPU = round((after.cpu-before.cpu).Seconds()*1e3/float64(calls), 2)
}

func perCall(kib int64, calls int) float64 { return round(float64(kib)/float64(calls), 1) }

func (m *meter) path() Path {
	m.mu.Lock()
	defer m.mu.Unlock()
	slices.Sort(m.times)
	at := func(q float64) float64 {
		if len(m.times) == 0 {
			return 0
		}
		last := max(int(math.Ceil(q*float64(len(m.times)))), 1) - 1
		return round(float64(m.times[last])/1e3, 1)
	}
	return Path{P50: at(0.5), P99: at(0.99), Sent: m.sent, Lost: max(m.sent-len(m.times), 0)}
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
			out = append(out, fmt.Sprintf("%d calls: the load generator was up to %.1f ms behind its schedule (p99): "+
				"the machine is too small or too busy for these figures", round.Calls, round.LateP99/1000))
		}
		if a, w := round.Audio, round.Words; a.Lost+w.Lost > 0 {
			out = append(out, fmt.Sprintf("%d calls: %d of %d packets and %d of %d events were lost",
				round.Calls, a.Lost, a.Sent, w.Lost, w.Sent))
		}
	}
	return out
}

// busy is the share of the machine's processors up to which calls may be added: above it, latency grows.
const busy = 0.6

// capacity says how many calls the machine carries, by processor time and by memory.
func (r Report) capacity() string {
	if len(r.Rounds) == 0 {
		return ""
	}
	p := r.Rounds[len(r.Rounds)-1].Bridge
	if p == nil || p.CPUPerCall <= 0 || p.RSSPerCall <= 0 {
		return "CPU and memory are not available: only Linux reports them."
	}
	calls, perGiB := int(busy*100*float64(r.Machine.Cores)/p.CPUPerCall), int((1<<20)/p.RSSPerCall)
	return fmt.Sprintf("At the cost of the last round, %.0f %% of %d cores carry about %d calls, and a GiB of memory %d.",
		100*busy, r.Machine.Cores, calls, perGiB)
}

// WriteTable writes the report for people.
func (r Report) WriteTable(w io.Writer) error {
	var out bytes.Buffer
	m := r.Machine
	fmt.Fprintf(&out, "voicebridge %s bench, %s: %s/%s, %d cores, %s\n",
		r.Version, r.StartedAt.Format(time.RFC3339), m.OS, m.Arch, m.Cores, m.Go)
	back, kept := "which the upstream sends back", ""
	if r.Socket {
		back = "which go to the upstream over WebSocket"
	}
	if r.Record {
		kept = " All of it is recorded."
	}
	if 0 < r.Speech && r.Speech < 100 {
		back += fmt.Sprintf(" (in %d %% of the time; else 5, as in silence)", r.Speech)
	}
	fmt.Fprintf(&out, "Each call sends 50 packets of audio a second, %s, ", back)
	fmt.Fprintf(&out, "and the model %d events with words, for %g s.%s\n", r.EventsPerSecond, r.Seconds, kept)
	out.WriteString("Audio is timed there and back, words from the model to the browser, ready from the offer until the " +
		"caller\nis heard. CPU is in % of one core, memory resident. The load generator (browsers and upstream) shares " +
		"this machine.\n\n")
	t := tabwriter.NewWriter(&out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "\t\taudio, ms\t\twords, ms\t\tready, ms\t\tCPU, %\t\t\tmemory\t")
	fmt.Fprintln(t, "calls\tp50\tp99\tp50\tp99\tp50\tp99\tall\tper call\tidle MB\tMB\tKB per call\t")
	for _, l := range r.Rounds {
		audio := fmt.Sprintf("%.2f\t%.2f", l.Audio.P50/1e3, l.Audio.P99/1e3)
		if r.Socket {
			audio = "-\t-"
		}
		used := "-\t-\t-\t-\t-"
		if p := l.Bridge; p != nil {
			used = fmt.Sprintf("%.1f\t%.2f\t%.1f\t%.1f\t%.0f",
				p.CPU, p.CPUPerCall, float64(p.IdleRSS)/1024, float64(p.RSS)/1024, p.RSSPerCall)
		}
		fmt.Fprintf(t, "%d\t%s\t%.2f\t%.2f\t%.0f\t%.0f\t%s\t\n",
			l.Calls, audio, l.Words.P50/1e3, l.Words.P99/1e3, l.Ready.P50/1e3, l.Ready.P99/1e3, used)
	}
	_ = t.Flush() // into memory
	fmt.Fprintln(&out, "\n"+r.capacity())
	for _, note := range r.Notes {
		fmt.Fprintln(&out, "Doubtful: "+note)
	}
	if _, err := out.WriteTo(w); err != nil {
		return fmt.Errorf("write table: %w", err)
	}
	return nil
}
