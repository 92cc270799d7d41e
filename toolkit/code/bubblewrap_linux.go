package code

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	nobody       = 65534
	maxFileBytes = 64 << 20 // of one file that Python writes, and of each of its folders: /tmp, /home, /dev/shm
	maxOpenFiles = 256      // that one Python process may hold open
)

// bubblewrap returns the path of bwrap, or what is missing on this host.
func (s *Sandbox) bubblewrap() (string, error) {
	bwrap, err := exec.LookPath(cmp.Or(s.config.bwrap, "bwrap"))
	if err != nil {
		return "", fmt.Errorf("%w: bubblewrap (bwrap) is not installed", errNoPython)
	}
	if bwrap, err = filepath.Abs(bwrap); err != nil {
		return "", fmt.Errorf("%w: find bubblewrap: %w", errNoPython, err)
	}
	if info, err := os.Stat(s.config.python); err != nil || info.IsDir() || info.Mode()&0o111 == 0 {
		return "", fmt.Errorf("%w: there is no Python 3 at %s", errNoPython, s.config.python)
	}
	return bwrap, nil
}

// explainBubblewrap says why a trivial program failed.
func explainBubblewrap(o Outcome) string {
	message, _, _ := strings.Cut(strings.TrimSpace(cmp.Or(o.Stderr, o.Error)), "\n")
	message = cut(message, maxErrorText)
	switch {
	case strings.Contains(o.Stderr, "nknown option"):
		return "bubblewrap is too old, version 0.8 or newer is needed (" + message + ")"
	case strings.HasPrefix(o.Stderr, "bwrap: "):
		return "the host does not let bubblewrap make a sandbox; are unprivileged user namespaces disabled? (" +
			message + ")"
	default:
		return fmt.Sprintf("a test program did not work in the sandbox: %s (%s)", o.Exit, message)
	}
}

// pythonArguments are the arguments of the child that becomes bubblewrap: its limits, then
// bubblewrap's command line.
func pythonArguments(c Config, bwrap, program string) []string {
	arguments := []string{pythonChild, c.Timeout.String(), bwrap,
		// Namespaces of its own, among them one without a network; none below them.
		"--unshare-all", "--unshare-user", "--disable-userns", "--die-with-parent", "--new-session", "--cap-drop",
		"ALL", "--uid", strconv.Itoa(nobody), "--gid", strconv.Itoa(nobody), "--hostname", "sandbox", "--clearenv",
		"--setenv", "PATH", "/usr/bin", "--setenv", "HOME", "/home", "--setenv", "LANG", "C.UTF-8", "--setenv",
		"OPENBLAS_NUM_THREADS", "1", "--setenv", "MPLCONFIGDIR", "/tmp",
		"--ro-bind", "/usr", "/usr"}
	for _, dir := range []string{"/bin", "/sbin", "/lib", "/lib32", "/lib64"} {
		if target, err := os.Readlink(dir); err == nil {
			arguments = append(arguments, "--symlink", target, dir)
		} else if info, err := os.Stat(dir); err == nil && info.IsDir() {
			arguments = append(arguments, "--ro-bind", dir, dir)
		}
	}
	if pythonFilter() != nil {
		arguments = append(arguments, "--seccomp", "4")
	}
	size := strconv.Itoa(maxFileBytes)
	return append(arguments,
		"--ro-bind-try", "/etc/ld.so.cache", "/etc/ld.so.cache", "--ro-bind-try", "/etc/alternatives",
		"/etc/alternatives",
		// Bubblewrap's /dev is a folder in memory without a limit of its own.
		"--proc", "/proc", "--dev", "/dev", "--size", size, "--tmpfs", "/dev/shm", "--remount-ro", "/dev",
		"--size", size, "--tmpfs", "/tmp", "--size", size, "--tmpfs", "/home", "--remount-ro", "/", "--chdir", "/home",
		"--", c.python, "-I", "-B", "-X", "utf8", "-c", program,
		strconv.FormatInt(c.pythonMemoryBytes, 10))
}

// dropRoot makes a child of root run as nobody: whatever escapes the sandbox is then not root, and the
// limit on processes applies.
func dropRoot(cmd *exec.Cmd) {
	if os.Geteuid() == 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
	}
}

// execPython lowers the limits of this process and replaces it with bubblewrap. It returns only if that
// fails.
func execPython(arguments []string) error {
	if len(arguments) < 2 {
		return errors.New("start bubblewrap: arguments are missing")
	}
	timeout, err := time.ParseDuration(arguments[0])
	if err != nil {
		return fmt.Errorf("start bubblewrap: %w", err)
	}
	// Not the address space: Go has already reserved more, and would fail. The runner limits it.
	err = setLimits([]limit{
		{syscall.RLIMIT_CORE, 0},
		{syscall.RLIMIT_FSIZE, maxFileBytes},
		{syscall.RLIMIT_NOFILE, maxOpenFiles},
		{syscall.RLIMIT_CPU, cpuSeconds(timeout + margin)},
	})
	if err != nil {
		return err
	}
	if err := syscall.Exec(arguments[1], arguments[1:], nil); err != nil {
		return fmt.Errorf("start bubblewrap: %w", err)
	}
	return nil
}
