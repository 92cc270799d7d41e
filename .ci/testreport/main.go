// Command testreport reads the output of go test -json on standard input and
// prints what a person wants to know: one line per package, the output of failures,
// every skipped test with its reason, the slowest tests, the counts, and again the beginning of each
// failure: whichever end of the log is cut off, the reason is there. It exits
// with 1 when a test or a build failed, when a test was skipped (a missing
// database or browser must not pass for success), and when no test ran at all.
//
// With -alone FILE it lists there, as lines of package and test, what may be run a
// second time alone: up to three failed tests, if nothing else is wrong and none of
// them raced, panicked or leaked.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
)

func main() {
	list := flag.String("alone", "", "`file` for the failed tests that may be run a second time alone")
	flag.Parse()
	r, ok, err := run(os.Stdin, os.Stdout)
	if err == nil && *list != "" {
		err = os.WriteFile(*list, []byte(strings.Join(r.alone(), "")), 0o600)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "testreport:", err)
		os.Exit(1)
	}
	if !ok {
		os.Exit(1)
	}
}

// event is one line of go test -json (see go doc test2json and go help buildjson).
type event struct {
	Action     string  `json:"Action"`
	Package    string  `json:"Package"`
	ImportPath string  `json:"ImportPath"` // of build events
	Test       string  `json:"Test"`
	Elapsed    float64 `json:"Elapsed"` // seconds
	Output     string  `json:"Output"`
}

// name is a test's full name.
func (e event) name() string { return strings.TrimSpace(e.Package + " " + e.Test) }

// report collects the events' results.
type report struct {
	out                     io.Writer
	passed, failed, skipped int
	skips                   []string            // name and reason
	failures                []string            // name and the first lines
	running                 map[string][]string // output of what has not ended, by full name
	begun                   map[string]bool     // tests and packages that have not ended
	// again are the failed tests, as lines of package and test. once is set by what must not be run again.
	again []string
	once  bool
	took  []event // tests without their subtests
}

// run copies the gist of in to out. It reports whether all tests ran and passed.
func run(in io.Reader, out io.Writer) (*report, bool, error) {
	r := &report{out: out, running: map[string][]string{}, begun: map[string]bool{}}
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadString('\n')
		if strings.TrimSpace(line) != "" {
			var e event
			if json.Unmarshal([]byte(line), &e) != nil {
				// go test also writes plain lines, such as errors of the go command.
				fmt.Fprint(out, line)
			} else {
				r.add(e)
			}
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return r, false, fmt.Errorf("read test output: %w", err)
		}
	}
	return r, r.close(), nil
}

// add takes the next event.
func (r *report) add(e event) {
	switch e.Action {
	case "start", "run":
		r.begun[e.name()] = true
	case "output":
		r.running[e.name()] = append(r.running[e.name()], e.Output)
	case "build-output":
		fmt.Fprint(r.out, e.Output)
	case "build-fail":
		r.failed++
		r.once = true
		fmt.Fprintf(r.out, "FAIL\t%s [build failed]\n", e.ImportPath)
	case "pass", "fail", "skip":
		delete(r.begun, e.name())
		if e.Test == "" {
			r.endPackage(e)
		} else {
			r.endTest(e)
		}
	}
}

// endTest handles the end of one test. Its output is shown only if it failed.
func (r *report) endTest(e event) {
	output := r.running[e.name()]
	delete(r.running, e.name())
	if !strings.Contains(e.Test, "/") {
		r.took = append(r.took, e)
	}
	switch e.Action {
	case "pass":
		r.passed++
	case "skip":
		r.skipped++
		r.skips = append(r.skips, e.name()+": "+skipReason(output))
	case "fail":
		r.failed++
		fmt.Fprintf(r.out, "--- FAIL: %s (%.2fs)\n", e.name(), e.Elapsed)
		r.show(e.name(), output)
		top, _, _ := strings.Cut(e.Test, "/")
		if line := e.Package + " " + top + "\n"; !slices.Contains(r.again, line) {
			r.again = append(r.again, line)
		}
	}
}

// endPackage handles the end of one package. A package that failed shows what it
// printed outside of tests, and the output of tests that never ended: a panic
// or a timeout lands there.
func (r *report) endPackage(e event) {
	if e.Action == "fail" {
		if r.failed == 0 {
			r.failed++ // TestMain, a leak check or a panic: no test of its own
		}
		// A package whose tests all ended and none failed has failed by something else.
		r.once = r.once || !slices.ContainsFunc(r.again, func(line string) bool { return strings.HasPrefix(line, e.Package+" ") })
		for name, output := range r.running {
			if name != e.Package && !strings.HasPrefix(name, e.Package+" ") {
				continue
			}
			r.show(name, output)
			delete(r.running, name)
		}
		maps.DeleteFunc(r.begun, func(name string, _ bool) bool { return strings.HasPrefix(name, e.Package+" ") })
		fmt.Fprintf(r.out, "FAIL\t%s\t%.3fs\n", e.Package, e.Elapsed)
		return
	}
	output := strings.Join(r.running[e.Package], "")
	delete(r.running, e.Package)
	if e.Action == "skip" || strings.Contains(output, "[no test files]") {
		fmt.Fprintf(r.out, "?   \t%s\t[no test files]\n", e.Package)
		return
	}
	fmt.Fprintf(r.out, "ok  \t%s\t%.3fs\n", e.Package, e.Elapsed)
}

