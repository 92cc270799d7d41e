// Package code provides the tools that run a model's programs on the server: JavaScript in QuickJS,
// and Python in bubblewrap if the operator enables it and the host supports it.
//
// No program runs in this process. JavaScript runs in a child, which is this same binary started
// again: it has an empty environment, limits on memory and processor time, and a seccomp filter of
// Linux that leaves it no files, no network and no other process; without the filter it runs only
// where the operator allows it. QuickJS itself is a translation of C to Go, and a fault in it (a Go
// stack that overflows cannot be recovered) ends the child and one call. Python runs in namespaces
// of its own without a network, as one process. Both have a lower priority than this process, which
// forwards audio.
//
// # Why these two runtimes
//
// The page once had two more, QuickJS as WebAssembly and Pyodide, in workers. They served only
// calls of that page: typed turns, text sessions, the conductor and other clients need the server's
// anyway. A browser's answers cannot be trusted, a tool stopped with its tab, and the pair cost a
// second definition of each tool, exceptions in the content security policy, and 14 MB that
// operators had to host for Pyodide. QuickJS in a child process comes with the binary and runs
// wherever it does; CPython in bubblewrap has the whole standard library and is isolated by the
// kernel. Where the host lacks bubblewrap or Python, the Python tool is not offered. A client that
// wants to run programs itself declares a tool of its own.
//
// main must hand over to [RunChild] first thing when [IsChild] says so.
package code

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"voicebridge/toolkit"
)

// Names of the tools.
const (
	JavaScriptName = "mini-javascript-execution"
	PythonName     = "python-execution"
)

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

// Config are the limits of a [Sandbox]. The zero value is useful.
type Config struct {
	// Timeout is how long one program may run, 100 ms to 10 minutes; 0 = 10 s.
	Timeout time.Duration
	// MemoryBytes limits the JavaScript heap, 4 MiB to 8 GiB; 0 = 64 MiB. The child process may
	// take about three times as much and 256 MiB of address space.
	MemoryBytes int64
	// MaxOutput limits stdout and stderr together, and the value, in bytes; 0 = 64 KiB, which is
	// also the maximum: escaped as JSON it still fits the router's limit.
	MaxOutput int
	// MaxParallel limits how many programs run at a time; 0 = 4. Others wait within their ctx. One
	// owner gets all slots but one, so that other owners' programs need not wait.
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
	// PythonPath is the interpreter, below /usr; empty means /usr/bin/python3.
	PythonPath string
	// BubblewrapPath is the bwrap program; empty means the one in PATH.
	BubblewrapPath string

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
	// The sandbox shows /usr and nothing else of the host.
	check(within(filepath.Clean(c.PythonPath), "/usr"), "python path %q must lie below /usr", c.PythonPath)
	return errors.Join(problems...)
}

func (c Config) withDefaults() Config {
	c.Timeout = cmp.Or(c.Timeout, defaultTimeout)
	c.MemoryBytes = cmp.Or(c.MemoryBytes, defaultMemoryBytes)
	c.PythonMemoryBytes = cmp.Or(c.PythonMemoryBytes, defaultPythonMemoryBytes)
	c.MaxOutput = cmp.Or(c.MaxOutput, defaultMaxOutput)
	c.MaxParallel = cmp.Or(c.MaxParallel, defaultMaxParallel)
	c.PythonPath = cmp.Or(c.PythonPath, defaultPython)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// javaScriptDefinition returns the model's definition of the JavaScript tool.
func javaScriptDefinition() toolkit.Definition {
	return definition(JavaScriptName,
		"Run a short JavaScript program (ES2023) and get what it printed and the value of its last expression. "+
			"Use it for exact arithmetic, dates, text and data. Top-level await works; return does not. "+
			"There is console, setTimeout and plain JavaScript: no network, no files, no modules, no DOM, no Node.js.",
		"The program. End it with the expression whose value you want, or print with console.log.")
}

// pythonDefinition returns the model's definition of the Python tool.
func pythonDefinition() toolkit.Definition {
	return definition(PythonName,
		"Run a short Python 3 program and get what it printed and the value of its last expression. "+
			"Use it for exact arithmetic, statistics, dates, text and data. Top-level await works. "+
			"There is the standard library, but no network and no other processes, and files are gone when the program ends.",
		"The program. End it with the expression whose value you want, or print.")
}

func definition(name, description, code string) toolkit.Definition {
	type property struct {
		Type        string `json:"type"`
		Description string `json:"description"`
		MinLength   int    `json:"minLength"`
		MaxLength   int    `json:"maxLength"`
	}
	parameters, err := json.Marshal(struct {
		Type                 string              `json:"type"`
		Properties           map[string]property `json:"properties"`
		Required             []string            `json:"required"`
		AdditionalProperties bool                `json:"additionalProperties"`
	}{"object", map[string]property{"code": {"string", code, 1, maxCode}}, []string{"code"}, false})
	if err != nil {
		panic(fmt.Sprintf("code: schema of %s: %v", name, err)) // it is a constant; a test makes it
	}
	return toolkit.Definition{Name: name, Description: description, Parameters: parameters}
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

// New returns a sandbox, or an error about the settings. It starts nothing.
func New(config Config) (*Sandbox, error) {
	if err := config.Validate(); err != nil {
		return nil, fmt.Errorf("configure code tools: %w", err)
	}
	config = config.withDefaults()
	return &Sandbox{config: config, log: config.Logger, slots: newSlots(config.MaxParallel)}, nil
}

// JavaScript returns the tool mini-javascript-execution.
func (s *Sandbox) JavaScript() toolkit.Tool {
	return &tool{definition: javaScriptDefinition(), language: "JavaScript", sandbox: s, run: s.runJavaScript}
}

// Python returns the tool python-execution. Call [Sandbox.ProbePython] first.
func (s *Sandbox) Python() toolkit.Tool {
	return &tool{definition: pythonDefinition(), language: "Python", sandbox: s, run: s.runPython}
}

// Tools probes the host and returns the tools that work on it; it logs why others do not. It starts
// two to four child processes.
func (s *Sandbox) Tools(ctx context.Context) []toolkit.Tool {
	var tools []toolkit.Tool
	if confinement, err := s.ProbeJavaScript(ctx); err != nil {
		s.log.Warn("tool not offered", "tool", JavaScriptName, "error", err)
	} else {
		s.log.Info("tool offered", "tool", JavaScriptName, "confinement", confinement)
		tools = append(tools, s.JavaScript())
	}
	if !s.config.PythonEnabled {
		return tools
	}
	if err := s.ProbePython(ctx); err != nil {
		s.log.Warn("tool not offered", "tool", PythonName, "error", err)
		return tools
	}
	s.log.Info("tool offered", "tool", PythonName, "confinement", "bubblewrap")
	return append(tools, s.Python())
}

// within reports whether a clean path lies below dir.
func within(path, dir string) bool {
	rest, ok := strings.CutPrefix(path, dir)
	return ok && strings.HasPrefix(rest, string(filepath.Separator))
}
