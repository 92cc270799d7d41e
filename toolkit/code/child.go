package code

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"time"
	"unicode/utf8"
)

// First arguments of a child. They look like flags, so that a program that fails to check IsChild
// rejects them; otherwise a test binary would run all its tests, and start children of its own.
const (
	javaScriptChild = "--internal-javascript-child"
	pythonChild     = "--internal-python-child"
)

const (
	// maxGoStack limits a goroutine's stack in the child. At the allowed call depth it takes about
	// 75 MB.
	maxGoStack = 256 << 20
	// maxRequest limits what the child reads: a program whose every byte is escaped.
	maxRequest = 6*maxCode + 4<<10

	exitBadRequest = 3
	exitOrphan     = 4
	exitUnconfined = 5
)

// IsChild reports whether the arguments of this process (os.Args) are those of a child of a
// [Sandbox]. main must then call [RunChild] and nothing else.
func IsChild(args []string) bool {
	return len(args) > 1 && (args[1] == javaScriptChild || args[1] == pythonChild)
}

// RunChild is the main function of a child: it reads one program from stdin, runs it, reports to
// stdout, and returns the process's exit code. args are os.Args. It permanently gives up rights of
// the whole process.
func RunChild(args []string, stdin io.Reader, stdout io.Writer) int {
	// Again, because a thread that was being created when the parent did this was missed, and the
	// parent may lack the right if this process runs as nobody.
	giveWay(os.Getpid())
	if args[1] == pythonChild {
		err := execPython(args[2:])
		fmt.Fprintln(os.Stderr, err)
		return exitBadRequest
	}
	decoder := json.NewDecoder(io.LimitReader(stdin, maxRequest))
	var r request
	if err := decoder.Decode(&r); err != nil {
		fmt.Fprintln(os.Stderr, "read request:", err)
		return exitBadRequest
	}
	runtime.GOMAXPROCS(2) // the program, and its watchdog; also avoids reading the host's cgroup
	debug.SetMaxStack(maxGoStack)
	debug.SetMemoryLimit(r.MemoryBytes + maxGoStack)
	time.Local = time.UTC // time zones are files
	report := newReporter(stdout, r.MaxOutput)
	machine, err := newMachine(r, report)
	if err != nil {
		fmt.Fprintln(os.Stderr, "make machine:", err)
		return exitBadRequest
	}
	// Before the filter: a timer makes the runtime open its poller.
	time.AfterFunc(r.Timeout, func() {
		report.end(ending{Exit: ExitTimeout, Error: fmt.Sprintf("the program ran longer than %v and was stopped", r.Timeout)})
		os.Exit(0)
	})
	go func() {
		_, _ = stdin.Read(make([]byte, 1))
		os.Exit(exitOrphan)
	}()
	if err := limitSelf(r); err != nil {
		fmt.Fprintln(os.Stderr, "limit child:", err)
		return exitBadRequest
	}
	if r.Filter {
		if err := installFilter(); err != nil {
			fmt.Fprintln(os.Stderr, "confine child:", err)
			return exitUnconfined
		}
		report.confined = true
	}
	report.end(machine.run(r.Code))
	return 0
}

// reporter writes the child's frames. The watchdog may end the child while the program prints.
type reporter struct {
	mu       sync.Mutex
	encoder  *json.Encoder
	began    time.Time
	max      int
	confined bool
	ended    bool
}

func newReporter(stdout io.Writer, maxOutput int) *reporter {
	encoder := json.NewEncoder(stdout)
	encoder.SetEscapeHTML(false) // also not in values, which are JSON already
	return &reporter{encoder: encoder, began: time.Now(), max: maxOutput}
}

func (r *reporter) print(stream, text string) {
	// The parent stops the child at its limit; one character more is enough to tell.
	text = head(text, r.max+utf8.UTFMax)
	f := frame{Stdout: text}
	if stream == "stderr" {
		f = frame{Stderr: text}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.ended {
		r.write(f)
	}
}

func (r *reporter) end(e ending) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return
	}
	r.ended = true
	e.DurationMs = time.Since(r.began).Milliseconds()
	e.Confined = r.confined
	r.write(frame{End: &e})
}

func (r *reporter) write(f frame) {
	if r.encoder.Encode(f) != nil {
		os.Exit(exitOrphan) // nobody is reading
	}
}
