//go:build unix

package mcptool

import (
	"context"
	"os/exec"
	"strconv"
	"syscall"
)

// ownGroup puts the child into its own process group: Ctrl-C in a terminal is for us alone, and
// processes that the child starts can be ended with it.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

func terminateGroup(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }

func killGroup(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }

// guardScript ends the process group $1 when its own stdin ends. If it reads a line, the group has ended.
const guardScript = `read -r line || { kill -s TERM -- "-$1"; sleep 2; kill -s KILL -- "-$1"; }`

// guard starts a shell that ends the child's group if this process dies without ending it: many servers
// do not notice the end of their stdin, least of all behind npx. The kernel can signal the death of a parent
// too (prctl(2), PR_SET_PDEATHSIG), but only on Linux, to the child alone, and at the end of a thread. The
// returned function ends the guard. Where there is no shell, as in a container of this program alone, all
// processes end with the first.
func guard(child *exec.Cmd, env []string) (release func()) {
	cmd := exec.CommandContext(context.Background(), "/bin/sh", "-c", guardScript, "sh",
		strconv.Itoa(child.Process.Pid))
	cmd.Env = env
	ownGroup(cmd)
	stdin, err := cmd.StdinPipe()
	if err != nil || cmd.Start() != nil {
		return func() {}
	}
	return func() {
		_, _ = stdin.Write([]byte("\n")) // it fails if somebody has killed the guard
		_ = stdin.Close()
		_ = cmd.Wait()
	}
}
