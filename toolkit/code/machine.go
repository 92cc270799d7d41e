package code

import (
	_ "embed" // the glue
	"errors"
	"fmt"
	"strings"
	"time"

	"modernc.org/quickjs"

	"voicebridge/toolkit"
)

const (
	// maxDepth limits QuickJS's call depth. In this version the "stack size" counts calls, and its
	// default exceeds what a Go stack can hold.
	maxDepth = 8192
	// evalAsync is JS_EVAL_FLAG_ASYNC of quickjs.h: top-level await in a script. The result is a
	// promise of {value}.
	evalAsync = 1 << 7
	// maxJobs is how many jobs ExecutePendingJobs runs before it gives up with an error.
	maxJobs = 1 << 20
	// reportMemory is the memory, in bytes, for the glue's report after the program has used up its
	// own.
	reportMemory = 16 << 20

	hostPrint = "__print"
)

// glue is the console, the timers and the report of the outcome, in a function that programs cannot
// reach.
//
//go:embed glue.js
var glue string

// machine is one JavaScript engine that runs one program.
type machine struct {
	vm      *quickjs.VM
	control quickjs.Value // the glue's function
	max     int           // bytes of the value
	memory  uintptr
	full    bool // the program's memory was used up at some point
}

func newMachine(r request, report *reporter) (*machine, error) {
	vm, err := quickjs.NewVM()
	if err != nil {
		return nil, err
	}
	m := &machine{vm: vm, max: r.MaxOutput, memory: uintptr(r.MemoryBytes)}
	vm.SetMemoryLimit(m.memory)
	vm.SetMaxStackSize(maxDepth)
	err = vm.RegisterHostFunc(hostPrint, func(args []any) (any, error) {
		if len(args) == 2 {
			stream, _ := args[0].(string)
			text, _ := args[1].(string)
			report.print(stream, strings.ToValidUTF8(text, "\uFFFD"))
		}
		return nil, nil
	})
	if err != nil {
		return nil, err
	}
	m.control, err = vm.EvalValue(glue, quickjs.EvalGlobal)
	return m, err
}

// run runs the program until it and its timers are done. The watchdog ends what runs too long, with
// the process.
func (m *machine) run(code string) ending {
	promise, err := m.vm.EvalValue(code, quickjs.EvalGlobal|evalAsync)
	m.checkRoom()
	if err != nil {
		return m.threw(err)
	}
	if _, err := m.control.Call(quickjs.UndefinedValue, "watch", promise); err != nil {
		return m.threw(err)
	}
	for {
		err := m.drain()
		m.checkRoom()
		if err != nil {
			return m.threw(err)
		}
		if m.textOf("state") == "rejected" {
			break
		}
		wait, more := m.nextTimer()
		if !more {
			break
		}
		<-time.After(wait)
		if _, err := m.control.Call(quickjs.UndefinedValue, "fire"); err != nil {
			return m.threw(err)
		}
	}
	return m.outcome()
}

// drain runs all jobs that are ready; there may be an endless flood of them.
func (m *machine) drain() error {
	for {
		if n, err := m.vm.ExecutePendingJobs(); n < maxJobs {
			return err
		}
	}
}

// checkRoom records that the memory is used up. Later it may be free again, if the engine had no
// memory for an error and threw null.
func (m *machine) checkRoom() {
	m.full = m.full || m.value("room") != true
}

// nextTimer returns when the next timer is due, and false if there is none.
func (m *machine) nextTimer() (time.Duration, bool) {
	switch ms := m.value("next").(type) {
	case int:
		return time.Duration(ms) * time.Millisecond, ms >= 0
	case float64:
		return time.Duration(ms * float64(time.Millisecond)), ms >= 0
	default:
		return 0, false
	}
}

// outcome returns the ending of a program that has nothing left to do.
func (m *machine) outcome() ending {
	m.vm.SetMemoryLimit(m.memory + reportMemory)
	switch m.textOf("state") {
	case "fulfilled":
		text, ok := m.value("value", m.max+1).(string) // each character takes a byte at least
		if !ok {
			break
		}
		return m.valueOf(strings.ToValidUTF8(text, "\uFFFD"), m.value("length"))
	case "rejected":
		return m.failure(m.textOf("name"), m.textOf("message"), m.textOf("stack"))
	case "pending":
		if !m.full {
			return ending{Exit: ExitException, Error: "the program waits for a promise that nothing will settle"}
		}
	}
	return ending{Exit: ExitOutOfMemory, Error: outOfMemoryText}
}

// valueOf returns the ending of a program for the beginning of its value, and the characters that all of it has.
func (m *machine) valueOf(text string, characters any) ending {
	if len(text) <= m.max {
		return ending{Exit: ExitCompleted, Value: []byte(text)}
	}
	return ending{Exit: ExitOutputLimit,
		Value: toolkit.Encode(toolkit.Head(text, m.max) + fmt.Sprintf("\n[cut: %v characters in all]", characters)),
		Error: fmt.Sprintf("the value is %v characters long, the limit is %d bytes; return less", characters, m.max)}
}

// threw returns the ending of a program for an error of the engine, such as a syntax error.
func (m *machine) threw(err error) ending {
	thrown, ok := errors.AsType[*quickjs.Error](err)
	if !ok {
		return m.failure("", err.Error(), "")
	}
	stack := thrown.Stack
	if thrown.LineNumber > 0 {
		stack = fmt.Sprintf("    at line %d, column %d", thrown.LineNumber, thrown.ColumnNumber)
	}
	if thrown.Name == "" {
		return m.failure("", thrown.Error(), stack)
	}
	return m.failure(thrown.Name, thrown.Message, stack)
}

const (
	outOfMemoryText = "the program used up its memory"
	maxStackLines   = 6
)

// failure returns the ending of a program that threw.
func (m *machine) failure(name, message, stack string) ending {
	engine := name == "InternalError" || name == "SyntaxError"
	switch {
	case engine && message == "out of memory", name == "" && message == "null" && m.full:
		return ending{Exit: ExitOutOfMemory, Error: outOfMemoryText}
	case engine && message == "stack overflow":
		return ending{Exit: ExitStackOverflow, Error: "the program's calls or values are nested too deep"}
	}
	text := toolkit.Head(message, m.max)
	if name != "" {
		text = toolkit.Head(name, 100) + ": " + text
	}
	lines := strings.Split(strings.TrimRight(toolkit.Head(stack, m.max), "\n"), "\n")
	text = strings.TrimRight(text+"\n"+strings.Join(lines[:min(len(lines), maxStackLines)], "\n"), "\n")
	return ending{Exit: ExitException, Error: strings.ToValidUTF8(text, "\uFFFD")}
}

// textOf asks the glue for a text, and returns an empty one if the glue fails.
func (m *machine) textOf(what string) string {
	text, _ := m.value(what).(string)
	return strings.ToValidUTF8(text, "\uFFFD")
}

func (m *machine) value(what string, more ...any) any {
	v, err := m.control.Call(quickjs.UndefinedValue, append([]any{what}, more...)...)
	if err != nil {
		return nil
	}
	return v
}
