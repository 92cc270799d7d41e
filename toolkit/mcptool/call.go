package mcptool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"voicebridge/toolkit"
	"voicebridge/toolkit/mcptool/signin"
)

func (t *tool) Definition() toolkit.Definition { return t.def }

func (t *tool) Timeout() time.Duration { return t.server.config.Timeout }

// Call runs the tool on its server (MCP specification, tools/call), which it starts if need be. Progress notifications
// become chunks. A call that the server did not run, because it had forgotten the session, is made once more in
// another.
func (t *tool) Call(ctx context.Context, call toolkit.Call) iter.Seq2[toolkit.Chunk, error] {
	return func(yield func(toolkit.Chunk, error) bool) {
		s, release, err := t.server.reach(ctx, t.owner, call)
		if err != nil {
			yield(t.server.failed(err))
			return
		}
		defer release()
		var l *link
		for attempt := range 2 {
			if l, err = s.use(ctx, l); err != nil {
				yield(s.failed(err))
				return
			}
			again := t.callOver(ctx, s, l, call, attempt == 0, yield)
			s.leave(l)
			if !again {
				return
			}
		}
	}
}

// callOver makes the call over one connection. It reports whether to make it again over the next one, if that may be.
func (t *tool) callOver(
	ctx context.Context, s *server, l *link, call toolkit.Call, repeat bool, yield func(toolkit.Chunk, error) bool,
) (again bool) {
	if err := t.check(s); err != nil {
		yield(toolkit.Chunk{}, err)
		return false
	}
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
				return false
			}
			continue
		case a = <-answers:
		case <-ctx.Done():
			// Not left to CallTool alone, which may hang in a write to a child that does not read.
			a.err = ctx.Err()
		}
		r, _ := errors.AsType[*refusal](a.err)
		switch forgotten := r != nil && r.forgotten; {
		case forgotten && repeat:
			select {
			case l.forgotten <- a.err:
			default: // another call has said it
			}
			return true
		case drainProgress(progress, yield):
			chunk, err := s.finish(ctx, call, l, a)
			if _, needed := errors.AsType[*signin.NeededError](err); needed {
				chunk, err = s.failed(err)
			}
			yield(chunk, err)
		}
		return false
	}
}

// failed makes the last chunk of a call that did not reach its tool.
func (s *server) failed(err error) (toolkit.Chunk, error) {
	if needed, ok := errors.AsType[*signin.NeededError](err); ok {
		return toolkit.Chunk{Result: &toolkit.Result{Error: needed.Error(), SignIn: s.name}}, nil
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return toolkit.Chunk{}, err
	}
	return toolkit.Chunk{}, fmt.Errorf("the MCP server %q is not connected: %s", s.name, s.explain(err))
}

// check reports whether the connected server still has the tool, and still lets it run without asking.
func (t *tool) check(s *server) error {
	tools := s.tools()
	i := slices.IndexFunc(tools, func(now *tool) bool { return now.remote == t.remote })
	switch {
	case i < 0:
		return fmt.Errorf("the MCP server %q does not have this tool any more", s.name)
	case tools[i].asks && !t.asks:
		return fmt.Errorf("the MCP server %q has changed this tool since it was first seen, and now each call "+
			"needs approval: try again", s.name)
	}
	return nil
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
func (s *server) finish(ctx context.Context, call toolkit.Call, l *link, a answer) (toolkit.Chunk, error) {
	if a.err != nil {
		return toolkit.Chunk{}, s.lost(l, a.err)
	}
	l.unanswered.Store(0)
	if a.result.NeedsInput() {
		return toolkit.Chunk{}, fmt.Errorf(
			"the MCP server %q wants further input for this call, which it cannot get here", s.name)
	}
	k := &keeper{ctx: ctx, call: call, media: s.options.Media, log: s.log}
	own, _ := a.result.Meta[ownJSON].(string)
	output, text := k.result(json.RawMessage(own))
	if a.result.IsError {
		return toolkit.Chunk{Result: &toolkit.Result{Output: output, Error: text}}, nil
	}
	return toolkit.Chunk{Result: &toolkit.Result{Output: output, Model: text}}, nil
}

// maxDetails limits what an error says beside its message, in bytes.
const maxDetails = 4 << 10

// details returns what an error says beside its message, such as which argument is wrong, or where the user has to
// agree (JSON-RPC 2.0, section 5.1; "URL mode elicitation required", MCP 2025-11-25).
func details(err error) string {
	e, ok := errors.AsType[*jsonrpc.Error](err)
	if !ok || len(e.Data) == 0 || string(e.Data) == "null" {
		return ""
	}
	var data any
	d := json.NewDecoder(bytes.NewReader(e.Data))
	d.UseNumber()
	_ = d.Decode(&data) // it is JSON
	text, ok := data.(string)
	if !ok {
		text = string(toolkit.Encode(data)) // without escapes, which addresses of PHP's and Go's servers have
	}
	return " (" + strings.ToValidUTF8(text, "\uFFFD") + ")"
}

// lost returns why a call has no result.
func (s *server) lost(l *link, err error) error {
	needed, ok := errors.AsType[*signin.NeededError](errors.Join(err, context.Cause(l.open)))
	if ok {
		return needed
	}
	if isAnswer(err) {
		l.unanswered.Store(0)
		return fmt.Errorf("the MCP server %q refused the call: %s%s", s.name, s.explain(err),
			toolkit.Cut(s.secrets.Replace(details(err)), maxDetails)) // a secret that is cut would not be found
	}
	away := func(why error) error {
		return fmt.Errorf("the MCP server %q went away during the call: %s", s.name, s.explain(why))
	}
	if why := context.Cause(l.open); why != nil {
		return away(why)
	}
	if errors.Is(err, context.DeadlineExceeded) && l.unanswered.Add(1) >= maxUnanswered {
		notify(s.suspect)
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err // the router words the error
	}
	notify(s.suspect)
	select {
	case <-l.gone:
		return away(l.why())
	case <-time.After(moment): // the call may notice it before the session does
	}
	return fmt.Errorf("the call to the MCP server %q failed: %s", s.name, s.explain(err))
}
