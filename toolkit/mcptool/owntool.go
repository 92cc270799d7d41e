package mcptool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"

	"voicebridge/toolkit"
	"voicebridge/toolkit/mcptool/signin"
)

// firstWait is how long an owner's tools are waited for that nobody has seen yet.
const firstWait = 5 * time.Second

// offerTo returns the owner's tools. Those of a connection that is only being made are the ones seen last; with wait, it waits for
// what has never been seen.
func (f *family) offerTo(ctx context.Context, owner string, wait bool) []toolkit.Entry {
	signed, err := f.signedIn(ctx, owner)
	if err != nil {
		f.log.Warn("MCP tools left out, the owner's sign-in is not known", "owner", owner, "error", f.explain(err))
		return nil
	}
	list := f.pinned(ctx, owner)
	if signed {
		if m, err := f.acquire(owner); err == nil {
			defer m.release()
			if wait && len(list) == 0 {
				ctx, cancel := context.WithTimeout(ctx, firstWait)
				defer cancel()
				_ = m.await(ctx) // without it there are no tools for now
			}
			if l, _ := m.server.current(); l != nil {
				list = m.server.tools()
			}
		}
	}
	var entries []toolkit.Entry
	for _, t := range list {
		entries = append(entries, toolkit.Entry{
			Tool: &ownTool{t, f, owner}, Executor: toolkit.ExecutorMCP, Server: f.name, Unchecked: t.unchecked, Asks: t.asks,
		})
	}
	if !signed && len(entries) == 0 {
		entries = append(entries, toolkit.Entry{Tool: &signInTool{f, owner}, Executor: toolkit.ExecutorMCP, Server: f.name})
	}
	return entries
}

// ownTool is a tool of an owner's server, connected or not.
type ownTool struct {
	*tool

	family *family
	owner  string
}

// Call runs the tool on the owner's server, which it starts if need be.
func (t *ownTool) Call(ctx context.Context, call toolkit.Call) iter.Seq2[toolkit.Chunk, error] {
	return func(yield func(toolkit.Chunk, error) bool) {
		m, err := t.family.reachFor(ctx, t.owner, call)
		if err != nil {
			yield(t.family.failed(err))
			return
		}
		defer m.release()
		now, err := t.current(m)
		if err != nil {
			yield(toolkit.Chunk{}, err)
			return
		}
		l, err := m.server.current()
		if l == nil {
			yield(t.family.failed(err))
			return
		}
		now.callOver(ctx, l, call, func(c toolkit.Chunk, err error) bool {
			if err != nil && m.needs.Load() {
				return yield(t.family.failed(&signin.NeededError{Server: t.family.name}))
			}
			return yield(c, err)
		})
	}
}

func (t *ownTool) Timeout() time.Duration { return t.family.config.Timeout }

// current returns the tool as the connected server has it.
func (t *ownTool) current(m *member) (*tool, error) {
	for _, now := range m.server.tools() {
		if now.remote != t.remote {
			continue
		}
		if now.asks && !t.asks {
			return nil, fmt.Errorf("the MCP server %q has changed this tool since it was first seen, and now each call needs approval: try again", t.family.name)
		}
		return now, nil
	}
	return nil, fmt.Errorf("the MCP server %q does not have this tool any more", t.family.name)
}

// reachFor returns the owner's connected member for a call, to be released.
func (f *family) reachFor(ctx context.Context, owner string, call toolkit.Call) (*member, error) {
	if call.Owner != owner {
		return nil, errors.New("this tool belongs to somebody else") // each session has its owner's
	}
	signed, err := f.signedIn(ctx, owner)
	if err != nil {
		return nil, err
	}
	if !signed {
		return nil, &signin.NeededError{Server: f.name}
	}
	m, err := f.acquire(owner)
	if err != nil {
		return nil, err
	}
	if err := m.await(ctx); err != nil {
		m.release()
		return nil, err
	}
	return m, nil
}

// failed makes the last chunk of a call that did not reach its tool.
func (f *family) failed(err error) (toolkit.Chunk, error) {
	if needed, ok := errors.AsType[*signin.NeededError](err); ok {
		return toolkit.Chunk{Result: &toolkit.Result{Error: needed.Error(), SignIn: f.name}}, nil
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return toolkit.Chunk{}, err
	}
	return toolkit.Chunk{}, fmt.Errorf("the MCP server %q is not connected: %s", f.name, f.explain(err))
}

// signInTool stands for the tools of a server to which its owner has never signed in: what they are is not known before.
type signInTool struct {
	family *family
	owner  string
}

func (t *signInTool) Definition() toolkit.Definition {
	return toolkit.Definition{
		Name: exposedName(t.family.name, "sign_in"),
		Description: fmt.Sprintf("The user has not signed in to the service %q, so its tools are not here yet. "+
			"Call this when the user wants something of it: the page then shows a button to sign in.", t.family.name),
		Parameters: json.RawMessage(`{"type":"object","properties":{},"additionalProperties":false}`),
	}
}

// Call asks the user to sign in. Who has done so meanwhile gets the tools.
func (t *signInTool) Call(ctx context.Context, call toolkit.Call) iter.Seq2[toolkit.Chunk, error] {
	return func(yield func(toolkit.Chunk, error) bool) {
		m, err := t.family.reachFor(ctx, t.owner, call)
		if err != nil {
			yield(t.family.failed(err))
			return
		}
		defer m.release()
		text := fmt.Sprintf("The user has signed in to %q. Its tools can be used now.", t.family.name)
		yield(toolkit.Chunk{Result: &toolkit.Result{Output: toolkit.Encode(text)}}, nil)
	}
}
