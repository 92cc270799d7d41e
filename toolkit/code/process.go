package code

import (
	"cmp"
	"context"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"
)

const (
	// margin is how much longer than its program a child may live: it ends the program itself, and
	// is killed only if it cannot. This includes its start at a low priority.
	margin = 5 * time.Second
	// afterKill is how long to wait for the pipes of a dead child: only a process that outlived it
	// could hold them.
	afterKill = 2 * time.Second

	maxDiagnosis = 8 << 10 // bytes of a child's stderr that are kept
)

// command prepares a child: this program again, in its own process group, with an empty
// environment, killed as a group when ctx ends.
func (s *Sandbox) command(ctx context.Context, arguments ...string) (*exec.Cmd, error) {
	path, err := s.executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, path, append(append([]string(nil), s.config.args...), arguments...)...)
	cmd.Env = []string{}
	cmd.WaitDelay = afterKill
	ownGroup(cmd)
	cmd.Cancel = func() error { return killGroup(cmd) }
	return cmd, nil
}

func (s *Sandbox) executable() (string, error) {
	if s.config.executable != "" {
		return s.config.executable, nil
	}
	if runtime.GOOS == "linux" {
		// This works even after an update has replaced this process's file.
		return "/proc/self/exe", nil
	}
	return os.Executable()
}

// begin starts a prepared child at a low priority from the beginning: the start of the child, before
// it could lower its priority itself, is a third of a short program's processor time.
func begin(cmd *exec.Cmd) error {
	if err := cmd.Start(); err != nil {
		return err
	}
	lowerPriority(cmd.Process.Pid)
	return nil
}

func (s *Sandbox) started(cmd *exec.Cmd) {
	if s.watch.started != nil {
		s.watch.started(cmd.Process.Pid)
	}
}

func (s *Sandbox) printed(text string) {
	if s.watch.printed != nil {
		s.watch.printed(text)
	}
}

// deadline returns the ctx that ends a child which does not end by itself. Stopping it with
// context.DeadlineExceeded means that its program has run for too long.
func (s *Sandbox) deadline(ctx context.Context) (own context.Context, stop context.CancelCauseFunc) {
	limited, cancel := context.WithTimeout(ctx, s.config.Timeout+margin)
	own, end := context.WithCancelCause(limited)
	return own, func(cause error) {
		end(cause)
		cancel()
	}
}

// whyEnded returns why a child ended without saying so itself. caller is the ctx of the tool call, own
// that of the child, diagnosis the beginning of its stderr.
func (s *Sandbox) whyEnded(
	caller, own context.Context, state *os.ProcessState, waitErr error, diagnosis string,
) Outcome {
	switch {
	case caller.Err() != nil:
		return endedBy(caller)
	case errors.Is(context.Cause(own), context.DeadlineExceeded), strings.Contains(diagnosis, "SIGXCPU"):
		return Outcome{
			Exit: ExitTimeout, Error: "the program ran longer than " + s.config.Timeout.String() + " and was stopped",
		}
	case strings.Contains(diagnosis, "stack overflow"), strings.Contains(diagnosis, "stack exceeds"):
		return Outcome{Exit: ExitStackOverflow, Error: "the program's calls are nested too deep"}
	case strings.Contains(diagnosis, "out of memory"), strings.Contains(diagnosis, "cannot allocate memory"),
		strings.Contains(diagnosis, "mustMalloc"): // the engine's
		return Outcome{Exit: ExitOutOfMemory, Error: "the program used up its memory"}
	}
	reason := "no process"
	if state != nil {
		reason = state.String()
	}
	if waitErr != nil {
		if _, ok := errors.AsType[*exec.ExitError](waitErr); !ok {
			reason = waitErr.Error()
		}
	}
	first, _, _ := strings.Cut(diagnosis, "\n")
	s.log.Warn("code child crashed", "reason", reason, "diagnosis", cmp.Or(first, "none"))
	return Outcome{Exit: ExitCrashed, Error: "its process ended before the program did (" + reason + ")"}
}

// notStarted is the outcome of a program whose process could not be started.
func (s *Sandbox) notStarted(err error) Outcome {
	s.log.Error("code child not started", "error", err)
	return Outcome{Exit: ExitCrashed, Error: "its process could not be started"}
}

// beginning is a writer that keeps the first max bytes.
type beginning struct {
	max  int
	kept []byte
}

func (b *beginning) Write(p []byte) (int, error) {
	b.kept = append(b.kept, p[:min(len(p), b.max-len(b.kept))]...)
	return len(p), nil
}
