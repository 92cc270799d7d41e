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

// clockTick is the unit of times in /proc/PID/stat, the same on all Linux architectures (USER_HZ,
// proc(5)).
const clockTick = 10 * time.Millisecond

// usage is what a process has used so far.
type usage struct {
	cpu time.Duration // user and system time of all threads
	// children is the time of its child processes that have ended.
	children time.Duration
	rss      int64 // resident memory in KiB
}

// readUsage returns what a process has used so far, according to /proc. On systems other than Linux it
// fails with errNoUsage.
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
	return usage{
		// Both are underestimates: the ticks by a fraction of a tick, the threads by those that have
		// ended.
		cpu:      max(time.Duration(stat.UTime+stat.STime)*clockTick, threadTime(pid)),
		children: time.Duration(stat.CUTime+stat.CSTime) * clockTick,
		rss:      int64(status.VmRSS >> 10), // below 2^63
	}, nil
}

// threadTime sums the processor time of the live threads, in ns rather than ticks: one call uses
// only a few ticks in ten seconds. It is 0 where the kernel does not keep it.
func threadTime(pid int) (sum time.Duration) {
	threads, _ := procfs.AllThreads(pid)
	for _, t := range threads {
		if s, err := t.Schedstat(); err == nil { // otherwise it has just ended
			sum += time.Duration(s.RunningNanoseconds)
		}
	}
	return sum
}

// busyTime is the processor time that the whole machine has spent on processes and interrupts. The
// guests' time is already in user and nice; the hypervisor's was spent elsewhere.
func busyTime() (time.Duration, error) {
	if runtime.GOOS != "linux" {
		return 0, errNoUsage
	}
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return 0, fmt.Errorf("find the machine's time: %w", err)
	}
	stat, err := fs.Stat()
	if err != nil {
		return 0, fmt.Errorf("read the machine's time: %w", err)
	}
	all := stat.CPUTotal
	return time.Duration((all.User + all.Nice + all.System + all.IRQ + all.SoftIRQ) * float64(time.Second)), nil
}
