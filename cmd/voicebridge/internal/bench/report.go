package bench

import (
	"fmt"
	"runtime"
	"slices"
	"time"
)

// Report is what was measured. Its JSON form is for programs, WriteTable for
// people.
type Report struct {
	Version   string    `json:"version"`
	StartedAt time.Time `json:"started_at"`
	Machine   Machine   `json:"machine"`
	Settings  Settings  `json:"settings"`
	SetUp     *SetUp    `json:"set_up,omitempty"`
	Load      []Load    `json:"load"`
	Words     []Words   `json:"words,omitempty"`
	Tools     []Tools   `json:"tools,omitempty"`
	// Against compares it with an earlier report.
	Against *Against `json:"against,omitempty"`
	// Notes say what makes figures doubtful.
	Notes []string `json:"notes"`
}

// Machine is where the load generator and the bridge ran, both of them.
type Machine struct {
	OS    string `json:"goos"`
	Arch  string `json:"goarch"`
	Cores int    `json:"cores"`
	Go    string `json:"go_version"`
	// Shared says that the generator used the same cores as the bridge.
	Shared bool `json:"generator_and_bridge_share_the_machine"`
}

// Settings are those of the measurement.
type Settings struct {
	Seconds          float64 `json:"seconds"`
	WarmUpSeconds    float64 `json:"warm_up_seconds"`
	PacketsPerSecond int     `json:"packets_per_second_each_way"`
	PayloadBytes     int     `json:"payload_bytes"`
}

// SetUp is how long calls took from the moment when their offer was posted, one
// call after the other.
type SetUp struct {
	Calls int `json:"calls"`
	// Answer is when the SDP answer was there.
	Answer Stage `json:"answer"`
	// Channel is when the browser's data channel was open.
	Channel Stage `json:"data_channel_open"`
	// Sound is when the upstream's first packet reached the browser.
	Sound Stage `json:"first_audio_at_browser"`
	// Ready is when the caller is heard: session.created without the bridge,
	// bridge.ready with it.
	Ready Stage `json:"ready"`
	// BridgeCPU is the processor time of the bridge for one call that is set up
	// and ended, in ms; nil where the system does not tell.
	BridgeCPU *float64 `json:"bridge_cpu_ms_per_call"`
}

// Stage compares one stage of the set-up.
type Stage struct {
	Direct  Times `json:"direct"`
	Bridged Times `json:"bridged"`
	Added   Times `json:"added"`
}

// Times are in ms.
type Times struct {
	P50 float64 `json:"p50_ms"`
	P95 float64 `json:"p95_ms"`
}

// Load is one round: so many calls at once, without the bridge and with it.
type Load struct {
	Calls   int   `json:"calls"`
	Direct  Paths `json:"direct"`
	Bridged Paths `json:"bridged"`
	// DirectSetUp and BridgedSetUp are how long it took to set up all calls, eight
	// at a time, in seconds.
	DirectSetUp  float64 `json:"direct_set_up_seconds"`
	BridgedSetUp float64 `json:"bridged_set_up_seconds"`
	// DirectPerSecond and BridgedPerSecond are set-ups a second.
	DirectPerSecond  float64 `json:"direct_set_ups_per_second"`
	BridgedPerSecond float64 `json:"bridged_set_ups_per_second"`
	// Added is Bridged less Direct, in µs. Ratio is Bridged by Direct.
	Added Ways `json:"added_us"`
	Ratio Ways `json:"ratio"`
	// Bridge is nil where the system does not tell what processes use.
	Bridge    *Process  `json:"bridge"`
	Generator Generator `json:"generator"`
	// OthersCPU is what the rest of the machine used while the bridge was
	// measured, in percent of one core.
	OthersCPU *float64 `json:"others_cpu_percent"`
}

// Paths are the two ways of a packet: up to the upstream, down to the browser.
type Paths struct {
	Up   Path `json:"up"`
	Down Path `json:"down"`
}

// Path is what happened to the packets of one way. Latencies are one-way, in µs,
// to 1 %.
type Path struct {
	P50  float64 `json:"p50_us"`
	P99  float64 `json:"p99_us"`
	Max  float64 `json:"max_us"`
	Sent uint64  `json:"sent"`
	Lost int64   `json:"lost"`
	// Disordered packets arrived after a later one or twice; Wrong ones were
	// changed or belonged to another call.
	Disordered uint64 `json:"disordered"`
	Wrong      uint64 `json:"wrong"`
}

