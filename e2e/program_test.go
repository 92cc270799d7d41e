package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"voicebridge/internal/testkit"
	"voicebridge/persistence"
	"voicebridge/persistence/persistencetest"
	"voicebridge/toolkit/code"
)

var must = testkit.Must

// actsAs is the environment variable that makes the test binary another program.
const actsAs = "TEST_ACTS_AS"

const asWorker = "worker" // which only keeps a processor busy

// TestMain runs the tests, or whatever this process was started for.
func TestMain(m *testing.M) {
	switch {
	case os.Getenv(actsAs) == asWorker:
		work()
	case code.IsChild(os.Args): // a program that a test compares with the page's
		os.Exit(code.RunChild(os.Args, os.Stdin, os.Stdout))
	default:
		persistencetest.Main(m)
	}
}

// raced are the flags of a build with the race detector, which is kept out of SQLite, QuickJS and Opus as in
// .ci/gotest, which says why.
var raced = []string{"-race", "-gcflags=modernc.org/...=-race=false -d=checkptr=0", "-gcflags=modernc.org/sqlite=-d=checkptr=0", "-gcflags=github.com/pion/opus/...=-race=false", "-gcflags=github.com/thesyncim/gopus/...=-race=false"}

// isRaced reports whether the tests run under the race detector.
func isRaced() bool {
	info, _ := debug.ReadBuildInfo()
	return slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

// build makes the program under test, with the race detector if the tests have it, and returns its path. The go command
// does nothing if the program is up to date.
var build = sync.OnceValues(func() (string, error) {
	name, flags := "voicebridge-plain", []string(nil)
	if isRaced() {
		name, flags = "voicebridge-race", raced
	}
	path, err := filepath.Abs("../bin/" + name)
	if err != nil {
		return "", err
	}
	args := slices.Concat([]string{"build"}, flags, []string{"-o", path, "../cmd/voicebridge"})
	out, err := exec.Command("go", args...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build voicebridge: %w\n%s", err, out)
	}
	return path, nil
})

// output collects what a process writes.
type output struct {
	mu sync.Mutex
	b  strings.Builder
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// program is voicebridge in its own process.
type program struct {
	t      *testing.T
	cmd    *exec.Cmd
	url    string // the address that it printed
	stdout *firstLine
	stderr *output
	ended  chan struct{} // closed once the process has been waited for
	mine   bool          // the test stops it itself
}

// command makes a process in an empty folder, without the settings and keys of whoever
// runs the tests.
func command(t *testing.T, path string, environ []string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(path, args...)
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "GOCOVERDIR"} {
		if value, ok := os.LookupEnv(name); ok {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}
	cmd.Env = append(cmd.Env, environ...)
	cmd.Dir = t.TempDir() // away from any settings file of the tree
	return cmd
}

// unhurried are limits of the program within which a busy machine does what a test does
// between two of its steps, such as loading a page while a tool runs.
var unhurried = []string{"VOICEBRIDGE_SHUTDOWN_SECONDS=60", "VOICEBRIDGE_TOOLS__TIMEOUT_SECONDS=300", "VOICEBRIDGE_TEXT__TIMEOUT_SECONDS=300"}

// voicebridge makes a process of the program under test.
func voicebridge(t *testing.T, environ []string, args ...string) *exec.Cmd {
	t.Helper()
	path, err := build()
	must(t, err)
	return command(t, path, slices.Concat(unhurried, environ), args...)
}

// runCommand runs a command that is expected to end by itself.
func runCommand(t *testing.T, environ []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	cmd := voicebridge(t, environ, args...)
	var out, errs output
	cmd.Stdout, cmd.Stderr = &out, &errs
	must(t, cmd.Start())
	limit := time.AfterFunc(testkit.Patience, func() { _ = cmd.Process.Kill() })
	defer limit.Stop()
	_ = cmd.Wait() // ProcessState says how it ended
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

var urlPattern = regexp.MustCompile(`https?://\S+`)

// launch starts voicebridge in a new folder and waits until it prints its address.
func launch(t *testing.T, environ []string, args ...string) *program {
	t.Helper()
	return launchIn(t, t.TempDir(), environ, args...)
}

// launchIn starts voicebridge in a folder, where it may find what an earlier process left.
func launchIn(t *testing.T, dir string, environ []string, args ...string) *program {
	t.Helper()
	line := &firstLine{done: make(chan struct{})}
	p := &program{t: t, cmd: voicebridge(t, environ, args...), stdout: line, stderr: &output{}, ended: make(chan struct{})}
	p.cmd.Dir = dir
	p.cmd.Stdout, p.cmd.Stderr = line, p.stderr
	must(t, p.cmd.Start())
	go func() {
		defer close(p.ended)
		_ = p.cmd.Wait() // ProcessState says how it ended
	}()
	t.Cleanup(p.finish)
	out, stop := testkit.Limit()
	defer stop()
	select {
	case <-line.done:
	case <-p.ended:
		t.Fatalf("%s printed no address and ended with %d: %s", args, p.cmd.ProcessState.ExitCode(), p.stderr)
	case <-out:
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

// kill ends the process as a power failure would.
func (p *program) kill() {
	p.t.Helper()
	p.mine = true
	must(p.t, p.cmd.Process.Kill())
	testkit.Receive(p.t, "the end of the killed process", p.ended)
}

// terminate asks the process to stop, as an operating system does, and returns its exit
// code.
func (p *program) terminate() int {
	p.t.Helper()
	p.mine = true
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.t.Fatal(err)
	}
	out, stop := testkit.Limit()
	defer stop()
	select {
	case <-p.ended:
	case <-out:
		p.t.Errorf("it did not stop: %s", p.goroutineDump())
	}
	return p.cmd.ProcessState.ExitCode()
}

// finish stops the process if the test has not, and checks its log.
func (p *program) finish() {
	if !p.mine {
		testkit.Equal(p.t, p.terminate(), 0, "exit code")
	}
	log, _, _ := strings.Cut(p.stderr.String(), "SIGQUIT: quit")
	for line := range strings.Lines(log) {
		if isBad(line) {
			p.t.Errorf("the log of the process says %.300s", line)
		}
	}
	if p.t.Failed() {
		keep(p.t, "voicebridge.log", []byte(log))
		p.t.Logf("the log of the process ends:\n%s", gist(log))
	}
}

// isBad reports whether no process may log such a line.
func isBad(line string) bool {
	return slices.ContainsFunc([]string{"DATA RACE", "panic:", "call broken", "call not saved", "thread lost"}, func(bad string) bool {
		return strings.Contains(line, bad)
	})
}

// gist is the end of a log without successful requests, each line shortened.
func gist(log string) string {
	const lines, width = 12, 240
	var kept []string
	for line := range strings.Lines(log) {
		if !strings.Contains(line, "level=INFO msg=request") {
			kept = append(kept, strings.TrimSuffix(line, "\n"))
		}
	}
	kept = kept[max(0, len(kept)-lines):]
	for i, line := range kept {
		if len(line) > width {
			kept[i] = strings.ToValidUTF8(line[:width], "") + "…"
		}
	}
	return strings.Join(kept, "\n")
}

// goroutineDump ends the process and returns what its goroutines were doing.
func (p *program) goroutineDump() string {
	p.mine = true
	_ = p.cmd.Process.Signal(syscall.SIGQUIT)
	testkit.Receive(p.t, "the stacks of a process that was asked to quit", p.ended)
	_, dump, _ := strings.Cut(p.stderr.String(), "SIGQUIT: quit")
	dump, _, _ = strings.Cut(dump, "\nrax ")
	return dump
}

// unpooled sends requests that leave no connection behind, which would count as a
// goroutine of the process.
var unpooled = &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true}, Timeout: testkit.Patience}

// exchange sends a request and returns the status and the body.
func exchange(t *testing.T, method, url, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	must(t, err)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := unpooled.Do(req)
	must(t, err)
	defer func() { _ = res.Body.Close() }()
	content, err := io.ReadAll(res.Body)
	must(t, err)
	return res.StatusCode, string(content)
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	return exchange(t, http.MethodGet, url, "")
}

// untilGet waits until an address answers with these words in its body.
func untilGet(t *testing.T, url, words string) {
	t.Helper()
	testkit.Eventually(t, url+" with "+words, func() bool {
		_, body := get(t, url)
		return strings.Contains(body, words)
	})
}

// post sends JSON.
func post(t *testing.T, url, body string) (int, string) {
	t.Helper()
	return exchange(t, http.MethodPost, url, body)
}

// postJSON sends JSON to the program, wants a status, and decodes the answer into v, unless it
// is nil.
func (p *program) postJSON(t *testing.T, path, body string, status int, v any) {
	t.Helper()
	got, text := post(t, p.url+path, body)
	if got != status {
		t.Fatalf("POST %s: status %d, want %d: %s", path, got, status, text)
	}
	if v == nil {
		return
	}
	if err := json.Unmarshal([]byte(text), v); err != nil {
		t.Fatalf("POST %s: %v: %s", path, err, text)
	}
}

// newThread makes a thread and returns its id.
func newThread(t *testing.T, url string) string {
	t.Helper()
	status, body := post(t, url+"/api/threads", "{}")
	var thread persistence.Thread
	if err := json.Unmarshal([]byte(body), &thread); err != nil || status != http.StatusCreated {
		t.Fatalf("status %d, %s", status, body)
	}
	return thread.ID
}
