package bench

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"syscall"
	"time"
)

const (
	startTimeout = 60 * time.Second
	// stopTimeout is how long the bridge may take to end before it is killed.
	stopTimeout = 10 * time.Second
	maxTail     = 8 << 10 // bytes of its output, shown if it fails
	spareCalls  = 16      // more than measured, because the limits are not under test
)

var address = regexp.MustCompile(`http://\S+`)

// bridge is the running process.
type bridge struct {
	pid    int
	url    string
	stop   context.CancelFunc
	dir    string
	stderr *tail
	exited chan struct{} // closed when it has ended; err is valid then
	err    error
}

// startBridge starts the bridge in a folder of its own, with an empty database and upstreamURL as
// its Realtime API, and returns when it serves. calls is how many calls it must be able to hold.
// close must be called.
func startBridge(ctx context.Context, command Command, upstreamURL string, calls int) (*bridge, error) {
	dir, err := os.MkdirTemp(command.Dir, "voicebridge-load-")
	if err != nil {
		return nil, fmt.Errorf("make a folder for the bridge: %w", err)
	}
	b := &bridge{dir: dir, stderr: &tail{}, exited: make(chan struct{})}
	first, err := b.start(ctx, command, upstreamURL, calls)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start the bridge: %w", err), os.RemoveAll(dir))
	}
	if err := b.await(ctx, first); err != nil {
		return nil, errors.Join(fmt.Errorf("start the bridge: %w", err), b.close())
	}
	return b, nil
}

func (b *bridge) start(ctx context.Context, command Command, upstreamURL string, calls int) (*firstLine, error) {
	settings := filepath.Join(b.dir, "voicebridge.yaml")
	limits := fmt.Appendf(nil, `log: {level: error}
shutdown_seconds: 5
limits: {max_calls: %[1]d, max_calls_per_owner: %[1]d, setups_per_minute_per_ip: 100000}
`, calls+spareCalls)
	if err := os.WriteFile(settings, limits, 0o600); err != nil {
		return nil, fmt.Errorf("write settings: %w", err)
	}
	// It lives until close, even if ctx ends: calls are hung up first.
	ctx, b.stop = context.WithCancel(context.WithoutCancel(ctx))
	cmd := exec.CommandContext(ctx, command.Path, command.Args...)
	cmd.Dir = b.dir
	cmd.Env = append([]string{
		"VOICEBRIDGE_LISTEN=127.0.0.1:0", "VOICEBRIDGE_CONFIG=" + settings, "VOICEBRIDGE_UPSTREAM=openai",
		"DATABASE_URL=" + cmp.Or(command.Database, "sqlite:"+filepath.Join(b.dir, "load.db")), "OPENAI_BASE_URL=" + upstreamURL, "OPENAI_API_KEY=load",
	}, command.Environ...)
	first := &firstLine{line: make(chan string, 1)}
	cmd.Stdout, cmd.Stderr = first, b.stderr
	cmd.Cancel = func() error {
		if cmd.Process.Signal(syscall.SIGTERM) != nil {
			return cmd.Process.Kill() // not every system can interrupt a process
		}
		return nil
	}
	cmd.WaitDelay = stopTimeout
	endWithParent(cmd)
	if err := cmd.Start(); err != nil {
		b.stop()
		return nil, err
	}
	b.pid = cmd.Process.Pid
	go func() {
		defer close(b.exited)
		b.err = cmd.Wait()
	}()
	return first, nil
}

// await waits until the bridge has printed its address.
func (b *bridge) await(ctx context.Context, first *firstLine) error {
	select {
	case line := <-first.line:
		if b.url = address.FindString(line); b.url == "" {
			return fmt.Errorf("it printed %q and no address", line)
		}
		return nil
	case <-b.exited:
		return b.died()
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(startTimeout):
		return fmt.Errorf("it printed no address in %s%s", startTimeout, b.stderr)
	}
}

var errBridgeEnded = errors.New("the bridge has ended")

// died returns an error with the last output of the bridge, which must have ended.
func (b *bridge) died() error {
	how := "exit status 0"
	if b.err != nil {
		how = b.err.Error()
	}
	return fmt.Errorf("%w (%s)%s", errBridgeEnded, how, b.stderr)
}

// close stops the process, kills it if it does not end, and removes its folder.
func (b *bridge) close() error {
	b.stop()
	<-b.exited
	return os.RemoveAll(b.dir)
}

// firstLine is a writer that hands on the first line and drops the rest.
type firstLine struct {
	line chan string // buffered
	got  []byte
	done bool
}

// Write implements [io.Writer]. Only the goroutine of os/exec calls it.
func (f *firstLine) Write(p []byte) (int, error) {
	if f.done {
		return len(p), nil
	}
	f.got = append(f.got, p...)
	end := bytes.IndexByte(f.got, '\n')
	if end < 0 && len(f.got) < maxTail {
		return len(p), nil
	}
	if end < 0 {
		end = len(f.got)
	}
	f.line <- string(f.got[:end])
	f.done, f.got = true, nil
	return len(p), nil
}

// tail keeps the end of the text written to it.
type tail struct {
	mu  sync.Mutex
	end []byte
}

// Write implements [io.Writer].
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.end = append(t.end, p...)
	if over := len(t.end) - maxTail; over > 0 {
		t.end = append(t.end[:0], t.end[over:]...)
	}
	return len(p), nil
}

// String returns the kept text, as the end of a sentence.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := bytes.TrimSpace(t.end)
	if len(text) == 0 {
		return ""
	}
	return "; it said:\n" + string(text)
}