// Ways compares the paths.
type Ways struct {
	Up   Quantiles `json:"up"`
	Down Quantiles `json:"down"`
}

// Quantiles are two figures of a comparison.
type Quantiles struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
}

// Process is what the bridge used.
type Process struct {
	// CPU is in percent of one core, of all calls and of each.
	CPU        float64 `json:"cpu_percent"`
	CPUPerCall float64 `json:"cpu_percent_per_call"`
	// CPUPerPacket is in µs for each packet that was forwarded, either way.
	CPUPerPacket float64 `json:"cpu_us_per_packet"`
	// Memory is resident and in KiB: before the first call, with all calls, and
	// the difference for each.
	IdleRSS    int64   `json:"idle_rss_kib"`
	RSS        int64   `json:"rss_kib"`
	RSSPerCall float64 `json:"rss_kib_per_call"`
}

// Generator is what the load generator used while the bridge was measured.
type Generator struct {
	CPU *float64 `json:"cpu_percent"`
	// LateP99 is how far behind its schedule it sent, in µs.
	LateP99 float64 `json:"late_p99_us"`
}

func newReport(c Config) Report {
	return Report{
		Version: c.Version, StartedAt: time.Now().UTC().Truncate(time.Second), Machine: machine(),
		Settings: Settings{
			Seconds: c.Duration.Seconds(), WarmUpSeconds: c.WarmUp.Seconds(),
			PacketsPerSecond: int(time.Second / frame), PayloadBytes: payloadSize,
		},
		Load: []Load{}, Notes: []string{},
	}
}

func newProcess(calls int, f flow, idle usage) *Process {
	p := &Process{
		CPU: percent(f.used.cpu, f.seconds), IdleRSS: idle.rss, RSS: f.used.rss,
		RSSPerCall: round(float64(f.used.rss-idle.rss)/float64(calls), 1),
	}
	p.CPUPerCall = round(p.CPU/float64(calls), 3)
	if f.forwarded > 0 {
		p.CPUPerPacket = round(f.used.cpu.Seconds()*1e6/f.seconds/f.forwarded, 2)
	}
	return p
}

// path reads a direction's counters.
func (d *direction) path(wrong uint64) Path {
	return Path{
		P50: micro(d.latency.quantile(0.5)), P99: micro(d.latency.quantile(0.99)), Max: micro(d.latency.max()),
		Sent: d.sent.Load(), Lost: d.lost(), Disordered: d.disordered.Load(), Wrong: wrong,
	}
}

func compareStages(direct, bridged *histogram) Stage {
	s := Stage{
		Direct:  Times{milli(direct.quantile(0.5)), milli(direct.quantile(0.95))},
		Bridged: Times{milli(bridged.quantile(0.5)), milli(bridged.quantile(0.95))},
	}
	s.Added = Times{round(s.Bridged.P50-s.Direct.P50, 3), round(s.Bridged.P95-s.Direct.P95, 3)}
	return s
}

// perSecond fills the set-ups a second.
func (l *Load) perSecond() {
	of := func(seconds float64) float64 {
		if seconds <= 0 {
			return 0
		}
		return round(float64(l.Calls)/seconds, 1)
	}
	l.DirectPerSecond, l.BridgedPerSecond = of(l.DirectSetUp), of(l.BridgedSetUp)
}

// compare fills Added and Ratio.
func (l *Load) compare() {
	l.Added = Ways{Up: less(l.Bridged.Up, l.Direct.Up), Down: less(l.Bridged.Down, l.Direct.Down)}
	l.Ratio = Ways{Up: by(l.Bridged.Up, l.Direct.Up), Down: by(l.Bridged.Down, l.Direct.Down)}
}

func less(a, b Path) Quantiles {
	return Quantiles{P50: round(a.P50-b.P50, 1), P99: round(a.P99-b.P99, 1)}
}

func by(a, b Path) Quantiles {
	ratio := func(a, b float64) float64 {
		if b <= 0 {
			return 0
		}
		return round(a/b, 2)
	}
	return Quantiles{P50: ratio(a.P50, b.P50), P99: ratio(a.P99, b.P99)}
}

