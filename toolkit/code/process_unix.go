//go:build unix

package code

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
)

// niceness is that of children (setpriority(2)): if processors are scarce, audio comes first. A child
// still gets a tenth of what a busy thread of this process gets, so that it starts in time.
const niceness = 10

// lowerPriority lowers the priority of all threads of the process group that pid leads. If the system
// refuses, programs merely disturb calls, so there is no error.
func lowerPriority(pid int) { _ = syscall.Setpriority(syscall.PRIO_PGRP, pid, niceness) }

func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

func killGroup(cmd *exec.Cmd) error {
	err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	if errors.Is(err, syscall.ESRCH) {
		return os.ErrProcessDone
	}
	return err
}
