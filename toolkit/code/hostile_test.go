//go:build linux

package code

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"voicebridge/internal/testkit"
	"voicebridge/toolkit"
)

// forLonger runs an endless program again with ever more time while it is stopped before it has
// printed anything, as on a busy machine.
func (r *rig) forLonger(run func(*rig) Outcome) Outcome {
	for {
		o := run(r)
		longer := r.sandbox.config
		longer.Timeout *= 4
		if o.Exit != ExitTimeout || o.Stdout != "" || longer.Timeout > 10*time.Minute {
			return o
		}
		r = setup(r.t, longer, watcher{})
	}
}

// These programs never end by themselves. Each prints something first, which is not lost.
func TestEndlessJavaScript(t *testing.T) {
	t.Parallel()
	r := setup(t, Config{Timeout: 800 * time.Millisecond}, watcher{})
	for name, code := range map[string]string{
		"loop":                 `for (;;);`,
		"loop in a catch":      `for (;;) try { throw 1 } catch {} finally { continue }`,
		"regular expression":   `/(a+)+$/.test("a".repeat(50) + "b")`,
		"regular expression 2": `/^(([a-z])+.)+[A-Z]([a-z])+$/.test("a".repeat(60))`,
		"microtasks":           `(function f() { Promise.resolve().then(f) })()`,
		"many microtasks":      `const f = () => { for (let i = 0; i < 10; i++) queueMicrotask(() => { if (i === 0) f() }) }; f()`,
		"await":                `for (;;) await null`,
		"promise chain":        `let p = Promise.resolve(); const f = () => { p = p.then(f) }; f(); await new Promise(() => {})`,
		"thenable":             `const t = { then(r) { r(t) } }; await t`,
		"interval":             `setInterval(() => {}, 1); 1`,
		"long timer":           `await new Promise(r => setTimeout(r, 1e12))`,
		"generator":            `[...(function*() { for (;;) yield* [] })()]`,
		"sparse join":          `new Array(4294967295).join("abc")`,
		"sort":                 `[1, 2, 3].sort(() => { for (;;); })`,
		"toJSON of the value":  `({ toJSON() { for (;;); } })`,
		"getter of an error":   `const e = new Error("x"); Object.defineProperty(e, "message", { get() { for (;;); } }); throw e`,
		"proxy in the console": `console.log(new Proxy({}, { ownKeys() { for (;;); } }))`,
		"then of the value":    `({ get then() { for (;;); } })`,
		"exponential bigint":   `let x = 3n; for (;;) { x = x * x % (1n << 200000n); }`,
		"eval":                 `const f = () => (0, eval)("for(;;);"); f()`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := r.forLonger(func(r *rig) Outcome { return r.javaScript(`console.log("before");` + code) })
			if o.Exit != ExitTimeout || o.Stdout != "before\n" {
				t.Errorf("got %s: %s, stdout %q, value %s", o.Exit, o.Error, o.Stdout, o.Value)
			}
		})
	}
}