// What makes a round doubtful.
const (
	lateLimit   = 5000 // µs behind the schedule
	othersLimit = 25   // percent of one core
)

// notes says what makes the round doubtful.
func (l Load) notes() []string {
	var out []string
	for _, why := range slices.Concat(l.Generator.doubts(l.OthersCPU), lossDoubts([]namedPath{
		{"up without the bridge", l.Direct.Up}, {"down without the bridge", l.Direct.Down},
		{"up through the bridge", l.Bridged.Up}, {"down through the bridge", l.Bridged.Down},
	})) {
		out = append(out, fmt.Sprintf("%d calls: %s", l.Calls, why))
	}
	return out
}

// doubts says whether the machine was too busy. others is what the rest of it used,
// nil where it is not known.
func (g Generator) doubts(others *float64) []string {
	var out []string
	if g.LateP99 > lateLimit {
		out = append(out, fmt.Sprintf("the load generator was up to %.1f ms behind its schedule (p99): the machine is too small or too busy for these figures", g.LateP99/1000))
	}
	if others != nil && *others > othersLimit {
		out = append(out, fmt.Sprintf("other processes used %.0f %% of a core: repeat it on a quiet machine", *others))
	}
	return out
}

type namedPath struct {
	name string
	path Path
}

// lossDoubts says where packets were lost, changed or out of order.
func lossDoubts(paths []namedPath) []string {
	var out []string
	for _, way := range paths {
		if p := way.path; p.Lost != 0 || p.Disordered != 0 || p.Wrong != 0 {
			out = append(out, fmt.Sprintf("%s: %d of %d packets lost, %d out of order, %d wrong", way.name, p.Lost, p.Sent, p.Disordered, p.Wrong))
		}
	}
	return out
}

// machine is what this runs on.
func machine() Machine {
	return Machine{OS: runtime.GOOS, Arch: runtime.GOARCH, Cores: runtime.NumCPU(), Go: runtime.Version(), Shared: true}
}

// Words is one round with words: the same calls first without and then with events
// of the model's words beside the sound.
type Words struct {
	Calls           int `json:"calls"`
	EventsPerSecond int `json:"events_per_second_per_call"`
	EventBytes      int `json:"text_bytes_per_event"`
	// Without and With are what the sound was like.
	Without WordsHalf `json:"without"`
	With    WordsHalf `json:"with"`
	// Events are those that arrived at the browsers, of the second half.
	Events Path `json:"events"`
	// AudioRatio is the sound's latency with words by that without.
	AudioRatio Ways `json:"audio_with_by_without"`
	// CPUPerEvent is in µs: what the words add, by event.
	CPUPerEvent *float64 `json:"cpu_us_per_event"`
}

// WordsHalf is one half of such a round.
type WordsHalf struct {
	Audio      Paths     `json:"audio"`
	CPUPerCall *float64  `json:"cpu_percent_per_call"`
	RSS        *int64    `json:"rss_kib"`
	Generator  Generator `json:"generator"`
	OthersCPU  *float64  `json:"others_cpu_percent"`
}

// notes says what makes the round doubtful.
func (w Words) notes() []string {
	var out []string
	for _, why := range slices.Concat(w.With.Generator.doubts(w.With.OthersCPU), lossDoubts([]namedPath{
		{"up without words", w.Without.Audio.Up}, {"down without words", w.Without.Audio.Down},
		{"up with words", w.With.Audio.Up}, {"down with words", w.With.Audio.Down},
	})) {
		out = append(out, fmt.Sprintf("%d calls with words of %d bytes: %s", w.Calls, w.EventBytes, why))
	}
	if e := w.Events; e.Lost != 0 {
		out = append(out, fmt.Sprintf("%d calls with words of %d bytes: %d of %d events did not arrive", w.Calls, w.EventBytes, e.Lost, e.Sent))
	}
	return out
}

// Against compares the report with an earlier one: of the bare relay, or of another
// version.
type Against struct {
	Of      string   `json:"of"` // the other report's version and time
	Figures []Figure `json:"figures"`
}

// Figure is one figure of both reports.
type Figure struct {
	Name  string  `json:"name"`
	This  float64 `json:"this"`
	Other float64 `json:"other"`
	// Ratio is This by Other.
	Ratio float64 `json:"ratio"`
}
