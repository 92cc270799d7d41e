package bench

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
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
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	stat, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return usage{}, fmt.Errorf("read processor time: %w", err)
	}
	cpu, children, err := parseStat(stat)
	if err != nil {
		return usage{}, err
	}
	status, err := os.ReadFile(filepath.Join(dir, "status"))
	if err != nil {
		return usage{}, fmt.Errorf("read memory: %w", err)
	}
	rss, err := parseStatus(status)
	if err != nil {
		return usage{}, err
	}
	// Both are underestimates: the ticks by a fraction of a tick, the threads by those that have
	// ended.
	return usage{cpu: max(cpu, threadTime(dir)), children: children, rss: rss}, nil
}

// threadTime sums the processor time of the live threads, in ns rather than ticks: one call uses
// only a few ticks in ten seconds. It is 0 where the kernel does not keep it.
func threadTime(dir string) time.Duration {
	files, err := filepath.Glob(filepath.Join(dir, "task", "*", "schedstat"))
	if err != nil {
		return 0
	}
	var sum time.Duration
	for _, name := range files {
		content, err := os.ReadFile(name)
		if err != nil {
			continue // a thread that has just ended
		}
		first, _, _ := strings.Cut(string(content), " ")
		if ns, err := strconv.ParseInt(first, 10, 64); err == nil {
			sum += time.Duration(ns)
		}
	}
	return sum
}

// parseStat reads the processor time from /proc/PID/stat, of the process and of its children that
// have ended: fields 14 to 17, counted after the command's name, which may contain spaces and
// parentheses.
func parseStat(content []byte) (own, children time.Duration, err error) {
	end := bytes.LastIndexByte(content, ')')
	if end < 0 {
		return 0, 0, errors.New("read processor time: no command in stat")
	}
	fields := strings.Fields(string(content[end+1:]))
	const user, last = 11, 14 // field 3 is the first here
	if len(fields) <= last {
		return 0, 0, errors.New("read processor time: too few fields in stat")
	}
	var ticks [last - user + 1]int64
	for i, field := range fields[user : last+1] {
		if ticks[i], err = strconv.ParseInt(field, 10, 64); err != nil {
			return 0, 0, fmt.Errorf("read processor time: %w", err)
		}
	}
	return time.Duration(ticks[0]+ticks[1]) * clockTick, time.Duration(ticks[2]+ticks[3]) * clockTick, nil
}

// parseStatus reads the resident memory, in KiB, from /proc/PID/status.
func parseStatus(content []byte) (int64, error) {
	for line := range strings.Lines(string(content)) {
		value, ok := strings.CutPrefix(line, "VmRSS:")
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read memory: %w", err)
		}
		return n, nil
	}
	return 0, errors.New("read memory: no VmRSS in status")
}

// busyTime is the processor time that the whole machine has spent on processes and interrupts.
func busyTime() (time.Duration, error) {
	if runtime.GOOS != "linux" {
		return 0, errNoUsage
	}
	content, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, fmt.Errorf("read the machine's time: %w", err)
	}
	return parseMachine(content)
}

// parseMachine reads the first line of /proc/stat: ticks as user, nice, system, idle, iowait and
// interrupts. The guests' ticks, at the end, are already in user and nice; the hypervisor's were
// spent elsewhere.
func parseMachine(content []byte) (time.Duration, error) {
	line, _, _ := strings.Cut(string(content), "\n")
	fields := strings.Fields(line)
	if len(fields) < 8 || fields[0] != "cpu" {
		return 0, errors.New("read the machine's time: no line for all processors in stat")
	}
	var ticks int64
	for i, field := range fields[1:8] {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read the machine's time: %w", err)
		}
		if idle := i == 3 || i == 4; !idle {
			ticks += n
		}
	}
	return time.Duration(ticks) * clockTick, nil
}
