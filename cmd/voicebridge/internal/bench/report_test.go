package bench

import (
	"encoding/json"
	"errors"
	"flag"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write testdata again")

func sample() Report {
	c := Config{Calls: []int{1, 200}, Duration: 10 * time.Second, WarmUp: time.Second, SetUps: 25, Version: "v1.2.3"}
	r := newReport(c)
	r.StartedAt = time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC)
	r.Machine = Machine{OS: "linux", Arch: "amd64", Cores: 2, Go: "go1.26.8", Shared: true}
	stage := Stage{Direct: Times{1.5, 2}, Bridged: Times{2.25, 3}, Added: Times{0.75, 1}}
	r.SetUp = &SetUp{Calls: 25, Answer: stage, Channel: stage, Sound: stage, Ready: stage, BridgeCPU: new(7.25)}
	path := func(p50, p99 float64, sent uint64) Path { return Path{P50: p50, P99: p99, Max: 2 * p99, Sent: sent} }
	one := Load{
		Calls:  1,
		Direct: Paths{path(46, 154, 500), path(31, 150, 500)}, Bridged: Paths{path(145.5, 549, 500), path(141, 540, 500)},
		Generator: Generator{CPU: new(4.0), LateP99: 1000}, OthersCPU: new(3.5), DirectSetUp: 0.01, BridgedSetUp: 0.02,
		Bridge: newProcess(1, flow{used: &usage{cpu: 50 * time.Millisecond, rss: 40960}, seconds: 10, forwarded: 100}, usage{rss: 36864}),
	}
	one.compare()
	many := Load{
		Calls:  200,
		Direct: Paths{path(195, 639, 100000), path(0, 0, 0)}, Bridged: Paths{path(295, 22806, 100000), path(299, 22000, 100000)},
		Generator: Generator{LateP99: 7300}, OthersCPU: new(80.0), DirectSetUp: 0.5, BridgedSetUp: 1,
	}
	many.Bridged.Up.Lost, many.Bridged.Down.Disordered = 12, 3
	many.compare()
	r.Load = []Load{one, many}
	good, bad := sampleTools()
	r.Tools = []Tools{good, bad}
	r.Notes = slices.Concat(one.notes(), many.notes(), good.notes(), bad.notes())
	return r
}

// sampleTools are a round on a quiet machine and one on a busy machine.
func sampleTools() (good, bad Tools) {
	path := func(p50, p99 float64) Path { return Path{P50: p50, P99: p99, Max: 2 * p99, Sent: 500} }
	batch := map[string]int{uses[0].name: 4, uses[1].name: 4}
	good = Tools{
		Calls: 1, AtOnce: 8, Batch: batch,
		Without: Half{Calls: Paths{path(140, 500), path(150, 600)}, Beside: Paths{path(140, 480), path(150, 580)}},
		With: Half{
			Calls: Paths{path(280, 2000), path(225, 1500)}, Beside: Paths{path(154, 1200), path(165, 1160)},
			PerSecond: 61.5, BridgeCPU: new(22.5), ToolsCPU: new(160.0), Generator: Generator{CPU: new(9.0), LateP99: 2100}, OthersCPU: new(3.5),
		},
		Batches: 80, Asked: 640, Answered: 640, BatchTime: Times{120, 200},
	}
	good.compare()
	bad = good
	bad.Calls, bad.Batch = 50, map[string]int{uses[1].name: 8}
	bad.Without.Generator.LateP99, bad.With.OthersCPU, bad.With.BridgeCPU, bad.With.ToolsCPU = 9000, new(120.0), nil, nil
	bad.With.Beside.Up, bad.With.Calls.Down.Lost, bad.With.PerSecond = path(5000, 90000), 7, 0
	bad.compare()
	return good, bad
}

