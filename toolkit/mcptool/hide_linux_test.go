package mcptool

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// serveHost is a program with a secret, whose child reads its parent's environment.
func serveHost() {
	if os.Getenv("HIDE") != "" {
		if err := HideProcess(); err != nil {
			panic(err)
		}
	}
	child := exec.Command("/bin/sh", "-c", `tr '\0' '\n' < /proc/$PPID/environ; grep -c . /proc/$PPID/maps`)
	child.Env = environment(nil)
	out, err := child.CombinedOutput()
	fmt.Printf("%s%v\n", out, err)
}

// withoutPrivileges calls start on a thread whose children have no capabilities, not even
// as root (capabilities(7), SECBIT_NOROOT).
func withoutPrivileges(start func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // for good: the thread ends with this goroutine
		done <- func() error {
			if os.Geteuid() == 0 {
				if err := unix.Prctl(unix.PR_SET_SECUREBITS, 1, 0, 0, 0); err != nil {
					return fmt.Errorf("set securebits: %w", err)
				}
				header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
				var none [2]unix.CapUserData
				if err := unix.Capset(&header, &none[0]); err != nil {
					return fmt.Errorf("drop capabilities: %w", err)
				}
			}
			return start()
		}()
	}()
	return <-done
}

func TestChildCannotReadOurEnvironment(t *testing.T) {
	t.Parallel()
	for _, hide := range []string{"", "1"} {
		var out strings.Builder
		host := exec.Command(os.Args[0])
		host.Env = []string{roleVariable + "=host", "OPENAI_API_KEY=canary-key", "HIDE=" + hide, "PATH=" + os.Getenv("PATH")}
		host.Stdout, host.Stderr = &out, &out
		must(t, withoutPrivileges(host.Start))
		if err := host.Wait(); err != nil {
			t.Errorf("%v: %s", err, &out)
		}
		if got, want := strings.Contains(out.String(), "canary-key"), hide == ""; got != want {
			t.Errorf("hidden %q: the child reads our environment: %v\n%s", hide, got, &out)
		}
		if hide != "" && strings.Count(out.String(), "ermission denied") != 2 {
			t.Errorf("hidden: the child got\n%s", &out)
		}
	}
}
