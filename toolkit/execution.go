package toolkit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"time"
	"unicode/utf8"
)

// grace is how long a stopped tool may take before it is abandoned.
const grace = 500 * time.Millisecond

// timeoutError is the cause of ctx if a call took too long.
type timeoutError struct{ limit time.Duration }

func (e timeoutError) Error() string { return fmt.Sprintf("the tool timed out after %v", e.limit) }

// endedBy says why a call ended before its tool did.
func endedBy(cause error) string {
	if timeout, ok := errors.AsType[timeoutError](cause); ok {
		return timeout.Error()
	}
	switch {
	case errors.Is(cause, context.DeadlineExceeded):
		return "the tool call ran out of time"
	case errors.Is(cause, context.Canceled):
		return "the tool call was cancelled"
	default:
		return "the tool call was cancelled: " + Cut(cause.Error(), maxMessageRunes)
	}
}

// execution is one run of a tool in its own goroutine.
type execution struct {
	chunks chan Chunk    // progress and results, unbuffered; closed by the goroutine at its end
	quit   chan struct{} // closed when nobody reads chunks any longer

	// The reader's state.
	last     *Result          // the last success so far, or the failure
	ended    bool             // chunks is closed, or there is a failure
	deadline <-chan time.Time // of the grace period, once ctx is done

	// err is why the goroutine ended; read it only after chunks was closed.
	err error
}

var errPanic = errors.New("the tool broke down with an internal error")

func startExecution(
	ctx context.Context, log *slog.Logger, tool *registered, call Call, arguments map[string]any,
) *execution {
	x := &execution{chunks: make(chan Chunk), quit: make(chan struct{})}
	go func() {
		defer close(x.chunks)
		defer func() {
			if p := recover(); p != nil {
				log.Error("tool panicked", "tool", call.Name, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
				x.err = errPanic
			}
		}()
		// In this goroutine, since a hostile schema may make the check slow.
		if tool.schema != nil {
			check, err := newChecker(tool.schema) // it was checked
			if err == nil {
				call.Arguments = check.defaults.fillText(call.Arguments, arguments)
				err = check.check(arguments)
			}
			if x.err = err; err != nil {
				return
			}
		}
		for c, err := range tool.entry.Tool.Call(ctx, call) {
			if err != nil {
				x.err = err
				return
			}
			select {
			case x.chunks <- c:
			case <-x.quit:
				return
			}
		}
	}()
	return x
}

// next returns the next progress chunk, or false once the call has its result. After ctx is done
// the tool has a grace period to end, during which its progress is dropped.
func (x *execution) next(ctx context.Context) (Chunk, bool) {
	done := ctx.Done()
	for !x.ended {
		if x.deadline != nil {
			done = nil
		}
		select {
		case c, open := <-x.chunks:
			switch {
			case !open:
				x.ended = true
			case c.Result != nil:
				x.setResult(*c.Result)
			case x.deadline == nil:
				return c, true
			}
		case <-done:
			x.deadline = time.After(grace)
		case <-x.deadline:
			return Chunk{}, false
		}
	}
	return Chunk{}, false
}

func (x *execution) setResult(result Result) {
	x.last = &result
	x.ended = result.Failed()
}

// result returns the result, once next has returned false.
func (x *execution) result(ctx context.Context) Result {
	switch cause := context.Cause(ctx); {
	case x.last != nil && x.last.Failed():
		return *x.last
	case x.ended && x.err != nil && (cause == nil || errors.Is(x.err, errPanic)):
		return Result{Error: Cut(x.err.Error(), maxErrorRunes)}
	case x.ended && x.err != nil:
		return Result{Error: endedBy(cause)}
	// A tool that yielded its result but then did not end in time has done its work.
	case x.last != nil:
		return *x.last
	case cause != nil:
		return Result{Error: endedBy(cause)}
	default:
		return Result{Error: "the tool ended without a result"}
	}
}

// stop ends the tool and waits for it, but no longer than the grace period.
func (x *execution) stop(cancel context.CancelFunc) {
	cancel()
	close(x.quit)
	if x.deadline != nil && !x.ended {
		return // it has had its grace period
	}
	timer := time.After(grace)
	for {
		select {
		case _, open := <-x.chunks:
			if !open {
				return
			}
		case <-timer:
			return
		}
	}
}

const (
	maxErrorRunes   = 2000
	maxMessageRunes = 500
	maxProgressData = 64 << 10
)

// cutBytes shortens text to at most n bytes, at a character boundary, and notes that.
func cutBytes(text string, n int) string {
	note := fmt.Sprintf("\n[cut: the text has %d bytes]", len(text))
	return Head(text, max(0, n-len(note))) + note
}

// sanitizeProgress limits what a tool reports as progress, and masks secrets, because everybody who
// follows the thread receives it.
func sanitizeProgress(c Chunk) Chunk {
	c.Message = Cut(strings.ToValidUTF8(c.Message, "\uFFFD"), maxMessageRunes)
	if !(c.Percent >= 0) { // also NaN
		c.Percent = 0
	}
	c.Percent = min(c.Percent, 100)
	if len(c.Data) > maxProgressData || !json.Valid(c.Data) || !utf8.Valid(c.Data) {
		c.Data = nil
		return c
	}
	c.Data = Mask(c.Data)
	return c
}
