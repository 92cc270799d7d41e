package bench

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// TestKilled kills a benchmark: its bridge, which has a pipe open for writing, ends with it.
func TestKilled(t *testing.T) {
	t.Parallel()
	const pipeOf = "KILLED_BENCHMARK_PIPE"
	if path := os.Getenv(pipeOf); path != "" { // as the benchmark
		script := fmt.Sprintf("exec 3>%s; echo open http://127.0.0.1:1; exec sleep 600", path)
		_, err := startBridge(t.Context(), Command{Path: "/bin/sh", Args: []string{"-c", script}, Dir: filepath.Dir(path), Environ: os.Environ()}, "", 0)
		must(t, err)
		fmt.Println("started")
		select {}
	}
	path := filepath.Join(t.TempDir(), "pipe")
	must(t, syscall.Mkfifo(path, 0o600))
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKilled$")
	cmd.Env = append(os.Environ(), pipeOf+"="+path)
	stdout, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	pipe, err := os.Open(path) // waits until the bridge has it open
	must(t, err)
	if line, err := bufio.NewReader(stdout).ReadString('\n'); line != "started\n" {
		t.Errorf("the benchmark printed %q, %v", line, err)
	}
	must(t, cmd.Process.Kill())
	_ = cmd.Wait() // it was killed
	_, err = io.Copy(io.Discard, pipe)
	must(t, err)
	must(t, pipe.Close())
}
