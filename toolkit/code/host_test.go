//go:build linux

package code

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"voicebridge/internal/testkit"
)

// niceOf returns the niceness of each thread of a process, field 19 of /proc/PID/task/TID/stat.
func niceOf(pid int) (map[string]int, error) {
	files, err := filepath.Glob(filepath.Join("/proc", strconv.Itoa(pid), "task", "*", "stat"))
	if err != nil {
		return nil, err
	}
	out := map[string]int{}
	for _, name := range files {
		stat, err := os.ReadFile(name)
		if err != nil {
			continue // a thread that has ended
		}
		const first, nice = 3, 19 // the number of the field after the command's name
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		if len(fields) <= nice-first {
			return nil, fmt.Errorf("%s is %q", name, stat)
		}
		if out[name], err = strconv.Atoi(fields[nice-first]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Programs never compete with audio: all threads of a child have a lower priority.
func TestChildrenGiveWay(t *testing.T) {
	t.Parallel()
	before, err := niceOf(os.Getpid())
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	r, _ := running(t, Config{Timeout: time.Minute}, func(pid int) {
		defer cancel()
		threads, err := niceOf(pid)
		if err != nil || len(threads) == 0 {
			t.Errorf("the threads of the child: %v, %v", threads, err)
		}
		for thread, nice := range threads {
			if nice < niceness {
				t.Errorf("%s has niceness %d, want %d", thread, nice, niceness)
			}
		}
	})
	if o := r.sandbox.runJavaScript(ctx, `console.log("started"); for (;;);`); o.Exit != ExitCancelled {
		t.Errorf("got %s: %s", o.Exit, o.Error)
	}
	p, works := pythonRig(t, Config{}, watcher{})
	o := p.python(works, "import os\nos.getpriority(os.PRIO_PROCESS, 0) >= "+strconv.Itoa(niceness), ExitCompleted)
	if works && string(o.Value) != "true" {
		t.Errorf("Python's priority: got %s", o.Value)
	}
	// This process keeps its own priority.
	after, err := niceOf(os.Getpid())
	must(t, err)
	for thread, nice := range after {
		if was, ok := before[thread]; ok && nice != was {
			t.Errorf("%s of this process had niceness %d and has %d", thread, was, nice)
		}
	}
}

// hostOfPrograms is the first argument of a process that runs an endless program (see
// runHost); the others are the child's program, a named pipe and the tool.
const hostOfPrograms = "run-programs"

// runHost prints the program's output, quoted. All its children hold the pipe.
func runHost(args []string) {
	child, pipe, tool := args[0], args[1], args[2]
	if _, err := syscall.Open(pipe, syscall.O_WRONLY, 0); err != nil { // without O_CLOEXEC
		panic(err)
	}
	sandbox := New(Config{executable: child, Timeout: 10 * time.Minute, PythonEnabled: true})
	sandbox.watch.printed = func(text string) { fmt.Printf("%q\n", text) }
	var o Outcome
	if tool == JavaScriptName {
		o = sandbox.runJavaScript(context.Background(), `console.log("started"); for (;;);`)
	} else {
		o = sandbox.runPython(context.Background(), "print('started')\nwhile True: pass")
	}
	panic(fmt.Sprintf("the program ended: %+v", o))
}

// When this process is killed, its programs die too.
func TestKilledHost(t *testing.T) {
	t.Parallel()
	_, works := pythonRig(t, Config{}, watcher{})
	for _, tool := range []string{JavaScriptName, PythonName}[:1+btoi(works)] {
		t.Run(tool, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			pipe := filepath.Join(dir, "pipe")
			must(t, syscall.Mkfifo(pipe, 0o600))
			gone := readToEnd(pipe)
			cmd := exec.Command(os.Args[0], hostOfPrograms, childProgram, pipe, tool)
			cmd.Env = []string{"TMPDIR=" + dir, "PATH=" + os.Getenv("PATH")}
			output := &strings.Builder{}
			cmd.Stderr = output
			stdout, err := cmd.StdoutPipe()
			must(t, err)
			must(t, cmd.Start())
			line, err := bufio.NewReader(stdout).ReadString('\n')
			testkit.Equal(t, line, `"started\n"`+"\n", "the host says, %v", err)
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			if t.Failed() {
				t.Fatalf("the host said %.2000s", output)
			}
			select {
			case err := <-gone:
				if err != nil {
					t.Error(err)
				}
			case <-time.After(time.Minute):
				t.Error("a process has outlived its host")
			}
		})
	}
}

// readToEnd reads a named pipe until nobody holds it any more.
func readToEnd(pipe string) <-chan error {
	ended := make(chan error, 1)
	go func() {
		reader, err := os.Open(pipe)
		if err == nil {
			_, err = io.ReadAll(reader)
			reader.Close()
		}
		ended <- err
	}()
	return ended
}
