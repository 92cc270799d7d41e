package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
)

// thisProcess returns an id of this machine, since it booted, and PID namespace, and one of this
// process there. Both are empty if /proc cannot be read.
func thisProcess() (host, process string) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	space, linkErr := os.Readlink("/proc/self/ns/pid")
	pid := os.Getpid()
	began, statErr := processStart(pid)
	if errors.Join(err, linkErr, statErr) != nil {
		return "", ""
	}
	return strings.TrimSpace(string(boot)) + " " + space, fmt.Sprint(pid, " ", began)
}

// processGone reports whether a process of this machine is gone: its PID is unused or another's.
func processGone(process string) bool {
	var pid int
	var began string
	if _, err := fmt.Sscan(process, &pid, &began); err != nil {
		return false
	}
	now, err := processStart(pid)
	if errors.Is(err, os.ErrNotExist) {
		// It may be another user's, which /proc hides (hidepid=2, or ProtectProc= of systemd), but not kill(2).
		return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
	}
	return err == nil && now != began
}

// processStart returns when a process began, in clock ticks since the boot, from /proc/PID/stat
// (proc_pid_stat(5), field 22); "" for a zombie.
func processStart(pid int) (string, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", err
	}
	// The program's name, in parentheses, may contain spaces and parentheses.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 20 {
		return "", fmt.Errorf("/proc/%d/stat has an unexpected form", pid)
	}
	if state := string(fields[0]); state == "Z" || state == "X" {
		return "", nil
	}
	return string(fields[19]), nil
}
