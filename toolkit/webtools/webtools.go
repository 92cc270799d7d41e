// Package webtools provides the tools that reach the web: webSearch, webContent and http.
//
// A model decides where they go, and a page that a model has read can talk it into anything. So all
// requests of a model go through one guarded client: public addresses and web ports only, checked
// when a connection is made and again for each redirect, with limits on time, size and headers. See
// [Config] for what an operator can allow.
package webtools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"

	"voicebridge/toolkit"
)

// New returns the tools webContent, http and, if a search service is configured, webSearch. They
// share one guarded client and are safe for concurrent use. The error joins everything that is
// wrong with the configuration.
func New(config Config) ([]toolkit.Tool, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	g := newGuard(config)
	tools := []toolkit.Tool{newContent(config, g), newHTTP(config, g)}
	if s := newSearcher(config); s != nil {
		tools = append(tools, newSearch(config, s))
	}
	return tools, nil
}

// tool is one of the tools.
type tool struct {
	definition toolkit.Definition
	// run does the work. It ends soon after ctx does, and returns at once if report says that
	// nobody is listening. Errors are in words for the model.
	run func(ctx context.Context, arguments []byte, report reporter) (*toolkit.Result, error)
}

// reporter yields progress in percent; it returns false if the consumer has stopped. Only the
// goroutine of run may call it.
type reporter func(message string, percent float64) bool

// Definition implements [toolkit.Tool].
func (t tool) Definition() toolkit.Definition { return t.definition }

// Call implements [toolkit.Tool].
func (t tool) Call(ctx context.Context, call toolkit.Call) iter.Seq2[toolkit.Chunk, error] {
	return func(yield func(toolkit.Chunk, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		stopped := false
		report := func(message string, percent float64) bool {
			if !stopped && !yield(progress(message, percent), nil) {
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

// progress is loading at first and processing later, as for the charts.
func progress(message string, percent float64) toolkit.Chunk {
	status := "processing"
	if percent == 0 {
		status = "loading"
	}
	data := toolkit.Encode(struct {
		Status   string  `json:"status"`
		Message  string  `json:"message"`
		Progress float64 `json:"progress"`
	}{status, message, percent})
	return toolkit.Chunk{Message: message, Percent: percent, Data: data}
}

// decode reads arguments that have passed the schema.
func decode[T any](arguments []byte, input *T) error {
	if err := json.Unmarshal(arguments, input); err != nil {
		return fmt.Errorf("the arguments do not fit: %w", err)
	}
	return nil
}

// whole is a whole number that may be written as 5.0, which the schema allows.
type whole int

// UnmarshalJSON implements [json.Unmarshaler].
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
