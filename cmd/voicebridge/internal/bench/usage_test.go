package bench

import (
	"errors"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

func TestParseStat(t *testing.T) {
	t.Parallel()
	const rest = " S 1 1 1 0 -1 4194560 2 0 0 0 123 45 67 8 20 0 8 0 100 1000 200 18446744073709551615"
	for _, name := range []string{"voicebridge", "a (b) c)", "x 99 99", ""} {
		if own, children, err := parseStat([]byte("77 (" + name + ")" + rest)); err != nil || own != 1680*time.Millisecond || children != 750*time.Millisecond {
			t.Errorf("%q: %v, %v, %v", name, own, children, err)
		}
	}
	for _, bad := range []string{"", "77", "77 (x", "77 (x) S 1 2", strings.Replace("77 (x)"+rest, "123", "many", 1), strings.Replace("77 (x)"+rest, "67", "many", 1)} {
		if own, children, err := parseStat([]byte(bad)); err == nil {
			t.Errorf("%q reads as %v, %v", bad, own, children)
		}
	}
}

func TestParseStatus(t *testing.T) {
	t.Parallel()
	if got, err := parseStatus([]byte("Name:\tx\nVmHWM:\t  99 kB\nVmRSS:\t   40960 kB\nThreads:\t8\n")); err != nil || got != 40960 {
		t.Errorf("%d, %v", got, err)
	}
	for _, bad := range []string{"", "Name:\tx\n", "VmRSS:\n", "VmRSS: many kB\n"} {
		if got, err := parseStatus([]byte(bad)); err == nil {
			t.Errorf("%q reads as %d", bad, got)
		}
	}
}

func TestParseMachine(t *testing.T) {
	t.Parallel()
	if got, err := parseMachine([]byte("cpu  100 10 20 9999 888 3 4 77 55 44\ncpu0 1 1 1 1 1 1 1 1 1 1\n")); err != nil || got != 1370*time.Millisecond {
		t.Errorf("%v, %v", got, err)
	}
	for _, bad := range []string{"", "cpu 1 2 3", "intr 1 2 3 4 5 6 7 8", "cpu 1 2 3 4 5 6 x 8"} {
		if got, err := parseMachine([]byte(bad)); err == nil {
			t.Errorf("%q reads as %v", bad, got)
		}
	}
}

func TestReadUsage(t *testing.T) {
	t.Parallel()
	got, err := readUsage(os.Getpid())
	if runtime.GOOS != "linux" {
		if !errors.Is(err, errNoUsage) {
			t.Errorf("%+v, %v", got, err)
		}
		return
	}
	if err != nil || got.cpu <= 0 || got.rss < 1000 {
		t.Errorf("this process: %+v, %v", got, err)
	}
	if busy, err := busyTime(); err != nil || busy <= 0 {
		t.Errorf("the machine: %v, %v", busy, err)
	}
	if _, err := readUsage(-1); err == nil {
		t.Error("a process that is not there uses something")
	}
}