// How much of the output of a failure is shown, in lines, and of each line, in bytes;
// and how much of it is repeated at the end.
const (
	firstShown, lastShown = 120, 60
	stacksShown           = 5000 // of a program that ran into its limit: the stacks of its goroutines
	widthShown            = 1000
	repeated              = 8
	widthRepeated         = 300
)

// show prints what a test or a package wrote, without lines that repeat the report,
// and without the middle if that is long.
func (r *report) show(name string, output []string) {
	var lines []string
	for _, line := range output {
		said := strings.HasPrefix(line, "=== ") || strings.HasPrefix(strings.TrimSpace(line), "--- FAIL: ") ||
			strings.HasPrefix(line, "FAIL\t") || line == "FAIL\n"
		if !said {
			lines = append(lines, strings.TrimSuffix(line, "\n"))
		}
	}
	r.once = r.once || slices.ContainsFunc(lines, neverByChance)
	if len(lines) == 0 {
		return // a subtest says why
	}
	first := firstShown
	if slices.ContainsFunc(lines, timedOut) {
		first = stacksShown
	}
	for i, line := range lines {
		if left := len(lines) - first - lastShown; left > 0 && i >= first && i < first+left {
			if i == first {
				fmt.Fprintf(r.out, "    … %d lines are left out …\n", left)
			}
			continue
		}
		fmt.Fprintln(r.out, cut(line, widthShown))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "FAILED: %s\n", name)
	for _, line := range lines[:min(repeated, len(lines))] {
		fmt.Fprintln(&b, cut(line, widthRepeated))
	}
	r.failures = append(r.failures, b.String())
}

// neverByChance reports whether a line of output tells of a fault that a slow machine does not make.
func neverByChance(line string) bool {
	return slices.ContainsFunc([]string{"DATA RACE", "race detected", "panic: ", "found unexpected goroutines"}, func(s string) bool {
		return strings.Contains(line, s)
	})
}

// timedOut reports whether a line tells that a test program ran into its limit.
func timedOut(line string) bool { return strings.HasPrefix(line, "panic: test timed out") }

// mostAlone is how many failed tests are not yet a sign that something is broken.
const mostAlone = 3

// alone returns the failed tests that may be run a second time.
func (r *report) alone() []string {
	if r.once || r.skipped > 0 || len(r.again) > mostAlone {
		return nil
	}
	return r.again
}

// cut shortens a line.
func cut(line string, width int) string {
	if len(line) <= width {
		return line
	}
	return strings.ToValidUTF8(line[:width], "") + "…"
}

// close prints the counts and reports whether all is well.
func (r *report) close() bool {
	// Of a program that was killed nothing tells the end.
	for _, name := range slices.Sorted(maps.Keys(r.begun)) {
		r.failed++
		r.once = true
		fmt.Fprintf(r.out, "--- NEVER ENDED: %s\n", name)
		r.show(name, append(r.running[name], "it began and never ended"))
	}
	for _, skip := range r.skips {
		fmt.Fprintf(r.out, "SKIPPED: %s\n", skip)
	}
	if r.skipped > 0 {
		fmt.Fprintln(r.out, "Skipped tests count as failed here: install what they miss (bash .ci/install).")
	}
	if r.passed+r.failed == 0 {
		fmt.Fprintln(r.out, "No test ran.")
	}
	for _, failure := range r.failures {
		fmt.Fprint(r.out, failure)
	}
	r.slowest()
	fmt.Fprintf(r.out, "%d passed, %d failed, %d skipped\n", r.passed, r.failed, r.skipped)
	return r.failed == 0 && r.skipped == 0 && r.passed > 0
}

// slowest names the tests that took longest, with what they waited for others.
func (r *report) slowest() {
	slices.SortFunc(r.took, func(a, b event) int { return cmp.Compare(b.Elapsed, a.Elapsed) })
	for _, e := range r.took[:min(longest, len(r.took))] {
		if e.Elapsed >= 1 {
			fmt.Fprintf(r.out, "took %4.0f s  %s\n", e.Elapsed, e.name())
		}
	}
}

// longest is how many of the slowest tests are named.
const longest = 20

// skipReason finds what t.Skip said in the output of a skipped test.
func skipReason(output []string) string {
	for _, line := range output {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "=== ") && !strings.HasPrefix(line, "--- ") {
			return line
		}
	}
	return "no reason given"
}
