// Package clienttool provides the tools that the connected client runs: a browser or an app
// declares them, receives the model's function calls, and answers them.
package clienttool

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"
	"unicode/utf8"

	"voicebridge/toolkit"
)

// Limits of what a client may declare and answer.
const (
	MaxTools       = 64       // tools of one session
	MaxDeclaration = 64 << 10 // bytes of all their definitions together
	maxDescription = 1024     // runes of one description
	MaxOutput      = 64 << 10 // bytes of one answer
	maxOpen        = 256      // calls that wait at the same time
	maxCallID      = 256      // bytes
	maxDepth       = 64       // of an answer that is kept as JSON
)

var (
	// errNotOpen means that an answer is for a call that is unknown or already answered.
	errNotOpen = errors.New("no open tool call has this id")
	// errTooLarge means that an answer exceeds [MaxOutput]. The call has then failed.
	errTooLarge = errors.New("the tool output is too large")
)

// Config configures a [Toolkit]. The zero value is useful.
type Config struct {
	// Timeout is how long the client may take for one call; 0 means 30 s.
	Timeout time.Duration
}

// Toolkit holds the client's tools of one session and the calls that wait for the client. All methods
// are safe for concurrent use.
type Toolkit struct {
	registry *toolkit.Registry
	timeout  time.Duration

	declaring sync.Mutex // held during Declare
	declared  []string   // guarded by declaring

	mu   sync.Mutex
	open map[string]*wait
}

// wait is an open call, whose answer the client may deliver.
type wait struct {
	answered chan struct{} // closed by Deliver
	result   toolkit.Result
	running  bool // a Tool.Call is waiting for it
}

// New returns a toolkit that declares its tools in the registry of the session.
func New(registry *toolkit.Registry, config Config) *Toolkit {
	return &Toolkit{
		registry: registry, timeout: cmp.Or(config.Timeout, toolkit.DefaultTimeout), open: make(map[string]*wait),
	}
}

// Declare replaces the client's tools with defs. It does so completely or, on error, not at all:
// names, descriptions and schemas must be valid, and the name of a server tool is rejected
// ([toolkit.ErrDuplicate]). Open calls stay open.
func (k *Toolkit) Declare(defs []toolkit.Definition) error {
	entries, err := k.entries(defs)
	if err != nil {
		return err
	}
	names := make([]string, len(defs))
	for i, def := range defs {
		names[i] = def.Name
	}
	k.declaring.Lock()
	defer k.declaring.Unlock()
	if err := k.registry.Replace(k.declared, entries); err != nil {
		return fmt.Errorf("declare tools: %w", err)
	}
	k.declared = names
	return nil
}

// Entries returns tools of a client, which are declared but cannot be run, or why they cannot be declared.
func Entries(defs []toolkit.Definition) ([]toolkit.Entry, error) { return (&Toolkit{}).entries(defs) }

func (k *Toolkit) entries(defs []toolkit.Definition) ([]toolkit.Entry, error) {
	if len(defs) > MaxTools {
		return nil, fmt.Errorf("declare tools: there are %d, the limit is %d", len(defs), MaxTools)
	}
	var room Room
	entries := make([]toolkit.Entry, 0, len(defs))
	for i, def := range defs {
		if err := check(def); err != nil {
			return nil, fmt.Errorf("declare tool %d, %.64q: %w", i, def.Name, err)
		}
		if !room.Take(def) {
			return nil, fmt.Errorf("declare tools: together they are larger than %d bytes", MaxDeclaration)
		}
		entries = append(entries, toolkit.Entry{Tool: &tool{def: def, toolkit: k}, Executor: toolkit.ExecutorClient})
	}
	return entries, nil
}

// Room is how much of the limits on all tools of a session is in use. The zero value is empty.
type Room struct{ tools, bytes int }

// Take reports whether another tool fits beside those that it has accepted before.
func (r *Room) Take(def toolkit.Definition) bool {
	size := len(def.Name) + len(def.Description) + len(def.Parameters)
	if r.tools == MaxTools || r.bytes+size > MaxDeclaration {
		return false
	}
	r.tools, r.bytes = r.tools+1, r.bytes+size
	return true
}

// Check returns why a client cannot have a tool, whatever else it declares: the name, the description or the parameters
// are not acceptable.
func Check(def toolkit.Definition) error {
	return errors.Join(check(def), toolkit.CheckParameters(def.Parameters))
}

// check is Check without the parameters, which the registry checks.
func check(def toolkit.Definition) error {
	if n := utf8.RuneCountInString(def.Description); n > maxDescription {
		return fmt.Errorf("the description has %d characters, the limit is %d", n, maxDescription)
	}
	return toolkit.CheckName(def.Name)
}

