package bench

import (
	"os/exec"
	"syscall"
)

// endWithParent has the kernel stop the program if this one is killed.
func endWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM} // sent when the thread ends, too, but Go keeps its threads
}