func TestGreedyJavaScript(t *testing.T) {
	t.Parallel()
	r := setup(t, Config{MemoryBytes: 16 << 20}, watcher{})
	memory, stack := []Exit{ExitOutOfMemory}, []Exit{ExitStackOverflow}
	thrown := []Exit{ExitException, ExitOutOfMemory} // refused by a limit of the language
	for name, c := range map[string]struct {
		code string
		want []Exit
	}{
		"arrays":             {`let a = []; for (;;) a.push(new Array(1000).fill(1))`, memory},
		"objects":            {`let a = []; for (;;) a.push({})`, memory},
		"keys":               {`let o = {}, i = 0; for (;;) o["k" + i++] = i`, memory},
		"closures":           {`let f = () => 0; for (;;) { const g = f; f = () => g }`, append(memory, ExitCrashed)},
		"ArrayBuffers":       {`let a = []; for (;;) a.push(new ArrayBuffer(1 << 20))`, memory},
		"typed arrays":       {`let a = []; for (;;) a.push(new Float64Array(1000))`, memory},
		"shared buffers":     {`let a = []; for (;;) a.push(new SharedArrayBuffer(1 << 20))`, memory},
		"one buffer":         {`new ArrayBuffer(1 << 30)`, memory},
		"huge buffer":        {`new ArrayBuffer(1e15)`, thrown},
		"growing buffer":     {`const b = new ArrayBuffer(8, { maxByteLength: 1 << 30 }); for (let n = 8;; n *= 2) b.resize(n)`, thrown},
		"strings":            {`let a = [], s = "x".repeat(1 << 16); for (let i = 0;; i++) a.push(s + i + "y".repeat(1 << 16))`, memory},
		"one string":         {`"x".repeat(1 << 29)`, memory},
		"doubled string":     {`let s = "x"; for (;;) s += s`, thrown},
		"flat string":        {`let s = "x"; for (;;) { s += s; s.charCodeAt(1); s = JSON.parse(JSON.stringify(s)) }`, thrown},
		"padded string":      {`"x".padEnd(1e9, "abc")`, thrown},
		"fill":               {`new Array(1e9).fill(0)`, memory},
		"map":                {`const m = new Map(); for (let i = 0;; i++) m.set(i, i)`, memory},
		"waiting promises":   {`const a = []; for (;;) a.push(new Promise(() => {}).then(() => {}))`, memory},
		"queued jobs":        {`for (;;) queueMicrotask(() => {})`, memory},
		"timers":             {`for (;;) setTimeout(() => {}, 1)`, []Exit{ExitException}},
		"in a promise":       {`await (async () => { let a = []; for (;;) { await null; a.push(new Array(10000).fill(1)) } })()`, memory},
		"big value":          {`const a = []; for (let i = 0; i < 200000; i++) a.push(i); a.map(i => a)`, []Exit{ExitCompleted}},
		"recursion":          {`function f() { f() } f()`, stack},
		"recursion of many":  {`const f = (a, b, c, d, e) => f(...[a, b, c, d, e]) + 1; f(1, 2, 3, 4, 5)`, stack},
		"through the engine": {`const f = () => [1].map(f); f()`, stack},
		"through replace":    {`const f = () => "a".replace(/a/, f); f()`, stack},
		"through toString":   {`const o = { toString() { return "" + o } }; "" + o`, stack},
		"through a proxy":    {`const p = new Proxy({}, { get(t, k, r) { return r[k] } }); p.x`, stack},
		"constructors":       {`class A { constructor() { new A } } new A`, stack},
		"generators":         {`const f = function*() { yield* f() }; [...f()]`, stack},
		"async recursion":    {`const f = async () => { await f() }; await f()`, stack},
		"nested data":        {`let a = []; for (let i = 0; i < 50000; i++) a = [a]; JSON.stringify(a)`, stack},
		"nested JSON":        {`JSON.parse("[".repeat(1e6))`, stack},
		"nested source":      {`eval("(".repeat(1e6))`, stack},
		"nested pattern":     {`new RegExp("(?:".repeat(1e5) + ")".repeat(1e5))`, append(stack, ExitException)},
		"deep source":        {strings.Repeat("[", 200_000), stack},
		"deep arrows":        {strings.Repeat("a=>", 80_000) + "1", stack},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := r.javaScript(c.code)
			if !slices.Contains(c.want, o.Exit) {
				t.Errorf("got %s: %s, want %v", o.Exit, o.Error, c.want)
			}
		})
	}
}

func TestDeepValueIsReadable(t *testing.T) {
	t.Parallel()
	r := setup(t, Config{}, watcher{})
	o := r.javaScript(`let a = []; for (let i = 0; i < 50000; i++) a = [a]; console.log(a); a`)
	if o.Exit != ExitCompleted || len(o.Stdout) > 200 || len(o.Value) > 200 {
		t.Errorf("got %s: %s, %d bytes of stdout, %d of value", o.Exit, o.Error, len(o.Stdout), len(o.Value))
	}
}

