package bench

import (
	"fmt"
	"runtime"
	"slices"
	"time"
)

// Report is the result of a benchmark. Its JSON form is for programs, WriteTable for people.
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
	// Notes are reasons to doubt the figures.
	Notes []string `json:"notes"`
}

// Machine is the machine that ran both the load generator and the bridge.
type Machine struct {
	OS    string `json:"goos"`
	Arch  string `json:"goarch"`
	Cores int    `json:"cores"`
	Go    string `json:"go_version"`
	// Shared is set if the generator used the same cores as the bridge.
	Shared bool `json:"generator_and_bridge_share_the_machine"`
}

// Settings are the settings of the benchmark.
type Settings struct {
	Seconds          float64 `json:"seconds"`
	WarmUpSeconds    float64 `json:"warm_up_seconds"`
	PacketsPerSecond int     `json:"packets_per_second_each_way"`
	PayloadBytes     int     `json:"payload_bytes"`
}

// SetUp is how long set-ups took, from posting the offer, one call after the other.
type SetUp struct {
	Calls int `json:"calls"`
	// Answer is the time to the SDP answer.
	Answer Stage `json:"answer"`
	// Channel is the time until the browser's data channel was open.
	Channel Stage `json:"data_channel_open"`
	// Sound is the time until the upstream's first packet reached the browser.
	Sound Stage `json:"first_audio_at_browser"`
	// Ready is the time until the caller's audio reaches the upstream: session.created without the
	// bridge, bridge.ready with it.
	Ready Stage `json:"ready"`
	// BridgeCPU is the bridge's processor time in ms to set up and end one call; nil where the
	// system does not report it.
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

// Load is one round: a number of simultaneous calls, without the bridge and with it.
type Load struct {
	Calls   int   `json:"calls"`
	Direct  Paths `json:"direct"`
	Bridged Paths `json:"bridged"`
	// DirectSetUp and BridgedSetUp are the seconds that it took to set up all calls, eight at a
	// time.
	DirectSetUp  float64 `json:"direct_set_up_seconds"`
	BridgedSetUp float64 `json:"bridged_set_up_seconds"`
	// DirectPerSecond and BridgedPerSecond are set-ups per second.
	DirectPerSecond  float64 `json:"direct_set_ups_per_second"`
	BridgedPerSecond float64 `json:"bridged_set_ups_per_second"`
	// Added is Bridged minus Direct, in µs. Ratio is Bridged divided by Direct.
	Added Ways `json:"added_us"`
	Ratio Ways `json:"ratio"`
	// Bridge is nil where the system does not report what processes use.
	Bridge    *Process  `json:"bridge"`
	Generator Generator `json:"generator"`
	// OthersCPU is the processor time of the rest of the machine while the bridge was measured, in
	// percent of one core.
	OthersCPU *float64 `json:"others_cpu_percent"`
}

// Paths are the two directions of packets: up to the upstream, down to the browser.
type Paths struct {
	Up   Path `json:"up"`
	Down Path `json:"down"`
}

// Path is what happened to the packets of one direction. Latencies are one-way, in µs, precise to
// 1 %.
type Path struct {
	P50  float64 `json:"p50_us"`
	P99  float64 `json:"p99_us"`
	Max  float64 `json:"max_us"`
	Sent uint64  `json:"sent"`
	Lost int64   `json:"lost"`
	// Disordered packets arrived after a later one or twice; Wrong ones were changed or belonged to
	// another call.
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

// Process is what the bridge used of the machine.
type Process struct {
	// CPU is in percent of one core, in total and per call.
	CPU        float64 `json:"cpu_percent"`
	CPUPerCall float64 `json:"cpu_percent_per_call"`
	// CPUPerPacket is in µs per packet forwarded, either way.
	CPUPerPacket float64 `json:"cpu_us_per_packet"`
	// Memory is resident, in KiB: before the first call, with all calls, and the difference per
	// call.
	IdleRSS    int64   `json:"idle_rss_kib"`
	RSS        int64   `json:"rss_kib"`
	RSSPerCall float64 `json:"rss_kib_per_call"`
}

// Generator is what the load generator used while the bridge was measured.
type Generator struct {
	CPU *float64 `json:"cpu_percent"`
	// LateP99 is how far it was behind its schedule, in µs.
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

func compareStages(direct, bridged *histogram) Stage {
	s := Stage{
		Direct:  Times{milli(direct.quantile(0.5)), milli(direct.quantile(0.95))},
		Bridged: Times{milli(bridged.quantile(0.5)), milli(bridged.quantile(0.95))},
	}
	s.Added = Times{round(s.Bridged.P50-s.Direct.P50, 3), round(s.Bridged.P95-s.Direct.P95, 3)}
	return s
}

// perSecond fills in the set-ups per second.
func (l *Load) perSecond() {
	of := func(seconds float64) float64 {
		if seconds <= 0 {
			return 0
		}
		return round(float64(l.Calls)/seconds, 1)
	}
	l.DirectPerSecond, l.BridgedPerSecond = of(l.DirectSetUp), of(l.BridgedSetUp)
}

// compare fills in Added and Ratio.
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

// Limits beyond which a round is doubtful.
const (
	lateLimit   = 5000 // µs behind the schedule
	othersLimit = 25   // percent of one core
)

// notes returns reasons to doubt the round.
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

// doubts returns the reasons if the machine was too busy. others is what the rest of the machine
// used, nil if unknown.
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

// lossDoubts reports packets that were lost, changed or out of order.
func lossDoubts(paths []namedPath) []string {
	var out []string
	for _, way := range paths {
		if p := way.path; p.Lost != 0 || p.Disordered != 0 || p.Wrong != 0 {
			out = append(out, fmt.Sprintf("%s: %d of %d packets lost, %d out of order, %d wrong", way.name, p.Lost, p.Sent, p.Disordered, p.Wrong))
		}
	}
	return out
}

// machine describes this machine.
func machine() Machine {
	return Machine{OS: runtime.GOOS, Arch: runtime.GOARCH, Cores: runtime.NumCPU(), Go: runtime.Version(), Shared: true}
}

// Words is one round with words: the same calls, first without and then with events that carry the
// model's words alongside the audio.
type Words struct {
	Calls           int `json:"calls"`
	EventsPerSecond int `json:"events_per_second_per_call"`
	EventBytes      int `json:"text_bytes_per_event"`
	// Without and With are the two halves.
	Without WordsHalf `json:"without"`
	With    WordsHalf `json:"with"`
	// Events are the events that arrived at the browsers in the second half.
	Events Path `json:"events"`
	// AudioRatio is the audio latency with words divided by that without.
	AudioRatio Ways `json:"audio_with_by_without"`
	// CPUPerEvent is the processor time in µs that words add per event.
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

// notes returns reasons to doubt the round.
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

// Against compares the report with an earlier one, of the bare relay or of another version.
type Against struct {
	Of      string   `json:"of"` // the other report's version and time
	Figures []Figure `json:"figures"`
}

// Figure is one figure that both reports have.
type Figure struct {
	Name  string  `json:"name"`
	This  float64 `json:"this"`
	Other float64 `json:"other"`
	// Ratio is This divided by Other.
	Ratio float64 `json:"ratio"`
}

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

// Compared compares the halves, for the calls through the bridge and for the one beside them.
type Compared struct {
	Calls  Ways `json:"calls"`
	Beside Ways `json:"beside"`
}
