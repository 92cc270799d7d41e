package code

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"voicebridge/toolkit"
)

func (s *Sandbox) runJavaScript(ctx context.Context, code string) Outcome {
	outcome, _ := s.javaScript(ctx, code, !s.unfiltered.Load())
	return outcome
}

// javaScript runs a program in a child and returns when the child is gone. confined reports whether
// the seccomp filter was active.
func (s *Sandbox) javaScript(ctx context.Context, code string, filter bool) (outcome Outcome, confined bool) {
	dir, err := os.MkdirTemp("", "voicebridge-code-")
	if err != nil {
		return s.notStarted(err), false
	}
	defer func() { _ = os.Remove(dir) }() // it is empty
	own, stop := s.deadline(ctx)
	defer stop(nil)
	cmd, err := s.command(own, javaScriptChild)
	if err != nil {
		return s.notStarted(err), false
	}
	cmd.Dir = dir
	diagnosis := &beginning{max: maxDiagnosis}
	cmd.Stderr = diagnosis
	child, err := startChild(cmd, request{
		Code: code, Timeout: s.config.Timeout, MemoryBytes: s.config.MemoryBytes, MaxOutput: s.config.maxOutput,
		Filter: filter,
	})
	if err != nil {
		if ctx.Err() != nil {
			return endedBy(ctx), false
		}
		return s.notStarted(err), false
	}
	s.started(cmd)
	began := time.Now()
	// Only a process that left the group could still hold the pipe after the kill.
	unread := context.AfterFunc(own, func() { _ = child.frames.SetReadDeadline(time.Now().Add(afterKill)) })
	defer unread()
	out := &output{max: s.config.maxOutput}
	end, err := s.readFrames(child.frames, out)
	if err != nil {
		stop(err) // it has nothing more to say
	}
	waitErr := child.wait()
	switch {
	case out.full:
		outcome = Outcome{Exit: ExitOutputLimit, Error: out.limitError(), DurationMs: time.Since(began).Milliseconds()}
	case end != nil:
		outcome = Outcome{Exit: end.Exit, Value: end.Value, Error: end.Error, DurationMs: end.DurationMs}
		confined = end.Confined
	default:
		outcome = s.whyEnded(ctx, own, cmd.ProcessState, waitErr, string(diagnosis.kept))
		outcome.DurationMs = time.Since(began).Milliseconds()
	}
	outcome.Stdout, outcome.Stderr = out.stdout.String(), out.stderr.String()
	return outcome, confined
}

// child is a started child process, which is reading its request.
type child struct {
	cmd    *exec.Cmd
	frames *os.File
	stdin  io.WriteCloser
	sent   chan struct{} // closed when the request has been written, or cannot be
}

// startChild starts a child. wait must be called.
func startChild(cmd *exec.Cmd, r request) (*child, error) {
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start child: %w", err)
	}
	frames, write, err := os.Pipe()
	if err != nil {
		stdin.Close()
		return nil, fmt.Errorf("start child: %w", err)
	}
	cmd.Stdout = write
	err = begin(cmd)
	write.Close()
	if err != nil {
		frames.Close()
		return nil, fmt.Errorf("start child: %w", err)
	}
	c := &child{cmd: cmd, frames: frames, stdin: stdin, sent: make(chan struct{})}
	go func() {
		defer close(c.sent)
		// If the child is already gone, waiting for it says so.
		_, _ = stdin.Write(toolkit.Encode(r))
	}()
	return c, nil
}

// wait returns when the child and everything started for it is gone.
func (c *child) wait() error {
	err := c.cmd.Wait() // closes stdin, too
	<-c.sent
	c.frames.Close()
	return err
}

// errFull means that a child has printed too much.
var errFull = errors.New("the output is full")

// readFrames reads the child's frames into out and returns its ending, nil if the child died first. The
// error is about what the child wrote: errFull, or a violation of the protocol.
func (s *Sandbox) readFrames(frames io.Reader, out *output) (*ending, error) {
	// Each byte that is printed takes six as JSON at most, and a frame is not larger than what
	// may be printed in all; so whatever the child writes, this much is read and no more.
	decoder := json.NewDecoder(io.LimitReader(frames, int64(out.max)*64+1<<20))
	for {
		var f frame
		switch err := decoder.Decode(&f); {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return nil, nil
		case err != nil:
			return nil, fmt.Errorf("read frame: %w", err)
		}
		for _, piece := range []struct {
			stream *strings.Builder
			text   string
		}{{&out.stdout, f.Stdout}, {&out.stderr, f.Stderr}} {
			if piece.text == "" {
				continue
			}
			if !out.add(piece.stream, piece.text) {
				return nil, errFull
			}
			s.printed(piece.text)
		}
		if f.End != nil {
			return f.End, nil
		}
	}
}

// ProbeJavaScript runs a small program and describes how the child is confined, or returns why it
// cannot be.
func (s *Sandbox) ProbeJavaScript(ctx context.Context) (confinement string, err error) {
	const program, want = "[6].map(n => n * 7)[0]", "42"
	p := s.patient()
	outcome, confined := p.javaScript(ctx, program, true)
	if outcome.Exit == ExitCrashed && ctx.Err() == nil {
		// Giving up the filter is permanent, so a passing failure must not cause it.
		outcome, confined = p.javaScript(ctx, program, true)
	}
	if outcome.Exit == ExitCrashed && s.config.AllowUnconfined && ctx.Err() == nil {
		// The filter lets through what Go's runtime needs on the hosts we know.
		first := outcome
		if outcome, confined = p.javaScript(ctx, program, false); outcome.Exit == ExitCompleted {
			s.unfiltered.Store(true)
			s.log.Warn("JavaScript runs without a seccomp filter, as the settings allow", "error", first.Error)
		}
	}
	switch {
	case outcome.Exit == ExitCrashed && !s.config.AllowUnconfined:
		return "", fmt.Errorf("run JavaScript: programs cannot be confined here: %s", outcome.Error)
	case outcome.Exit != ExitCompleted:
		return "", fmt.Errorf("run JavaScript: %s: %s", outcome.Exit, outcome.Error)
	case string(outcome.Value) != want:
		return "", fmt.Errorf("run JavaScript: the value is %.100s, want %s", outcome.Value, want)
	case confined:
		return "child process with limits and a seccomp filter", nil
	default:
		return "child process with limits, without a seccomp filter", nil
	}
}
