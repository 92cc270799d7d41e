package bench

import (
	"errors"
	"os"
	"runtime"
	"testing"
)

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
