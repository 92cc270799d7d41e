package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"voicebridge/cmd/voicebridge/internal/bench"
	"voicebridge/internal/testkit"
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
	os.Exit(execute(ctx, []string{"serve"}, os.Environ(), os.Stdout, os.Stderr))
}

// byTest is the command that serves in a process of its own.
func byTest(t *testing.T) bench.Command {
	t.Helper()
	program, err := os.Executable()
	must(t, err)
	return bench.Command{
		Path: program, Args: []string{"-test.run=^TestServesForBench$"}, Dir: t.TempDir(), Environ: append(passedOn(os.Environ()), servesForBench+"=1"),
	}
}

// TestBench measures two calls for two seconds, with the bridge in a process of its own. It checks counts, never times.
func TestBench(t *testing.T) {
	t.Parallel()
	for name, socket := range map[string]bool{"WebRTC": false, "WebSocket": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, table := measured(t, benchCommand{Calls: []int{2}, Seconds: 2, Socket: socket}, byTest(t))
			if r.Version != buildVersion() || len(r.Rounds) != 1 || r.Socket != socket {
				t.Fatalf("report %+v", r)
			}
			row := r.Rounds[0]
			paths := map[string]bench.Path{"words": row.Words, "audio": row.Audio}
			if socket {
				delete(paths, "audio")
			}
			for name, p := range paths {
				if p.Sent == 0 || p.Lost >= p.Sent || p.P50 <= 0 || p.P99 < p.P50 {
					t.Errorf("%s %+v", name, p)
				}
			}
			if row.Ready.P50 <= 0 || (row.Audio == bench.Path{}) != socket {
				t.Errorf("%+v", row)
			}
			if p := row.Bridge; (p != nil) != (runtime.GOOS == "linux") || (p != nil && (p.CPU <= 0 || p.RSS <= 0 || p.IdleRSS <= 0)) {
				t.Errorf("bridge %+v", p)
			}
			for _, want := range []string{"audio, ms", "shares this machine", runtime.GOARCH} {
				if !strings.Contains(table, want) {
					t.Errorf("no %q in\n%s", want, table)
				}
			}
		})
	}
}

// measured runs a benchmark and returns its report and table. Nothing may be left of it.
func measured(t *testing.T, b benchCommand, command bench.Command) (r bench.Report, table string) {
	t.Helper()
	b.JSON = filepath.Join(t.TempDir(), "figures.json")
	var stdout, stderr output
	must(t, b.run(&process{ctx: t.Context(), stdout: &stdout, stderr: &stderr}, command))
	raw, err := os.ReadFile(b.JSON)
	must(t, err)
	must(t, json.Unmarshal(raw, &r))
	if left, _ := os.ReadDir(command.Dir); len(left) != 0 {
		t.Errorf("it left %v", left)
	}
	return r, stdout.String()
}

// interrupter interrupts when it sees that a round begins.
type interrupter struct{ cancel context.CancelFunc }

func (i interrupter) Write(p []byte) (int, error) {
	if strings.Contains(string(p), "measuring 1 calls") {
		i.cancel()
	}
	return len(p), nil
}

func TestBenchIsInterrupted(t *testing.T) {
	t.Parallel()
	command := byTest(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var stdout output
	b := benchCommand{Calls: []int{1}, Seconds: 3600, JSON: "-"}
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
		"no number": {[]string{"--calls", "many"}, 2, "many"},
		"no calls":  {[]string{"--calls", "0"}, 1, "0 calls at once"},
		"no time":   {[]string{"--seconds", "0"}, 1, "duration"},
		"a folder":  {[]string{"--json", folder}, 1, folder},
		"no folder": {[]string{"--json", filepath.Join(folder, "no", "x.json")}, 1, "x.json"},
	} {
		code, stdout, stderr := failing(t, nil, append([]string{"bench"}, c.args...)...)
		if code != c.code || !strings.Contains(stderr, c.want) || stdout != "" {
			t.Errorf("%s: code %d, want %d and %q: %s%s", name, code, c.code, c.want, stdout, stderr)
		}
	}
}

// TestBenchKeepsTheFileUntilThereIsAnother fails to measure, and then replaces longer content.
func TestBenchKeepsTheFileUntilThereIsAnother(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "figures.json")
	must(t, os.WriteFile(path, []byte("before"), 0o600))
	if code, _, stderr := failing(t, nil, "bench", "--calls", "0", "--json", path); code != 1 {
		t.Errorf("code %d: %s", code, stderr)
	}
	if kept, err := os.ReadFile(path); err != nil || string(kept) != "before" {
		t.Errorf("%q, %v", kept, err)
	}
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	must(t, err)
	_, err = replacement{file}.Write([]byte("now"))
	must(t, errors.Join(err, file.Close()))
	if got, err := os.ReadFile(path); err != nil || string(got) != "now" {
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
	testkit.Equal(t, strings.Join(got, " "), "PATH=/bin GOGC=200 Path=x", "passed on")
}