func TestTable(t *testing.T) {
	t.Parallel()
	var got strings.Builder
	must(t, sample().WriteTable(&got))
	const file = "testdata/table.txt"
	if *update {
		must(t, os.WriteFile(file, []byte(got.String()), 0o644))
	}
	want, err := os.ReadFile(file)
	must(t, err)
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestTableTellsOfAFailedWrite(t *testing.T) {
	t.Parallel()
	if err := sample().WriteTable(broken{}); err == nil || !strings.Contains(err.Error(), "disk full") {
		t.Errorf("%v", err)
	}
}

func TestReportAsJSON(t *testing.T) {
	t.Parallel()
	want := sample()
	raw, err := json.Marshal(want)
	must(t, err)
	var got Report
	must(t, json.Unmarshal(raw, &got))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
	empty, err := json.Marshal(newReport(Config{}))
	if err != nil || !strings.Contains(string(empty), `"load":[],"notes":[]`) {
		t.Errorf("%s, %v", empty, err)
	}
}

func TestFiguresOfARound(t *testing.T) {
	t.Parallel()
	one, many := sample().Load[0], sample().Load[1]
	if want := (Ways{Up: Quantiles{99.5, 395}, Down: Quantiles{110, 390}}); one.Added != want {
		t.Errorf("added %+v", one.Added)
	}
	if want := (Ways{Up: Quantiles{3.16, 3.56}, Down: Quantiles{4.55, 3.6}}); one.Ratio != want {
		t.Errorf("ratio %+v", one.Ratio)
	}
	if want := (Process{CPU: 0.5, CPUPerCall: 0.5, CPUPerPacket: 50, IdleRSS: 36864, RSS: 40960, RSSPerCall: 4096}); *one.Bridge != want {
		t.Errorf("bridge %+v", *one.Bridge)
	}
	if many.Ratio.Down != (Quantiles{}) {
		t.Errorf("a ratio to nothing is %+v", many.Ratio.Down)
	}
	if notes := one.notes(); len(notes) != 0 {
		t.Errorf("notes %q", notes)
	}
	if notes := many.notes(); len(notes) != 4 {
		t.Errorf("notes %q", notes)
	}
}

func TestDifferenceOfReadings(t *testing.T) {
	t.Parallel()
	at := time.Now()
	before := reading{at: at, bridge: usage{cpu: time.Second, children: 500 * time.Millisecond}, own: usage{cpu: 2 * time.Second}, machine: 10 * time.Second}
	after := reading{at: at.Add(4 * time.Second), bridge: usage{cpu: 2 * time.Second, children: time.Second, rss: 77}, own: usage{cpu: 5 * time.Second}, machine: 16 * time.Second}
	var f flow
	before.answered, after.answered = 10, 30
	f.account(before, after)
	if *f.used != (usage{cpu: time.Second, children: 500 * time.Millisecond, rss: 77}) || *f.generator.CPU != 75 || *f.others != 37.5 || f.seconds != 4 || f.tools != 5 {
		t.Errorf("%+v", f)
	}
	after.noBridge, after.noOwn = errNoUsage, errNoUsage
	f = flow{}
	if f.account(before, after); f.used != nil || f.generator.CPU != nil || f.others != nil {
		t.Errorf("where nothing is told: %+v", f)
	}
}

func TestFiguresOfARoundWithTools(t *testing.T) {
	t.Parallel()
	good, bad := sampleTools()
	if want := (Compared{
		Calls:  Ways{Up: Quantiles{140, 1500}, Down: Quantiles{75, 900}},
		Beside: Ways{Up: Quantiles{14, 720}, Down: Quantiles{15, 580}},
	}); good.Added != want {
		t.Errorf("added %+v", good.Added)
	}
	if want := (Compared{
		Calls:  Ways{Up: Quantiles{2, 4}, Down: Quantiles{1.5, 2.5}},
		Beside: Ways{Up: Quantiles{1.1, 2.5}, Down: Quantiles{1.1, 2}},
	}); good.Ratio != want {
		t.Errorf("ratio %+v", good.Ratio)
	}
	if notes := good.notes(); len(notes) != 0 {
		t.Errorf("notes %q", notes)
	}
	notes := bad.notes()
	for _, want := range []string{
		"does not offer mini-javascript-execution", "no tool answered", "beside it, through a bridge without tools, became slower, too, by 89.5 ms up",
		"without tools: the load generator was up to 9.0 ms behind", "with tools: other processes used 120 %", "with tools: down: 7 of 500 packets lost",
	} {
		if !slices.ContainsFunc(notes, func(note string) bool {
			return strings.HasPrefix(note, "tools in one of 50 calls: ") && strings.Contains(note, want)
		}) {
			t.Errorf("no %q in %q", want, notes)
		}
	}
	if len(notes) != 6 {
		t.Errorf("notes %q", notes)
	}
}

func TestCallsWithTools(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		tools int
		calls []int
		want  []int
	}{{0, []int{1, 50}, nil}, {8, nil, []int{1}}, {8, []int{1, 1}, []int{1}}, {1, []int{1, 50, 200}, []int{1, 50}}, {8, []int{200, 50}, []int{1, 200}}} {
		if got := (Config{Tools: c.tools, Calls: c.calls}).callsWithTools(); !slices.Equal(got, c.want) {
			t.Errorf("%d tools, calls %v: %v, want %v", c.tools, c.calls, got, c.want)
		}
	}
}
