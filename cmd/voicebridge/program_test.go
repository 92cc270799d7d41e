package main

import (
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"voicebridge/persistence/persistencetest"
	"voicebridge/toolkit/code"
)

// actsAs is the variable that makes the tests' program another one.
const actsAs = "TEST_ACTS_AS"

// What the tests' program can be.
const (
	asVoicebridge = "voicebridge" // the whole command, with its arguments and signals
	asCaller      = "caller"      // a browser that can be killed and paused
)

// TestMain runs the tests, or what this process was started for.
func TestMain(m *testing.M) {
	switch role := os.Getenv(actsAs); {
	case role == asVoicebridge, code.IsChild(os.Args): // the program of a tool
		main()
	case role == asCaller:
		actAsCaller(os.Stdin, os.Stdout)
	default:
		persistencetest.Main(m)
	}
}

// program is a process of its own.
type program struct {
	t      *testing.T
	cmd    *exec.Cmd
	url    string // what it printed to open or to use
	stderr *output
	ended  chan struct{} // closed when it has ended and was waited for
	mine   bool          // its end was asked for
}

// command makes a process of the tests' own program.
func command(t *testing.T, role string, environ []string, args ...string) *exec.Cmd {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, args...)
	cmd.Env = append(passedOn(os.Environ()), actsAs+"="+role)
	cmd.Env = append(cmd.Env, environ...)
	cmd.Dir = t.TempDir() // no settings file of the tree
	return cmd
}

// launch starts voicebridge and waits until it prints its address.
func launch(t *testing.T, environ []string, args ...string) *program {
	t.Helper()
	p := &program{t: t, cmd: command(t, asVoicebridge, environ, args...), stderr: &output{}, ended: make(chan struct{})}
	line := &firstLine{done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = line, p.stderr
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.ended)
		_ = p.cmd.Wait() // its state says how it ended
	}()
	t.Cleanup(p.finish)
	limit := time.NewTimer(rigPatience)
	defer limit.Stop()
	select {
	case <-line.done:
	case <-p.ended:
		t.Fatalf("%s printed no address and ended with %d: %s", args, p.cmd.ProcessState.ExitCode(), p.stderr)
	case <-limit.C:
		t.Fatalf("%s printed no address: %s", args, p.stderr)
	}
	p.url = urlPattern.FindString(line.text.String())
	return p
}

// firstLine waits for the first line.
type firstLine struct {
	text output
	once sync.Once
	done chan struct{}
}

func (f *firstLine) Write(p []byte) (int, error) {
	n, err := f.text.Write(p)
	if strings.Contains(f.text.String(), "\n") {
		f.once.Do(func() { close(f.done) })
	}
	return n, err
}

// kill ends the process as a power failure does.
func (p *program) kill() {
	p.t.Helper()
	p.mine = true
	if err := p.cmd.Process.Kill(); err != nil {
		p.t.Fatal(err)
	}
	<-p.ended
}

// terminate tells the process to stop, as an operating system does, and returns
// its exit code.
func (p *program) terminate() int {
	p.t.Helper()
	p.mine = true
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.t.Fatal(err)
	}
	limit := time.NewTimer(rigPatience)
	defer limit.Stop()
	select {
	case <-p.ended:
	case <-limit.C:
		p.t.Errorf("it did not stop: %s", p.goroutineDump())
	}
	return p.cmd.ProcessState.ExitCode()
}

// finish stops the process when the test has not, and looks at what it leaves.
func (p *program) finish() {
	if !p.mine {
		if code := p.terminate(); code != 0 {
			p.t.Errorf("exit code %d", code)
		}
	}
	log, _, _ := strings.Cut(p.stderr.String(), "SIGQUIT: quit")
	for _, bad := range []string{"DATA RACE", "panic:", "call broken", "was not saved", "thread lost"} {
		if strings.Contains(log, bad) {
			p.t.Errorf("the log of the process says %q", bad)
		}
	}
	if p.t.Failed() {
		file := filepath.Join(p.t.ArtifactDir(), "voicebridge.log")
		_ = os.WriteFile(file, []byte(log), 0o600)
		p.t.Logf("the log of the process (%d bytes) ends:\n%s", len(log), log[max(0, len(log)-6000):])
	}
}

// goroutineDump ends the process and returns what its goroutines were doing.
func (p *program) goroutineDump() string {
	p.mine = true
	_ = p.cmd.Process.Signal(syscall.SIGQUIT)
	<-p.ended
	_, dump, _ := strings.Cut(p.stderr.String(), "SIGQUIT: quit")
	dump, _, _ = strings.Cut(dump, "\nrax ")
	return dump
}

// unpooled are requests that leave no connection behind: it would count as a
// goroutine of the process.
var unpooled = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: rigPatience}

func keepArtifact(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(t.ArtifactDir(), name), []byte(text), 0o600); err != nil {
		t.Log(err)
	}
}
