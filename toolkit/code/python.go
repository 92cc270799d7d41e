package code

import (
	"bytes"
	"cmp"
	"context"
	_ "embed" // the runner
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"voicebridge/toolkit"
)

// runner is the Python program that runs the model's program.
//
//go:embed runner.py
var runner string

// pythonRequest is what the runner reads.
type pythonRequest struct {
	Code      string `json:"code"`
	MaxOutput int    `json:"maxOutput"`
}

func (s *Sandbox) runPython(ctx context.Context, code string) Outcome {
	bwrap, err := s.bubblewrap()
	if err != nil {
		return Outcome{Exit: ExitCrashed, Error: err.Error()}
	}
	return s.python(ctx, bwrap, code)
}

// python runs a program in bubblewrap and returns when all its processes are gone.
func (s *Sandbox) python(ctx context.Context, bwrap, code string) Outcome {
	own, stop := s.deadline(ctx)
	defer stop(nil)
	cmd, err := s.command(own, pythonArguments(s.config, bwrap, runner)...)
	if err != nil {
		return s.notStarted(err)
	}
	out := &output{max: s.config.maxOutput}
	streams := &pythonStreams{sandbox: s, output: out, stop: func() { stop(errFull) }}
	cmd.Stdin = bytes.NewReader(toolkit.Encode(pythonRequest{Code: code, MaxOutput: s.config.maxOutput}))
	cmd.Stdout, cmd.Stderr = streams.writer(&out.stdout), streams.writer(&out.stderr)
	cmd.Dir = "/"
	dropRoot(cmd)
	return s.followPython(ctx, own, stop, cmd, out)
}

// followPython starts the prepared process and reads how it ends.
func (s *Sandbox) followPython(
	ctx, own context.Context, stop context.CancelCauseFunc, cmd *exec.Cmd, out *output,
) Outcome {
	result, write, err := os.Pipe()
	if err != nil {
		return s.notStarted(err)
	}
	defer result.Close()
	cmd.ExtraFiles = []*os.File{write} // becomes descriptor 3, to which the runner writes the ending
	if filter := pythonFilter(); filter != nil {
		from, err := pipeOf(filter)
		if err != nil {
			write.Close()
			return s.notStarted(err)
		}
		defer from.Close()
		cmd.ExtraFiles = append(cmd.ExtraFiles, from) // becomes descriptor 4, from which bubblewrap reads it
	}
	err = begin(cmd)
	write.Close()
	if err != nil {
		if ctx.Err() != nil {
			return endedBy(ctx)
		}
		return s.notStarted(err)
	}
	s.started(cmd)
	began := time.Now()
	endings := make(chan *ending, 1)
	go func() {
		// Bubblewrap makes namespaces first. The timeout is for the program only, and nothing that
		// it can reach ends or resets this timer.
		var mark [1]byte
		if _, err := io.ReadFull(result, mark[:]); err == nil {
			timer := time.AfterFunc(s.config.Timeout, func() { stop(context.DeadlineExceeded) })
			context.AfterFunc(own, func() { timer.Stop() })
		}
		endings <- readEnding(result, s.config.maxOutput)
	}()
	waitErr := cmd.Wait()
	// Only a process that outlived its namespace could still hold the pipe.
	_ = result.SetReadDeadline(time.Now().Add(afterKill))
	end := <-endings
	outcome := s.pythonOutcome(ctx, own, cmd, waitErr, out, end)
	outcome.DurationMs = cmp.Or(outcome.DurationMs, time.Since(began).Milliseconds())
	outcome.Stdout, outcome.Stderr = strings.ToValidUTF8(out.stdout.String(),
		"\uFFFD"), strings.ToValidUTF8(out.stderr.String(), "\uFFFD")
	return outcome
}

// pipeOf returns a pipe that contains data, which must be short, and ends after it.
func pipeOf(data []byte) (*os.File, error) {
	from, write, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make pipe: %w", err)
	}
	_, err = write.Write(data)
	if err = errors.Join(err, write.Close()); err != nil {
		from.Close()
		return nil, fmt.Errorf("fill pipe: %w", err)
	}
	return from, nil
}

func (s *Sandbox) pythonOutcome(
	ctx, own context.Context, cmd *exec.Cmd, waitErr error, out *output, end *ending,
) Outcome {
	switch {
	case out.full:
		return Outcome{Exit: ExitOutputLimit, Error: out.limitError()}
	case end != nil:
		return Outcome{Exit: end.Exit, Value: end.Value, Error: end.Error, DurationMs: end.DurationMs}
	case waitErr == nil:
		return Outcome{Exit: ExitCompleted} // the program ended its own process
	default:
		return s.whyEnded(ctx, own, cmd.ProcessState, waitErr, "")
	}
}

// readEnding reads the runner's report and returns nil if it is not valid: the runner shares its
// process with the program, which may write anything there.
func readEnding(from io.Reader, maxOutput int) *ending {
	data, err := io.ReadAll(io.LimitReader(from, int64(maxOutput)*8+64<<10))
	var end ending
	if err != nil || json.Unmarshal(data, &end) != nil {
		return nil
	}
	switch end.Exit {
	case ExitCompleted, ExitException, ExitTimeout, ExitOutOfMemory, ExitStackOverflow, ExitOutputLimit:
	default:
		return nil
	}
	end.Error = toolkit.Head(strings.ToValidUTF8(end.Error, "\uFFFD"), maxOutput)
	end.Value = cutValue(end.Value, 2*maxOutput)
	end.DurationMs = max(0, end.DurationMs)
	if end.Exit != ExitCompleted && end.Error == "" {
		end.Error = "the program gave no reason"
	}
	return &end
}

// pythonStreams puts what the process prints into one output, and stops it at the limit.
type pythonStreams struct {
	sandbox *Sandbox
	stop    func()

	mu     sync.Mutex
	output *output
}

func (p *pythonStreams) writer(stream *strings.Builder) io.Writer {
	return writerFunc(func(data []byte) (int, error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		text := string(data)
		if !p.output.add(stream, text) {
			p.stop()
			return len(data), nil
		}
		p.sandbox.printed(text)
		return len(data), nil
	})
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(data []byte) (int, error) { return f(data) }

// ProbePython says why Python cannot run on this host, nil if it can. It runs a small program, even
// if PythonEnabled is not set.
func (s *Sandbox) ProbePython(ctx context.Context) error {
	bwrap, err := s.bubblewrap()
	if err != nil {
		return err
	}
	outcome := s.patient().python(ctx, bwrap, "print('ready')\n6 * 7")
	switch {
	case outcome.Exit == ExitCompleted && string(outcome.Value) == "42" && outcome.Stdout == "ready\n":
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("%w: the probe was stopped: %w", errNoPython, context.Cause(ctx))
	default:
		return fmt.Errorf("%w: %s", errNoPython, explainBubblewrap(outcome))
	}
}
