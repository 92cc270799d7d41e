package code

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"time"

	"voicebridge/toolkit"
)

// maxRequest limits what the child reads, in bytes: a program whose every byte is escaped.
const maxRequest = 6*toolkit.MaxArguments + 4<<10

// IsChild reports whether the arguments of this process (os.Args) are those of a child of a
// [Sandbox]. main must then call [RunChild] and nothing else.
func IsChild(args []string) bool {
	return len(args) > 1 && (args[1] == javaScriptChild || args[1] == pythonChild)
}

// RunChild is the main function of a child: it reads one program from stdin, runs it, reports to
// stdout, and returns the process's exit code. args are os.Args. It permanently gives up rights of
// the whole process, which may end before it returns.
func RunChild(args []string, stdin io.Reader, stdout io.Writer) int {
	// Again, because the parent may have missed a thread that was just being created, and may lack
	// the right if this process runs as nobody.
	lowerPriority(os.Getpid())
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
	debug.SetGCPercent(25) // the program and its values are the engine's; what is left here soon goes
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
		report.end(
			ending{Exit: ExitTimeout, Error: fmt.Sprintf("the program ran longer than %v and was stopped", r.Timeout)},
		)
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