func TestOutputIsBounded(t *testing.T) {
	t.Parallel()
	r := setup(t, Config{}, watcher{})
	small := setup(t, Config{maxOutput: 256}, watcher{})
	for name, c := range map[string]struct {
		code string
		exit Exit
	}{
		"endless lines":        {`for (;;) console.log("x".repeat(100))`, ExitOutputLimit},
		"endless errors":       {`for (;;) console.error("é")`, ExitOutputLimit},
		"both":                 {`for (;;) { console.log("o"); console.error("e") }`, ExitOutputLimit},
		"one long line":        {`console.log("€".repeat(1e6))`, ExitOutputLimit},
		"control characters":   {`console.log("\x01".repeat(1e6))`, ExitOutputLimit},
		"long value":           {`"€".repeat(1e6)`, ExitOutputLimit},
		"long list":            {`Array.from({ length: 1e5 }, (_, i) => i)`, ExitOutputLimit},
		"long exception":       {`throw new Error("€".repeat(1e6))`, ExitException},
		"long name":            {`const e = new Error("x"); e.name = "n".repeat(1e6); throw e`, ExitException},
		"long thrown text":     {`throw "\u0001".repeat(1e6)`, ExitException},
		"long console line":    {`console.log(Array.from({ length: 1e5 }, (_, i) => "text " + i)); 1`, ExitCompleted},
		"printing while ended": {`setInterval(() => { for (let i = 0; i < 1e4; i++) console.log(i) }, 1)`, ExitOutputLimit},
	} {
		for label, rig := range map[string]*rig{"": r, " small": small} {
			if rig == small && c.exit == ExitCompleted {
				continue
			}
			t.Run(name+label, func(t *testing.T) {
				t.Parallel()
				o, result := rig.run(t.Context(), JavaScriptName, c.code)
				testkit.Equal(t, o.Exit, c.exit, "%.300s", o.Error)
				limit := rig.sandbox.config.maxOutput
				if n := len(o.Stdout) + len(o.Stderr); n > limit+100 || len(o.Value) > 2*limit+100 {
					t.Errorf("%d bytes of output and %d of value, the limit is %d", n, len(o.Value), limit)
				}
				if len(result.Output) > toolkit.MaxOutput || len(result.ForModel()) > 4*maxModelText {
					t.Errorf("the result has %d bytes, the model's %d", len(result.Output), len(result.ForModel()))
				}
			})
		}
	}
}

func TestInvalidUTF8(t *testing.T) {
	t.Parallel()
	r := setup(t, Config{}, watcher{})
	for arguments, want := range map[string]string{
		"{\"code\":\"'\xff\xfe' + 1\"}": `"` + "\uFFFD" + `1"`,
		`{"code":"'\ud800' + 1"}`:       `"` + "\uFFFD" + `1"`,
		`{"code":"'\u0000'.length"}`:    `1`,
	} {
		if result := r.call(t.Context(), JavaScriptName, arguments); result.Failed() || !strings.Contains(result.ForModel(), `"value":`+want) {
			t.Errorf("%q: got %q", arguments, result.ForModel())
		}
	}
}

func TestLargestProgram(t *testing.T) {
	t.Parallel()
	r := setup(t, Config{}, watcher{})
	const room = toolkit.MaxArguments - len(`{"code":""}`)
	code := strings.Repeat("1+", room/2) + "1"
	if o := r.javaScript(code); string(o.Value) != strconv.Itoa(room/2+1) {
		t.Errorf("got %s: %s, value %s", o.Exit, o.Error, o.Value)
	}
}

// running returns a rig and a channel that is closed once a program has printed.
func running(t *testing.T, config Config, more func(pid int)) (*rig, <-chan struct{}) {
	t.Helper()
	printed := make(chan struct{})
	pids := make(chan int, 1)
	return setup(t, config, watcher{
		started: func(pid int) { pids <- pid },
		printed: func(string) {
			if more != nil {
				more(<-pids)
			}
			close(printed)
		},
	}), printed
}

func TestKilledChild(t *testing.T) {
	t.Parallel()
	r, _ := running(t, Config{}, func(pid int) {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Error(err)
		}
	})
	o := r.javaScript(`console.log("started"); for (;;);`)
	if o.Exit != ExitCrashed || o.Stdout != "started\n" || !strings.Contains(o.Error, "killed") {
		t.Errorf("got %s: %s, stdout %q", o.Exit, o.Error, o.Stdout)
	}
}

func TestCancelledCall(t *testing.T) {
	t.Parallel()
	r, printed := running(t, Config{}, nil)
	ctx, cancel := context.WithCancel(t.Context())
	context.AfterFunc(t.Context(), cancel)
	go func() {
		<-printed
		cancel()
	}()
	o := r.sandbox.runJavaScript(ctx, `console.log("started"); for (;;);`)
	if o.Exit != ExitCancelled || o.Stdout != "started\n" {
		t.Errorf("got %s: %s, stdout %q", o.Exit, o.Error, o.Stdout)
	}
}

// TestOneOwnersPrograms has one owner with many programs, and another owner whose program
// does not have to wait for them.
func TestOneOwnersPrograms(t *testing.T) {
	t.Parallel()
	p := newSlots(4)
	ctx, cancel := context.WithCancel(t.Context())
	running, ended := make(chan func()), make(chan error)
	for range 48 {
		go func() {
			leave, err := p.enter(ctx, "anna")
			if err == nil {
				running <- leave
			}
			ended <- err
		}()
	}
	var leaves []func()
	for range 3 {
		leaves = append(leaves, testkit.Take(t, "that it runs", running))
		testkit.Take(t, "the end", ended)
	}
	leave, err := p.enter(t.Context(), "bert")
	must(t, err)
	leave()
	cancel()
	for range 45 {
		if err := testkit.Take(t, "the end", ended); err == nil || !strings.Contains(err.Error(), "3 other programs of this user") {
			t.Errorf("a program that waited: %v", err)
		}
	}
	for _, leave := range leaves {
		leave()
	}
	if len(p.owners) != 0 || len(p.all) != 0 {
		t.Errorf("%d owners and %d places are left", len(p.owners), len(p.all))
	}
}

