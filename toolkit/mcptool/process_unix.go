//go:build unix

package mcptool

import (
	"context"
	"os/exec"
	"strconv"
	"syscall"
	"time"
)

// ownGroup puts the child into its own process group: Ctrl-C in a terminal is for us alone, and
// processes that the child starts can be ended with it.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

func terminateGroup(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }

func killGroup(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }

// reapTime is how long the guard may look for what has left the group: /proc may hang.
const reapTime = 10 * time.Second

// guardScript ends the process group $1 when its own stdin ends. If it reads a line, the group has ended. Then it ends
// what has left the group but has kept the variable $2 of its environment, such as a browser, which begins a session of
// its own (setsid(2)): /proc tells that on Linux, also of those whose parent is gone. What is being forked meanwhile is
// found in another round.
const guardScript = `read -r line || { kill -s TERM -- "-$1"; sleep 2; kill -s KILL -- "-$1"; }
for round in 1 2 3; do
	found=$(grep -ls "$2" /proc/[0-9]*/environ)
	[ "$found" ] || break
	for file in $found; do file=${file%/*}; kill -s KILL "${file#/proc/}"; done
done`

// guard starts a shell that ends the child's group, and what has its mark, if this process dies without ending it: many
// servers do not notice the end of their stdin, least of all behind npx. The kernel can signal the death of a parent
// too (prctl(2), PR_SET_PDEATHSIG), but only on Linux, to the child alone, and at the end of a thread. The
// returned function ends the guard. Where there is no shell, as in a container of this program alone, all
// processes end with the first.
func guard(child *exec.Cmd, mark string, env []string) (release func()) {
	cmd := exec.CommandContext(context.Background(), "/bin/sh", "-c", guardScript, "sh",
		strconv.Itoa(child.Process.Pid), mark)
	cmd.Env = env
	ownGroup(cmd)
	stdin, err := cmd.StdinPipe()
	if err != nil || cmd.Start() != nil {
		return func() {}
	}
	return func() {
		_, _ = stdin.Write([]byte("\n")) // it fails if somebody has killed the guard
		_ = stdin.Close()
		defer time.AfterFunc(reapTime, func() { _ = cmd.Process.Kill() }).Stop()
		_ = cmd.Wait()
	}
}
