package code

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"
)

// errNoPython begins the errors of ProbePython.
var errNoPython = errors.New("no Python on the server")

const defaultPython = "/usr/bin/python3" // the sandbox shows /usr and nothing else of the host

// Defaults of [Config], and limits on its values.
const (
	defaultTimeout           = 10 * time.Second
	defaultMemoryBytes       = 64 << 20
	defaultPythonMemoryBytes = 512 << 20
	defaultMaxOutput         = 64 << 10
	defaultMaxParallel       = 4

	// maxCode limits one program, in bytes.
	maxCode = 256 << 10

	minTimeout      = 100 * time.Millisecond
	maxTimeout      = 10 * time.Minute
	minMemory       = 4 << 20
	minPythonMemory = 64 << 20
	maxMemory       = 8 << 30
	minOutput       = 256
	maxParallel     = 256
)

// Config configures a [Sandbox]. The zero value is useful.
type Config struct {
	// Timeout is how long one program may run, 100 ms to 10 minutes; 0 = 10 s.
	Timeout time.Duration
	// MemoryBytes limits the JavaScript heap, 4 MiB to 8 GiB; 0 = 64 MiB. The child process may
	// take about three times as much and 256 MiB of address space.
	MemoryBytes int64
	// MaxOutput limits stdout and stderr together, and the value, in bytes; 0 = 64 KiB, which is
	// also the maximum: escaped as JSON it still fits the router's limit.
	MaxOutput int
	// MaxParallel limits how many programs run at the same time; 0 = 4. Others wait until their ctx
	// ends. One owner gets all slots but one, so that other owners' programs need not wait.
	MaxParallel int

	// Executable and Args start the child: Executable Args… and the child's own arguments, which
	// must reach [IsChild] as os.Args[1] and so on. Empty means this program.
	Executable string
	Args       []string

	// AllowUnconfined lets JavaScript run even if its child cannot be put under the seccomp filter:
	// on systems other than Linux, and on hosts that forbid it. Whatever escapes QuickJS then has
	// the rights of this process.
	AllowUnconfined bool

	// PythonEnabled offers Python, if the host supports it.
	PythonEnabled bool
	// PythonMemoryBytes limits the address space of a Python program; 0 = 512 MiB. Its files take
	// up to 192 MiB of memory besides. On machines other than amd64 and arm64 it may start
	// processes, and the limit applies to each.
	PythonMemoryBytes int64
	// python and bwrap are the programs; empty means /usr/bin/python3, and the bwrap in PATH.
	python, bwrap string

	// Logger logs why Python is not offered and how children crash; nil = none.
	Logger *slog.Logger
}

// Validate returns everything that is wrong with the settings, joined.
func (c Config) Validate() error {
	var problems []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			problems = append(problems, fmt.Errorf(format, args...))
		}
	}
	c = c.withDefaults()
	check(c.Timeout >= minTimeout && c.Timeout <= maxTimeout, "timeout is %v, it must be %v to %v", c.Timeout, minTimeout, maxTimeout)
	check(c.MemoryBytes >= minMemory && c.MemoryBytes <= maxMemory, "memory is %d bytes, it must be %d to %d",
		c.MemoryBytes, int64(minMemory), int64(maxMemory))
	check(c.PythonMemoryBytes >= minPythonMemory && c.PythonMemoryBytes <= maxMemory, "python memory is %d bytes, it must be %d to %d",
		c.PythonMemoryBytes, int64(minPythonMemory), int64(maxMemory))
	check(c.MaxOutput >= minOutput && c.MaxOutput <= defaultMaxOutput, "max output is %d bytes, it must be %d to %d",
		c.MaxOutput, minOutput, defaultMaxOutput)
	check(c.MaxParallel >= 1 && c.MaxParallel <= maxParallel, "max parallel is %d, it must be 1 to %d", c.MaxParallel, maxParallel)
	return errors.Join(problems...)
}

func (c Config) withDefaults() Config {
	c.Timeout = cmp.Or(c.Timeout, defaultTimeout)
	c.MemoryBytes = cmp.Or(c.MemoryBytes, defaultMemoryBytes)
	c.PythonMemoryBytes = cmp.Or(c.PythonMemoryBytes, defaultPythonMemoryBytes)
	c.MaxOutput = cmp.Or(c.MaxOutput, defaultMaxOutput)
	c.MaxParallel = cmp.Or(c.MaxParallel, defaultMaxParallel)
	c.python = cmp.Or(c.python, defaultPython)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	return c
}

// Sandbox runs programs. It is safe for concurrent use.
type Sandbox struct {
	config Config
	log    *slog.Logger
	slots  *slots

	// unfiltered is set if children do not work under the seccomp filter here.
	unfiltered atomic.Bool

	// watch observes each started child and its output, for tests.
	watch watcher
}

// watcher follows children. Nil functions are not called.
type watcher struct {
	started func(pid int)
	printed func(text string)
}