// Tools returns the tools that the client has declared.
func (k *Toolkit) Tools() (tools []toolkit.Tool) {
	for _, e := range k.registry.Entries() {
		if t, ok := e.Tool.(*tool); ok && t.toolkit == k {
			tools = append(tools, t)
		}
	}
	return tools
}

// Declared reports whether the client has declared a tool of that name.
func (k *Toolkit) Declared(name string) bool {
	entry, ok := k.registry.Lookup(name)
	if !ok {
		return false
	}
	t, ok := entry.Tool.(*tool)
	return ok && t.toolkit == k
}

// Expect opens the call, so that an answer can be delivered from now on, even before the tool runs.
// Call it before the client learns about the call. It does nothing if the call is already open.
//
// The tool's run closes the call. If the tool may not run (the router rejected the arguments), call
// [Toolkit.Forget] once the call has its result.
func (k *Toolkit) Expect(callID string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, err := k.expect(callID)
	return err
}

func (k *Toolkit) expect(callID string) (*wait, error) {
	if w, ok := k.open[callID]; ok {
		return w, nil
	}
	if callID == "" || len(callID) > maxCallID {
		return nil, fmt.Errorf("open tool call: the id has %d bytes, it must have 1 to %d", len(callID), maxCallID)
	}
	if len(k.open) >= maxOpen {
		return nil, fmt.Errorf("open tool call: %d calls are already waiting for the client", maxOpen)
	}
	w := &wait{answered: make(chan struct{})}
	k.open[callID] = w
	return w, nil
}

func (w *wait) isAnswered() bool {
	select {
	case <-w.answered:
		return true
	default:
		return false
	}
}

// Deliver passes the client's answer to its call. The error is [errNotOpen] if no such call is open
// (unknown, answered, timed out), and wraps [errTooLarge] if the answer exceeds [MaxOutput]: the
// call has then failed with that error.
func (k *Toolkit) Deliver(callID, output string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	w, ok := k.open[callID]
	if !ok || w.isAnswered() {
		return errNotOpen
	}
	defer close(w.answered)
	if len(output) > MaxOutput {
		err := fmt.Errorf("%w: %d bytes, the limit is %d", errTooLarge, len(output), MaxOutput)
		w.result.Error = err.Error()
		return err
	}
	w.result = answer(output)
	return nil
}

// Forget closes the call: later answers are rejected. A run that is waiting for it goes on until
// its ctx or its time ends.
func (k *Toolkit) Forget(callID string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.open, callID)
}

// begin reserves the call for a run of a tool. end must be called afterwards.
func (k *Toolkit) begin(callID string) (w *wait, end func(), err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	w, err = k.expect(callID)
	if err != nil {
		return nil, nil, err
	}
	if w.running {
		return nil, nil, fmt.Errorf("the tool call %q is already running", callID)
	}
	w.running = true
	return w, func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.open[callID] == w {
			delete(k.open, callID)
		}
	}, nil
}

// tool is one declared tool.
type tool struct {
	def     toolkit.Definition
	toolkit *Toolkit
}

func (t *tool) Definition() toolkit.Definition { return t.def }

func (t *tool) Timeout() time.Duration { return t.toolkit.timeout }

// Call waits for the client's answer.
func (t *tool) Call(ctx context.Context, call toolkit.Call) iter.Seq2[toolkit.Chunk, error] {
	return func(yield func(toolkit.Chunk, error) bool) {
		w, end, err := t.toolkit.begin(call.ID)
		if err != nil {
			yield(toolkit.Chunk{}, err)
			return
		}
		t.wait(ctx, w)
		// From here on answers are rejected, so that one that was accepted is not lost.
		end()
		result := t.result(ctx, w)
		yield(toolkit.Chunk{Result: &result}, nil)
	}
}

// wait returns when the client has answered, its time is up, or ctx ends.
func (t *tool) wait(ctx context.Context, w *wait) {
	select {
	case <-w.answered:
	case <-time.After(t.toolkit.timeout):
	case <-ctx.Done():
	}
}

// result returns the result of a closed call.
func (t *tool) result(ctx context.Context, w *wait) toolkit.Result {
	switch {
	case w.isAnswered():
		return w.result
	case errors.Is(ctx.Err(), context.Canceled):
		return toolkit.Result{Error: "the call ended before the client answered"}
	default:
		return toolkit.Result{Error: fmt.Sprintf("the client did not answer within %v", t.toolkit.timeout)}
	}
}

// answer returns a client's answer as a tool's result: JSON as it is, anything else as a string.
func answer(output string) toolkit.Result {
	kept := json.RawMessage(output)
	if !json.Valid(kept) || toolkit.Depth(kept) > maxDepth {
		kept, _ = json.Marshal(output) // a string is always JSON
	}
	return toolkit.Result{Output: kept, Model: output}
}
