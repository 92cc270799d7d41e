package bench

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

const (
	startTimeout = 60 * time.Second
	// stopTimeout is how long the bridge may take to end before it is killed.
	stopTimeout = 10 * time.Second
	maxSaid     = 8 << 10 // bytes of its output, shown if it fails
	spareCalls  = 16      // more than measured, because the limits are not under test
)

// Command says how to start the bridge: a program that serves, prints a line with its address and reads its settings from
// the environment.
type Command struct {
	Path string
	Args []string // without the program's name
	// Environ is added to the settings of the measurement.
	Environ []string
	// Dir is where the bridge's folder is made; empty means the system's temporary folder.
	Dir string
	// Database is the address of its database; empty means an SQLite file in its folder.
	Database string
}

var address = regexp.MustCompile(`http://\S+`)

// bridge is the running process.
type bridge struct {
	pid    int
	url    string
	stop   context.CancelFunc
	dir    string
	stderr *os.File
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
	b := &bridge{dir: dir, exited: make(chan struct{})}
	first, err := b.start(ctx, command, upstreamURL, calls)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start the bridge: %w", err), os.RemoveAll(dir))
	}
	if err := b.await(ctx, first); err != nil {
		return nil, errors.Join(fmt.Errorf("start the bridge: %w", err), b.close())
	}
	return b, nil
}

// start starts the process, and returns a channel for the first line that it prints.
func (b *bridge) start(ctx context.Context, command Command, upstreamURL string, calls int) (<-chan string, error) {
	settings := filepath.Join(b.dir, "voicebridge.yaml")
	limits := fmt.Appendf(nil, `log: {level: error}
shutdown_seconds: 5
recording: {enabled: true}
limits: {max_calls: %[1]d, max_calls_per_owner: %[1]d, setups_per_minute_per_ip: 100000}
`, calls+spareCalls)
	upstream := []string{"VOICEBRIDGE_UPSTREAM=openai", "OPENAI_BASE_URL=" + upstreamURL}
	if strings.HasPrefix(upstreamURL, "ws:") {
		upstream = nil
		limits = fmt.Appendf(limits, "upstreams: [{name: load, profile: openai, transport: websocket, url: %q}]\n", upstreamURL)
	}
	if err := os.WriteFile(settings, limits, 0o600); err != nil {
		return nil, fmt.Errorf("write settings: %w", err)
	}
	var err error
	if b.stderr, err = os.Create(filepath.Join(b.dir, "stderr")); err != nil {
		return nil, fmt.Errorf("make a file for its log: %w", err)
	}
	// It lives until close, even if ctx ends: calls are hung up first.
	ctx, b.stop = context.WithCancel(context.WithoutCancel(ctx))
	cmd := exec.CommandContext(ctx, command.Path, command.Args...)
	cmd.Dir, cmd.Stderr = b.dir, b.stderr
	cmd.Env = slices.Concat([]string{
		"VOICEBRIDGE_LISTEN=127.0.0.1:0", "VOICEBRIDGE_CONFIG=" + settings, "OPENAI_API_KEY=load",
		"DATABASE_URL=" + cmp.Or(command.Database, "sqlite:"+filepath.Join(b.dir, "load.db")),
	}, upstream, command.Environ)
	cmd.Cancel = func() error {
		if cmd.Process.Signal(syscall.SIGTERM) != nil {
			return cmd.Process.Kill() // not every system can interrupt a process
		}
		return nil
	}
	cmd.WaitDelay = stopTimeout
	endWithParent(cmd)
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		b.stop()
		return nil, errors.Join(err, b.stderr.Close())
	}
	b.pid = cmd.Process.Pid
	first := make(chan string, 1)
	go func() {
		defer close(b.exited)
		in := bufio.NewReaderSize(stdout, maxSaid)
		if line, err := in.ReadSlice('\n'); !errors.Is(err, io.EOF) {
			first <- string(bytes.TrimSpace(line))
		}
		_, _ = io.Copy(io.Discard, in) // until it ends
		b.err = cmd.Wait()
	}()
	return first, nil
}

// await waits until the bridge has printed its address.
func (b *bridge) await(ctx context.Context, first <-chan string) error {
	select {
	case line := <-first:
		if b.url = address.FindString(line); b.url == "" {
			return fmt.Errorf("it printed %q and no address", line)
		}
		return nil
	case <-b.exited:
		return b.died()
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(startTimeout):
		return fmt.Errorf("it printed no address in %s%s", startTimeout, b.said())
	}
}

var errBridgeEnded = errors.New("the bridge has ended")

// died returns an error with the last output of the bridge, which must have ended.
func (b *bridge) died() error {
	how := "exit status 0"
	if b.err != nil {
		how = b.err.Error()
	}
	return fmt.Errorf("%w (%s)%s", errBridgeEnded, how, b.said())
}

// said returns the end of the bridge's log, as the end of a sentence.
func (b *bridge) said() string {
	text, _ := os.ReadFile(b.stderr.Name())
	if text = bytes.TrimSpace(text[max(0, len(text)-maxSaid):]); len(text) == 0 {
		return ""
	}
	return "; it said:\n" + string(text)
}

// close stops the process, kills it if it does not end, and removes its folder.
func (b *bridge) close() error {
	b.stop()
	<-b.exited
	return errors.Join(b.stderr.Close(), os.RemoveAll(b.dir))
}
