package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"voicebridge/cmd/voicebridge/internal/bench"
)

// servesForBench makes the test binary serve, in a process of its own.
const servesForBench = "SERVES_FOR_BENCH"

// TestServesForBench is not a test: it is the process that TestBench measures.
func TestServesForBench(t *testing.T) {
	t.Parallel()
	if os.Getenv(servesForBench) == "" {
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(execute(ctx, []string{os.Getenv(servesForBench)}, os.Environ(), os.Stdout, os.Stderr))
}

func serveByTest(t *testing.T) bench.Command {
	t.Helper()
	program, err := os.Executable()
	must(t, err)
	return bench.Command{
		Path: program, Args: []string{"-test.run=^TestServesForBench$"}, Dir: t.TempDir(),
		Environ: append(passedOn(os.Environ()), servesForBench+"=serve"),
	}
}

// TestBench measures two calls for two seconds, with the bridge in a process of its own. It checks
// counts, never times.
func TestBench(t *testing.T) {
	t.Parallel()
	r, table := measured(t, benchCommand{Calls: []int{2}, Seconds: 2, Setups: 2}, serveByTest(t))
	if r.Version != buildVersion() || r.SetUp == nil || r.SetUp.Calls != 2 || len(r.Load) != 1 {
		t.Fatalf("report %+v", r)
	}
	for name, s := range map[string]bench.Stage{"answer": r.SetUp.Answer, "channel": r.SetUp.Channel, "sound": r.SetUp.Sound, "ready": r.SetUp.Ready} {
		if s.Direct.P50 <= 0 || s.Bridged.P50 <= 0 || s.Bridged.P95 < s.Bridged.P50 {
			t.Errorf("%s %+v", name, s)
		}
	}
	row := r.Load[0]
	for name, p := range map[string]bench.Path{
		"direct up": row.Direct.Up, "direct down": row.Direct.Down, "bridged up": row.Bridged.Up, "bridged down": row.Bridged.Down,
	} {
		if p.Sent == 0 || p.Lost < 0 || p.Lost >= int64(p.Sent) || p.Wrong != 0 || p.P50 <= 0 || p.P99 < p.P50 {
			t.Errorf("%s %+v", name, p)
		}
	}
	if p := row.Bridge; (p != nil) != (runtime.GOOS == "linux") || (p != nil && (p.CPU <= 0 || p.CPUPerPacket <= 0 || p.RSS <= 0 || p.IdleRSS <= 0)) {
		t.Errorf("bridge %+v", p)
	}
	for _, want := range []string{"One-way latency", "first audio at the browser", "share this machine", runtime.GOARCH} {
		if !strings.Contains(table, want) {
			t.Errorf("no %q in\n%s", want, table)
		}
	}
}

// measured runs a benchmark and returns its report and table. Nothing may be left of it.
func measured(t *testing.T, b benchCommand, command bench.Command) (r bench.Report, table string) {
	t.Helper()
	if b.JSON == "" {
		b.JSON = filepath.Join(t.TempDir(), "figures.json")
	}
	var stdout, stderr output
	must(t, b.run(&process{ctx: t.Context(), stdout: &stdout, stderr: &stderr}, command))
	raw, err := os.ReadFile(b.JSON)
	must(t, err)
	if r, err = bench.ReadReport(raw); err != nil {
		t.Fatalf("%v in %s", err, raw)
	}
	if left, _ := os.ReadDir(command.Dir); len(left) != 0 {
		t.Errorf("it left %v", left)
	}
	return r, stdout.String()
}

// TestBenchOfWords measures two calls for a second without and with words, through the bare relay
// and then through the bridge, and compares the two.
func TestBenchOfWords(t *testing.T) {
	t.Parallel()
	relay := serveByTest(t)
	relay.Environ, relay.Relay = append(passedOn(os.Environ()), servesForBench+"=relay"), true
	first := filepath.Join(t.TempDir(), "relay.json")
	measure := func(b benchCommand, command bench.Command) (bench.Report, string) {
		b.Calls, b.Seconds, b.Events, b.EventBytes, b.NoLoad = []int{2}, 1, 20, []int{10}, true
		r, table := measured(t, b, command)
		if len(r.Words) != 1 || len(r.Load) != 0 {
			t.Fatalf("report %+v", r)
		}
		if e := r.Words[0].Events; e.Sent == 0 || e.Lost < 0 || e.Lost >= int64(e.Sent) || e.P50 <= 0 {
			t.Errorf("events %+v", e)
		}
		for _, h := range []bench.WordsHalf{r.Words[0].Without, r.Words[0].With} {
			if p := h.Audio.Up; p.Sent == 0 || p.Lost >= int64(p.Sent) || p.P50 <= 0 {
				t.Errorf("sound %+v", p)
			}
		}
		return r, table
	}
	measure(benchCommand{JSON: first}, relay)
	r, table := measure(benchCommand{Against: first}, serveByTest(t))
	if r.Against == nil || len(r.Against.Figures) == 0 || !strings.Contains(table, "20 events of 10 bytes: event p50") {
		t.Errorf("%+v\n%s", r.Against, table)
	}
}

// TestBenchOfTools measures one call for a second without and with four tools. It checks counts,
// never times: each tool call is answered once, or it fails.
func TestBenchOfTools(t *testing.T) {
	t.Parallel()
	r, table := measured(t, benchCommand{Seconds: 1, Tools: 4}, serveByTest(t))
	if r.SetUp != nil || len(r.Load) != 0 || len(r.Tools) != 1 {
		t.Fatalf("report %+v", r)
	}
	row := r.Tools[0]
	if row.Calls != 1 || row.AtOnce != 4 || row.Batches == 0 || row.Asked != 4*row.Batches || row.Answered != row.Asked || row.BatchTime.P50 <= 0 {
		t.Errorf("tools %+v", row)
	}
	for name, p := range map[string]bench.Path{
		"up without": row.Without.Calls.Up, "down without": row.Without.Calls.Down, "up with": row.With.Calls.Up, "down with": row.With.Calls.Down,
		"beside up": row.With.Beside.Up, "beside down": row.With.Beside.Down,
	} {
		if p.Sent == 0 || p.Lost < 0 || p.Lost >= int64(p.Sent) || p.Wrong != 0 || p.P50 <= 0 || p.P99 < p.P50 {
			t.Errorf("%s %+v", name, p)
		}
	}
	for _, want := range []string{"4 tools run at once", "create_bar_chart", "cores", "answered"} {
		if !strings.Contains(table, want) {
			t.Errorf("no %q in\n%s", want, table)
		}
	}
}

// interrupter interrupts when it sees that the load begins.
type interrupter struct{ cancel context.CancelFunc }

func (i interrupter) Write(p []byte) (int, error) {
	if strings.HasPrefix(string(p), "load:") {
		i.cancel()
	}
	return len(p), nil
}

func TestBenchIsInterrupted(t *testing.T) {
	t.Parallel()
	command := serveByTest(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var stdout output
	b := benchCommand{Calls: []int{1}, Seconds: 3600, Setups: 1, JSON: "-"}
	err := b.run(&process{ctx: ctx, stdout: &stdout, stderr: interrupter{cancel}}, command)
	if err == nil || !strings.Contains(err.Error(), "interrupted") {
		t.Errorf("%v, it printed %s", err, stdout.String())
	}
	if left, _ := os.ReadDir(command.Dir); len(left) != 0 {
		t.Errorf("it left %v", left)
	}
}

func TestBenchRefuses(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"no number":        {[]string{"--calls", "many"}, 2, "many"},
		"no calls":         {[]string{"--calls", "0"}, 1, "0 calls at once"},
		"no time":          {[]string{"--seconds", "0"}, 1, "duration"},
		"negative set-ups": {[]string{"--setups=-1"}, 1, "-1 set-ups"},
		"too many tools":   {[]string{"--tools", "65"}, 1, "65 tools at once"},
		"too many events":  {[]string{"--events", "201"}, 1, "201 events"},
		"a tiny event":     {[]string{"--events", "1", "--event-bytes", "3"}, 1, "3 bytes"},
		"no such figures":  {[]string{"--against", "/none.json"}, 2, "none.json"},
		"a folder":         {[]string{"--json", folder}, 1, folder},
		"no folder":        {[]string{"--json", filepath.Join(folder, "no", "x.json")}, 1, "x.json"},
	} {
		code, stdout, stderr := failing(t, nil, append([]string{"bench"}, c.args...)...)
		if code != c.code || !strings.Contains(stderr, c.want) || stdout != "" {
			t.Errorf("%s: code %d, want %d and %q: %s%s", name, code, c.code, c.want, stdout, stderr)
		}
	}
}

func TestBenchKeepsTheFileUntilThereIsAnother(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "figures.json")
	must(t, os.WriteFile(file, []byte("before"), 0o600))
	write, err := (&benchCommand{JSON: file}).output(io.Discard)
	must(t, err)
	if kept, err := os.ReadFile(file); err != nil || string(kept) != "before" {
		t.Errorf("%q, %v", kept, err)
	}
	must(t, write(bench.Report{Version: "<now>"}))
	if got, err := os.ReadFile(file); err != nil || !strings.Contains(string(got), `"version": "<now>"`) {
		t.Errorf("%q, %v", got, err)
	}
}

func TestBenchHelp(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := failing(t, nil, "bench", "--help")
	if code != 0 || stderr != "" || !strings.Contains(stdout, "Usage: voicebridge bench") || !strings.Contains(stdout, "(1,50,200)") {
		t.Errorf("code %d: %s%s", code, stdout, stderr)
	}
}

func TestPassedOn(t *testing.T) {
	t.Parallel()
	got := passedOn([]string{"PATH=/bin", "OPENAI_API_KEY=canary", "VOICEBRIDGE_X=1", "GOGC=200", "DATABASE_URL=canary", "Path=x", "=C:=y", "GO"})
	if text := strings.Join(got, " "); text != "PATH=/bin GOGC=200 Path=x" {
		t.Errorf("passed on %q", text)
	}
}
