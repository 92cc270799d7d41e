package webtools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"

	"voicebridge/toolkit"
)

// maxModelOutput limits what the model receives of a result, in bytes: a router's limit is 64
// KiB, and a long text is slow to listen to.
const maxModelOutput = 48 << 10

// tool is one of the tools.
type tool struct {
	definition toolkit.Definition
	// run does the work. It ends soon after ctx does, and returns at once if report says that
	// nobody is listening. Errors are in words for the model.
	run func(ctx context.Context, arguments []byte, report reporter) (*toolkit.Result, error)
}

func (t tool) Definition() toolkit.Definition { return t.definition }

func (t tool) Call(ctx context.Context, call toolkit.Call) iter.Seq2[toolkit.Chunk, error] {
	return func(yield func(toolkit.Chunk, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		stopped := false
		report := func(message string, percent float64) bool {
			if !stopped && !yield(toolkit.Progress(message, percent), nil) {
				stopped = true
				cancel()
			}
			return !stopped
		}
		result, err := t.run(ctx, []byte(call.Arguments), report)
		switch {
		case stopped:
		case errors.Is(err, context.Canceled) && ctx.Err() != nil:
			yield(toolkit.Chunk{}, context.Cause(ctx))
		case err != nil:
			yield(toolkit.Chunk{Result: &toolkit.Result{Error: err.Error()}}, nil)
		default:
			yield(toolkit.Chunk{Result: result}, nil)
		}
	}
}

// whole is a whole number that may be written as 5.0, which the schema allows.
type whole int

// reporter yields progress in percent; it returns false if the consumer has stopped. Only the
// goroutine of run may call it.
type reporter func(message string, percent float64) bool

// decode reads arguments that have passed the schema.
func decode[T any](arguments []byte, input *T) error {
	if err := json.Unmarshal(arguments, input); err != nil {
		return fmt.Errorf("the arguments do not fit: %w", err)
	}
	return nil
}

func (w *whole) UnmarshalJSON(data []byte) error {
	var f float64
	if err := json.Unmarshal(data, &f); err != nil {
		return err
	}
	if f != float64(int32(f)) {
		return fmt.Errorf("%v is not a whole number in range", f)
	}
	*w = whole(f)
	return nil
}

// forModel returns a result with the whole output and, if that is too long for a model, a shortened
// one for it. shorten is called first with 0 bytes for each text, and then with the remaining bytes
// divided by the number of texts.
func forModel(whole any, texts int, shorten func(room int) any) *toolkit.Result {
	result := &toolkit.Result{Output: toolkit.Encode(whole)}
	if len(result.Output) > maxModelOutput {
		room := maxModelOutput - len(toolkit.Encode(shorten(0)))
		result.Model = string(toolkit.Encode(shorten(max(0, room) / max(1, texts))))
	}
	return result
}

// fitBytes shortens text so that it takes at most n bytes in a JSON string, without quotes.
func fitBytes(text string, n int) string {
	for i, r := range text {
		switch {
		case r == '"' || r == '\\' || r == '\n' || r == '\r' || r == '\t':
			n -= 2
		case r == '\u2028' || r == '\u2029':
			n -= 6
		default:
			n -= len(string(r))
		}
		if n < 0 {
			return text[:i]
		}
	}
	return text
}
