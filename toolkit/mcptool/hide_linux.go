package mcptool

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// HideProcess keeps the children of this process, which run as the same user, from reading its
// environment and memory: /proc/PID/environ and /proc/PID/mem are closed to whoever may not trace the
// process, and it can be neither traced nor dumped (prctl(2), PR_SET_DUMPABLE). A child of the
// superuser, or one with CAP_SYS_PTRACE, still may. Files of the user are open to a child as before.
func HideProcess() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("hide process: %w", err)
	}
	return nil
}
