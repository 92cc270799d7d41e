package code

import (
	"cmp"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"
)

// errNoPython begins the errors of ProbePython.
var errNoPython = errors.New("no Python on the server")

const defaultPython = "/usr/bin/python3" // the sandbox shows /usr and nothing else of the host

// Defaults of [Config].
const (
	defaultTimeout           = 10 * time.Second
	defaultMemoryBytes       = 64 << 20
	defaultPythonMemoryBytes = 512 << 20
	defaultMaxOutput         = 64 << 10
	defaultMaxParallel       = 4
)

// Config configures a [Sandbox]. The zero value is useful.
type Config struct {
	// How long one program may run.
	Timeout time.Duration `yaml:"timeout_seconds" default:"10" min:"1" max:"600"`
	// The JavaScript heap. The kernel lets the engine map a quarter more, and 8 MiB. The child process takes about 35
	// MiB besides, and up to 75 MiB for the stack of deep calls.
	MemoryBytes int64 `yaml:"memory_mb" default:"64" min:"4" max:"8192"`
	// How many programs run at the same time. Others wait until their context ends. One owner gets all slots but one,
	// so that other owners' programs need not wait.
	MaxParallel int `yaml:"max_parallel" default:"4" min:"1" max:"256"`
	// Offers Python, if the host supports it.
	PythonEnabled bool `yaml:"python"`
	// JavaScript even if its child cannot be put under the seccomp filter: on systems other than Linux, and on hosts
	// that forbid it. Whatever escapes QuickJS then has the rights of this process.
	AllowUnconfined bool `yaml:"unconfined"`

	// Logger logs why Python is not offered and how children crash; nil = none.
	Logger *slog.Logger `yaml:"-"`

	// The rest is for tests.

	// executable and args start the child: executable args… and the child's own arguments, which
	// must reach [IsChild] as os.Args[1] and so on. Empty means this program.
	executable string
	args       []string
	// maxOutput limits stdout and stderr together, and the value, in bytes; 0 = 64 KiB, which, escaped
	// as JSON, fits the router's limit.
	maxOutput int
	// pythonMemoryBytes limits the address space of a Python program; 0 = 512 MiB. Its files take
	// up to 192 MiB of memory besides. On machines other than amd64 and arm64 it may start
	// processes, and the limit applies to each.
	pythonMemoryBytes int64
	// python and bwrap are the programs; empty means /usr/bin/python3, and the bwrap in PATH.
	python, bwrap string
}

func (c Config) withDefaults() Config {
	c.Timeout = cmp.Or(c.Timeout, defaultTimeout)
	c.MemoryBytes = cmp.Or(c.MemoryBytes, defaultMemoryBytes)
	c.pythonMemoryBytes = cmp.Or(c.pythonMemoryBytes, defaultPythonMemoryBytes)
	c.maxOutput = cmp.Or(c.maxOutput, defaultMaxOutput)
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

// probeTimeout is how long a probe may take, whatever the limit of programs is: it says whether they work here, not how
// busy the machine is while it starts.
const probeTimeout = 30 * time.Second

// patient returns the sandbox for a probe.
func (s *Sandbox) patient() *Sandbox {
	p := &Sandbox{config: s.config, log: s.log, slots: s.slots, watch: s.watch}
	p.config.Timeout = max(p.config.Timeout, probeTimeout)
	return p
}

// watcher follows children. Nil functions are not called.
type watcher struct {
	started func(pid int)
	printed func(text string)
}
