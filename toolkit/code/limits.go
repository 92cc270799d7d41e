//go:build linux || darwin

package code

import (
	"errors"
	"fmt"
	"os"
	"runtime"
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

// slack returns what the engine may map beyond its memory: it counts what it uses, and not what its allocator keeps.
func slack(memory int64) uint64 { return 8<<20 + uint64(memory)/4 }

// mapStacks makes Go's runtime map what its stacks may need, a new one of twice the size beside the old one, so that
// it needs no more when the program runs. What is mapped takes no memory before it is written to, and is not unmapped.
func mapStacks() {
	var room strings.Builder // which, unlike a slice, is not written to
	room.Grow(maxGoStack / 4 * 3)
	runtime.KeepAlive(&room)
	room.Reset()
	runtime.GC()
}

// limitSelf permanently lowers the limits of this process.
func limitSelf(r request) error {
	mapStacks()
	space, data, err := addressSpace()
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
		limits = append(limits,
			limit{syscall.RLIMIT_AS, space + 2*uint64(r.MemoryBytes) + headroom},
			limit{syscall.RLIMIT_DATA, data + uint64(r.MemoryBytes) + slack(r.MemoryBytes)})
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

// addressSpace returns how many bytes this process has mapped, and how many of them for its data (proc(5)); 0 if the
// system does not say.
func addressSpace() (all, data uint64, err error) {
	statm, err := os.ReadFile("/proc/self/statm")
	if errors.Is(err, os.ErrNotExist) {
		return 0, 0, nil
	}
	if err != nil {
		return 0, 0, fmt.Errorf("read address space: %w", err)
	}
	var resident, shared, text, lib uint64
	if _, err := fmt.Sscan(string(statm), &all, &resident, &shared, &text, &lib, &data); err != nil {
		return 0, 0, fmt.Errorf("read address space: %w", err)
	}
	page := uint64(os.Getpagesize())
	return all * page, data * page, nil
}
