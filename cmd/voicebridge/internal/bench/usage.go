package bench

import (
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/prometheus/procfs"
)

// errNoUsage means that the system does not report what processes use.
var errNoUsage = errors.New("only Linux reports what a process uses")

// clockTick is the unit of times in /proc/PID/stat, the same on all Linux architectures (USER_HZ, proc(5)).
const clockTick = 10 * time.Millisecond

// usage is what a process has used so far.
type usage struct {
	cpu time.Duration // user and system time of all threads
	rss int64         // resident memory in KiB
}

// readUsage returns what a process has used so far, according to /proc. On systems other than Linux it fails with
// errNoUsage.
func readUsage(pid int) (usage, error) {
	if runtime.GOOS != "linux" {
		return usage{}, errNoUsage
	}
	process, err := procfs.NewProc(pid)
	if err != nil {
		return usage{}, fmt.Errorf("find process: %w", err)
	}
	stat, errStat := process.Stat()
	status, errStatus := process.NewStatus()
	if err := errors.Join(errStat, errStatus); err != nil {
		return usage{}, fmt.Errorf("read what a process uses: %w", err)
	}
	return usage{cpu: time.Duration(stat.UTime+stat.STime) * clockTick, rss: int64(status.VmRSS >> 10)}, nil // below 2^63
}
