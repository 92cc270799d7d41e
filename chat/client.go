package chat

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"voicebridge/persistence"
	"voicebridge/thread"
	"voicebridge/toolkit"
	"voicebridge/toolkit/clienttool"
)

// What a model reads as the result of a call that the client has not answered.
const (
	noClientResult = "tool_result_timeout"
	cutClientCall  = "This call was interrupted before the app had answered it. The app may have run it all the same."
)

// MaxToolOutput limits one result that a client delivers, in bytes.
const MaxToolOutput = clienttool.MaxOutput

// ToolResult is a client's answer to a call.
type ToolResult struct {
	CallID string
	// Output is JSON; anything else is taken as text.
	Output string
	// Error is the failure, in words for the model; empty on success.
	Error string
}

// result returns the answer as a tool's result.
func (r ToolResult) result() toolkit.Result {
	if r.Error != "" {
		return toolkit.Result{Error: r.Error}
	}
	data := json.RawMessage(bytes.TrimSpace([]byte(r.Output)))
	if len(data) == 0 || !json.Valid(data) || toolkit.Depth(data) > 100 {
		return toolkit.Result{Output: toolkit.Encode(strings.ToValidUTF8(r.Output, "\uFFFD"))}
	}
	return toolkit.Result{Output: data}
}

// client holds the tools that the client of a turn runs, and the calls that wait for it.
type client struct {
	request  func(*EventCall) // tells the client to run a tool
	timeout  time.Duration
	declared map[string]bool

	mu    sync.Mutex
	open  map[string]*waiting
	order []string     // of open and answered calls, in order of arrival
	late  []ToolResult // of calls that were given up
	ended bool         // the turn takes no more results
}

// waiting is a call that was passed to the client.
type waiting struct {
	call      EventCall
	answered  chan struct{} // closed with result set
	result    toolkit.Result
	closed    bool // answered, or given up
	delivered bool // answered
}

func newClient(request func(*EventCall), timeout time.Duration) *client {
	return &client{request: request, timeout: timeout, declared: map[string]bool{}, open: map[string]*waiting{}}
}

// has reports whether the client has declared a tool.
func (c *client) has(name string) bool { return c.declared[name] }

// declare adds the client's tools to the server's.
func (c *client) declare(registry *toolkit.Registry, defs []toolkit.Definition) error {
	for _, d := range defs {
		if err := registry.Add(toolkit.Entry{Tool: clientTool{c, d}, Executor: toolkit.ExecutorClient}); err != nil {
			return fmt.Errorf("%w: %w", ErrTools, err)
		}
		c.declared[d.Name] = true
	}
	return nil
}

// clientTool is one tool of the client.
type clientTool struct {
	c   *client
	def toolkit.Definition
}

func (t clientTool) Definition() toolkit.Definition { return t.def }

// Timeout implements [toolkit.Timeouter]: it is a little longer than the client's, so that the model reads
// noClientResult.
func (t clientTool) Timeout() time.Duration { return t.c.timeout + 5*time.Second }

// Call asks the client and waits for its answer.
func (t clientTool) Call(ctx context.Context, call toolkit.Call) iter.Seq2[toolkit.Chunk, error] {
	return func(yield func(toolkit.Chunk, error) bool) {
		w, without := t.c.ask(call), noClientResult
		select {
		case <-w.answered:
		case <-time.After(t.c.timeout):
		case <-ctx.Done():
			without = cutClientCall
		}
		result := t.c.close(w, without)
		yield(toolkit.Chunk{Result: &result}, nil)
	}
}

// ask opens a call and requests its result from the client.
func (c *client) ask(call toolkit.Call) *waiting {
	w := &waiting{answered: make(chan struct{}), call: EventCall{
		ID: call.ID, Name: call.Name, Dynamic: true,
		Input: json.RawMessage(call.Arguments), Arguments: call.Arguments,
	}}
	c.mu.Lock()
	c.open[call.ID] = w
	c.order = append(c.order, call.ID)
	c.mu.Unlock()
	c.request(&w.call)
	return w
}

// close returns the result of a call, or an error if it was not answered. What is delivered later is late.
func (c *client) close(w *waiting, without string) toolkit.Result {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !w.delivered {
		w.closed = true
		return toolkit.Result{Error: without}
	}
	return w.result
}

// end returns the results that came late. From now on [Coordinator.KeepResult] takes them.
func (c *client) end() []ToolResult {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	return c.late
}

func (c *client) deliver(r ToolResult) error {
	if c == nil {
		return &CallError{r.CallID, ErrUnknownCall}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.open[r.CallID]
	switch {
	case w == nil || w.closed && !w.delivered && c.ended:
		return &CallError{r.CallID, ErrUnknownCall}
	case w.delivered:
		return &CallError{r.CallID, ErrAnswered}
	}
	err := r.tooLarge()
	switch {
	case err != nil && w.closed:
		return err
	case err != nil:
		r.Output, r.Error = "", err.Error()
	case w.closed:
		c.late = append(c.late, r)
	}
	w.result, w.delivered = r.result(), true
	w.closed = true
	close(w.answered)
	return err
}

// tooLarge returns an error if the answer is larger than [MaxToolOutput].
func (r ToolResult) tooLarge() error {
	if n := max(len(r.Output), len(r.Error)); n > MaxToolOutput {
		return &CallError{
			r.CallID, fmt.Errorf("%w: the output has %d bytes, the limit is %d", ErrTooLarge, n, MaxToolOutput),
		}
	}
	return nil
}

func (c *client) waiting() []EventCall {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var calls []EventCall
	for _, id := range c.order {
		if w := c.open[id]; !w.closed {
			calls = append(calls, w.call)
		}
	}
	return calls
}

// closeWaiting answers the calls of earlier turns that still wait for the client: a conversation
// that has gone on has no open calls.
func closeWaiting(b *persistence.Batch) error {
	calls, err := b.Records.WaitingToolCalls()
	if err != nil {
		return err
	}
	for _, call := range calls {
		if err := resolveSaved(b, call,
			toolkit.Result{Error: "the conversation went on before this call was answered"}); err != nil {
			return err
		}
	}
	return nil
}

// resolveSaved puts the result of a call into the message that made it.
func resolveSaved(b *persistence.Batch, call thread.ToolCall, result toolkit.Result) error {
	m, err := b.Message(call.MessageID)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(m.Parts, func(p thread.Part) bool { return p.IsTool() && p.ToolCallID == call.ToolCallID })
	if i < 0 {
		return fmt.Errorf("resolve tool call: %w", errors.New("its message does not hold it"))
	}
	p := &m.Parts[i]
	p.State, p.Output = thread.ToolOutputAvailable, result.Output
	call.Status = thread.ToolCallDone
	if result.Failed() {
		p.State, p.Output = thread.ToolOutputError, nil
		p.ErrorText = result.Error
		call.Status = thread.ToolCallFailed
	}
	if _, err := b.UpdateMessage(m); err != nil {
		return err
	}
	// The message is what the model reads, so only the record is masked.
	call.Output, call.Error = string(toolkit.Mask(result.Output)), toolkit.MaskArguments(result.Error)
	call.FinishedAt = new(time.Now())
	return b.Records.SaveToolCall(call)
}
