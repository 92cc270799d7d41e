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

// offerTo returns the tools of a server for an owner. Those of a connection that is only being made are the ones seen
// last; with wait, what has never been seen is waited for, as long as a call of a tool may take.
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
				err = f.waitFor(ctx, m)
			}
			if l, why := m.server.current(); l != nil {
				list = m.server.tools()
			} else if _, needed := errors.AsType[*signin.NeededError](errors.Join(err, why)); needed {
				signed = false
			}
		}
	}
	entries := f.entries(list)
	if !signed && len(entries) == 0 {
		entries = append(entries,
			toolkit.Entry{Tool: &signInTool{f, owner}, Executor: toolkit.ExecutorMCP, Server: f.name})
	}
	return entries
}

// waitFor waits for the first attempt of an owner's server to connect, and says so if it takes long.
func (f *family) waitFor(ctx context.Context, m *member) error {
	ctx, cancel := context.WithTimeout(ctx, f.patience())
	defer cancel()
	late := time.AfterFunc(moment, func() { toolkit.Waiting(ctx, f.name) })
	defer late.Stop()
	return m.await(ctx)
}

func (f *family) entries(list []*tool) []toolkit.Entry {
	var entries []toolkit.Entry
	for _, t := range list {
		entries = append(entries, toolkit.Entry{
			Tool: t, Executor: toolkit.ExecutorMCP, Server: f.name, Unchecked: t.unchecked, Asks: t.asks,
		})
	}
	return entries
}

// signInTool stands for the tools of a server to which its owner has never signed in: what they are is not known
// before.
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
		_, release, err := t.family.reachFor(ctx, t.owner, call)
		if err != nil {
			yield(t.family.failed(err))
			return
		}
		defer release()
		text := fmt.Sprintf("The user has signed in to %q. Its tools can be used now.", t.family.name)
		yield(toolkit.Chunk{Result: &toolkit.Result{Output: toolkit.Encode(text)}}, nil)
	}
}
