package mcptool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"voicebridge/toolkit"
)

func (t *tool) Definition() toolkit.Definition { return t.def }

func (t *tool) Timeout() time.Duration { return t.server.config.Timeout }

// Call runs the tool on its server (MCP specification, tools/call). Progress notifications become chunks.
func (t *tool) Call(ctx context.Context, call toolkit.Call) iter.Seq2[toolkit.Chunk, error] {
	return func(yield func(toolkit.Chunk, error) bool) {
		l, err := t.server.current()
		if l == nil {
			yield(toolkit.Chunk{}, fmt.Errorf("the MCP server %q is not connected: %s", t.server.name, t.server.explain(err)))
			return
		}
		t.callOver(ctx, l, call, yield)
	}
}

// callOver makes the call over one connection.
func (t *tool) callOver(ctx context.Context, l *link, call toolkit.Call, yield func(toolkit.Chunk, error) bool) {
	// It ends with the consumer, the call or the connection.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(l.open, cancel)()

	token, progress, done := l.progress.open()
	defer done()
	params := &mcp.CallToolParams{Name: t.remote, Arguments: json.RawMessage(call.Arguments)}
	params.SetProgressToken(token)
	answers := make(chan answer, 1)
	go func() {
		result, err := l.session.CallTool(ctx, params)
		answers <- answer{result, err}
	}()
	for {
		var a answer
		select {
		case p := <-progress:
			l.unanswered.Store(0)
			if !yield(progressChunk(p), nil) {
				return
			}
			continue
		case a = <-answers:
		case <-ctx.Done():
			// Not left to CallTool alone, which may hang in a write to a child that does not read.
			a.err = ctx.Err()
		}
		if drainProgress(progress, yield) {
			yield(t.finish(ctx, call, l, a))
		}
		return
	}
}

// drainProgress yields the progress that came before the answer. It reports whether the consumer wants
// more.
func drainProgress(progress <-chan *mcp.ProgressNotificationParams, yield func(toolkit.Chunk, error) bool) bool {
	for {
		select {
		case p := <-progress:
			if !yield(progressChunk(p), nil) {
				return false
			}
		default:
			return true
		}
	}
}

type answer struct {
	result *mcp.CallToolResult
	err    error
}

// finish makes the last chunk of a call from the server's answer.
func (t *tool) finish(ctx context.Context, call toolkit.Call, l *link, a answer) (toolkit.Chunk, error) {
	if a.err != nil {
		return toolkit.Chunk{}, t.lost(l, a.err)
	}
	l.unanswered.Store(0)
	if a.result.NeedsInput() {
		return toolkit.Chunk{}, fmt.Errorf("the MCP server %q wants further input for this call, which it cannot get here", t.server.name)
	}
	k := &keeper{ctx: ctx, call: call, media: t.server.options.Media, log: t.server.log}
	output, text, err := k.result(a.result)
	if err != nil {
		return toolkit.Chunk{}, fmt.Errorf("read the tool's result: %w", err)
	}
	if a.result.IsError {
		return toolkit.Chunk{Result: &toolkit.Result{Output: output, Error: text}}, nil
	}
	return toolkit.Chunk{Result: &toolkit.Result{Output: output, Model: text}}, nil
}

// lost returns why a call has no result.
func (t *tool) lost(l *link, err error) error {
	if isAnswer(err) {
		l.unanswered.Store(0)
		return fmt.Errorf("the MCP server %q refused the call: %s", t.server.name, t.server.explain(err))
	}
	away := func(why error) error {
		return fmt.Errorf("the MCP server %q went away during the call: %s", t.server.name, t.server.explain(why))
	}
	if why := context.Cause(l.open); why != nil {
		return away(why)
	}
	if errors.Is(err, context.DeadlineExceeded) && l.unanswered.Add(1) >= maxUnanswered {
		notify(t.server.suspect)
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err // the router words the error
	}
	notify(t.server.suspect)
	select {
	case <-l.gone:
		return away(l.why())
	case <-time.After(moment): // the call may notice it before the session does
	}
	return fmt.Errorf("the call to the MCP server %q failed: %s", t.server.name, t.server.explain(err))
}