func TestParallelCalls(t *testing.T) {
	t.Parallel()
	r := setup(t, Config{MaxParallel: 2}, watcher{})
	entered, release := make(chan struct{}), make(chan struct{})
	hold := func() Outcome {
		entered <- struct{}{}
		<-release
		return Outcome{Exit: ExitCompleted}
	}
	done := make(chan Outcome)
	for _, owner := range []string{"anna", "bert"} {
		go func() { done <- r.sandbox.inSlot(t.Context(), owner, hold) }()
		testkit.Take(t, "the beginning", entered)
	}
	// Both slots are taken: a third call waits, and ends with its ctx.
	ctx, cancel := context.WithCancel(t.Context())
	go func() { done <- r.sandbox.inSlot(ctx, "carl", hold) }()
	select {
	case <-entered:
		t.Fatal("a third program runs")
	case o := <-done:
		t.Fatalf("the third call did not wait: %+v", o)
	default:
	}
	cancel()
	if o := testkit.Take(t, "the end", done); o.Exit != ExitCancelled || !strings.Contains(o.Error, "2 other programs") {
		t.Errorf("got %+v", o)
	}
	late, stop := context.WithTimeout(t.Context(), 0)
	defer stop()
	if o := r.sandbox.inSlot(late, "carl", hold); o.Exit != ExitTimeout {
		t.Errorf("got %+v", o)
	}
	close(release)
	testkit.Take(t, "the end", done)
	testkit.Take(t, "the end", done)
	// With free slots calls go through, even more calls than slots.
	results := make(chan Outcome)
	for range 6 {
		go func() {
			o, _ := r.run(t.Context(), JavaScriptName, `6 * 7`)
			results <- o
		}()
	}
	for range 6 {
		if o := testkit.Take(t, "the result", results); string(o.Value) != "42" {
			t.Errorf("got %+v", o)
		}
	}
}

// TestJavaScriptKeepsItsMemory measures the most that a child has taken, when its program has filled its memory and dropped
// what it had.
func TestJavaScriptKeepsItsMemory(t *testing.T) {
	t.Parallel()
	const memory = 64 << 20
	peak := func(t *testing.T, code string) (bytes uint64) {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		var r *rig
		r = setup(t, Config{MemoryBytes: memory}, watcher{printed: func(text string) {
			r.mu.Lock()
			pid := r.pids[0]
			r.mu.Unlock()
			status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
			_, rest, _ := strings.Cut(string(status), "VmHWM:")
			if _, scanErr := fmt.Sscan(rest, &bytes); err != nil || scanErr != nil || text != "full\n" {
				t.Errorf("printed %q: %v, %v", text, err, scanErr)
			}
			bytes *= 1024
			cancel()
		}})
		o, _ := r.sandbox.javaScript(ctx, `let a = []; try {`+code+`} catch {} a = null; console.log("full"); await new Promise(r => setTimeout(r, 1e9))`, true)
		if o.Exit == ExitCompleted || bytes == 0 {
			t.Fatalf("got %s: %s", o.Exit, o.Error)
		}
		return bytes
	}
	idle := peak(t, ``)
	for name, code := range map[string]string{
		"a growing array": `for (;;) a.push(a.length)`,
		"objects":         `for (;;) a.push({})`,
		"a map":           `a = new Map(); for (let i = 0;; i++) a.set(i, i)`,
		"buffers":         `for (;;) a.push(new Uint8Array(1 << 20).fill(1))`,
		"long texts":      `a = "\u0001".repeat(8 << 20); for (;;) a = JSON.stringify(a)`,
		"printing":        `a = "x".repeat(20 << 20); console.assert(a.length === 20 << 20)`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := peak(t, code)
			if limit := idle + memory + slack(memory); got > limit {
				t.Errorf("it took %d MiB, %d MiB more than an idle one; the limit is %d MiB", got>>20, (got-idle)>>20, memory>>20)
			}
			t.Logf("%d MiB, of which %d MiB are an idle one's", got>>20, idle>>20)
		})
	}
}
