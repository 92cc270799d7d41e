//go:build linux || darwin

package code

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	// headroom is the address space that Go's runtime may still take in the JavaScript child: its
	// stack, which is copied when it grows, and its heap.
	headroom = 3 * maxGoStack
	maxFiles = 32 // that the child may hold open: its pipes and the runtime's poller
)

// limitSelf permanently lowers the limits of this process.
func limitSelf(r request) error {
	space, err := addressSpace()
	if err != nil {
		return err
	}
	limits := []limit{
		{syscall.RLIMIT_CORE, 0},
		{syscall.RLIMIT_FSIZE, 0},
		{syscall.RLIMIT_NOFILE, maxFiles},
		{syscall.RLIMIT_CPU, cpuSeconds(r.Timeout + margin)},
	}
	if space > 0 {
		// Twice the memory, because whatever grows is copied.
		limits = append(limits, limit{syscall.RLIMIT_AS, space + 2*uint64(r.MemoryBytes) + headroom})
	}
	return setLimits(limits)
}

// limit is one resource limit, see setrlimit(2).
type limit struct {
	resource int
	value    uint64
}

func setLimits(limits []limit) error {
	var problems []error
	for _, l := range limits {
		var was syscall.Rlimit
		if err := syscall.Getrlimit(l.resource, &was); err != nil {
			problems = append(problems, fmt.Errorf("get limit %d: %w", l.resource, err))
			continue
		}
		l.value = min(l.value, was.Max)
		now := syscall.Rlimit{Cur: l.value, Max: l.value}
		if err := syscall.Setrlimit(l.resource, &now); err != nil {
			problems = append(problems, fmt.Errorf("set limit %d: %w", l.resource, err))
		}
	}
	return errors.Join(problems...)
}

// cpuSeconds is the processor time for a program that may run that long: two threads, and a second
// for the start.
func cpuSeconds(timeout time.Duration) uint64 {
	return 2*uint64((timeout+time.Second-1)/time.Second) + 1
}

// addressSpace returns how many bytes this process has mapped, 0 if the system does not say.
func addressSpace() (uint64, error) {
	statm, err := os.ReadFile("/proc/self/statm")
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read address space: %w", err)
	}
	pages, _, _ := strings.Cut(string(statm), " ")
	n, err := strconv.ParseUint(pages, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read address space: %w", err)
	}
	return n * uint64(os.Getpagesize()), nil
}
