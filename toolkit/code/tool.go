package code

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"

	"voicebridge/toolkit"
)

// startTimeout is how long a program may wait for a slot and for its process, in addition to its
// running time.
const startTimeout = 20 * time.Second

// tool is one language of a sandbox.
type tool struct {
	definition toolkit.Definition
	language   string
	sandbox    *Sandbox
	run        func(ctx context.Context, code string) Outcome
}

func (t *tool) Definition() toolkit.Definition { return t.definition }

// Timeout implements [toolkit.Timeouter]: the program's own limit ends it long before, keeping its
// output.
func (t *tool) Timeout() time.Duration { return t.sandbox.config.Timeout + startTimeout }

// Call waits for a slot, runs the program in a process, and waits for the process to end.
func (t *tool) Call(ctx context.Context, call toolkit.Call) iter.Seq2[toolkit.Chunk, error] {
	return func(yield func(toolkit.Chunk, error) bool) {
		code, err := programOf(call.Arguments)
		if err != nil {
			yield(toolkit.Chunk{Result: &toolkit.Result{Error: err.Error()}}, nil)
			return
		}
		outcome := t.sandbox.inSlot(ctx, call.Owner, func() Outcome { return t.run(ctx, code) })
		yield(toolkit.Chunk{Result: outcome.result(t.language)}, nil)
	}
}

func programOf(arguments string) (string, error) {
	var input struct {
		Code string `json:"code"`
	}
	if err := json.Unmarshal([]byte(arguments), &input); err != nil {
		return "", fmt.Errorf("the arguments do not fit: %w", err)
	}
	return input.Code, nil
}

// inSlot calls run once there is a slot for another program of the owner.
func (s *Sandbox) inSlot(ctx context.Context, owner string, run func() Outcome) Outcome {
	leave, err := s.slots.enter(ctx, owner)
	if err != nil {
		outcome := endedBy(ctx)
		outcome.Error += " while it waited: " + err.Error()
		return outcome
	}
	defer leave()
	return run()
}

// endedBy is the outcome of a program whose ctx has ended.
func endedBy(ctx context.Context) Outcome {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return Outcome{Exit: ExitTimeout, Error: "the call ran out of time"}
	}
	return Outcome{Exit: ExitCancelled, Error: "the call was cancelled"}
}
