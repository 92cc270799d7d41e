package toolkit

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// DefaultTimeout is that of [RouterConfig].
const DefaultTimeout = 30 * time.Second

// Limits of every result, in bytes.
const (
	// MaxOutput limits its Output. A larger one is a failure: half of a JSON text is useless.
	MaxOutput = 1 << 20
	// maxModel limits what the model receives. Longer text is cut and marked, because it must fit into one event
	// on a data channel.
	maxModel = 64 << 10
)

// RouterConfig configures a [Router]. The zero value is useful.
type RouterConfig struct {
	// Timeout limits one call of a tool without a limit of its own; 0 = 30 s.
	Timeout time.Duration
	// Logger logs how each call ended; nil = none.
	Logger *slog.Logger
	// Observe is called for each ended call and must return at once; may be nil.
	Observe func(Report)
}

// Ending says how the run of a tool ended.
type Ending string

// The endings.
const (
	EndedDone      Ending = "done"
	EndedFailed    Ending = "failed"
	EndedTimeout   Ending = "timeout"   // it took too long
	EndedCancelled Ending = "cancelled" // its result was no longer wanted
)

// Report describes an ended call.
type Report struct {
	Call Call
	// Entry is the tool; empty if it is unknown.
	Entry  Entry
	Ending Ending
	Took   time.Duration
}

// Router runs a model's function calls on the tools of a registry. It is safe for concurrent use.
type Router struct {
	registry *Registry
	config   RouterConfig
	log      *slog.Logger
}

// NewRouter returns a router for the registry, which may change while calls run.
func NewRouter(registry *Registry, config RouterConfig) *Router {
	config.Timeout = cmp.Or(config.Timeout, DefaultTimeout)
	return &Router{registry: registry, config: config, log: cmp.Or(config.Logger, slog.New(slog.DiscardHandler))}
}

// Call runs one call and returns its result. Progress goes to onProgress as it comes; nil drops it. Whatever
// goes wrong becomes the result, in words for the model: an unknown tool, malformed arguments, a violated
// schema, a timeout, a panic, a cancelled ctx, an error of the tool.
//
// If a tool yields several successes, the last counts; a failure is final.
//
// The tool runs in its own goroutine. If it ignores its ctx, it is abandoned half a second after
// its time is up: the call is answered, but the goroutine and what it holds stay until the tool
// returns.
func (r *Router) Call(ctx context.Context, call Call, onProgress func(Chunk)) Result {
	started := time.Now()
	result, ending := r.run(ctx, call, onProgress)
	took := time.Since(started)
	entry, _ := r.registry.Lookup(call.Name)
	r.report(call, entry, result, ending, took)
	if r.config.Observe != nil {
		r.config.Observe(Report{Call: call, Entry: entry, Ending: ending, Took: took})
	}
	return result
}

// report logs a call, but nothing of what its tool says: that belongs to the conversation, where it is saved.
func (r *Router) report(call Call, entry Entry, result Result, ending Ending, took time.Duration) {
	attrs := []any{"tool", Cut(call.Name, MaxName), "tool_call_id", Cut(call.ID, MaxName), "call_id", call.CallID,
		"thread_id", call.ThreadID, "executor", entry.Executor, "took", took}
	if result.Failed() {
		r.log.Warn("tool call failed", append(attrs, "status", ending, "bytes", len(result.Error))...)
		return
	}
	r.log.Info("tool call done", append(attrs, "bytes", len(result.Output))...)
}

// run returns the call's result and how it ended.
func (r *Router) run(ctx context.Context, call Call, onProgress func(Chunk)) (Result, Ending) {
	tool, ok := r.registry.lookup(call.Name)
	if !ok {
		return Result{Error: r.unknown(call.Name)}, EndedFailed
	}
	text, object, err := parseArguments(call.Arguments)
	if err != nil {
		return Result{Error: err.Error()}, EndedFailed
	}
	call.Arguments = text
	timeout := r.config.Timeout
	if own, ok := tool.entry.Tool.(Timeouter); ok {
		timeout = cmp.Or(own.Timeout(), timeout)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, timeoutError{timeout})
	defer cancel()
	if err := context.Cause(ctx); err != nil {
		return Result{Error: endedBy(err)}, endingOf(err)
	}
	x := startExecution(ctx, r.log, tool, call, object)
	defer x.stop(cancel)
	for {
		c, more := x.next(ctx)
		if !more {
			break
		}
		if onProgress != nil {
			onProgress(sanitizeProgress(c))
		}
	}
	result := r.finish(x.result(ctx))
	if !result.Failed() {
		return result, EndedDone
	}
	return result, endingOf(context.Cause(ctx))
}

// unknown lists the existing tools, so that the model can try again.
func (r *Router) unknown(name string) string {
	defs := r.registry.Definitions()
	names := make([]string, len(defs))
	for i, d := range defs {
		names[i] = d.Name
	}
	slices.Sort(names)
	offered := "there are no tools"
	if len(names) > 0 {
		offered = "the tools are: " + Cut(strings.Join(names, ", "), 2000)
	}
	return fmt.Sprintf("there is no tool named %q; %s", Cut(name, MaxName), offered)
}

// endingOf returns the ending of a call that failed while its ctx had that cause, or none.
func endingOf(cause error) Ending {
	_, late := errors.AsType[timeoutError](cause)
	switch {
	case cause == nil:
		return EndedFailed
	case late, errors.Is(cause, context.DeadlineExceeded):
		return EndedTimeout
	default:
		return EndedCancelled
	}
}

// finish makes a tool's result suitable for the model, the thread and the page.
func (r *Router) finish(result Result) Result {
	output := result.Output
	if !utf8.Valid(output) {
		output = bytes.ToValidUTF8(output, []byte("\uFFFD"))
	}
	model := strings.ToValidUTF8(result.Model, "\uFFFD")
	if result.Failed() {
		if len(output) > MaxOutput || !json.Valid(output) {
			output = nil
		}
		return Result{
			Output: output, Error: Cut(strings.ToValidUTF8(result.Error, "\uFFFD"), maxErrorRunes),
			SignIn: result.SignIn,
		}
	}
	switch {
	case len(output) > MaxOutput:
		return Result{Error: fmt.Sprintf("the tool's result is %d bytes long, the limit is %d", len(output), MaxOutput)}
	case len(output) == 0 && model == "":
		output = json.RawMessage("null")
	case len(output) == 0:
		output, _ = json.Marshal(model) // a string can always be encoded
	case !json.Valid(output):
		return Result{Error: "the tool's result is not valid JSON"}
	}
	if text := cmp.Or(model, string(output)); len(text) > maxModel {
		model = cutBytes(text, maxModel)
	}
	return Result{Output: output, Model: model}
}
