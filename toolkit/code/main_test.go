//go:build linux

package code

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"voicebridge/internal/testkit"
)

var must = testkit.Must

// childProgram is what sandboxes start. If empty it is the test binary, which is its own
// child, as voicebridge is. Under the race detector it is a program built without it.
var childProgram string

func TestMain(m *testing.M) {
	if IsChild(os.Args) {
		os.Exit(RunChild(os.Args, os.Stdin, os.Stdout))
	}
	if len(os.Args) > 1 && os.Args[1] == confinedChild {
		if err := reportConfined(os.Stdout); err != nil {
			panic(err)
		}
		return
	}
	if len(os.Args) > 1 && os.Args[1] == hostOfPrograms {
		runHost(os.Args[2:])
		return
	}
	remove, err := buildChild()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		remove()
		os.Exit(code)
	}))
}

func buildChild() (remove func(), err error) {
	if !raceDetector {
		return func() {}, nil
	}
	dir, err := os.MkdirTemp("", "voicebridge-child-")
	if err != nil {
		return nil, err
	}
	// Python's child is started as the user nobody.
	if err := os.Chmod(dir, 0o755); err != nil {
		return nil, err
	}
	childProgram = filepath.Join(dir, "child")
	out, err := exec.Command("go", "build", "-race=false", "-o", childProgram, "./testdata/child").CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("build child: %w\n%s", err, out)
	}
	return func() { os.RemoveAll(dir) }, nil
}
