//go:build unix

package mcptool

import (
	"os/exec"
	"syscall"
)

// ownGroup puts the child into its own process group: Ctrl-C in a terminal is for us alone, and
// processes that the child starts can be ended with it.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

func terminateGroup(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }

func killGroup(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
