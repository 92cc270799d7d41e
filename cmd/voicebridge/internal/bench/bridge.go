package bench

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/procfs"
)

const (
	startTimeout = 60 * time.Second
	stopTimeout  = 10 * time.Second // from the request to end until it is killed
	maxLog       = 8 << 10          // bytes of its log that an error quotes
	spareCalls   = 16               // more than measured, because the limits are not under test
)

// Command says how to start the bridge: a program that serves, prints its address and reads its settings from the
// environment.
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

// bridge is the running process.
type bridge struct {
	cmd *exec.Cmd
	url string
	// heap is where its heap profile is.
	heap   string
	dir    string
	stop   context.CancelFunc
	log    bytes.Buffer  // read it when the process has ended
	exited chan struct{} // closed when it has ended; err is valid then
	err    error
}

// startBridge starts the bridge in a folder of its own, with an empty database and the Realtime API at base, and
// returns when it serves. calls is how many calls it must be able to have. Unless it is nil, the bridge must be closed.
func startBridge(ctx context.Context, c Command, base string, calls int) (*bridge, error) {
	dir, err := os.MkdirTemp(c.Dir, "voicebridge-load-")
	if err != nil {
		return nil, fmt.Errorf("make a folder for the bridge: %w", err)
	}
	metrics, err := freeAddress(ctx)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	heap := "http://" + metrics + "/debug/pprof/heap?gc=1&debug=1"
	b := &bridge{dir: dir, heap: heap, exited: make(chan struct{})}
	// It lives until close, even if ctx ends: calls are hung up first.
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	b.stop = stop
	b.cmd = exec.CommandContext(running, c.Path, c.Args...)
	b.cmd.Dir, b.cmd.Stderr = dir, &b.log
	database := "DATABASE_URL=" + cmp.Or(c.Database, "sqlite:load.db")
	b.cmd.Env = append(append(settings(base, calls), database, "VOICEBRIDGE_METRICS__LISTEN="+metrics), c.Environ...)
	b.cmd.WaitDelay = stopTimeout
	b.cmd.Cancel = func() error {
		if b.cmd.Process.Signal(syscall.SIGTERM) != nil {
			return b.cmd.Process.Kill() // not every system can interrupt a process
		}
		return nil
	}
	printed := make(firstOutput, 1)
	b.cmd.Stdout = printed
	if err := b.cmd.Start(); err != nil {
		stop()
		return nil, errors.Join(fmt.Errorf("start the bridge: %w", err), os.RemoveAll(dir))
	}
	go func() {
		b.err = b.cmd.Wait()
		close(b.exited)
	}()
	return b, b.await(ctx, printed)
}

// settings are the variables of a measurement.
func settings(base string, calls int) []string {
	limit := fmt.Sprint(calls + spareCalls)
	out := []string{
		"VOICEBRIDGE_LISTEN=127.0.0.1:0", "VOICEBRIDGE_LOG__LEVEL=error", "VOICEBRIDGE_SHUTDOWN_SECONDS=5",
		"VOICEBRIDGE_LIMITS__MAX_CALLS=" + limit, "VOICEBRIDGE_LIMITS__MAX_CALLS_PER_OWNER=" + limit,
		"VOICEBRIDGE_LIMITS__SETUPS_PER_MINUTE_PER_IP=100000", "VOICEBRIDGE_RECORDING__ENABLED=true",
		"OPENAI_API_KEY=load",
	}
	if strings.HasPrefix(base, "ws:") {
		const upstream = `VOICEBRIDGE_UPSTREAMS=[{"name":"load","profile":"openai","transport":"websocket","url":%q}]`
		return append(out, fmt.Sprintf(upstream, base))
	}
	return append(out, "VOICEBRIDGE_UPSTREAM=openai", "OPENAI_BASE_URL="+base)
}

// freeAddress returns an address of loopback on which nobody listens.
func freeAddress(ctx context.Context) (string, error) {
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	return ln.Addr().String(), ln.Close()
}

// firstOutput takes what a process prints first.
type firstOutput chan string

func (f firstOutput) Write(p []byte) (int, error) {
	select {
	case f <- string(p[:min(len(p), 200)]):
	default:
	}
	return len(p), nil
}

var address = regexp.MustCompile(`http://\S+`)

// await waits until the bridge has printed its address.
func (b *bridge) await(ctx context.Context, printed firstOutput) error {
	select {
	case text := <-printed:
		if b.url = address.FindString(text); b.url == "" {
			return fmt.Errorf("the bridge printed %q and no address", text)
		}
		return nil
	case <-b.exited:
		return errors.New("the bridge has ended")
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(startTimeout):
		return fmt.Errorf("the bridge printed no address in %s", startTimeout)
	}
}

// close stops the process, kills it if it does not end, and removes its folder. It adds to an error what the bridge
// said.
func (b *bridge) close(err error) error {
	b.stop()
	<-b.exited
	if said := bytes.TrimSpace(b.log.Bytes()); err != nil && !errors.Is(err, context.Canceled) {
		err = fmt.Errorf("%w (the bridge: %s)\n%s", err, b.cmd.ProcessState, said[max(0, len(said)-maxLog):])
	}
	return errors.Join(err, os.RemoveAll(b.dir))
}

// usage is what a process has used so far.
type usage struct {
	cpu time.Duration // user and system time of all threads
	rss int64         // resident memory in KiB
}

// inUse finds in a heap profile what is in use after a collection: objects on the heap, and stacks.
var inUse = regexp.MustCompile(`(?m)^# (?:HeapAlloc|Stack) = (\d+)`)

// kept returns how many KiB the bridge keeps, its live objects and its stacks, and its heap profile. Unlike resident
// memory it has no garbage and no memory that is only reserved.
func (b *bridge) kept(ctx context.Context) (int64, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, b.heap, http.NoBody)
	if err != nil {
		return 0, nil, fmt.Errorf("ask for the heap: %w", err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil, fmt.Errorf("ask for the heap: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	profile, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, nil, fmt.Errorf("read the heap: %w", err)
	}
	var total int64
	for _, found := range inUse.FindAllSubmatch(profile, -1) {
		n, _ := strconv.ParseInt(string(found[1]), 10, 64) // digits
		total += n
	}
	return total >> 10, profile, nil
}

// usage returns what the bridge has used so far, according to /proc. It fails on systems other than Linux.
func (b *bridge) usage() (usage, error) {
	if runtime.GOOS != "linux" {
		return usage{}, errors.New("only Linux reports what a process uses")
	}
	process, err := procfs.NewProc(b.cmd.Process.Pid)
	if err != nil {
		return usage{}, fmt.Errorf("find process: %w", err)
	}
	stat, errStat := process.Stat()
	status, errStatus := process.NewStatus()
	if err := errors.Join(errStat, errStatus); err != nil {
		return usage{}, fmt.Errorf("read what a process uses: %w", err)
	}
	// The same on all Linux architectures: USER_HZ, proc(5).
	const tick = 10 * time.Millisecond
	return usage{cpu: time.Duration(stat.UTime+stat.STime) * tick, rss: int64(status.VmRSS >> 10)}, nil // below 2^63
}
