package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"voicebridge/internal/testkit"
)

// TestExposeItSafely runs the program and the commands of docs/expose-it-safely.md, and compares the
// statuses that they print with those documented beside them.
func TestExposeItSafely(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/expose-it-safely.md")
	must(t, err)
	var script strings.Builder
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(string(page), -1) {
		script.WriteString(block[1])
	}
	var want []string
	for _, status := range regexp.MustCompile(`(?m)^status .*# (\d{3})$`).FindAllStringSubmatch(script.String(), -1) {
		want = append(want, status[1])
	}
	if len(want) < 5 {
		t.Fatalf("the page has %d statuses", len(want))
	}
	program, err := build()
	must(t, err)
	dir := t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, "bin"), 0o700))
	must(t, os.Symlink(program, filepath.Join(dir, "bin", "voicebridge")))
	ctx := testkit.Context(t, "the end of the page's commands")
	// The shell's end stops what it has started.
	commands := "set -euo pipefail\ntrap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n" + strings.ReplaceAll(script.String(), "127.0.0.1:8080", keptAddress(t))
	cmd := exec.CommandContext(ctx, "bash", "-c", commands)
	cmd.Dir, cmd.Env = dir, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir}
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	var logged output
	cmd.Stderr = &logged
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("the commands fail: %v\n%s\n%s", err, out, logged.String())
	}
	var got []string
	for line := range strings.Lines(string(out)) {
		if line = strings.TrimSpace(line); regexp.MustCompile(`^\d{3}$`).MatchString(line) {
			got = append(got, line)
		}
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("statuses %v, want %v\n%s", got, want, logged.String())
	}
}
